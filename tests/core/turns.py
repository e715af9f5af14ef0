"""A conversation through the core against the real cache rules: what the provider bills is what is settled."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import CacheControls
from holdfast.caches.prompts import Block, Mark, Outcome, Prompt
from holdfast.caches.providers import cache
from holdfast.caches.providers import prompt as prompt_of
from holdfast.config.sections.cache import CacheSettings
from holdfast.core import planner
from holdfast.core.ledger import Ledger
from holdfast.facts import ModelFacts
from holdfast.records import Usage
from tests.caches.prompts import SMALL
from tests.core.lanes import said, system, tool

RAISES = replace(SMALL, knobs=replace(SMALL.knobs, ttl_raise="yes"))
"""The same model on a route where a long marker makes the whole prefix live long."""

HEAD = [tool("bash"), tool("read"), system("host")]


class Played(Struct, frozen=True):
    prepared: planner.PlannedRequest
    billed: Outcome
    verdict: planner.Verdict | None = None

    @property
    def marks(self) -> list[tuple[int, str]]:
        return [(mark.block, mark.ttl) for mark in self.prepared.plan.marks]

    @property
    def written(self) -> dict[str, int]:
        return dict(self.billed.writes)


class Lane:
    """One lane of a tenant. `truth` is how the provider really is, `model` what is believed of it."""

    def __init__(
        self,
        settings: CacheSettings | None = None,
        *,
        model: ModelFacts = SMALL,
        truth: ModelFacts | None = None,
        tenant: planner.Tenant | None = None,
        client: str = "c",
        now: float = 0.0,
        provider: object | None = None,
    ) -> None:
        self.settings, self.model = settings or CacheSettings(), model
        self.tenant = planner.Tenant() if tenant is None else tenant
        self.provider = cache(truth or model) if provider is None else provider
        self.ledger, self.now, self.calls = Ledger(client=client), now, 0
        self.blocks: list[Block] = [*HEAD, said(0)]

    def beside(self, **more: object) -> Lane:
        """Another lane of the same tenant and client, at the same provider."""
        known: dict[str, object] = {"model": self.model, "tenant": self.tenant, "now": self.now}
        known |= {"client": self.ledger.client, "provider": self.provider}
        return Lane(self.settings, **(known | more))  # type: ignore[arg-type]

    def prompt(self, marks: Sequence[tuple[int, str]] = (), **more: object) -> Prompt:
        placed = [Mark(at % len(self.blocks), ttl) for at, ttl in marks]
        return prompt_of(self.model, self.blocks, CacheControls(marks=placed, **more))  # type: ignore[arg-type]

    def prepare(self, prompt: Prompt | None = None, **more: object) -> planner.PlannedRequest:
        self.calls += 1
        prompt = self.prompt() if prompt is None else prompt
        call = f"{id(self)}.{self.calls}"
        known: dict[str, object] = {"call": call, "prompt": prompt, "alone": prompt, "model": self.model}
        asked = planner.PlanRequest(**(known | {"strict": True} | more))  # type: ignore[arg-type]
        return planner.prepare(self.tenant, self.ledger, asked, self.now, self.settings)

    def bill(self, prepared: planner.PlannedRequest) -> Outcome:
        return self.provider.begin(prepared.prompt, self.now)  # type: ignore[attr-defined, no-any-return]

    def begin(self, prepared: planner.PlannedRequest, billed: Outcome) -> None:
        self.provider.first_token(billed, self.now)  # type: ignore[attr-defined]
        planner.first_token(self.tenant, prepared, self.now)

    def settle(self, prepared: planner.PlannedRequest, usage: Usage) -> planner.Verdict:
        return planner.settle(self.tenant, self.ledger, prepared, usage, self.now, self.settings)

    def abandon(self, prepared: planner.PlannedRequest) -> None:
        planner.abandon(self.tenant, self.ledger, prepared, self.now)

    def send(self, gap: float = 10.0, marks: Sequence[tuple[int, str]] = (), **more: object) -> Played:
        """The blocks as they are, `gap` seconds after the call before; answered two seconds later."""
        self.now += gap
        prepared = self.prepare(self.prompt(marks), **more)
        billed = self.bill(prepared)
        self.now += 2
        self.begin(prepared, billed)
        return Played(prepared, billed, self.settle(prepared, billed.usage(100)))

    def grow(self, *, tokens: int = 1_000, count: int = 1, kind: str = "text") -> None:
        """An answer of the model and what follows it, so many blocks."""
        number = self.blocks[-1].message + 1
        self.blocks.append(said(number, tokens))
        for each in range(count):
            self.blocks.append(said(number + 1, tokens, name=f"said {each}", kind=kind))

    def turn(self, gap: float = 10.0, *, tokens: int = 1_000, **more: object) -> Played:
        self.grow(tokens=tokens)
        return self.send(gap, **more)  # type: ignore[arg-type]
