"""Answers that were cut off: the usage billed according to the provider, or else an estimate."""

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
    """An answer that was cut off: the provider's usage so far, None if it sent none, and the estimated tokens of its
    output."""

    usage: Usage | None = None
    output: int = 0

    def billed(self, prompt: Usage) -> Usage:
        """Return the provider's usage, or `prompt` if it sent none, with at least the output received."""
        usage = self.usage or prompt
        return replace(usage, output=max(usage.output, self.output))


def billed(partial: Partial, prepared: planner.PlannedRequest, tenant: Tenant) -> Usage:
    """Return what a planned call was billed: the prediction if the provider sent no usage. Estimated tokens are
    converted to the model's as far as its calibration is known."""
    experience, ref = tenant.experience, prepared.request.model.ref
    output = experience.calibration.tokens(ref, partial.output)
    return facts.price(replace(partial, output=output).billed(prepared.predicted(experience)), ref)


def left_behind(call: Call) -> Call:
    """Return a pending call of a process that ended, with what was known when its answer began. If that process is
    still alive, it writes the call again at its end."""
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
