"""The advice for a break known only by its usage, and the first part of a cure's sentence.

Simple causes have the plain cures of the core; a pause gets the figures of its session. Without the advice at their
end, several sentences of one kind can be joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from msgspec.structs import replace

from holdfast.core import Finding
from holdfast.core.cures import IMPROVE as IMPROVE
from holdfast.core.cures import MANAGE as MANAGE
from holdfast.core.cures import Cure, case, cure_for
from holdfast.facts import ModelFacts
from holdfast.records import BREAK_CAUSES, CAUSES, BreakCause

from .prices import DATED, ZERO
from .results import BreakFinding, OtherTtl

SENTENCES = 3
"""The number of sentences shown for one cure."""

_END = re.compile(r"[:.](?: |\Z)| and everything behind ").match
_PLACE = re.compile(r"\S*\[\d+\][^\s:;,)]*")
_NUMBER = re.compile(r"(?<![\w-])\d[\d,]*(?![\w-])")

CATALOGUE = "More on each by its name in Holdfast's docs/cures."


def happened(sentence: str) -> str:
    """Up to what followed from it, or the colon or full stop behind which the advice begins; those in parentheses name
    something."""
    depth = 0
    for at, char in enumerate(sentence):
        depth += (char == "(") - (char == ")")
        if depth <= 0 and _END(sentence, at) is not None:
            return sentence[:at]
    return sentence


def kind(sentence: str) -> str:
    """What is the same of sentences that differ only in a place or a number."""
    return _NUMBER.sub("0", _PLACE.sub("", happened(sentence)))


def others(first: str, sentences: Iterable[str]) -> tuple[str, ...]:
    """What further sentences of the same cure name beside the first, each thing once."""
    by_kind: dict[str, str] = {}
    first_kind = kind(first)
    for sentence in sentences:
        if sentence and len(by_kind) + 1 < SENTENCES and (sentence_kind := kind(sentence)) != first_kind:
            by_kind.setdefault(sentence_kind, happened(sentence))
    return tuple(by_kind.values())


def with_others(first: str, also: Iterable[str]) -> str:
    """A sentence and what else there was of its kind."""
    more = "; ".join(also)
    return f"{first} Also: {more}." if more else first


def by_setting(setting: str, shown: str = "") -> str:
    """Return who does it with a setting: settings other than the cache's belong to Holdfast's own agent."""
    who = "The gateway" if setting.startswith("cache.") else "Holdfast's own agent"
    return f"{who} does it by itself: {shown or setting}."


SHORT_EXPIRY = "ttl_expired_5m"
HEAD = "system_prompt_changed"
NO_MARKER = "no_marker"
NO_CURE = frozenset(name for name in BREAK_CAUSES if CAUSES[name].fault in ("provider", "nobody"))
"""Causes that nobody is advised to change anything for: they are not counted among the cures."""

_TOLD = "Usage alone does not say which block; `holdfast run -- CLIENT` compares the bytes and names it."
CURES: dict[str, str] = {
    "messages_rewritten": (
        "The read fell back to the tools and system text while the entry was alive, so messages that had been sent "
        f"were changed or left out: leave them as they are and append what is new. {_TOLD}"
    ),
    "system_prompt_changed": (
        "The read fell below the tools and system text that the lane had in common with others, so one of them "
        "changed: keep both fixed for the session and send what changes in the newest user message. " + _TOLD
    ),
    "unknown": (
        "Nothing was read although the entry should have lived: the first tool or the beginning of the system text "
        "changed, a setting that the whole prefix depends on changed, or the provider lost the entry. Usage alone "
        "cannot tell these apart; `holdfast run -- CLIENT` compares the bytes and can."
    ),
    SHORT_EXPIRY: "The pause was longer than the five minutes the entry lives.",
}


_BYTES = "`holdfast run -- CLIENT` compares the bytes and names it."
_EVERY_TURN = (
    "Nothing was read at {count} of {asked} first requests after a user's message although the entry lived, and what "
    "came after tools was read: likely something in the tools or the system text is made anew for every message, such "
    "as the time, git status or the working directory. Send it in the newest user message. " + _BYTES
)
_STARTED = (
    "Nothing was read at the first request after a user's message although the entry lived, and what came after tools "
    "was read: likely the client was started anew, or its settings were changed, and its system text holds something "
    "of the start, such as date and time, git status or the working directory. Leave it running, and keep what changes "
    "out of the system text. " + _BYTES
)
_PI_DATED = datetime(2026, 4, 1, tzinfo=UTC).timestamp()
"""From then on pi's system text has the date without the time (its issues 1873 and 2131)."""
_PI_CLOCK = (
    "pi up to March 2026 writes the time into its system text at every start, /reload and --continue: a newer one "
    "writes the date alone. "
)


def at_the_head(break_: BreakFinding, count: int, turns: int, client: str) -> BreakFinding:
    """Return a break that read nothing at the first request after a user's message, one of `count` in a lane with
    `turns` such requests: likely the head changed, with every message or when the client was restarted."""
    opening = _EVERY_TURN if count > 1 and 2 * count >= turns else _STARTED
    dated = break_.at is not None and DATED <= break_.at < _PI_DATED
    hint = _PI_CLOCK if client == "pi" and dated else ""
    advice = hint + opening.format(count=count, asked=turns)
    return replace(break_, cause=HEAD, cure=HEAD, advice=advice, setting=None)


@lru_cache(maxsize=1024)
def plain(cause: BreakCause, model: ModelFacts) -> Cure:
    """The cure of a cause where nothing more is known."""
    if cause in CURES:
        return Cure(cause, CURES[cause])
    finding = Finding(cause=cause, reason=None, tokens=0, dollars=ZERO, expected=0, read=0)
    return cure_for(case(finding, model))


def with_figures(break_: BreakFinding, ttl: OtherTtl | None) -> BreakFinding:
    """A pause with what the hour would have cost in this session."""
    if break_.cause != SHORT_EXPIRY or break_.evidence != "usage" or ttl is None:
        return break_
    if ttl.all_1h >= ttl.as_billed:
        comparison = f"an hour for all of it would have cost this session {_dollars(ttl.all_1h)} instead of"
        advice = f"{CURES[SHORT_EXPIRY]} But {comparison} {_dollars(ttl.as_billed)}: nothing to change."
        return replace(break_, advice=advice)
    advice = (
        f"{CURES[SHORT_EXPIRY]} Written for an hour, this session would have cost {_dollars(ttl.all_1h)} instead of "
        f"{_dollars(ttl.as_billed)}: choose the one-hour lifetime where pauses like this are common."
    )
    return replace(break_, advice=advice, setting=MANAGE)


def markers_for(requests: int, saved: Decimal) -> str:
    """The cure of requests that never asked for a cache."""
    which = "1 request" if requests == 1 else f"{requests:,} requests"
    return (
        f"{which} neither wrote nor read a cache, as without a marker (or the log leaves the cache out): mark the last "
        f"block of every request, or send a top-level cache_control. That would have saved up to {_dollars(saved)}, if "
        "each begins with the one before."
    )


def hour_for(sessions: int, saved: Decimal) -> str:
    """The cure of pauses over all sessions."""
    where = "1 session" if sessions == 1 else f"{sessions:,} sessions"
    return (
        f"Pauses outlived the five-minute entries: in {where} the one-hour lifetime would have been cheaper, by "
        f"{_dollars(saved)} in all."
    )


def _dollars(value: Decimal) -> str:
    places = Decimal("0.01") if abs(value) >= 1 else Decimal("0.0001")
    return f"${value.quantize(places, ROUND_HALF_UP):,}"
