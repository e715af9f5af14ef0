"""The entries believed alive for one tenant and model, with their horizons; lanes share it, as the provider's do.

A pool is the provider's own rules with our own copy of the state. What a provider reports corrects it: entries that
were not read are forgotten, and one that was read and not known is learned. Where a cache works with marked entries
they can be looked up, written down and read back; one that matches token by token lives in memory only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import (
    Block,
    Cache,
    Entries,
    Entry,
    Outcome,
    Prompt,
    Room,
    anthropic,
    cache,
    gemini,
    openai_breakpoints,
    rules,
)
from holdfast.facts import ModelFacts

VERSION = 1
CAPACITY = 20_000
_BY_ENTRY = (anthropic.AnthropicCache, openai_breakpoints.OpenAIBreakpoints)
_NOTHING = Prompt("", "", (), (), ())
_NEAR = 0.02  # a reported read within two in a hundred of a block's end is a read up to that end


class _Saved(Struct):
    version: int
    model: str
    at: float
    entries: list[Entry]


class Pool:
    """The entries believed to be alive. All times are parameters; it neither waits nor stores."""

    def __init__(self, model: ModelFacts, *, room: Room | None = None) -> None:
        self.model = model
        self._room = room
        self.entries = Entries(CAPACITY)
        self.cache = self._make()
        self.by_entry = isinstance(self.cache, _BY_ENTRY)
        """Whether its state is entries at markers, which can be looked up and kept."""
        self._decided: tuple[Outcome, int] | None = None
        self.get: Callable[[bytes], Entry | None] = self.entries.get

    def _make(self) -> Cache:
        made = rules(self.model).make
        if made is anthropic.AnthropicCache:
            return anthropic.AnthropicCache(self.model, self.entries)
        if made is openai_breakpoints.OpenAIBreakpoints:
            return openai_breakpoints.OpenAIBreakpoints(self.model, self.entries)
        return cache(self.model, room=self._room)

    def believe(self, raises: Literal["yes", "no"]) -> None:
        """What a verdict has proved about a long lifetime beyond a short one (KNOB `ttl_raise`)."""
        if self.model.knobs.ttl_raise not in (None, raises):
            self.model = replace(self.model, knobs=replace(self.model.knobs, ttl_raise=raises))
            self._decided = None
            self.cache = self._make()

    # What is alive

    def find(self, key: bytes, now: float) -> Entry | None:
        return self.entries.find(key, now)

    def known(self, keys: Sequence[bytes]) -> tuple[Entry, ...]:
        return self.entries.known(keys)

    def live(self, now: float) -> list[Entry]:
        return self.entries.live(now)

    # What a request does

    def decide(self, prompt: Prompt, now: float) -> Outcome | None:
        """Return what a request would read and write, without sending it; None if only sending shows it.

        The last result is reused if nothing has changed since: a plan is priced, checked, predicted and sent at one
        moment."""
        if not self.by_entry:
            return None
        if self._decided is not None:
            outcome_before, changes = self._decided
            before = outcome_before.prompt
            if (
                changes == self.entries.changes
                and outcome_before.at == now
                and before.keys is prompt.keys
                and before.blocks is prompt.blocks
                and before.marks == prompt.marks
                and before.mode == prompt.mode
                and before.route == prompt.route
            ):
                return outcome_before if before is prompt else replace(outcome_before, prompt=prompt)
        if isinstance(self.cache, anthropic.AnthropicCache):
            outcome = anthropic.decide(prompt, self.entries, now, self.model, explain=False)
        else:
            outcome = openai_breakpoints.decide(prompt, self.entries, now, self.model)
        self._decided = outcome, self.entries.changes
        return outcome

    def knows_as(self, other: Pool, prompt: Prompt) -> bool:
        """Whether both know the same of a prompt, so that it does the same in both."""
        if not self.by_entry or prompt.route or (self.model is not other.model and self.model != other.model):
            return False
        return self.entries.known(prompt.keys) == other.entries.known(prompt.keys)

    def follow(self, outcome: Outcome) -> None:
        """It is decided already what a request does, by a pool that knows the same of it."""
        self._decided = outcome, self.entries.changes

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        decided = self.decide(prompt, now)
        if decided is not None and isinstance(self.cache, _BY_ENTRY):
            return self.cache.enter(decided, now)
        if prompt.mode and isinstance(self.cache, gemini.GeminiCache):
            return Outcome(prompt, now, 0, prompt.tokens, why=("what the client's own content holds is not known",))
        return self.cache.begin(prompt, now)

    def enter(self, outcome: Outcome, now: float) -> None:
        """Begin a request with the outcome decided for it."""
        if isinstance(self.cache, _BY_ENTRY):
            self.cache.enter(outcome, now)

    def first_token(self, outcome: Outcome, now: float) -> None:
        self.cache.first_token(outcome, now)

    def finish(self, outcome: Outcome, output: Sequence[Block], now: float) -> None:
        self.cache.finish(outcome, output, now)

    def abandon(self, outcome: Outcome, now: float) -> None:
        self.cache.abandon(outcome, now)

    # What a provider reports

    def correct(
        self, outcome: Outcome, read: int, first_token: float | None, now: float, *, at_marks: bool = False
    ) -> Outcome:
        """Return the outcome that explains how many tokens were read, and correct the state accordingly.

        `read` is in the tokens of the prompt. Entries that should have been read but were not are dropped; entries read
        unexpectedly are added. With `at_marks`, so is an entry at every marker before them.
        """
        if not self.by_entry or read == outcome.read:
            return outcome
        prompt, at = outcome.prompt, outcome.at
        block = block_near(prompt, read)
        for entry in outcome.new:  # what it wrote is decided anew
            current = self.entries.get(entry.key)
            if current is not None and current.written == at:
                self.entries.drop(entry.key)
        if read < outcome.read:
            for index in range(block + 1, outcome.hit + 1):
                self.entries.drop(self._key(prompt, index))
        elif block >= 0:
            ttl = self._written_for(prompt, block)
            seconds = float(self.model.ttl_seconds(ttl) or 0)
            for each in (block, *(mark.block for mark in prompt.marks if at_marks and mark.block < block)):
                key = self._key(prompt, each)
                if self.entries.find(key, at) is None:
                    self.entries.put([Entry(key, prompt.ends[each], ttl, seconds, at, at + seconds, at)], now)
        found = self.cache.begin(prompt, at)
        self.cache.first_token(found, now if first_token is None else first_token)
        return found

    def _written_for(self, prompt: Prompt, block: int) -> str:
        """The lifetime of an entry that somebody else wrote: the one that this request would have written it with,
        since what one client sends is marked alike."""
        behind = [mark for mark in prompt.marks if mark.block >= block]
        return min(behind, key=lambda mark: mark.block).ttl if behind else self.model.default_ttl or ""

    def _key(self, prompt: Prompt, index: int) -> bytes:
        if isinstance(self.cache, openai_breakpoints.OpenAIBreakpoints):
            return openai_breakpoints.entry_key(prompt, index)
        return prompt.keys[index]

    # Keeping it

    def encode(self, now: float) -> bytes:
        """What can still be read, as of now; nothing of a cache that lives in memory only."""
        return msgspec.msgpack.encode(_Saved(VERSION, self.model.ref, now, self.entries.live(now)))

    def restore(self, data: bytes) -> float | None:
        """Restore saved entries and return their time; None for another version or model."""
        try:
            saved = msgspec.msgpack.decode(data, type=_Saved)
        except msgspec.DecodeError:
            return None
        if saved.version != VERSION or saved.model != self.model.ref:
            return None
        self.entries.put(saved.entries, saved.at)
        return saved.at

    def rebuild(self, effects: Iterable[Effect]) -> None:
        """The state again from what each call did: at its start what it refreshed, with its first token what it wrote.

        Of both at one moment the first token counts as the earlier: what it made readable may have been refreshed.
        """
        calls = list(effects)
        moments = [(each.first_token, 0, each) for each in calls if each.first_token is not None]
        moments += [(each.at, 1, each) for each in calls]
        for at, start, each in sorted(moments, key=lambda moment: moment[:2]):
            if start:
                for key in each.gone:
                    self.entries.drop(key)
                self.entries.put([entry for entry in each.refreshed if self._lasts(entry)], at)
            else:
                self.cache.first_token(Outcome(_NOTHING, each.at, 0, 0, new=each.new), at)

    def _lasts(self, entry: Entry) -> bool:
        current = self.entries.get(entry.key)
        return current is None or current.expires <= entry.expires


class Effect(Struct, frozen=True):
    """What one call did to the pool; kept with the call, so that a lost pool can be rebuilt. `gone` are entries that it
    found lost."""

    at: float
    first_token: float | None
    new: tuple[Entry, ...] = ()
    refreshed: tuple[Entry, ...] = ()
    gone: tuple[bytes, ...] = ()


def effect(predicted: Outcome, outcome: Outcome, first_token: float | None) -> Effect:
    """What a call did, as it was predicted and as it turned out."""
    if predicted is outcome:
        return Effect(outcome.at, first_token, outcome.new, outcome.refreshed)
    there = {entry.key for entry in (*outcome.refreshed, *outcome.new)}
    gone = tuple(entry.key for entry in predicted.refreshed if entry.key not in there)
    return Effect(outcome.at, first_token, outcome.new, outcome.refreshed, gone)


def block_near(prompt: Prompt, tokens: int) -> int:
    """Return the block with the end nearest to `tokens`, if it is near enough; else the last one within them."""
    if tokens <= 0:
        return -1
    within = prompt.block_at(tokens)
    near = [index for index in (within, within + 1) if 0 <= index < len(prompt.ends)]
    best = min(near, key=lambda index: abs(prompt.ends[index] - tokens), default=-1)
    return best if best >= 0 and abs(prompt.ends[best] - tokens) <= _NEAR * tokens else within
