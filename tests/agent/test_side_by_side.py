"""Through an agent's sessions: which calls of a turn run side by side, and which one at a time.

Calls that run side by side wait for each other here: one at a time they would never end, and fail by their timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.contract import Task
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import ConfirmSettings
from holdfast.tools.confirmation import Decision, Question
from holdfast.tools.contract import Effect, Tool, ToolContext, ToolOutput
from tests.agent.bench import settings
from tests.agent.toolbench import answers, opened, steps

TOGETHER_S = 5.0
"""How long a call waits for the others: forever, as far as a test is concerned."""


class Floor:
    """Where calls are seen to begin and to end; those that `meet` wait until all of them have begun."""

    def __init__(self, meet: int = 0) -> None:
        self.log: list[str] = []
        self.inside: set[str] = set()
        self.most = 0
        self._meet, self._all_here = meet, asyncio.Event()

    @asynccontextmanager
    async def _entered(self, name: str) -> Any:
        self.log.append(f"+{name}")
        self.inside.add(name)
        self.most = max(self.most, len(self.inside))
        if len(self.inside) >= self._meet:
            self._all_here.set()
        try:
            yield
        finally:
            self.inside.discard(name)
            self.log.append(f"-{name}")

    def tool(self, name: str, effect: Effect, **fields: Any) -> Tool:
        async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            async with self._entered(name):
                if self._meet:
                    await asyncio.wait_for(self._all_here.wait(), TOGETHER_S)
                else:
                    for _ in range(50):
                        await asyncio.sleep(0)
            return ToolOutput(content=f"{name} is done")

        return Tool(name=name, description=f"Do {name}.", run=run, effect=effect, **fields)


def results(bench: Any) -> list[str]:
    return answers(bench.bodies()[-1])


@pytest.mark.parametrize(
    "effects",
    [("network", "network"), ("network", "read"), ("read", "none"), ("network", "none", "read", "network")],
    ids="-".join,
)
async def test_c59_calls_that_only_read_run_side_by_side_over_the_network_too(
    tmp_path: Path, effects: tuple[Effect, ...]
) -> None:
    floor = Floor(meet=len(effects))
    tools = [floor.tool(f"t{place}", effect) for place, effect in enumerate(effects)]
    async with opened(tmp_path, settings(), *tools) as bench:
        await bench.begin(steps([(tool.name, {}) for tool in tools]))
        assert results(bench) == [f"{tool.name} is done" for tool in tools]
        assert floor.most == len(tools)


async def test_c59_beside_built_in_reads_too(tmp_path: Path) -> None:
    """Two fetches wait for each other, with built-in reads between them: nothing of these makes the others wait."""

    floor = Floor(meet=2)
    tools = [floor.tool("fetch", "network"), floor.tool("look_up", "network")]
    async with opened(tmp_path, settings(), *tools) as bench:
        (bench.workspace / "notes.txt").write_text("here it is\n")
        session = await bench.sessions.create()
        made = [("fetch", {}), ("read_file", {"path": "notes.txt"}), ("list_dir", {"path": "."}), ("look_up", {})]
        await session.ask(steps(made))
        told = results(bench)
        assert told[0] == "fetch is done"
        assert told[3] == "look_up is done"
        assert "here it is" in told[1]
        assert "notes.txt" in told[2]


def asking() -> Settings:
    made = settings()
    return replace(made, tools=replace(made.tools, confirm=ConfirmSettings(mode="ask")))


async def test_c59_network_reads_run_side_by_side_after_consent_and_questions_come_one_at_a_time(
    tmp_path: Path,
) -> None:
    floor, open_questions, most, asked = Floor(meet=3), 0, 0, list[str]()

    async def confirm(question: Question) -> Decision:
        nonlocal open_questions, most
        open_questions += 1
        most = max(most, open_questions)
        assert f"+{question.tool}" not in floor.log, "it ran before anybody was asked"
        for _ in range(20):
            await asyncio.sleep(0)
        open_questions -= 1
        asked.append(question.tool)
        return Decision(True)

    tools = [floor.tool(f"fetch{number}", "network") for number in range(3)]
    async with opened(tmp_path, asking(), *tools, confirm=confirm) as bench:
        await bench.begin(steps([(tool.name, {}) for tool in tools]))
        assert results(bench) == [f"{tool.name} is done" for tool in tools]
        assert sorted(asked) == [tool.name for tool in tools]
        assert most == 1


async def test_c59_a_refused_network_read_does_not_run_and_keeps_no_other_from_it(tmp_path: Path) -> None:
    floor = Floor(meet=1)

    async def confirm(question: Question) -> Decision:
        return Decision(question.tool != "fetch0")

    tools = [floor.tool(f"fetch{number}", "network") for number in range(2)]
    async with opened(tmp_path, asking(), *tools, confirm=confirm) as bench:
        await bench.begin(steps([(tool.name, {}) for tool in tools]))
        assert floor.log == ["+fetch1", "-fetch1"]
        assert "was not run" in results(bench)[0]


async def test_c59_calls_that_change_something_run_alone_and_in_order(tmp_path: Path) -> None:
    floor = Floor()
    kinds: list[tuple[str, Effect, dict[str, Any]]] = [
        ("write", "write", {}),
        ("execute", "execute", {}),
        ("post", "network", {"changes": True}),
        ("served", "network", {"source": "mcp", "server": "s"}),
        ("fetch", "network", {}),
    ]
    tools = [floor.tool(name, effect, **fields) for name, effect, fields in kinds]
    async with opened(tmp_path, settings(), *tools) as bench:
        await bench.begin(steps([(tool.name, {}) for tool in tools]))
        assert floor.log == [sign + tool.name for tool in tools for sign in "+-"]
        assert floor.most == 1


async def test_c59_sub_agents_change_things_one_at_a_time_and_read_side_by_side(tmp_path: Path) -> None:
    changing, reading = Floor(), Floor(meet=3)
    tools = [changing.tool(f"write{n}", "write") for n in range(3)]
    tools += [reading.tool(f"fetch{n}", "network") for n in range(3)]
    async with opened(tmp_path, settings(), *tools) as bench:
        session = await bench.sessions.create()
        told = [f"\n{steps([(f'fetch{n}', {})], [(f'write{n}', {})])}\n" for n in range(3)]
        reports = await session.delegate([Task(task=text) for text in told])
        assert [report.status for report in reports] == ["completed"] * 3
        assert reading.most == 3
        assert changing.most == 1
        assert sorted(changing.log) == sorted(sign + f"write{n}" for n in range(3) for sign in "+-")


async def test_two_conversations_of_a_workspace_change_things_one_at_a_time(tmp_path: Path) -> None:
    floor = Floor()
    async with opened(tmp_path, settings(), floor.tool("write", "write")) as bench:
        sessions = [await bench.sessions.create() for _ in range(3)]
        await asyncio.gather(*(session.ask(steps([("write", {})])) for session in sessions))
        assert floor.log == ["+write", "-write"] * 3
