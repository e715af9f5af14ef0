"""Answers that were cut: what the provider has billed for them, as far as it told, and estimated beyond that."""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.core import Tenant, planner
from holdfast.records import Usage
from holdfast.store import Call

from .call_records import ESTIMATED, possible

ENDED = "the process that carried it ended"
"""The error of a call that was left behind."""


class Partial(Struct, frozen=True):
    """What is known of an answer that began and has no end: the usage that the provider had told by then, if any, and
    how many tokens it had said, estimated."""

    usage: Usage | None = None
    output: int = 0

    def billed(self, prompt: Usage) -> Usage:
        """The provider's own counts, or `prompt` where it told none, and what the model had said."""
        usage = self.usage or prompt
        return replace(usage, output=max(usage.output, self.output))


def billed(partial: Partial, prepared: planner.PlannedRequest, tenant: Tenant) -> Usage:
    """What was billed for a planned call: without a word of the provider, what was predicted. Estimates are in its
    tokens as far as they are known."""
    experience, ref = tenant.experience, prepared.request.model.ref
    output = experience.calibration.tokens(ref, partial.output)
    return facts.price(replace(partial, output=output).billed(prepared.predicted(experience)), ref)


def left_behind(call: Call) -> Call:
    """A pending call whose process ended: what was known of it when its answer began stays. One of a process that is
    alive after all is written again by that when it ends."""
    usage, verdict = call.usage, call.verdict
    if usage is None and call.prediction is not None:
        try:
            predicted = msgspec.json.decode(call.prediction, type=Usage)
        except (msgspec.DecodeError, UnicodeDecodeError):  # written by another version
            predicted = Usage()
        if call.first_token_at is None:
            verdict = possible(predicted, call.model)
        else:
            usage, verdict = facts.price(predicted, call.model), ESTIMATED
    return replace(call, status="unknown", error=ENDED, usage=usage, verdict=verdict)
