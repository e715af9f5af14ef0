"""The providers' caches of one session: one for each model, empty but for what was alive when a lane began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import (
    AnthropicCache,
    Block,
    Cache,
    Entry,
    Noise,
    Noisy,
    OpenAIBreakpoints,
    Outcome,
    Prompt,
    cache,
    entry_key,
)
from holdfast.facts import ModelFacts
from holdfast.records import Request
from holdfast.report.logs import Trace, TraceStep, lanes

NEAR = 0.02
"""Where a prompt's tokens are estimates, a read within two in a hundred of a block's end is a read up to there."""


class Warm(Struct, frozen=True):
    """An entry that exists before a session: the block that it ends with, and its lifetime."""

    block: int
    ttl: str

    def entry(self, prompt: Prompt, at: float, model: ModelFacts) -> Entry:
        """Return the entry at the start of a request with this prompt."""
        seconds = float(model.ttl_seconds(self.ttl) or 0)
        return Entry(prompt.keys[self.block], prompt.ends[self.block], self.ttl, seconds, at, at + seconds, at)


def warm_starts(trace: Trace, prompts: Mapping[int, Prompt], models: Mapping[str, ModelFacts]) -> dict[int, Warm]:
    """By the number of a step what its request finds; `prompts` are those of all steps, `models` by their refs."""
    firsts = {steps[0].number: steps for steps in lanes(trace).values()}
    seen: set[bytes] = set()
    starts: dict[int, Warm] = {}
    for step in trace.steps:
        prompt = prompts[step.number]
        if step.number in firsts:
            warm = _warm(firsts[step.number], prompt, models[prompt.model])
            if warm is not None and prompt.keys[warm.block] not in seen:
                starts[step.number] = warm
        seen.update(prompt.keys)
    return starts


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
    """Return the lifetime of the lane's first write; of two, the longer one."""
    lifetimes = [ttl for ttl, _ in model.writes]
    for step in lane:
        written = [ttl for ttl, tokens in step.billed.writes if tokens] if step.billed is not None else []
        for ttl in sorted(written, key=lambda ttl: -(model.ttl_seconds(ttl) or 0)):
            if ttl in lifetimes:
                return ttl
    return model.default_ttl or (lifetimes[0] if lifetimes else "")


class Providers(Cache):
    """A cache for each model, by its ref. Chance depends on `name`, so that all contenders meet the same."""

    def __init__(self, models: Mapping[str, ModelFacts], noise: Noise | None, name: str) -> None:
        self._models, self._noise, self._name = models, noise, name
        self._caches: dict[str, Cache] = {}
        self._bare: dict[str, list[Cache]] = {}

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        return self._cache(prompt.model).begin(prompt, now)

    def first_token(self, outcome: Outcome, now: float) -> None:
        self._cache(outcome.prompt.model).first_token(outcome, now)

    def finish(self, outcome: Outcome, output: Sequence[Block], now: float) -> None:
        self._cache(outcome.prompt.model).finish(outcome, output, now)

    def abandon(self, outcome: Outcome, now: float) -> None:
        self._cache(outcome.prompt.model).abandon(outcome, now)

    def entries(self, now: float) -> list[Entry]:
        return [entry for each in self._caches.values() for entry in each.entries(now)]

    def warm(self, warm: Warm, client_prompt: Prompt, sent_prompt: Prompt, now: float) -> None:
        """Put the entry that others have left of the client's prompt into the cache, under the cache key of the prompt
        that is sent."""
        self._cache(client_prompt.model)
        entry = warm.entry(client_prompt, now, self._models[client_prompt.model])
        for each in self._bare[client_prompt.model]:
            if isinstance(each, AnthropicCache):
                each.first_token(Outcome(client_prompt, now, 0, 0, new=(entry,)), now)
            elif isinstance(each, OpenAIBreakpoints):
                entry = replace(entry, key=entry_key(replace(client_prompt, route=sent_prompt.route), warm.block))
                each.first_token(Outcome(client_prompt, now, 0, 0, new=(entry,)), now)
            else:  # matched token by token: whoever was there before has sent so much of it
                end = warm.block + 1
                before = replace(
                    sent_prompt,
                    blocks=client_prompt.blocks[:end],
                    keys=client_prompt.keys[:end],
                    ends=client_prompt.ends[:end],
                    marks=(),
                    origin=(),
                )
                outcome = each.begin(before, now)
                each.first_token(outcome, now)
                each.finish(outcome, (), now)

    def _cache(self, ref: str) -> Cache:
        if ref not in self._caches:
            self._caches[ref] = self._made(ref)
        return self._caches[ref]

    def _made(self, ref: str) -> Cache:
        seed = seed_of(f"{self._name} {ref}" if self._caches else self._name)
        bare = self._bare[ref] = []

        def make() -> Cache:
            bare.append(cache(self._models[ref], seed=seed))
            return bare[-1]

        return make() if self._noise is None else Noisy(make, replace(self._noise, seed=seed))


def seed_of(name: str) -> int:
    """Return the seed for a name."""
    return int.from_bytes(sha256(name.encode()).digest()[:6], "big")
