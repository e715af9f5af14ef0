"""The providers' caches of one session: one for each model, empty but for what was alive when a lane began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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

from .notes import number
from .warmth import Warm


class Providers:
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

    def warm(self, warm: Warm, asked: Prompt, sent: Prompt, now: float) -> None:
        """A request is about to start and will find what others have left behind of what its client `asked`, under the
        cache key with which it is `sent`."""
        self._cache(asked.model)
        entry = warm.entry(asked, now, self._models[asked.model])
        for each in self._bare[asked.model]:
            if isinstance(each, AnthropicCache):
                each.first_token(Outcome(asked, now, 0, 0, new=(entry,)), now)
            elif isinstance(each, OpenAIBreakpoints):
                entry = replace(entry, key=entry_key(replace(asked, route=sent.route), warm.block))
                each.first_token(Outcome(asked, now, 0, 0, new=(entry,)), now)
            else:  # matched token by token: whoever was there before has sent so much of it
                end = warm.block + 1
                before = replace(
                    sent, blocks=asked.blocks[:end], keys=asked.keys[:end], ends=asked.ends[:end], marks=(), origin=()
                )
                outcome = each.begin(before, now)
                each.first_token(outcome, now)
                each.finish(outcome, (), now)

    def _cache(self, ref: str) -> Cache:
        if ref not in self._caches:
            self._caches[ref] = self._made(ref)
        return self._caches[ref]

    def _made(self, ref: str) -> Cache:
        seed = number(f"{self._name} {ref}" if self._caches else self._name)
        bare = self._bare[ref] = []

        def make() -> Cache:
            bare.append(cache(self._models[ref], seed=seed))
            return bare[-1]

        return make() if self._noise is None else Noisy(make, replace(self._noise, seed=seed))
