"""Every key under tools.*, set for one agent in a file or for all by the environment, changes what its session does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config import load
from holdfast.config.keys import Settings
from holdfast.engine import EngineCore, Lane, PrepareOptions
from holdfast.records import Message, Request, Text, ToolResult, ToolUse, canonical_json
from holdfast.tools import Decision, Question, Tool, ToolContext, ToolOutput
from holdfast.tools.masking import PLACEHOLDER
from holdfast.tools.offload import is_reference
from holdfast.wire import DIALECTS
from tests.support.toolboxes import toolbox

pytestmark = pytest.mark.slow

MODEL = "anthropic:claude-haiku-4-5"
LANE = Lane(tenant="t", session="s", id="s/main", client="tests")


def said(name: str, **fields: Any) -> Tool:
    """A tool that says as many characters as it is asked for, or waits for as many seconds."""

    async def run(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await asyncio.sleep(given.get("seconds", 0))
        return ToolOutput(content="x" * given.get("characters", 1))

    return Tool(name=name, run=run, **{"effect": "read", "description": f"What {name} is for.", **fields})


async def yes(question: Question) -> Decision:
    return Decision(True)


class Agent:
    """A session with the settings of one agent, `key = value` in its block, or in the environment."""

    def __init__(self, root: Path, settings: Settings) -> None:
        tools = [said("plain"), said("other"), said("mcp__box__one", source="mcp", server="box")]
        self.box = toolbox(tools, model=MODEL, workspace=root, home=root / "home", settings=settings.tools, confirm=yes)
        self.calls = 0

    def __call__(self, name: str, **given: Any) -> str:
        self.calls += 1
        call = ToolUse(f"c{self.calls}", name, canonical_json(json.dumps(given).encode()))
        (answer,) = asyncio.run(self.box.run([call])).answers
        return "\n".join(block.text for block in answer.result.content if isinstance(block, Text))

    def longest(self, name: str, *around: int) -> list[bool]:
        """Whether results of these lengths stay inline."""
        return [not is_reference(self(name, characters=length)) for length in around]

    @property
    def declared(self) -> tuple[str, ...]:
        return self.box.toolset.declared

    def cleared(self, results: int, length: int, name: str = "plain") -> int:
        """How many of so many results are masked in a cold lane."""
        messages = [Message("user", (Text("Begin."),))]
        for number in range(results):
            call = ToolUse(f"c{number}", name, b"{}")
            result = ToolResult(call.id, (Text(f"{number}:".ljust(length, "x")),))
            messages += [Message("assistant", (call,)), Message("user", (result,))]
        messages += [Message("assistant", (Text("Well."),)), Message("user", (Text("Go on."),))]
        spoken, engine = DIALECTS["anthropic"], EngineCore(Settings())
        request = Request(model=MODEL, tools=self.box.definitions(), messages=tuple(messages), output_limit=10)
        body = engine.parse(spoken, spoken.encode(request))
        return self.box.prepare(engine, body, lane=LANE, now=1.0, options=PrepareOptions()).raw.count(
            PLACEHOLDER.encode()
        )

    def demoted(self, turns: int) -> int:
        for _ in range(turns):
            self.box.turn_over()
        changed = self.box.at_reset()
        return 0 if changed is None else len(changed.demoted)


@pytest.fixture(params=["agent", "environment"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Gives a session where one key has another value, and one where it has not."""

    def make(key: str, value: Any, beside: Mapping[str, Any] | None = None) -> tuple[Agent, Agent]:
        values = {key: value, **(beside or {})}
        home, variables = tmp_path / "config", dict[str, str]()
        home.mkdir()
        if request.param == "agent":
            lines = [f"tools.{name} = {json.dumps(each).replace(': ', ' = ')}" for name, each in values.items()]
            (home / "holdfast.toml").write_text("\n".join(["[agents.scout]", *lines]))
        else:
            for name, each in values.items():
                text = ",".join(each) if isinstance(each, list) else each if isinstance(each, str) else json.dumps(each)
                variables[f"HOLDFAST_TOOLS_{name.replace('.', '_').upper()}"] = text
        config = load(workspace=None, home=home, environ=variables)
        sides = []
        for side, settings in (("set", config.for_agent("scout")), ("plain", Settings())):
            (tmp_path / side).mkdir()
            sides.append(Agent(tmp_path / side, settings))
        return sides[0], sides[1]

    return make


@pytest.mark.parametrize(
    ("key", "value", "tool", "before", "after"),
    [
        ("offload.max_result_chars", 20_000, "plain", 8_000, 20_000),
        ("offload.max_result_chars", 9_000, "mcp__box__one", 15_000, 9_000),
        ("offload.inline_chars", 9_000, "plain", 8_000, 9_000),
        ("offload.mcp_chars", 16_000, "mcp__box__one", 15_000, 16_000),
        ("offload.hard_cap_chars", 5_000, "plain", 8_000, 5_000),
        ("offload.per_tool", {"plain": 10_000}, "plain", 8_000, 10_000),
    ],
)
def test_c58_c85_limits_of_results(agent: Any, key: str, value: Any, tool: str, before: int, after: int) -> None:
    ours, plain = agent(key, value)
    assert plain.longest(tool, before, before + 1) == [True, False]
    assert ours.longest(tool, after, after + 1) == [True, False]


def test_c58_the_page_of_a_file(agent: Any, tmp_path: Path) -> None:
    ours, plain = agent("offload.read_chars", 5_000)
    for side, least, most in ((plain, 14_000, 15_000), (ours, 4_000, 5_000)):
        side.box.workspace.root.joinpath("long.txt").write_text("some words\n" * 3_000)
        assert least < len(side("read_file", path="long.txt")) <= most


@pytest.mark.parametrize(("key", "usual"), [("offload.head_chars", 1_500), ("offload.tail_chars", 500)])
def test_c58_what_a_reference_shows(agent: Any, key: str, usual: int) -> None:
    ours, plain = agent(key, 40)
    shown = [side("plain", characters=9_000).count("x") for side in (plain, ours)]
    assert shown[0] - shown[1] == usual - 40


def test_c36_c58_the_form_of_the_file(agent: Any) -> None:
    ours, plain = agent("offload.format", "json")
    assert [".json" in side("plain", characters=9_000) for side in (plain, ours)] == [False, True]


@pytest.mark.parametrize(
    ("key", "value", "usual", "otherwise"),
    [
        ("mask.keep_window", 35, 15, 5),
        ("mask.trigger_chars", 160_001, 15, 0),
        ("mask.release_chars", 120_000, 15, 10),
        ("mask.protected", ["plain"], 15, 0),
        ("mask.enabled", False, 15, 0),
    ],
)
def test_c58_c86_old_results(agent: Any, key: str, value: Any, usual: int, otherwise: int) -> None:
    ours, plain = agent(key, value)
    assert (plain.cleared(40, 4_000), ours.cleared(40, 4_000)) == (usual, otherwise)


@pytest.mark.parametrize(
    ("key", "value", "otherwise"), [("lifecycle.enabled", False, 0), ("lifecycle.demote_after_turns", 21, 0)]
)
def test_c58_unused_tools(agent: Any, key: str, value: Any, otherwise: int) -> None:
    ours, plain = agent(key, value)
    assert (plain.demoted(20), ours.demoted(20)) == (3, otherwise)


@pytest.mark.parametrize(
    ("key", "value", "beside", "left"),
    [
        ("deferral.mode", "always", {}, []),
        ("deferral.never", ["plain"], {"deferral.mode": "always"}, ["plain"]),
        ("deferral.always", ["mcp__*"], {}, ["plain", "other"]),
        ("deferral.always", ["mcp__*"], {"deferral.mode": "never"}, ["plain", "other"]),
        ("deferral.budget", 0.000001, {}, []),
    ],
)
def test_c58_deferred_tools(agent: Any, key: str, value: Any, beside: Any, left: list[str]) -> None:
    ours, plain = agent(key, value, beside)
    every = ["plain", "other", "mcp__box__one"]
    assert [name for name in plain.declared if name in every] == every
    assert [name for name in ours.declared if name in every] == left


def test_c58_carriers(agent: Any) -> None:
    ours, plain = agent("deferral.carrier", "call_tool", {"deferral.mode": "always"})
    assert "call_tool" not in plain.declared
    assert "call_tool" in ours.declared
    assert ours("discover_tools", query="select:plain").startswith("<functions>")


def test_c58_schemas_in_answers(agent: Any) -> None:
    ours, _ = agent("deferral.strip", "when_cold", {"deferral.mode": "always", "deferral.carrier": "redeclare"})
    assert ours("discover_tools", query="select:plain").startswith("<functions>")


@pytest.mark.parametrize(
    ("key", "value", "beside"),
    [
        ("confirm.mode", "deny", {}),
        ("confirm.deny", ["run_command"], {}),
        ("confirm.deny", ["run_command"], {"confirm.mode": "allow"}),
    ],
)
def test_c58_consent(agent: Any, key: str, value: Any, beside: Any) -> None:
    ours, plain = agent(key, value, beside)
    assert plain("run_command", command="echo fine").startswith("fine")
    assert ours("run_command", command="echo fine").startswith("The call was not run. The settings do not allow")


def test_c58_consent_for_one_tool(agent: Any) -> None:
    ours, _ = agent("confirm.allow", ["run_command"], {"confirm.mode": "deny"})
    assert ours("run_command", command="echo fine").startswith("fine")


@pytest.mark.parametrize(
    ("key", "value", "beside", "answer"),
    [
        ("command.timeout_s", 0.1, {}, "[Ended at its time limit of 0.1 s."),
        ("command.max_timeout_s", 0.1, {"command.timeout_s": 0.1}, "[Ended at its time limit of 0.1 s."),
        ("command.max_output_bytes", 3, {}, "[Only the first 3 of 5 bytes of output were kept.]"),
    ],
)
def test_c58_commands(agent: Any, key: str, value: Any, beside: Any, answer: str) -> None:
    ours, plain = agent(key, value, beside)
    assert plain("run_command", command="echo fine; sleep 0.2") == "fine\n[exit code 0]"
    assert answer in ours("run_command", command="echo fine; sleep 0.2")


@pytest.mark.parametrize(
    ("key", "value", "name", "beside"),
    [("command.hide", ["CORP_*"], "CORP_DB", "set"), ("command.pass", ["OPENAI_API_KEY"], "OPENAI_API_KEY", "unset")],
)
def test_c58_variables_of_commands(
    agent: Any, monkeypatch: pytest.MonkeyPatch, key: str, value: Any, name: str, beside: str
) -> None:
    monkeypatch.setenv(name, "given")
    ours, plain = agent(key, value)
    command = f'test -n "${name}" && echo set || echo unset'
    assert plain("run_command", command=command) == f"{beside}\n[exit code 0]"
    assert ours("run_command", command=command) == f"{'unset' if beside == 'set' else 'set'}\n[exit code 0]"


def test_c58_commands_in_the_background(agent: Any) -> None:
    ours, _ = agent("command.max_background", 1)
    calls = [ToolUse(f"c{n}", "run_command", b'{"command":"sleep 9","background":true}') for n in range(2)]

    async def main() -> list[bool]:
        async with ours.box as box:
            return [answer.result.is_error for answer in (await box.run(calls)).answers]

    assert asyncio.run(main()) == [False, True]


def test_c58_time(agent: Any) -> None:
    ours, plain = agent("timeout_s", 0.05)
    assert plain("plain", seconds=0.15) == "x"
    assert ours("plain", seconds=0.15) == "plain was stopped: it took more than 0.05 seconds."


def test_no_key_is_forgotten() -> None:
    """Whoever adds a key says here what it changes."""
    shown = Path(__file__).read_text()
    sections = msgspec.to_builtins(Settings().tools)
    keys = [f"{name}.{key}" for name, each in sections.items() if isinstance(each, dict) for key in each]
    assert [key for key in keys if f'"{key}"' not in shown] == []
