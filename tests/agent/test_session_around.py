"""What happens beside a conversation: commands in the background, tool servers that go. It is told, in order, once."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.agent.contract import Watch
from holdfast.config.sections.mcp import McpSettings
from tests.agent.bench import Bench, calls, extends
from tests.agent.transcripts import results, text_of, texts
from tests.tools.mcp.hubs import hub, plain, until, where

pytest.importorskip("mcp")


def told(bench: Bench) -> list[str]:
    """Everything that the last request says to the model, beside results."""
    return [text for message in bench.bodies()[-1].messages if message.role == "user" for text in texts(message)]


async def test_a_command_in_the_background_is_told_of_when_it_starts_and_when_it_ends(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        command = "while [ ! -e go ]; do sleep 0.01; done; exit 3"
        await session.ask(calls(("run_command", {"command": command, "background": True})))
        assert [each.process for each in session.state.running_processes] == ["p1"]
        await session.ask("is it done?")
        started = [text for text in told(bench) if "Background process p1 started" in text]
        assert len(started) == 1
        (bench.workspace / "go").write_text("")
        await until(lambda: not session.state.running_processes)
        await session.ask("and now?")
        ended = [text for text in told(bench) if "Background process p1 exited with code 3." in text]
        assert len(ended) == 1
        assert [text for text in told(bench) if "Background process p1 started" in text] == started
        bodies = bench.bodies()
        assert all(extends(a.messages, b.messages) for a, b in pairwise(bodies))
        bench.assert_sound(session)


async def test_who_watches_a_turn_sees_what_a_command_prints(tmp_path: Path) -> None:
    class Watching(Watch):
        def __init__(self) -> None:
            self.seen = ""

        def output(self, call: str, text: str) -> None:
            self.seen += text

    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        watch = Watching()
        await session.ask(calls(("run_command", {"command": "echo on its way"})), watch=watch)
        assert watch.seen == "on its way\n"


@pytest.mark.parametrize("end", ["close", "end"])
async def test_what_runs_when_a_session_is_left_ends_with_it_and_the_next_process_knows(
    tmp_path: Path, end: str
) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin(
            calls(*(("run_command", {"command": "sleep 600", "background": True}) for _ in range(3)))
        )
        assert len(session.state.running_processes) == 3
        await (session.close() if end == "close" else session.end())
        again = await bench.sessions.resume(session.id)
        assert not again.state.running_processes
        await again.ask("what of them?")
        for name in ("p1", "p2", "p3"):
            lines = [text for text in told(bench) if f"Background process {name} " in text]
            assert len(lines) == 2, lines
        await again.ask(calls(("run_command", {"command": "sleep 600", "background": True})))
        assert [each.process for each in again.state.running_processes] == ["p4"]
        bench.assert_sound(again)


async def test_a_tool_server_that_goes_is_told_of_and_the_tools_stay_declared(tmp_path: Path) -> None:
    async with hub(plain(), settings=McpSettings(reconnect_s=60)) as running, Bench(tmp_path, hub=running) as bench:
        session = await bench.begin(calls(("discover_tools", {"query": "echo"})), "fine")
        os.kill(int((await where(running))["pid"]), signal.SIGKILL)
        await until(lambda: session.state.queue)
        await session.ask("what happened?")
        lines = [text for text in told(bench) if "Tool server plain is gone." in text]
        assert len(lines) == 1
        assert "mcp__plain__echo" in lines[0]
        bodies = bench.bodies()
        assert all(a.tools == b.tools for a, b in pairwise(bodies))
        assert all(extends(a.messages, b.messages) for a, b in pairwise(bodies))
        assert results(bodies[-1])
        assert text_of(results(bodies[-1])[0])
        bench.assert_sound(session)
