"""The reasons for which a request may not read what its lane had covered, found from the state at its sending.

Most reads are as predicted, so only the state is saved, and the reasons are computed when needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import NEVER, Entry, Lookup, Mark, Outcome, Prompt, anthropic, openai_breakpoints, rules
from holdfast.facts import ModelFacts
from holdfast.records import BREAK_CAUSES, CHANGES, BreakCause
from holdfast.records import expiry as expiry_cause

from .divergence import Comparison
from .plan import Sent


class Suspect(Struct, frozen=True):
    """Something that keeps the lane from reading what it had covered. Tokens are estimates.

    `readable` could be read if this were the only thing wrong, and at most `limit`. `entry` is what cannot be read.
    """

    cause: BreakCause
    readable: int
    limit: int
    entry: Entry | None = None


class Grounds(Struct, frozen=True, kw_only=True):
    """A moment as a request met it."""

    before: Sent
    prompt: Prompt
    """The request as it goes out."""
    comparison: Comparison
    entries: Sequence[Entry]
    """Those on its prefix, dead or alive."""
    read: int
    """What it is predicted to read."""
    regardless: frozenset[BreakCause]
    """What would have been wrong with unchanged bytes too."""
    now: float
    model: ModelFacts

    def promised(self) -> int:
        """Return the tokens it will read according to the rules."""
        return self._promised(self._live(self._known()))

    def longest(self) -> int:
        """The tokens of the longest entry, dead or alive."""
        return _longest(self._known())

    def suspects(self) -> tuple[Suspect, ...]:
        entries = self._known()
        live = self._live(entries)
        reach = _reach_suspects(self.prompt, entries, live, self._promised(live), self.now, self.model)
        suspects = [*_time_suspects(entries, live, self.now), *reach]
        changed = _changed(self.before, self.prompt, self.comparison, entries, self.read)
        if changed is not None:
            suspects = [changed, *(suspect for suspect in suspects if suspect.cause in self.regardless)]
        return tuple(suspects)

    def _known(self) -> list[tuple[int, Entry]]:
        return _known(self.before, self.prompt, self.comparison, self.entries, self.model)

    def _live(self, entries: Sequence[tuple[int, Entry]]) -> list[tuple[int, Entry]]:
        return [(block, entry) for block, entry in entries if entry.live(self.now)]

    def _promised(self, live: Sequence[tuple[int, Entry]]) -> int:
        return max(self.read, _in_reach(self.prompt, live, self.now, self.model))


def grounds(before: Sent, comparison: Comparison, outcome: Outcome, pool: Lookup, model: ModelFacts) -> Grounds:
    """Return the state at the sending of a request that continues `before`."""
    prompt, now = outcome.prompt, outcome.at
    parted = comparison.divergence is not None
    return Grounds(
        before=before,
        prompt=prompt,
        comparison=comparison,
        entries=pool.known(prompt.keys),
        read=outcome.read,
        regardless=_regardless(before, prompt, pool, now, model) if parted else frozenset(),
        now=now,
        model=model,
    )


def _changed(
    before: Sent, prompt: Prompt, comparison: Comparison, entries: Sequence[tuple[int, Entry]], predicted: int
) -> Suspect | None:
    """Bytes that changed in front of the end of what the lane had covered; behind it a change costs nothing."""
    divergence = comparison.divergence
    if divergence is None or (comparison.course == "fork" and not set_otherwise(comparison)):
        return None
    if divergence.what == "model":
        return Suspect(CHANGES["model"], 0, prompt.tokens)
    end = max((mark.block for mark in before.marks), default=len(before) - 1)
    if before.entries:  # some providers cache past the last marker too (B1)
        end = max(end, before.entries[-1][0])
    if divergence.kept >= sum(before.counts()[: end + 1]):
        return None
    shared = divergence.block if divergence.kept else 0
    common = _longest([(block, entry) for block, entry in entries if block < shared])
    # A client that goes back and forth between two prompts may find what an earlier one left behind the divergence.
    # Where tokens are matched one by one, no entry of its own says so, but the prediction does.
    return Suspect(CHANGES[divergence.part], common, max(divergence.kept, _longest(entries), predicted))


def _regardless(before: Sent, prompt: Prompt, pool: Lookup, now: float, model: ModelFacts) -> frozenset[BreakCause]:
    """What would have kept the lane from its last entry if the bytes had stayed the same. That older entries before the
    divergence have expired or are out of reach is a consequence of the change and no cause."""
    last = _last_mark(before, model)
    if last is None:
        return frozenset(BREAK_CAUSES)
    entry = pool.get(dict(before.entries).get(last.block, b"")) or _left_by(before, last, model)
    if entry.readable > now:
        return frozenset({"parallel_race"})
    if entry.expires < now:
        return frozenset({"ttl_expired_5m", "ttl_expired_1h"})
    if last.block < len(prompt.blocks):
        same = replace(entry, key=prompt.keys[last.block], tokens=prompt.ends[last.block])
        if _in_reach(prompt, [(last.block, same)], now, model):
            return frozenset()
    return frozenset({"lookback_exceeded", "below_minimum"})


def _time_suspects(
    entries: Sequence[tuple[int, Entry]], live: Sequence[tuple[int, Entry]], now: float
) -> Iterable[Suspect]:
    """Entries that cannot be read yet (A11) or any more (A10), where they reach further than the live ones."""
    alive = _longest(live)
    waiting = [entry for _, entry in entries if entry.readable > now and entry.expires >= now and entry.tokens > alive]
    if waiting:
        yield Suspect("parallel_race", alive, NEVER_LESS, max(waiting, key=lambda entry: entry.tokens))
    expired = [entry for _, entry in entries if entry.expires < now and entry.tokens > alive]
    if expired:
        entry = max(expired, key=lambda entry: entry.tokens)
        yield Suspect(expiry_cause(entry.seconds), alive, NEVER_LESS, entry)


NEVER_LESS = 2**62
"""The limit of a suspect that does not say how much may be read: others may have written more than is known here."""


def _reach_suspects(
    prompt: Prompt,
    entries: Sequence[tuple[int, Entry]],
    live: Sequence[tuple[int, Entry]],
    promised: int,
    now: float,
    model: ModelFacts,
) -> Iterable[Suspect]:
    """Live entries that no marker comes to: all markers below the floor (A9), too far behind one (A4), or no marker."""
    if rules(model).by_token:
        return
    beyond = [entry for _, entry in live if entry.tokens > promised]
    if not beyond:
        return
    entry = max(beyond, key=lambda entry: entry.tokens)
    immortal = [(block, replace(entry, readable=now, expires=now)) for block, entry in entries]
    readable = _in_reach(prompt, immortal, now, model)
    low = bool(prompt.marks) and all(prompt.ends[mark.block] < model.floor for mark in prompt.marks)
    yield Suspect("below_minimum" if low else "lookback_exceeded", readable, NEVER_LESS, entry)


def _known(
    before: Sent, prompt: Prompt, comparison: Comparison, found: Sequence[Entry], model: ModelFacts
) -> list[tuple[int, Entry]]:
    """The entries on this prompt's prefix, dead or alive, by block: those in the pool, and the one that the lane's last
    request must have left where the pool has lost it."""
    places = {key: block for block, key in enumerate(prompt.keys)}
    by_place = {places[entry.key]: entry for entry in found}
    divergence = comparison.divergence
    shared = len(before) if divergence is None else divergence.block if divergence.kept else 0
    last = _last_mark(before, model)
    if last is not None and 0 <= last.block < min(shared, len(prompt.blocks)) and last.block not in by_place:
        entry = replace(_left_by(before, last, model), key=prompt.keys[last.block], tokens=prompt.ends[last.block])
        if entry.tokens >= model.floor and entry.seconds:
            by_place[last.block] = entry
    return sorted(by_place.items())


def _left_by(before: Sent, mark: Mark, model: ModelFacts) -> Entry:
    """The entry that a request left at a marker, as far as the request itself tells."""
    seconds = float(model.ttl_seconds(mark.ttl) or 0)
    readable = NEVER if before.first_token is None else before.first_token
    return Entry(b"", before.covered, mark.ttl, seconds, before.at, before.at + seconds, readable)


def _last_mark(before: Sent, model: ModelFacts) -> Mark | None:
    """Return where the cover of a request ends: at its last marker, or at its end if the provider caches implicitly.
    Whether an earlier marker has left an entry depends on the state before it."""
    if before.marks:
        return max(before.marks, key=lambda mark: mark.block)
    if not len(before) or model.default_ttl is None or model.caching == "explicit":
        return None
    return Mark(len(before) - 1, model.default_ttl)


def _in_reach(prompt: Prompt, entries: Sequence[tuple[int, Entry]], now: float, model: ModelFacts) -> int:
    """Return the tokens of the longest of these entries that the provider's lookup can find."""
    if not entries:
        return 0
    provider = rules(model)
    if provider.affecting is anthropic.AFFECTING:
        by_key = {entry.key: entry for _, entry in entries if entry.live(now)}
        return anthropic.readable(prompt, lambda key, _now: by_key.get(key), now, model)
    if provider.all_tools:
        looked_at = set(openai_breakpoints.candidates(prompt, model))
        return _longest([(block, entry) for block, entry in entries if block in looked_at])
    return _longest(entries)


def _longest(entries: Sequence[tuple[int, Entry]]) -> int:
    return max((entry.tokens for _, entry in entries), default=0)


def set_otherwise(comparison: Comparison) -> bool:
    return comparison.divergence is not None and comparison.divergence.what in ("model", "settings")
