"""Adaptive retention of the zones strategy (document C): how long a lane's entries are asked to live, and why.

A pure projection of settled turns. Begins short, becomes long once reads have confirmed that the prefix is used, is
held short while the prefix is unstable or entries are evicted. Knows neither markers nor prices.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from holdfast.caches import Mark
from holdfast.config.sections import CacheSettings
from holdfast.config.sections import Retention as Lifetime
from holdfast.facts import ModelFacts

from .plan import SettledCall

SLOW_GAPS = 3
"""Gaps in a row above the short lifetime that make a lane slow."""

Zone = Literal["older", "recent"]
TTLS: dict[Lifetime, str] = {"short": "5m", "long": "1h"}
"""Anthropic's names for the lifetimes."""

_SHORT_SECONDS = 300  # five minutes, for models that have no such TTL
_vendor = re.compile(r"[/.](?=[a-z])").finditer


class Retention(Struct, frozen=True):
    """What a lane's settled turns have shown so far.

    `reads` counts turns with confirmed reads since the escalation last began anew; `large`: the first write was a large
    one; `flat`: turns in a row that read no more than the system baseline; `unstable`: held short until a turn reads
    more; `cooldown`: turns for which it stays short after an eviction; `slow`: gaps in a row above the short lifetime.
    """

    turns: int = 0
    reads: int = 0
    large: bool = False
    flat: int = 0
    unstable: bool = False
    cooldown: int = 0
    slow: int = 0


class Lifetimes(Struct, frozen=True):
    """What the zones ask for: `older` are tools, system text and older messages, `recent` the last turns."""

    older: Lifetime
    recent: Lifetime


_NONE, _SHORT = Lifetimes("none", "none"), Lifetimes("short", "short")
_LONG, _MIXED = Lifetimes("long", "long"), Lifetimes("long", "short")


class RetentionChange(Struct, frozen=True):
    """A change of a zone's lifetime."""

    zone: Zone
    before: Lifetime
    after: Lifetime
    why: str


def observe(state: Retention, turn: SettledCall, settings: CacheSettings, model: ModelFacts) -> Retention:
    """The state after one more settled turn."""
    stable = turn.read > turn.baseline
    # A turn that had nothing beyond the baseline to read (the first one, a fork) is no evidence of instability.
    flat = 0 if stable else state.flat + (turn.expected > turn.baseline)
    unstable = not stable and (state.unstable or flat >= settings.unstable_after_turns)
    anew = unstable or state.unstable or turn.evicted  # the turn that ends the instability does not count either
    first_is_large = state.turns == 0 and turn.written > settings.escalate_first_write_tokens
    return Retention(
        turns=state.turns + 1,
        reads=0 if anew else state.reads + (turn.read > 0),
        large=not anew and (state.large or first_is_large),
        flat=flat,
        unstable=unstable,
        cooldown=settings.cooldown_turns if turn.evicted else max(0, state.cooldown - 1),
        slow=_slow(state.slow, turn, model),
    )


def _slow(before: int, turn: SettledCall, model: ModelFacts) -> int:
    """Count slow requests after a user's message; those inside a tool loop follow within seconds on any channel."""
    if turn.gap is None or turn.kind != "user":
        return before
    return before + 1 if turn.gap > (model.ttl_seconds(TTLS["short"]) or _SHORT_SECONDS) else 0


def is_slow(state: Retention) -> bool:
    return state.slow >= SLOW_GAPS


def lifetimes(state: Retention, settings: CacheSettings, model: ModelFacts, *, subagent: bool = False) -> Lifetimes:
    """What the next request's zones ask for. A sub-agent is gone before a long entry would pay: always short."""
    base = override(settings, model) or settings.retention
    if base == "none":
        return _NONE
    if subagent or base == "short":
        return _SHORT
    if not settings.adaptive:
        return _LONG
    confirmed, slow = _lifetime_state(state, settings)
    if not confirmed:
        return _SHORT
    return _LONG if settings.promote_recent_zone and slow else _MIXED


def _lifetime_state(state: Retention, settings: CacheSettings) -> tuple[bool, bool]:
    """Return what lifetimes depend on: whether reads are confirmed without objections, and whether it is slow."""
    confirmed = state.large or state.reads >= settings.escalate_after_reads
    return confirmed and not state.unstable and not state.cooldown, state.slow >= SLOW_GAPS


def changes(
    before: Retention, after: Retention, settings: CacheSettings, model: ModelFacts, *, subagent: bool = False
) -> tuple[RetentionChange, ...]:
    """Return the changes of a settled turn for the event."""
    if _lifetime_state(before, settings) == _lifetime_state(after, settings):
        return ()
    old = lifetimes(before, settings, model, subagent=subagent)
    new = lifetimes(after, settings, model, subagent=subagent)
    if old is new:
        return ()
    changes_made = []
    if old.older != new.older:
        changes_made.append(RetentionChange("older", old.older, new.older, _why(after, settings)))
    if old.recent != new.recent:
        slow = f"the last {SLOW_GAPS} gaps were longer than the short lifetime"
        why = slow if new.recent == "long" else _why(after, settings) if old.older != new.older else "turns come faster"
        changes_made.append(RetentionChange("recent", old.recent, new.recent, why))
    return tuple(changes_made)


def _why(after: Retention, settings: CacheSettings) -> str:
    if after.cooldown:
        return f"an entry that should have lived was not read: short for {after.cooldown} turns"
    if after.unstable:
        return f"{after.flat} turns in a row read no more than the system baseline"
    if after.reads >= settings.escalate_after_reads:
        return f"{after.reads} turns with confirmed reads"
    return f"the first turn wrote more than {settings.escalate_first_write_tokens} tokens"


def override(settings: CacheSettings, model: ModelFacts) -> Lifetime | None:
    """The retention set for this model: of the prefixes that fit its name, with or without provider and vendor, the
    longest. None at all for a route that is said never to cache."""
    if model.provider == "openrouter" and settings.openrouter.caching == "never":
        return "none"
    if not settings.retention_overrides:
        return None
    names = [_spelled(model.ref)]
    names += [_spelled(model.name[at:]) for at in (0, *(match.end() for match in _vendor(model.name)))]
    fitting = [prefix for prefix in settings.retention_overrides if any(n.startswith(_spelled(prefix)) for n in names)]
    return settings.retention_overrides[max(fitting, key=len)] if fitting else None


def marks_nothing(settings: CacheSettings, model: ModelFacts) -> bool:
    """Whether no marker of ours is set for this model."""
    general = settings.retention if settings.strategy == "zones" else None
    return settings.strategy == "passthrough" or (override(settings, model) or general) == "none"


def lasting(pinned: tuple[Mark, ...], settings: CacheSettings, model: ModelFacts) -> tuple[Mark, ...]:
    """Pinned markers with the lifetime that is set for this model, if one is."""
    fixed = override(settings, model) if pinned else None
    if fixed is None:
        return pinned
    return () if fixed == "none" else tuple(Mark(mark.block, TTLS[fixed]) for mark in pinned)


def _spelled(name: str) -> str:
    """Facts write versions with dashes; people also write claude-sonnet-4.5."""
    return name.lower().replace(".", "-")
