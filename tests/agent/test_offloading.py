"""Long results through the agent's door: a file takes the whole, and the agent reads and searches a part of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.contract import Task
from holdfast.simulator import VirtualClock
from holdfast.tools import Tool, ToolContext, ToolOutput
from tests.agent.bench import START, calls
from tests.agent.open_agents import RecordingProvider, recorded_agent
from tests.agent.subagents import do, obliging

LINES = [f'entry {n:04d} "quoted" with a \\ and é' for n in range(1, 2_001)]
TEXT = "\n".join(LINES)
NAMED = re.compile(r"\[Tool result offloaded to disk: report, (\d+) characters, (\S+)\]")


async def _report(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content=TEXT)


REPORT = Tool(name="report", description="Reports.", run=_report, effect="read")


def offloaded(place: Path, form: str | None, *more: Any) -> tuple[Path, list[str], str]:
    """A session in which a long result came and something was done with its file: where it is, the results, and the
    session's id. `more` are calls with `{path}` in the place of the file's."""
    clock = VirtualClock(START)
    provider = RecordingProvider(clock)
    flags: dict[str, object] = {} if form is None else {"tools.offload.format": form}

    async def main() -> tuple[Path, str]:
        async with recorded_agent(place, provider, clock, tools=(REPORT,), flags=flags) as sessions:
            session = await sessions.create()
            await session.ask(calls(("report", {})))
            named = NAMED.match(provider.results()[0])
            assert named is not None, provider.results()[0]
            assert int(named[1]) == len(TEXT)
            for tool, given in more:
                told = {
                    name: value.format(path=named[2]) if isinstance(value, str) else value
                    for name, value in given.items()
                }
                await session.ask(calls((tool, told)))
            return Path(named[2]), session.id

    path, session = asyncio.run(main())
    return path, provider.results(), session


def test_c36_as_json_the_whole_result_is_a_json_file(tmp_path: Path) -> None:
    path, (reference,), session = offloaded(tmp_path, "json")
    document = json.loads(path.read_text())
    assert path.suffix == ".json"
    assert document | {"lines": 0, "tool_use_id": 0} == {
        "tool": "report",
        "tool_use_id": 0,
        "session": session,
        "characters": len(TEXT),
        "files": [],
        "lines": 0,
    }
    assert document["tool_use_id"]
    assert "\n".join(document["lines"]) == TEXT
    assert path.stat().st_mode & 0o777 == 0o600
    assert "line n of the text is line n + 7 of the file" in reference
    assert LINES[0] in reference  # the excerpt is of the text, not of the document
    assert path.read_text().split("\n")[7:9] == [f"{json.dumps(line, ensure_ascii=False)}," for line in LINES[:2]]


def test_c36_as_text_the_file_is_the_result_byte_for_byte(tmp_path: Path) -> None:
    path, _, _ = offloaded(tmp_path, None)
    assert path.suffix == ".txt"
    assert path.read_bytes() == TEXT.encode()


@pytest.mark.parametrize(("form", "before"), [("text", 0), ("json", 7)])
def test_c36_the_agent_reads_and_searches_a_part_of_it(tmp_path: Path, form: str, before: int) -> None:
    _, (_, part, found, counted), _ = offloaded(
        tmp_path,
        form,
        ("read_file", {"path": "{path}", "offset": 1_000 + before, "limit": 3}),
        ("run_command", {"command": "grep -n 'entry 1234' {path}"}),
        ("run_command", {"command": "grep -c entry {path}"}),
    )
    assert [n for n in (999, 1_000, 1_001, 1_002, 1_003) if f"entry {n:04d}" in part] == [1_000, 1_001, 1_002]
    assert len(part) < 500
    assert found.startswith(f"{1_234 + before}:")
    assert "2000" in counted


async def test_c36_a_session_goes_on_with_files_of_the_other_form(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    provider = RecordingProvider(clock)

    async with recorded_agent(tmp_path, provider, clock, tools=(REPORT,)) as sessions:
        session = await sessions.create()
        await session.ask(calls(("report", {})))
    named = NAMED.match(provider.results()[0])
    assert named is not None
    flags: dict[str, object] = {"tools.offload.format": "json"}
    async with recorded_agent(tmp_path, provider, clock, tools=(REPORT,), flags=flags) as sessions:
        again = await sessions.resume(session.id)
        await again.ask(calls(("read_file", {"path": named[2], "offset": 5, "limit": 1})))
        await again.ask(calls(("report", {})))
    first, read, second = provider.results()
    assert ".txt]" in first
    assert "entry 0005" in read
    assert ".json]" in second


async def test_c36_a_fork_and_a_sub_agent_read_what_lies_in_the_files_of_their_parent(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    provider = RecordingProvider(clock, reply=obliging)

    async with recorded_agent(tmp_path, provider, clock, tools=(REPORT,)) as sessions:
        session = await sessions.create()
        await session.ask(do(("report", {})))
        named = NAMED.match(provider.results()[0])
        part = do(("read_file", {"path": named[2], "offset": 1_000, "limit": 2}))
        (report,) = await session.delegate([Task(task=part)])
        assert report.status == "completed"
        assert "entry 1001" in provider.results()[-1]
        fork = await sessions.fork(session.id)
        await fork.ask(part)
        assert "entry 1001" in provider.results()[-1]
