"""What Holdfast's own agent does, opened by a program or in `holdfast chat`: tools, results, sub-agents, memory."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from holdfast.records import Request, Text
from holdfast.tools import tool
from tests.agent.bench import calls, obey
from tests.doors.checks_clients import FACT
from tests.doors.checks_prefix import NEVER, QUICK, lifetimes
from tests.doors.doors import Door, played
from tests.doors.sessions import BREAKABLE, Play, Played

GUIDE = "# Tools that write or execute"


@tool(effect="read")
async def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


LINES = "\n".join(f"line {number} of the notes" for number in range(400))
FILES = {f"notes{number}.txt": f"file {number}\n{LINES}" for number in range(2)}
READ = tuple(calls(("read_file", {"path": name})) for name in FILES)
PRINTED = calls(("run_command", {"command": "cat notes0.txt"}))
OFFLOADED, INLINE = (
    Play(turns=(PRINTED,), files=FILES, settings={"tools.offload.inline_chars": n}) for n in (500, 50_000)
)

MASKS = {"tools.mask.keep_window": 1, "tools.mask.trigger_chars": 12_000, "tools.mask.release_chars": 10_000}
BEHIND = "Between the two there is much else. " * 1_200
CLEARED, EDITLESS, UNMASKED = (
    Play(turns=(READ[0], BEHIND, READ[1], "Go on."), files=FILES, settings={**MASKS, **more}, pauses={3: 100_000.0})
    for more in ({}, {"cache.edits": "never"}, {"tools.mask.enabled": False})
)

TASKS = [{"task": f"Look at part {number}.", "role": "scout"} for number in range(3)]
DELEGATE = calls(("delegate", {"tasks": TASKS}))
OTHERS = {"anthropic": "claude-haiku-4-5", "openai": "gpt-6.1-terra", "gemini": "gemini-2.5-flash"}
PRIMED = Play(turns=("Hello.", DELEGATE))
KEYLESS = Play(turns=PRIMED.turns, settings={"cache.openai.cache_key": False})
BRIEF = Play(turns=PRIMED.turns, settings={"cache.strategy": "zones", "cache.adaptive": False})


def slowly(request: Request) -> object:
    """As `obey`, by a model that lets sub-agents wait for its first word."""
    said = " ".join(block.text for block in request.messages[-1].content if isinstance(block, Text))
    mine = "Look at part" in said and "tasks" not in said
    return {"say": "Done.", "first_token": 0.3} if mine else obey(request)


def _fan_out(hold: float) -> dict[str, Play]:
    return {
        provider: Play(
            turns=(DELEGATE,),
            reply=slowly,
            settings={"agents.scout.agent.model": f"{provider}:{model}", "agent.delegates.hold_s": hold},
        )
        for provider, model in OTHERS.items()
    }


STAGGERED, AT_ONCE = _fan_out(20.0), _fan_out(0.0)

FOUND = "knowledge_add"
SEARCH = calls(("discover_tools", {"query": f"select:{FOUND}"}))
SCHEMA = "additionalProperties"
"""A word that only a schema has."""
DECLARED = Play(turns=("Hello.", "Go on."), settings={"tools.deferral.mode": "never"})
DEFERRED, THROUGH_CALL, REDECLARED, STRIPPED_LATER, REDECLARED_STRIPPED_LATER = (
    Play(
        turns=("Hello.", SEARCH, "Go on."),
        settings={"tools.deferral.always": [FOUND], **more},
        pauses={2: 100_000.0},
    )
    for more in (
        {},
        {"tools.deferral.carrier": "call_tool"},
        {"tools.deferral.carrier": "redeclare"},
        {"tools.deferral.strip": "when_cold"},
        {"tools.deferral.carrier": "redeclare", "tools.deferral.strip": "when_cold"},
    )
)

SHORT_RULES = "Be brief."
PADDED, BARE = (Play(turns=QUICK[:2], system=SHORT_RULES, settings={"cache.padding": n}) for n in ("always", "off"))
RECALLED, UNASKED = (
    Play(
        turns=("When do we deploy, and who does it?", "Go on."),
        settings={"memory.retrieve_max": most},
        knowledge=(("When to deploy", FACT),),
    )
    for most in (5, 0)
)
NOTED = calls(("memory_add", {"file": "user", "text": "prefers short answers"}))
AT_TAIL, IN_SYSTEM = (
    Play(turns=(BEHIND, NOTED, "Go on."), settings={"agent.volatile": place, **BREAKABLE})
    for place in ("tail", "system")
)
SUMMARY = (
    "<summary>" + "Goal: to talk. Decisions: none. Files: none. Open tasks: none. Next step: go on. " * 4 + "</summary>"
)
LONG_TALK = tuple(f"Question {number}. " + "It matters a lot. " * 300 for number in range(8))


def summarising(request: Request) -> object:
    last = [block.text for block in request.messages[-1].content if isinstance(block, Text)]
    return SUMMARY if "summar" in " ".join(last).lower() else "Yes."


COMPACTED, WHOLE = (
    Play(
        turns=LONG_TALK,
        reply=summarising,
        settings={
            "agent.compaction.limit_tokens": limit,
            "agent.compaction.keep_recent_tokens": 500,
            "agent.compaction.anchor_turns": 1,
            "agent.compaction.reserve_tokens": 500,
        },
    )
    for limit in (15_000, NEVER)
)
WINDOWED = Play(turns=LONG_TALK, reply=summarising, settings={"agent.history_turns": 4})
WEATHER = {
    "mcp.servers.weather.command": sys.executable,
    "mcp.servers.weather.args": [str(Path(__file__).parent.parent / "cli" / "mcp_weather.py"), "place"],
}
SERVED, UNSERVED = (
    Play(turns=("Hello.",), settings={"tools.deferral.mode": "never", **more}) for more in (WEATHER, {})
)
DEMOTED, KEPT = (
    Play(
        turns=LONG_TALK,
        reply=summarising,
        tools=(weather,),
        settings={**COMPACTED.settings, **WEATHER, "tools.lifecycle.demote_after_turns": turns},
    )
    for turns in (1, NEVER)
)
GUIDED, UNGUIDED = (Play(turns=(PRINTED, PRINTED), files=FILES, settings={"tools.guides": on}) for on in (True, False))


def declared(session: Played, provider: str, index: int) -> dict[str, Any]:
    """The tools that a request declares in full, by name."""
    tools = session.asked[index].body["tools"]
    tools = tools[0]["functionDeclarations"] if provider == "gemini" else tools
    full = [each for each in tools if "name" in each and not each.get("defer_loading")]
    return {each["name"]: {key: value for key, value in each.items() if key != "cache_control"} for each in full}


def said(body: dict[str, Any]) -> str:
    """The messages of a request."""
    return json.dumps(body.get("messages") or body.get("input") or body.get("contents"))


def head(session: Played, provider: str, index: int) -> str:
    """The system text of a request, without markers."""
    value = session.asked[index].body[
        {"anthropic": "system", "openai": "instructions"}.get(provider, "systemInstruction")
    ]
    return "".join(each["text"] for each in value) if provider == "anthropic" else json.dumps(value)


def offloading(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, OFFLOADED), played(door, provider, INLINE)
    assert "line 399 of" in without.text()
    assert "line 200 of" not in with_it.text()
    assert with_it.told("tool.offloaded")
    assert not without.told("tool.offloaded")


def fence(door: Door, provider: str) -> None:
    """Nothing that is cached is edited; after a long pause old results are, unless edits are forbidden."""
    with_it, without = played(door, provider, CLEARED), played(door, provider, EDITLESS)
    planned = with_it.told("cache.planned")
    assert [plan.edits for plan in planned[:-1]] == [0] * (len(planned) - 1)
    assert planned[-1].edits > 0
    assert not any(plan.edits for plan in without.told("cache.planned"))
    assert len(with_it.text()) < len(without.text())


def masking(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, CLEARED), played(door, provider, UNMASKED)
    assert with_it.told("tool.masked")
    assert not without.told("tool.masked")
    assert "file 0" not in with_it.text()
    assert "file 0" in without.text()


def scouts(session: Played) -> list[int]:
    """The requests of sub-agents, by number."""
    texts = enumerate(said(sent.body) for sent in session.asked)
    return [number for number, text in texts if "Look at part" in text and "tasks" not in text]


def priming(door: Door, provider: str) -> None:
    session = played(door, provider, PRIMED)
    children = scouts(session)
    assert len(children) == len(TASKS)
    for child in children:
        assert declared(session, provider, child) == declared(session, provider, 1)
        assert head(session, provider, child) == head(session, provider, 1)
    assert max(session.used[child].read for child in children) > 5_000
    assert max(plan.predicted_read for plan in session.told("cache.planned") if "/scout/" in plan.lane) > 5_000


def cache_key(door: Door, provider: str) -> None:
    """Sub-agents have the key of their parent, whose entries they read."""
    with_it, without = played(door, provider, PRIMED), played(door, provider, KEYLESS)
    (key,) = {sent.body["prompt_cache_key"] for sent in with_it.asked}
    assert re.fullmatch("[0-9a-f]{40}", key)
    assert all("prompt_cache_key" not in sent.body for sent in without.asked)
    assert max(with_it.used[child].read for child in scouts(with_it)) > 5_000
    assert not with_it.told("cache.break")


def short_writes(door: Door, provider: str) -> None:
    session = played(door, provider, BRIEF)
    assert "1h" in lifetimes(session, 0)
    assert len(scouts(session)) == len(TASKS)
    assert all("1h" not in lifetimes(session, child) for child in scouts(session))


def staggering(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, STAGGERED[provider]), played(door, provider, AT_ONCE[provider])
    cold = [sum(session.used[child].read < 1_000 for child in scouts(session)) for session in (with_it, without)]
    assert cold == [1, len(TASKS)]
    assert len(with_it.told("delegate.started")) == len(TASKS)


def deferral(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, DEFERRED), played(door, provider, DECLARED)
    assert FOUND not in declared(with_it, provider, 0)
    assert FOUND in declared(without, provider, 0)
    assert with_it.told("tool.deferred")
    assert with_it.told("tool.discovered")
    assert not without.told("tool.deferred")


def carriers(door: Door, provider: str) -> None:
    """By the provider's own means where it has some, else, or if that is set, through `call_tool`."""
    own, by_call = played(door, provider, DEFERRED), played(door, provider, THROUGH_CALL)
    assert "call_tool" in declared(by_call, provider, 0)
    if provider == "gemini":
        assert "call_tool" in declared(own, provider, 0)
        return
    assert "call_tool" not in declared(own, provider, 0)
    native = {"anthropic": "tool_reference", "openai": "additional_tools"}[provider]
    assert native in own.text()
    assert native not in by_call.text()


def redeclaring(door: Door, provider: str) -> None:
    session = played(door, provider, REDECLARED)
    assert FOUND not in declared(session, provider, 0)
    assert FOUND in declared(session, provider, -1)
    resets = {each.reason for each in session.told("cache.reset")}
    assert "tools_redeclared" in resets | {each.reset for each in session.told("window.sent")}


def stripping(door: Door, provider: str) -> None:
    """With `at_once` the answer of discovery is short from the beginning, with `when_cold` after a long pause. Claude's
    own answers hold references and Gemini has `call_tool`: there it acts where found tools are declared anew."""
    if provider != "openai":
        at_once, when_cold = (played(door, provider, each) for each in (REDECLARED, REDECLARED_STRIPPED_LATER))
        assert ["<functions>" in said(sent.body) for sent in at_once.asked[2:]] == [False, False]
        assert ["<functions>" in said(sent.body) for sent in when_cold.asked[2:]] == [True, False]
        assert when_cold.told("cache.planned")[-1].edits
        return
    at_once, when_cold = played(door, provider, DEFERRED), played(door, provider, STRIPPED_LATER)
    assert [said(sent.body).count(SCHEMA) for sent in at_once.asked[2:]] == [1, 1]  # where it is declared
    assert [said(sent.body).count(SCHEMA) for sent in when_cold.asked[2:]] == [2, 1]
    assert when_cold.told("cache.planned")[-1].edits


def padding(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, PADDED), played(door, provider, BARE)
    assert len(head(with_it, provider, 0)) > len(head(without, provider, 0)) + 2_000


def surfacing(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, RECALLED), played(door, provider, UNASKED)
    assert FACT in with_it.text(0)
    assert FACT not in without.text(0)
    assert with_it.told("memory.surfaced")


def volatile(door: Door, provider: str) -> None:
    tail, system = played(door, provider, AT_TAIL), played(door, provider, IN_SYSTEM)
    assert head(tail, provider, -1) == head(tail, provider, 0)
    assert "prefers short answers" in head(system, provider, -1)
    assert "volatile_system_changed" in [each.reason for each in system.told("cache.reset")]
    assert not tail.told("cache.reset")


def compaction(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, COMPACTED), played(door, provider, WHOLE)
    assert with_it.told("compaction.completed")
    assert not without.told("compaction.completed")
    assert len(with_it.text()) < len(without.text())
    assert "compaction" in [each.reason for each in with_it.told("cache.reset")]


def history(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, WINDOWED), played(door, provider, WHOLE)
    assert "Question 1." not in with_it.text()
    assert "Question 1." in without.text()
    assert "history_trimmed" in [each.reason for each in with_it.told("cache.reset")]


def demotion(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, DEMOTED), played(door, provider, KEPT)
    assert with_it.told("tool.demoted")
    assert not without.told("tool.demoted")
    assert set(declared(without, provider, -1)) - set(declared(with_it, provider, -1))


def served(door: Door, provider: str) -> None:
    """What an MCP server offers is declared."""
    with_it, without = played(door, provider, SERVED), played(door, provider, UNSERVED)
    more = set(declared(with_it, provider, 0)) - set(declared(without, provider, 0))
    assert "mcp__weather__get_forecast" in more


def guides(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, GUIDED), played(door, provider, UNGUIDED)
    assert with_it.text().count(GUIDE) == 1
    assert GUIDE not in without.text()
    assert with_it.told("guide.delivered")
    assert not without.told("guide.delivered")


THOUGHT, USUAL = (Play(turns=QUICK[:1], settings=settings) for settings in ({"agent.effort": "low"}, {}))


def effort(door: Door, provider: str) -> None:
    with_it, without = played(door, provider, THOUGHT), played(door, provider, USUAL)
    word = {"anthropic": "effort", "openai": "effort", "gemini": "thinkingConfig"}[provider]
    members = [
        json.dumps({key: value for key, value in session.last.items() if key not in BULK})
        for session in (with_it, without)
    ]
    assert word in members[0]
    assert members[0] != members[1]


BULK = ("messages", "input", "contents", "system", "instructions", "systemInstruction", "tools")
