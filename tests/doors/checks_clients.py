"""What acts on the requests of other people's clients: repairs, memory, pre-flight, pings, cached contents."""

from __future__ import annotations

import json
from typing import Any

from tests.doors.checks_prefix import PLAIN, QUICK, TALK, lifetimes
from tests.doors.doors import Door, played
from tests.doors.sessions import LONG, Play, Played

CLOCK = "Current time: 2026-11-02T09:{:02d}:00Z\n\n"
TOLD_TIME, ASKED_TIME = (
    Play(
        turns=QUICK,
        settings={"cache.repair": mode},
        client_system=lambda turn: CLOCK.format(turn) + LONG,
    )
    for mode in ("on", "off")
)
NAMES = ("read_notes", "write_notes", "find_notes")
ORDERED, SHUFFLED = (
    Play(
        turns=QUICK,
        settings={"cache.repair": mode},
        client_tools=lambda turn: NAMES[turn % 3 :] + NAMES[: turn % 3],
    )
    for mode in ("suggest", "off")
)
KEYS_KEPT, KEYS_SHUFFLED = (
    Play(turns=QUICK, settings={"cache.repair": mode}, client_shuffles_keys=True) for mode in ("suggest", "off")
)
FACT = "Deployments are made on Thursdays, by the night shift."
INJECTED, FORGOTTEN = (
    Play(
        turns=("When do we deploy, and who does it?", *QUICK[1:]),
        settings={"memory.inject": inject, "memory.inject_as": "local"},
        knowledge=(("When to deploy", FACT),),
    )
    for inject in (True, False)
)
WARNED = Play(turns=QUICK, settings={"gateway.preflight_usd": 0.000001})
FREQUENT = Play(turns=TALK, settings={"cache.gemini.enabled": True}, gap=30.0)
RARE = Play(turns=TALK, gap=30.0)
VISITS = tuple(f"Visit {number}." for number in range(13))
PAUSES = dict.fromkeys(range(1, 13), 420.0)
PINGED, SILENT = (
    Play(turns=VISITS, settings={"cache.keepalive.enabled": enabled, "cache.strategy": "rolling"}, pauses=PAUSES)
    for enabled in (True, False)
)
TEXTS = {"anthropic": "system", "openai": "input", "gemini": "systemInstruction"}


def head(session: Played, provider: str, index: int) -> str:
    """The system text of a request, as it was written."""
    value: Any = session.asked[index].body[TEXTS[provider]]
    first = value[0]["content"] if provider == "openai" else value
    return json.dumps(first).replace(', "cache_control": {"type": "ephemeral", "ttl": "1h"}', "")


def names(session: Played, provider: str, index: int) -> list[str]:
    tools = session.asked[index].body["tools"]
    return [each["name"] for each in (tools[0]["functionDeclarations"] if provider == "gemini" else tools)]


def repairs(session: Played, index: int) -> set[str]:
    """What was repaired, as its event says."""
    return {name for name, _, _, made in session.told("cache.planned")[index].repairs if made}


def shuffled_part(body: dict[str, Any], provider: str) -> dict[str, Any]:
    """The first object of the history whose keys the client shuffles."""
    found: dict[str, Any]
    if provider == "gemini":
        found = body["contents"][1]["parts"][0]["functionCall"]["args"]
    elif provider == "openai":
        found = body["input"][1]["content"][0]
    else:
        found = body["messages"][0]["content"][0]
    return found


def clock_repair(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, TOLD_TIME), played(door, provider, ASKED_TIME)
    assert "09:00:00" in head(with_it, provider, -1)
    assert "09:03:00" in with_it.text()  # it is said behind all else
    assert "09:03:00" in head(without, provider, -1)
    assert "volatile-value" in repairs(with_it, -1)
    assert "volatile-value" in with_it.shown
    assert "x-holdfast-repairs" not in without.shown


def tool_order(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, ORDERED), played(door, provider, SHUFFLED)
    assert names(with_it, provider, 1) == names(with_it, provider, 0) == list(NAMES)
    assert names(without, provider, 1) == [*NAMES[1:], NAMES[0]]
    assert "tool-order" in repairs(with_it, 1)
    assert "tool-order" in with_it.shown


def key_order(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, KEYS_KEPT), played(door, provider, KEYS_SHUFFLED)
    kept, shuffled = (
        [list(shuffled_part(sent.body, provider)) for sent in session.asked[2:]] for session in (with_it, without)
    )
    assert kept[0][:2] == kept[1][:2]
    assert shuffled[0][:2] == list(reversed(shuffled[1][:2]))
    assert "key-order" in repairs(with_it, -1)
    assert "key-order" in with_it.shown


def injection(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, INJECTED), played(door, provider, FORGOTTEN)
    assert FACT in with_it.text()
    assert FACT not in without.text()
    assert with_it.told("memory.surfaced")
    assert "x-holdfast-memory" in with_it.shown


def preflight(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, WARNED), played(door, provider, PLAIN)
    assert [each.action for each in with_it.told("gateway.preflight")] == ["warned"] * len(QUICK)
    assert "x-holdfast-warning" in with_it.shown
    assert not without.told("gateway.preflight")


def pings(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, PINGED), played(door, provider, SILENT)
    assert with_it.told("cache.ping")
    assert len(with_it.asked) > len(without.asked) == len(VISITS)
    assert with_it.used[-1].read > without.used[-1].read


def contents(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, FREQUENT), played(door, provider, RARE)
    assert [sent.method for sent in with_it.beside if sent.path.endswith("/cachedContents")][:1] == ["POST"]
    assert "cachedContent" in with_it.last
    assert not without.beside
    assert "cachedContent" not in without.last


NAMED = {"x-claude-code-session-id": "doors"}
ALONE, HELPER = (
    Play(
        turns=QUICK,
        settings={"cache.strategy": "zones", "cache.adaptive": False},
        client_headers={**NAMED, **more},
    )
    for more in ({}, {"x-claude-code-agent-id": "scout"})
)


def short_writes(door: Door, provider: str) -> None:
    """A sub-agent that its client names as one."""
    alone, helper = played(door, provider, ALONE), played(door, provider, HELPER)
    assert "1h" in lifetimes(alone)
    assert set(lifetimes(helper)) == {"5m"}
