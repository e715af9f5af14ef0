"""What acts on every request, whoever makes it: lifetimes, markers, breaks, reports, the bill.

A check plays a session with its mechanism and one without, through one door, and fails unless they differ in what the
mechanism is there for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tests.doors.doors import Door, played
from tests.doors.sessions import BREAKABLE, LONG, Play, Played

NEVER = 1_000_000_000
TALK = tuple(f"Question {number}: what else is there to be said about it?" for number in range(9))
QUICK = TALK[:4]
PLAIN = Play(turns=QUICK)


def zones(turns: tuple[str, ...] = QUICK, **settings: Any) -> Play:
    """A session with the strategy `zones` in which nothing lengthens a lifetime, but for what is set."""
    usual = {"strategy": "zones", "escalate_after_reads": NEVER, "escalate_first_write_tokens": NEVER}
    return Play(turns=turns, settings={f"cache.{key}": value for key, value in (usual | settings).items()})


SHORT = zones()
CONFIRMED = zones(escalate_after_reads=2)
LARGE = zones(escalate_first_write_tokens=1_000)
FLAT = Play(
    turns=TALK,
    settings={"cache.strategy": "zones", "cache.escalate_after_reads": 1, "cache.unstable_after_turns": 2},
    client_rewrites=lambda turn: f"Since turn {max(turn, 2)}: " + "it goes on. " * 200,
)
ROUGH = Play(
    turns=TALK, settings={**FLAT.settings, "cache.unstable_after_turns": NEVER}, client_rewrites=FLAT.client_rewrites
)
ONE_ZONE, THREE_ZONES = zones(TALK), zones(TALK, placement="multi-zone")
UNMARKED = Play(turns=QUICK, settings={"cache.strategy": "passthrough"})
LOST = Play(turns=QUICK, settings=BREAKABLE, losses=(3,), commands=("breaks --json", "bill --json"))
UNSEEN = Play(
    turns=QUICK,
    settings={"cache.breaks.min_tokens": NEVER, "cache.breaks.keep": 0},
    losses=(3,),
    commands=("breaks --json",),
)
UNREPORTED = Play(turns=QUICK, settings={**BREAKABLE, "cache.breaks.keep": 0}, losses=(3,))
STORED = Play(turns=QUICK[:2], settings={"cache.openai.store_completions": True})
OWN_MARKER = {"system": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]}
MANAGED, RESPECTED = (
    replace(zones(client_markers=mode, adaptive=False), client_members=lambda _: OWN_MARKER)
    for mode in ("manage", "respect")
)
KEYED, REKEYED = (
    Play(
        turns=QUICK,
        settings=BREAKABLE,
        client_members=lambda turn, key=key: {"prompt_cache_key": key.format(turn // 3)},  # type: ignore[misc]
    )
    for key in ("team", "team-{}")
)


def lifetimes(session: Played, index: int = -1) -> list[str]:
    """The lifetime of each marker of a request."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, Mapping):
            marker = value.get("cache_control")
            found.extend([marker.get("ttl", "5m")] if isinstance(marker, dict) else [])
            for each in value.values():
                look(each)
        elif isinstance(value, list):
            for each in value:
                look(each)

    look(session.asked[index].body)
    return found


def escalation(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, CONFIRMED), played(door, provider, SHORT)
    assert "1h" not in lifetimes(with_it, 0)
    assert "1h" in lifetimes(with_it)
    assert "1h" not in lifetimes(without)
    assert with_it.told("cache.retention_changed")
    assert not without.told("cache.retention_changed")


def fast_escalation(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, LARGE), played(door, provider, SHORT)
    assert "1h" in lifetimes(with_it, 1)
    assert "1h" not in lifetimes(without, 1)
    assert with_it.told("cache.retention_changed")


def instability(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, FLAT), played(door, provider, ROUGH)
    assert "1h" in lifetimes(with_it, 2)
    assert "1h" not in lifetimes(with_it)
    assert "1h" in lifetimes(without)
    assert {change.after for change in with_it.told("cache.retention_changed")} == {"long", "short"}


def placement(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, THREE_ZONES), played(door, provider, ONE_ZONE)
    assert len(lifetimes(with_it)) > len(lifetimes(without)) > 0
    assert len(with_it.told("cache.planned")[-1].markers) > len(without.told("cache.planned")[-1].markers)


def markers(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, PLAIN), played(door, provider, UNMARKED)
    assert lifetimes(with_it)
    assert not lifetimes(without)
    assert with_it.used[-1].read > 1_000 > without.used[-1].read == 0
    assert with_it.told("cache.planned")[-1].markers


def client_markers(door: Door, provider: str) -> None:
    """The client marks its system text for five minutes; ours would be an hour."""
    managed, respected = played(door, provider, MANAGED), played(door, provider, RESPECTED)
    assert managed.last["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert respected.last["system"][0]["cache_control"] == {"type": "ephemeral"}


def breakpoints(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, PLAIN), played(door, provider, UNMARKED)
    assert "prompt_cache_breakpoint" in with_it.text()
    assert "prompt_cache_breakpoint" not in without.text()
    assert with_it.told("cache.planned")[-1].markers


def detection(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, LOST), played(door, provider, UNSEEN)
    (told,) = with_it.told("cache.break")
    assert told.cause == "likely_server_side"
    assert not without.told("cache.break")
    assert len(with_it.told("cache.verdict")) == len(QUICK)
    assert json.loads(with_it.outputs["breaks --json"])["breaks"]
    assert not json.loads(without.outputs["breaks --json"])["breaks"]


def reports(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, LOST), played(door, provider, UNREPORTED)
    (line,) = with_it.reports
    assert json.loads(line)["cause"] == "likely_server_side"
    assert without.told("cache.break")
    assert not without.reports


def stored_completions(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, STORED), played(door, provider, PLAIN)
    assert with_it.last["store"] is True
    assert not without.last.get("store")


def bill(door: Door, provider: str) -> None:
    session = played(door, provider, LOST)
    total = json.loads(session.outputs["bill --json"])["total"]
    assert total["calls"] == len(QUICK)
    assert float(total["cost"]) > 0
    assert total["cached_tokens"] == sum(used.read for used in session.used) > 0


def cache_key(door: Door, provider: str) -> None:
    """A client that changes its `prompt_cache_key` reads nothing any more, and hears why."""
    kept, changed = played(door, provider, KEYED), played(door, provider, REKEYED)
    assert not kept.told("cache.break")
    (told,) = changed.told("cache.break")
    assert (told.cause, told.path) == ("parameters_changed", "prompt_cache_key")
