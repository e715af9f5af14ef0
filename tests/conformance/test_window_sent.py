"""Seed prefix-caching in the bytes of a whole session: what was sent is sent so again, whatever happens meanwhile."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.records.events.agent import SettingToggled, TaskUpdated
from holdfast.simulator.faults import Fault, Options
from tests.agent.bench import Bench, calls, settings
from tests.agent.summaries import keys
from tests.tools.mcp.hubs import until


def texts(raw: bytes) -> list[str]:
    """The texts of a request's messages that are not the model's, in order."""
    messages = [message for message in json.loads(raw)["messages"] if message["role"] == "user"]
    blocks = [block for message in messages for block in message["content"]]
    return [block["text"] for block in blocks if block["type"] == "text"]


def bare(raw: bytes) -> list[Any]:
    """A request's messages without markers."""

    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(each) for each in value]
        if isinstance(value, dict):
            return {name: without(each) for name, each in value.items() if name != "cache_control"}
        return value

    return without(json.loads(raw)["messages"])  # type: ignore[no-any-return]


async def eventful(bench: Bench) -> None:
    """A session in which everything happens that may enter a prompt: files, processes, tasks, settings, goals, a
    request that fails, a restart and a kill."""
    notes = bench.workspace / ".holdfast"
    notes.mkdir()
    session = await bench.begin("one", goal="Ship it")
    (notes / "MEMORY.md").write_text("- the build needs make\n", "utf-8")
    command = "while [ ! -e go ]; do sleep 0.01; done"
    await session.ask(calls(("run_command", {"command": command, "background": True}), ("list_dir", {})))
    session.tell(TaskUpdated(task="t1", status="open", text="first thing"))
    bench.clock.advance(100)
    session.tell(SettingToggled(setting="verbose", value="on"))
    await session.ask("two")
    (bench.workspace / "go").write_text("")
    await until(lambda: not session.state.running_processes)
    bench.clock.advance(100)
    bench.simulator.faults.add(Fault("status", times=1, options=Options(status=400)))
    assert (await session.ask("three")).ended == "failed"
    session.tell(TaskUpdated(task="t1", status="done", text="second thing"))
    await session.ask("four")
    session.set_goal("Ship it tomorrow")
    for clean in (True, False):
        session = await bench.resumed(session, f"after a restart, {clean}", clean=clean)
    (notes / "MEMORY.md").write_text("- the build needs ninja\n", "utf-8")
    await session.ask("five")


async def test_b4_b16_b19_b20_b32_b35_b36_b37_b38_every_request_extends_the_one_before_it(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(agent={"retries": 0})) as bench:
        await eventful(bench)
        raws = [raw for _, _, raw in bench.sent]
        for number in range(1, len(raws)):
            before, after = keys(bench, number - 1), keys(bench, number)
            assert after[: len(before)] == before, number  # as a cache sees it
        for earlier, later in pairwise(raws):
            was, is_ = bare(earlier), bare(later)
            assert is_[: len(was)] == was  # no message grew, none was put between others
        assert {reset for _, reset in bench.sent_by} <= {None, "session_start", "session_load"}
        assert not bench.breaks()
        first = next(number for number, raw in enumerate(raws) if b"You said: two" in raw)
        assert raws[first - 1].count(b"two") == raws[first].count(b"two") - 1  # what the model answered, from then on
        assert all(b"You said: two" in raw for raw in raws[first:])


async def test_b14_b27_b29_b31_what_happened_stands_there_with_its_own_time_and_stays(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(agent={"retries": 0})) as bench:
        await eventful(bench)
        first, last = texts(bench.sent[0][2]), texts(bench.sent[-1][2])
        assert "Ship it" in "".join(first)
        for words in ("first thing", "second thing", "verbose", "process p1 started", "process p1 exited"):
            assert sum(words in text for text in last) == 1, words
        opened = next(text for text in last if "first thing" in text)
        toggled = next(text for text in last if "verbose" in text)
        assert opened[:22] != toggled[:22]  # told together, 100 s after the first of them
        assert sum("the build needs make" in text for text in last) == 1
        assert sum("the build needs ninja" in text for text in last) == 1
