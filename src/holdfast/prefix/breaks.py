"""Breaks: reads that fell short of what the lane had covered, and why.

Two phases. `expect` looks at the request before it goes out: what the lane could read if nothing had changed or
expired, and every reason why the rules say it cannot (suspects). `judge` compares with what the provider billed.

Several things can be wrong at once. A suspect carries what could have been read if it were the only thing wrong, and is
the cause if that alone explains the loss. Of several that do, the first in this order: model, settings and blocks in
prefix order (chains before times), an answer that had not begun, a lifetime that had passed, the floor, the lookback.
If none does alone, the one that explains most. If the rules say that it should have been read, it is likely the
provider; if what was read contradicts every suspect, the cause is unknown. Nothing is left out because an edit was
ours: an announced reset is counted as one only where the prefix parts in a section that its reason speaks of (law 5).

Knows neither texts nor wire formats; token counts come from the provider where it has told them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, localcontext
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import anthropic, openai_breakpoints
from holdfast.caches.providers import Rules, rules
from holdfast.caches.values import NEVER, Entry, Mark, Outcome, Prompt, Section
from holdfast.canonical import Usage
from holdfast.config.sections.cache import Breaks
from holdfast.facts import ModelFacts
from holdfast.facts.prices import Rates

from .divergence import Comparison, Divergence, Settings, compare
from .values import Lookup, Sent

Cause = Literal[
    "model_changed",
    "tools_changed",
    "system_prompt_changed",
    "parameters_changed",
    "messages_rewritten",
    "ttl_expired_5m",
    "ttl_expired_1h",
    "lookback_exceeded",
    "below_minimum",
    "parallel_race",
    "likely_server_side",
    "unknown",
]

_BY_SECTION: dict[Section, Cause] = {
    "tools": "tools_changed",
    "system": "system_prompt_changed",
    "messages": "messages_rewritten",
}

_SPEAKS_OF: dict[str, tuple[Section | Literal["model", "settings"], ...]] = {
    "compaction": ("messages",),
    "history_trimmed": ("messages",),
    "volatile_system_changed": ("system",),
    "memory_block_changed": ("system", "messages"),
    "tools_changed_by_user": ("tools",),
    "tools_redeclared": ("tools",),
    "model_switch": ("model", "settings"),
}
"""Where a reset's reason allows the prefix to part; the others allow it anywhere."""

DEFAULTS = Breaks()
_SHORT = 600.0  # seconds: five minutes, and the five to ten of caches in memory
_EXACT = Context(prec=60)


class Suspect(Struct, frozen=True):
    """Something that keeps the lane from reading what it had covered. Tokens are estimates.

    `readable` could be read if this were the only thing wrong, and at most `limit`. `entry` is what cannot be read.
    """

    cause: Cause
    readable: int
    limit: int
    entry: Entry | None = None


class Expectation(Struct, frozen=True, kw_only=True):
    """What a request should read, made before it goes out.

    `expected` is what the lane could read if nothing had changed or expired; `counted` says that the provider counted
    it, otherwise it is an estimate. `promised` is what the rules say it will read.
    """

    outcome: Outcome
    at: float
    expected: int = 0
    counted: bool = True
    promised: int = 0
    comparison: Comparison | None = None
    suspects: tuple[Suspect, ...] = ()
    reset: str | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """A break, or a reset with its reason. `dollars` is what the lost tokens were billed beyond the price of reading
    them, 0 where no price is known. `also` are further things that were wrong."""

    cause: Cause | None
    reason: str | None
    tokens: int
    dollars: Decimal
    expected: int
    read: int
    divergence: Divergence | None = None
    comparison: Comparison | None = None
    entry: Entry | None = None
    idle: float = 0.0
    also: tuple[Cause, ...] = ()


def expect(
    before: Sent | None,
    prompt: Prompt,
    settings: Settings,
    outcome: Outcome,
    pool: Lookup,
    now: float,
    model: ModelFacts,
    *,
    reset: str | None = None,
    comparison: Comparison | None = None,
) -> Expectation:
    """What the lane should read with this request, and what may keep it from that.

    `outcome` is the prediction under the markers that go out; `reset` is the reason the ledger announces, if any;
    `comparison` how the request continues the one before, where that is known.
    """
    if before is None or not before.covered:
        return Expectation(outcome=outcome, at=now, promised=outcome.read, reset=reset)
    comparison = comparison or compare(before, prompt, settings, model)
    known = _known(before, prompt, comparison, pool, model)
    live = [(block, entry) for block, entry in known if entry.live(now)]
    marked = replace(prompt, marks=outcome.prompt.marks, mode=outcome.prompt.mode)
    promised = max(outcome.read, _in_reach(marked, live, now, model))
    expected, counted = before.covered, True
    if comparison.course == "fork" and not _set_otherwise(comparison):
        expected, counted = _longest(known), False
    suspects = [*_time_suspects(known, live, now), *_reach_suspects(marked, known, live, promised, now, model)]
    changed = _changed(before, prompt, comparison, known)
    if changed is not None:
        suspects = [changed, *(s for s in suspects if s.cause in _regardless(before, marked, pool, now, model))]
    return Expectation(
        outcome=outcome,
        at=now,
        expected=expected,
        counted=counted,
        promised=promised,
        comparison=comparison,
        suspects=tuple(suspects),
        reset=reset,
    )


def judge(expectation: Expectation, usage: Usage, rates: Rates | None, thresholds: Breaks = DEFAULTS) -> Finding | None:
    """The break or reset that a billed usage shows, None where reads are within the thresholds of what they should be.

    Both thresholds have to be passed: the share of what was expected, and the number of tokens.
    """
    scale = _scale(expectation, usage)
    expected = expectation.expected if expectation.counted else round(expectation.expected * scale)
    lost = expected - usage.read
    slack = _slack(thresholds, expected)
    if lost <= slack:
        return None
    suspect = _explain(expectation, usage.read, expected, scale, float(slack))
    comparison = expectation.comparison
    divergence = comparison.divergence if comparison is not None else None
    parted = suspect.cause in _CHAINS
    announced = expectation.reset if parted and _allowed(expectation.reset, divergence) else None
    others = dict.fromkeys(other.cause for other in expectation.suspects if other.cause != suspect.cause)
    return Finding(
        cause=None if announced else suspect.cause,
        reason=announced,
        tokens=lost,
        dollars=_dollars(lost, usage, rates),
        expected=expected,
        read=usage.read,
        divergence=divergence if parted else None,
        comparison=comparison,
        entry=suspect.entry,
        idle=max(0.0, expectation.at - suspect.entry.expires) if suspect.entry is not None else 0.0,
        also=tuple(others),
    )


def agrees(expectation: Expectation, usage: Usage, thresholds: Breaks = DEFAULTS) -> bool:
    """Whether the provider read what was predicted, within the thresholds: neither less nor more (law 9)."""
    predicted = round(expectation.outcome.read * _scale(expectation, usage))
    apart = abs(predicted - usage.read)
    return apart <= _slack(thresholds, max(predicted, usage.read))


def _slack(thresholds: Breaks, tokens: int) -> Decimal:
    """The difference that both thresholds still allow. The share counts as it was written: 5% of 41,000 is 2,050 and
    not a hair more."""
    return max(Decimal(thresholds.min_tokens), Decimal(repr(thresholds.min_drop)) * tokens)


_CHAINS = frozenset({"model_changed", "parameters_changed", *_BY_SECTION.values()})


def _explain(expectation: Expectation, read: int, expected: int, scale: float, slack: float) -> Suspect:
    """The cause of a loss, by the order in the module's docstring."""
    possible = [suspect for suspect in expectation.suspects if read <= suspect.limit * scale + slack]
    alone = [suspect for suspect in possible if suspect.readable * scale <= read + slack]
    if alone:
        return alone[0]
    unkept = expectation.promised * scale - read
    if unkept > slack and unkept >= expected - expectation.promised * scale:
        return Suspect("likely_server_side", expectation.promised, expected)
    if possible:
        return min(possible, key=lambda suspect: suspect.readable)
    return Suspect("unknown", 0, expected)


def _changed(
    before: Sent, prompt: Prompt, comparison: Comparison, known: Sequence[tuple[int, Entry]]
) -> Suspect | None:
    """Bytes that changed in front of the end of what the lane had covered; behind it a change costs nothing."""
    divergence = comparison.divergence
    if divergence is None or (comparison.course == "fork" and not _set_otherwise(comparison)):
        return None
    if divergence.what == "model":
        return Suspect("model_changed", 0, prompt.tokens)
    end = max((mark.block for mark in before.marks), default=len(before) - 1)
    if divergence.kept >= sum(before.counts()[: end + 1]):
        return None
    cause = "parameters_changed" if divergence.what == "settings" else _BY_SECTION[divergence.section]
    shared = divergence.block if divergence.kept else 0
    common = _longest([(block, entry) for block, entry in known if block < shared])
    # A client that goes back and forth between two prompts may find what an earlier one left behind the divergence.
    return Suspect(cause, common, max(divergence.kept, _longest(known)))


def _regardless(before: Sent, prompt: Prompt, pool: Lookup, now: float, model: ModelFacts) -> frozenset[Cause]:
    """What would have kept the lane from its last entry if the bytes had stayed the same. That older entries before the
    divergence have expired or are out of reach is a consequence of the change and no cause."""
    last = _last_mark(before, model)
    if last is None:
        return frozenset(get_args(Cause))
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
    known: Sequence[tuple[int, Entry]], live: Sequence[tuple[int, Entry]], now: float
) -> Iterable[Suspect]:
    """Entries that cannot be read yet (A11) or any more (A10), where they reach further than the live ones."""
    alive = _longest(live)
    waiting = [entry for _, entry in known if entry.readable > now and entry.expires >= now and entry.tokens > alive]
    if waiting:
        yield Suspect("parallel_race", alive, NEVER_LESS, max(waiting, key=lambda entry: entry.tokens))
    expired = [entry for _, entry in known if entry.expires < now and entry.tokens > alive]
    if expired:
        entry = max(expired, key=lambda entry: entry.tokens)
        cause: Cause = "ttl_expired_5m" if entry.seconds <= _SHORT else "ttl_expired_1h"
        yield Suspect(cause, alive, NEVER_LESS, entry)


NEVER_LESS = 2**62
"""The limit of a suspect that does not say how much may be read: others may have written more than is known here."""


def _reach_suspects(
    prompt: Prompt,
    known: Sequence[tuple[int, Entry]],
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
    immortal = [(block, replace(entry, readable=now, expires=now)) for block, entry in known]
    readable = _in_reach(prompt, immortal, now, model)
    low = bool(prompt.marks) and all(prompt.ends[mark.block] < model.floor for mark in prompt.marks)
    yield Suspect("below_minimum" if low else "lookback_exceeded", readable, NEVER_LESS, entry)


def _known(
    before: Sent, prompt: Prompt, comparison: Comparison, pool: Lookup, model: ModelFacts
) -> list[tuple[int, Entry]]:
    """The entries on this prompt's prefix, dead or alive, by block: the pool's, and the one that the lane's last
    request must have left where the pool has lost it."""
    known = {i: entry for i, entry in enumerate(map(pool.get, prompt.keys)) if entry is not None}
    divergence = comparison.divergence
    shared = len(before) if divergence is None else divergence.block if divergence.kept else 0
    last = _last_mark(before, model)
    if last is not None and 0 <= last.block < min(shared, len(prompt.blocks)) and last.block not in known:
        entry = replace(_left_by(before, last, model), key=prompt.keys[last.block], tokens=prompt.ends[last.block])
        if entry.tokens >= model.floor and entry.seconds:
            known[last.block] = entry
    return sorted(known.items())


def _left_by(before: Sent, mark: Mark, model: ModelFacts) -> Entry:
    """The entry that a request left at a marker, as far as the request itself tells."""
    seconds = float(model.ttl_seconds(mark.ttl) or 0)
    readable = NEVER if before.first_token is None else before.first_token
    return Entry(b"", before.covered, mark.ttl, seconds, before.at, before.at + seconds, readable)


def _last_mark(before: Sent, model: ModelFacts) -> Mark | None:
    """Where a request was covered to: its last marker, or all of it where the provider caches by itself. Whether an
    earlier marker has left an entry depends on what was there before."""
    if before.marks:
        return max(before.marks, key=lambda mark: mark.block)
    if not len(before) or model.default_ttl is None or model.caching == "explicit":
        return None
    return Mark(len(before) - 1, model.default_ttl)


class _Found:
    """Some entries as a place to look things up in."""

    def __init__(self, entries: Sequence[tuple[int, Entry]]) -> None:
        self._by_key = {entry.key: entry for _, entry in entries}

    def get(self, key: bytes) -> Entry | None:
        return self._by_key.get(key)

    def find(self, key: bytes, now: float) -> Entry | None:
        entry = self._by_key.get(key)
        return entry if entry is not None and entry.live(now) else None

    def on(self, keys: Sequence[bytes], now: float) -> list[Entry]:
        return [entry for key in keys if (entry := self.find(key, now)) is not None]


def _in_reach(prompt: Prompt, entries: Sequence[tuple[int, Entry]], now: float, model: ModelFacts) -> int:
    """Tokens of the longest of these entries that the provider's lookup comes to."""
    if not entries:
        return 0
    known = rules(model)
    if _is_anthropic(known):
        return anthropic.readable(prompt, _Found(entries), now, model)
    if known.all_tools:
        looked_at = set(openai_breakpoints.candidates(prompt, model))
        return _longest([(block, entry) for block, entry in entries if block in looked_at])
    return _longest(entries)


def _is_anthropic(known: Rules) -> bool:
    return known.affecting is anthropic.AFFECTING


def _longest(entries: Sequence[tuple[int, Entry]]) -> int:
    return max((entry.tokens for _, entry in entries), default=0)


def _set_otherwise(comparison: Comparison) -> bool:
    return comparison.divergence is not None and comparison.divergence.what in ("model", "settings")


def _allowed(reset: str | None, divergence: Divergence | None) -> bool:
    """Whether a reset's reason speaks of the place where the prefix parts (law 5)."""
    if reset is None or divergence is None:
        return False
    place = divergence.what if divergence.what in ("model", "settings") else divergence.section
    return reset not in _SPEAKS_OF or place in _SPEAKS_OF[reset]


def _scale(expectation: Expectation, usage: Usage) -> float:
    """The provider's tokens for one of ours: this request's own, counted by both."""
    ours = expectation.outcome.prompt.tokens
    return usage.prompt / ours if ours and usage.prompt else 1.0


def _dollars(lost: int, usage: Usage, rates: Rates | None) -> Decimal:
    """What the lost tokens were billed beyond the price of a read. They lie right behind what was read, so they are the
    first that were written, the longest lifetime first (A12), and then plain input; what was not sent costs nothing."""
    if rates is None:
        return Decimal(0)
    billed = sorted(((rates.write(ttl), tokens) for ttl, tokens in usage.writes), reverse=True)
    dollars, left = Decimal(0), lost
    with localcontext(_EXACT):
        for price, tokens in (*billed, (rates.input, usage.input)):
            dollars += min(left, tokens) * (price - rates.read)
            left -= min(left, tokens)
    return dollars
