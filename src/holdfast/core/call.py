"""A request on its way through the core: as it is asked for, as it goes out, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from holdfast.caches import Mark, Outcome, Prompt
from holdfast.facts import ModelFacts
from holdfast.records import Usage

from . import breaks, retention
from .divergence import Comparison
from .experience import Experience
from .plan import Kind, Plan, Sent
from .ttl_raise import Test


class PlanRequest(Struct, frozen=True, kw_only=True):
    """A request to plan, as prompts. `alone` is the client's own, without any change of ours.

    `settings` are what the prefix depends on besides its blocks; `reset` is an announced reason to diverge (law 5).
    """

    call: str
    prompt: Prompt
    alone: Prompt
    model: ModelFacts
    settings: Mapping[str, bytes] = {}
    reset: str | None = None
    volatile: frozenset[int] = frozenset()
    pinned: tuple[Mark, ...] = ()
    summary: int | None = None
    common: int | None = None
    subagent: bool = False
    strict: bool = False


class Booking(Struct, frozen=True):
    """What a request adds to the sums of its lane and client, in dollars: its cost with the short lifetime everywhere,
    and its predicted cost."""

    automatic: float = 0.0
    spent: float = 0.0


class PlannedRequest(Struct, kw_only=True):
    """A request that may go out: its plan, what it will read, and what it is compared with afterwards."""

    request: PlanRequest
    plan: Plan
    outcome: Outcome
    alone: Outcome
    expectation: breaks.Expectation
    comparison: Comparison | None
    before: Sent | None
    kind: Kind
    gap: float | None
    reserved: float
    raise_test: Test | None
    likely: float
    """The probability of the predicted outcome for what the last request left: that it is there, or gone."""
    booked: Booking
    baseline: int
    """Tokens up to the end of tools and system text."""
    first_token: float | None = None
    done: bool = False

    @property
    def prompt(self) -> Prompt:
        return self.outcome.prompt

    def predicted(self, experience: Experience, output: int = 0) -> Usage:
        """What the provider will probably report: the prediction in its tokens, as far as they are known by now."""
        outcome, tokens = self.outcome, experience.calibration.counter(self.request.model.ref)
        writes: tuple[tuple[str, int], ...] = ()
        for ttl, count in outcome.writes:
            written = tokens(count)
            if written:
                writes = (*writes, (ttl, written))
        if len(writes) > 1:
            writes = tuple(sorted(writes))
        return Usage(input=tokens(outcome.input), read=tokens(outcome.read), writes=writes, output=output)


class MissedReads(Struct, frozen=True):
    """Tokens that the lane had sent before and that were billed in full again; what that cost, less what writing them
    would have cost."""

    tokens: int
    dollars: Decimal


class Verdict(Struct, frozen=True, kw_only=True):
    """The prediction and the usage. `explained`: the provider read what was predicted.

    `usage` is the provider's, `predicted` the rules' in the provider's tokens; `saved` is what the call cost less than
    the client alone would have paid, in dollars; `storage` is the cost of cached contents, and part of the usage's
    cost. `outcome` and `alone` are the changes of the pools, as far as the usage shows; `missed` is what it cost more
    because its conversation was left without markers until then.
    """

    usage: Usage
    predicted: Usage
    explained: bool
    finding: breaks.Finding | None = None
    saved: float = 0.0
    changes: tuple[retention.RetentionChange, ...] = ()
    raises: str | None = None
    storage: Decimal = Decimal(0)
    missed: MissedReads | None = None
    outcome: Outcome
    alone: Outcome
