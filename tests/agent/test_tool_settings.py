"""Through `open_agent`: every section of `tools` in holdfast.toml acts in an agent's sessions, for all and for one.

Each case is one key, what a session is asked, and what is seen in its last request: another thing with the key than
without it. A session that ignores the section shows the same both times.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.agent import open_agent
from holdfast.agent.contract import Task
from holdfast.agent.session import Session
from holdfast.records import Request
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.script import Script
from holdfast.tools.contract import Tool, ToolContext, ToolOutput
from holdfast.tools.masking import PLACEHOLDER
from holdfast.tools.offload import PREFIX
from holdfast.wire import DIALECTS
from tests.agent.bench import START
from tests.agent.toolbench import answers, declared, in_steps, says, steps

MODEL = "anthropic:claude-sonnet-5-5"
LONG = "0123456789" * 300
COLD_S = 7_200.0
AGENT = "special"


async def _long(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content=f"{LONG}{input.get('city', '')}")


async def _slow(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    await asyncio.sleep(0.4)
    return ToolOutput(content="done")


TOOLS = (
    says("weather", words=200),
    says("post", effect="write"),
    Tool(name="long", description="Say much.", run=_long, effect="read"),
    Tool(name="slow", description="Take a while.", run=_slow, effect="read"),
)


class Case(msgspec.Struct, frozen=True):
    """`key` of `tools` with `value`: the conversation then shows `seen`, which it does not without. `beside` are keys
    that hold both times; after the last message the user is away for `pause` seconds and says one thing more."""

    key: str
    value: Any
    said: tuple[str, ...]
    seen: Callable[[Request], bool]
    beside: dict[str, Any] = {}
    pause: float = 0.0


def one(tool: str, **given: Any) -> tuple[str, ...]:
    return (steps([(tool, given)]),)


def run(command: str, **given: Any) -> tuple[str, ...]:
    return one("run_command", command=command, **given)


def last(holds: str, *, start: bool = False) -> Callable[[Request], bool]:
    return lambda request: answers(request)[-1].startswith(holds) if start else holds in answers(request)[-1]


def lacks(holds: str) -> Callable[[Request], bool]:
    return lambda request: holds not in answers(request)[-1]


def defers(request: Request) -> bool:
    return "weather" not in declared(request)


def declares(request: Request) -> bool:
    return "weather" in declared(request)


ALWAYS = {"deferral.mode": "always"}
FIND = steps([("discover_tools", {"query": "select:weather"})])
ALLOW = {"confirm.mode": "allow"}
MASKING = {"mask.trigger_chars": 6_000, "mask.release_chars": 0, "mask.keep_window": 1}
MUCH = tuple(steps([("long", {"city": str(number)})]) for number in range(3))


def cleared(request: Request) -> bool:
    return answers(request)[0].startswith(PLACEHOLDER)


def left(length: int) -> Callable[[Request], bool]:
    """So many characters of the result are left at its beginning, or at its end."""
    return lambda request: (
        ("0123456789" * 200)[:length] in answers(request)[-1] and LONG[: length + 1] not in answers(request)[-1]
    )


CASES = [
    Case("timeout_s", 0.05, one("slow"), last("took more than 0.05 seconds")),
    Case("offload.max_result_chars", 500, one("long"), last(PREFIX, start=True)),
    Case("offload.inline_chars", 500, one("long"), last(PREFIX, start=True)),
    Case("offload.hard_cap_chars", 500, one("long"), last(PREFIX, start=True)),
    Case("offload.per_tool", {"long": 500}, one("long"), last(PREFIX, start=True)),
    Case("offload.read_chars", 500, one("read_file", path="long.txt"), lacks(LONG)),
    Case("offload.head_chars", 43, one("long"), left(43), {"offload.inline_chars": 500, "offload.tail_chars": 10}),
    Case(
        "offload.tail_chars",
        7,
        one("long", city="the end of it"),
        lacks("the end of it"),
        {"offload.inline_chars": 500},
    ),
    Case("deferral.mode", "always", ("hello",), defers),
    Case("deferral.mode", "never", ("hello",), declares, {"deferral.budget": 0.0001}),
    Case("deferral.budget", 0.0001, ("hello",), defers),
    Case("deferral.never", ["weather"], ("hello",), declares, ALWAYS),
    Case("deferral.always", ["weath*"], ("hello",), defers),
    Case("deferral.carrier", "redeclare", (FIND,), declares, ALWAYS),
    Case(
        "deferral.strip",
        "when_cold",
        (FIND,),
        last("<functions>", start=True),
        ALWAYS | {"deferral.carrier": "redeclare"},
    ),
    Case("lifecycle.demote_after_turns", 2, ("one", "two"), defers, pause=COLD_S),
    Case("lifecycle.enabled", False, ("one", "two"), declares, {"lifecycle.demote_after_turns": 2}, pause=COLD_S),
    Case("mask.trigger_chars", 6_000, MUCH, cleared, MASKING, pause=COLD_S),
    Case("mask.keep_window", 1, MUCH, cleared, MASKING, pause=COLD_S),
    Case(
        "mask.release_chars",
        0,
        MUCH,
        lambda request: answers(request)[1].startswith(PLACEHOLDER),
        MASKING | {"mask.trigger_chars": 8_000, "mask.release_chars": 8_000},
        pause=COLD_S,
    ),
    Case("mask.enabled", False, MUCH, lambda request: not cleared(request), MASKING, pause=COLD_S),
    Case("mask.protected", ["long"], MUCH, lambda request: not cleared(request), MASKING, pause=COLD_S),
    Case("confirm.mode", "allow", one("post", city="Rome"), last("post says Rome")),
    Case("confirm.mode", "deny", one("post", city="Rome"), last("tools.confirm.mode is deny")),
    Case("confirm.allow", ["post"], one("post", city="Rome"), last("post says Rome")),
    Case("confirm.deny", ["weather"], one("weather", city="Rome"), last("tools.confirm.deny")),
    Case("command.timeout_s", 0.2, run("sleep 0.7; echo late-7"), lacks("late-7"), ALLOW),
    Case("command.max_timeout_s", 0.2, run("sleep 0.7; echo late-7", timeout_s=30), lacks("late-7"), ALLOW),
    Case("command.max_output_bytes", 20, run("seq 100 200"), lacks("200"), ALLOW),
    Case(
        "command.max_background",
        1,
        (steps([("run_command", {"command": "sleep 60", "background": True})] * 2),),
        lambda request: "p2" not in answers(request)[-1],
        ALLOW,
    ),
    Case("command.hide", ["CORP_*"], run("echo [$CORP_NAME]"), last("[]"), ALLOW),
    Case("command.pass", ["ANTHROPIC_API_KEY"], run("echo ${#ANTHROPIC_API_KEY}"), last("31"), ALLOW),
]


class Recording:
    """A provider that keeps what goes out."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self.sent: list[Any] = []

    def open(self, request: Any) -> Any:
        self.sent.append(request)
        return self._provider.open(request)

    def last(self) -> Request:
        asked = self.sent[-1]
        body = DIALECTS[asked.dialect].parse(asked.raw, model=asked.model.partition(":")[2])
        return DIALECTS[asked.dialect].decode(body)


class Agents(msgspec.Struct):
    sessions: Any
    provider: Recording
    clock: VirtualClock

    async def seen(self, agent: str, case: Case) -> bool:
        """Whether a conversation with this agent shows what the case is about."""
        session: Session = await self.sessions.create(agent=agent)
        for text in case.said:
            turn = await session.ask(text)
            assert turn.ended == "completed", turn.problem
            self.clock.advance(1.0)
        if case.pause:
            self.clock.advance(case.pause)
            await session.ask("back again")
        found = case.seen(self.provider.last())
        await session.close()
        return found


def toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Tables by their names; keys may have dots."""
    lines: list[str] = []
    for table, keys in tables.items():
        lines += [f"[{table}]", *(f"{key} = {_value(value)}" for key, value in keys.items()), ""]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(each)}" for key, each in value.items()) + "}"
    return msgspec.json.encode(value).decode()


@asynccontextmanager
async def opened(place: Path, tables: Mapping[str, Mapping[str, Any]]) -> AsyncIterator[Agents]:
    home, work = place / "home", place / "work"
    home.mkdir(parents=True)
    work.mkdir()
    (work / "long.txt").write_text(LONG)
    (home / "holdfast.toml").write_text(toml({"agent": {"model": MODEL}, "skills": {"roots": []}, **tables}))
    clock = VirtualClock(START)
    provider = Recording(Simulated(Simulator(script=Script(name="agent", function=in_steps), clock=clock)))
    async with open_agent(work, home=home, provider=provider, tools=TOOLS, clock=clock.now) as sessions:
        yield Agents(sessions, provider, clock)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key}={msgspec.json.encode(case.value).decode()}")
async def test_c58_a_key_of_tools_acts_in_the_agent_for_which_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setenv("CORP_NAME", "acme")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-api03-" + "0" * 18)
    beside = {key: value for key, value in case.beside.items() if (key, value) != (case.key, case.value)}

    async with opened(tmp_path / "one", {"tools": beside, f"agents.{AGENT}.tools": {case.key: case.value}}) as one:
        assert await one.seen(AGENT, case)
        assert not await one.seen("", case)
    async with opened(tmp_path / "all", {"tools": {**beside, case.key: case.value}}) as every:
        assert await every.seen("", case)


DELEGATED = [case for case in CASES if case.key in ("offload.inline_chars", "timeout_s", "command.timeout_s")]


@pytest.mark.parametrize("case", DELEGATED, ids=lambda case: case.key)
async def test_c58_a_sub_agent_has_the_settings_of_its_role(tmp_path: Path, case: Case) -> None:
    tables = {"tools": case.beside, f"agents.{AGENT}.tools": {case.key: case.value}}
    async with opened(tmp_path, tables) as agents:
        session = await agents.sessions.create()
        for role, seen in ((AGENT, True), ("helper", False)):
            (report,) = await session.delegate([Task(task=f"\n{case.said[0]}\n", role=role)])
            assert report.status == "completed", report.text
            assert case.seen(agents.provider.last()) == seen


@pytest.mark.parametrize(
    ("everybody", "role", "runs"),
    [
        ({"mode": "allow"}, {"mode": "deny"}, False),
        ({"mode": "allow"}, {"deny": ["post"]}, False),
        ({"mode": "allow"}, {}, True),
        ({"mode": "deny"}, {"mode": "allow"}, False),
        ({"mode": "ask"}, {"mode": "allow"}, False),
        ({"mode": "ask"}, {"allow": ["post"]}, False),
        ({"mode": "ask", "allow": ["post"]}, {}, True),
    ],
)
async def test_c58_a_role_may_be_allowed_less_than_the_agent_it_works_for_and_never_more(
    tmp_path: Path, everybody: dict[str, Any], role: dict[str, Any], runs: bool
) -> None:
    tables = {"tools.confirm": everybody, f"agents.{AGENT}.tools.confirm": role}
    async with opened(tmp_path, tables) as agents:
        session = await agents.sessions.create()
        await session.delegate([Task(task=f"\n{one('post', city='Rome')[0]}\n", role=AGENT)])
        assert (answers(agents.provider.last())[-1] == "post says Rome") == runs
