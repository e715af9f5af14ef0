"""Sessions that began warm: what was alive in the provider's cache when a lane sent its first request.

What that request was billed as read must have been there: sessions before it had left it behind. It is there for every
contender alike, and for the optimum; the engine is not told, and learns it from the bill. It lives as long as what the
lane itself wrote first, counted from that request. A prefix that an earlier request of the session had is not given:
there the rules say whether it is alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.caches import Entry, Prompt
from holdfast.facts import ModelFacts
from holdfast.records import Request
from holdfast.report.logs import Trace, TraceStep, lanes

NEAR = 0.02
"""Where a prompt's tokens are estimates, a read within two in a hundred of a block's end is a read up to there."""


class Warm(Struct, frozen=True):
    """An entry that a request finds: the block at whose end it stands, and its lifetime."""

    block: int
    ttl: str

    def entry(self, prompt: Prompt, at: float, model: ModelFacts) -> Entry:
        """The entry when a request with this prompt starts."""
        seconds = float(model.ttl_seconds(self.ttl) or 0)
        return Entry(prompt.keys[self.block], prompt.ends[self.block], self.ttl, seconds, at, at + seconds, at)


def warm_starts(trace: Trace, prompts: Mapping[int, Prompt], models: Mapping[str, ModelFacts]) -> dict[int, Warm]:
    """By the number of a step what its request finds; `prompts` are those of all steps, `models` by their refs."""
    firsts = {steps[0].number: steps for steps in lanes(trace).values()}
    seen: set[bytes] = set()
    found: dict[int, Warm] = {}
    for step in trace.steps:
        prompt = prompts[step.number]
        if step.number in firsts:
            warm = _warm(firsts[step.number], prompt, models[prompt.model])
            if warm is not None and prompt.keys[warm.block] not in seen:
                found[step.number] = warm
        seen.update(prompt.keys)
    return found


def _warm(lane: Sequence[TraceStep], prompt: Prompt, model: ModelFacts) -> Warm | None:
    billed = lane[0].billed
    if billed is None or not billed.read:
        return None
    read = billed.read
    if isinstance(lane[0].content, Request) or any(step.usage is None for step in lane):
        read = int(read * prompt.tokens / billed.prompt * (1 + NEAR))
    block = prompt.block_at(min(read, prompt.tokens))
    while block >= 0 and not prompt.blocks[block].markable:
        block -= 1
    if block < 0 or prompt.ends[block] < model.floor:
        return None
    return Warm(block, _lifetime(lane, model))


def _lifetime(lane: Sequence[TraceStep], model: ModelFacts) -> str:
    """What the lane wrote first; where it wrote for two, the longer one stands before the other."""
    known = [ttl for ttl, _ in model.writes]
    for step in lane:
        written = [ttl for ttl, tokens in step.billed.writes if tokens] if step.billed is not None else []
        for ttl in sorted(written, key=lambda ttl: -(model.ttl_seconds(ttl) or 0)):
            if ttl in known:
                return ttl
    return model.default_ttl or (known[0] if known else "")
