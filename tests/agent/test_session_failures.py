"""What goes wrong in a turn: requests that fail, users who stop it, disks that are full. The conversation goes on."""

from __future__ import annotations

import asyncio
import re
import resource
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.loop import INTERRUPTED
from holdfast.agent.session import Session
from holdfast.errors import HoldfastError
from holdfast.records import Request
from holdfast.simulator.faults import Fault, Options
from holdfast.tools import Cancel, Tool, ToolContext, ToolOutput
from tests.agent.bench import Bench, calls, extends, long_answer, obey, settings, sound
from tests.agent.sample_tools import ECHO
from tests.agent.transcripts import results, texts
from tests.agent.watches import RecordingWatch, StoppingWatch

FAULTS = {
    "429": Fault(kind="status", options=Options(status=429, retry_after=7)),
    "500": Fault(kind="status", options=Options(status=500)),
    "529": Fault(kind="status", options=Options(status=529)),
    "cut": Fault(kind="cut"),
    "cut early": Fault(kind="cut", options=Options(at="early")),
    "closed": Fault(kind="close"),
    "sse error": Fault(kind="sse_error"),
    "malformed": Fault(kind="malformed"),
}

UNANSWERED = ("429", "500", "529", "cut early")


def unmarked(raw: bytes) -> bytes:
    """A request without its cache markers."""
    return re.sub(rb',"cache_control":\{[^}]*\}', b"", raw)


class Counting:
    """A tool that counts how often it ran."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.tool = Tool(name="count", description="Counts.", run=self._run, effect="write", confirm=False)

    async def _run(self, input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        self.ran.append(int(input["n"]))
        return ToolOutput(content=f"ran {input['n']}")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("after", [0, 1])
async def test_a_request_that_fails_is_sent_again_to_the_byte_and_no_tool_runs_twice(
    tmp_path: Path, fault: str, after: int
) -> None:
    count = Counting()
    async with Bench(tmp_path, tools=(count.tool,)) as bench:
        session = await bench.begin("warm up")
        bench.simulator.faults.add(replace(FAULTS[fault], after=after))
        before, watch, begun = len(bench.sent), RecordingWatch(), bench.clock.now()
        turn = await session.ask(calls(("count", {"n": 1}), ("count", {"n": 2})), watch=watch)
        assert (turn.ended, turn.text) == ("completed", "Done.")
        assert count.ran == [1, 2]
        raws = [raw for _, _, raw in bench.sent[before:]]
        assert len(raws) == 3
        if fault in UNANSWERED:
            assert raws[after] == raws[after + 1]
        # An answer that had begun was written to the cache: lifetimes of markers are decided anew, nothing else.
        assert unmarked(raws[after]) == unmarked(raws[after + 1])
        pauses = [seconds for kind, seconds in watch.events if kind == "retrying"]
        assert pauses == [7.0 if fault == "429" else 0.5]
        assert bench.clock.now() == begun + pauses[0]
        sound(session)
        await session.ask("and on")
        assert not bench.breaks()


async def test_a_request_that_keeps_failing_ends_the_turn_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(agent={"retries": 2})) as bench:
        session = await bench.sessions.create()
        bench.simulator.faults.add(Fault(kind="status", times=3, options=Options(status=500)))
        turn = await session.ask("one")
        assert (turn.ended, turn.text, len(bench.sent)) == ("failed", "", 3)
        assert "500" in turn.problem
        turn = await session.ask("two")
        assert turn.ended == "completed"
        said_so_far = [text for message in bench.bodies()[-1].messages for text in texts(message)]
        assert said_so_far[-2:] == ["one", "two"]
        sound(session)


async def test_what_is_wrong_with_the_request_is_not_sent_again(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        bench.simulator.faults.add(Fault(kind="status", options=Options(status=401)))
        turn = await session.ask("one")
        assert (turn.ended, len(bench.sent)) == ("failed", 1)


async def test_a_service_that_says_so_is_not_asked_again(tmp_path: Path) -> None:
    def broken(request: Request) -> object:
        raise ValueError("x-should-retry: false goes with this")

    async with Bench(tmp_path, reply=broken) as bench:
        session = await bench.sessions.create()
        turn = await session.ask("one")
        assert (turn.ended, len(bench.sent)) == ("failed", 1)
        assert "500" in turn.problem


async def test_an_answer_that_is_stopped_keeps_what_was_seen_of_it(tmp_path: Path) -> None:
    async with Bench(tmp_path, reply=long_answer) as bench:
        session = await bench.begin("hello")
        cancel = Cancel()
        watch = StoppingWatch(cancel, "text")
        turn = await session.ask("talk", watch=watch, cancel=cancel)
        assert turn.ended == "cancelled"
        seen = "".join(text for kind, text in watch.events if kind == "piece text")
        assert 0 < len(turn.text) < len("All the words. " * 400)
        assert turn.text.startswith("All the words.")
        assert seen.startswith(turn.text.rstrip()) or turn.text.startswith(seen.rstrip())
        sound(session)
        bench.store.flush()
        (cut,) = bench.store.calls_by_status("abandoned")
        billed = bench.simulator.journal.records()[-1].usage
        assert (cut.usage.read, cut.usage.writes, cut.usage.input) == (billed.read, billed.writes, billed.input)
        assert 0 < cut.usage.output <= billed.output
        await session.ask("why?")
        last = bench.bodies()[-1].messages
        assert texts(last[-2]) == [turn.text]
        assert texts(last[-1]) == [INTERRUPTED, "why?"]
        assert [event.type for event in bench.log(session.id)].count("turn.cancelled") == 1
        assert not bench.breaks()


async def test_stopped_before_the_first_token(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin("hello")
        cancel = Cancel()
        cancel.set()
        turn = await session.ask("never mind", cancel=cancel)
        assert (turn.ended, turn.text, len(bench.sent)) == ("cancelled", "", 1)
        turn = await session.ask("now")
        assert turn.ended == "completed"
        assert texts(bench.bodies()[-1].messages[-1]) == ["never mind", "now"]
        bench.assert_sound(session)


def _hanging(begun: asyncio.Event) -> Tool:
    async def hang(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        begun.set()
        await asyncio.Event().wait()
        return ToolOutput()

    return Tool(name="hang", description="Waits.", run=hang, effect="read")


async def test_stopped_while_a_tool_runs_every_call_is_answered(tmp_path: Path) -> None:
    begun, cancel = asyncio.Event(), Cancel()
    async with Bench(tmp_path, tools=(_hanging(begun), ECHO)) as bench:
        session = await bench.sessions.create()
        asked = calls(("echo", {"n": 1}), ("hang", {}), ("echo", {"n": 2}))
        task = asyncio.create_task(session.ask(asked, cancel=cancel))
        await begun.wait()
        cancel.set()
        turn = await task
        assert turn.ended == "cancelled"
        assert not session.state.open_calls
        sound(session)
        await session.ask("go on")
        answers = results(bench.bodies()[-1])
        assert len(answers) == 3
        assert answers[1].is_error
        assert not bench.breaks()


@pytest.mark.parametrize("where", ["tool", "answer"])
async def test_a_task_that_is_cancelled_leaves_a_conversation_that_can_go_on(tmp_path: Path, where: str) -> None:
    begun = asyncio.Event()

    class Seen(RecordingWatch):
        def piece(self, kind: Any, text: str) -> None:
            begun.set()

    async with Bench(tmp_path, tools=(_hanging(begun),), reply=_either) as bench:
        session = await bench.begin("hello")
        asked = calls(("hang", {})) if where == "tool" else "talk"
        task = asyncio.create_task(session.ask(asked, watch=Seen() if where == "answer" else None))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not session.state.open_calls
        assert session.state.turn is None
        sound(session)
        turn = await session.ask("still there?")
        assert turn.ended == "completed"
        bodies = bench.bodies()
        assert extends(bodies[-2].messages, bodies[-1].messages)
        assert not bench.breaks()


def _either(request: Request) -> object:
    return long_answer(request) if texts(request.messages[-1])[-1:] == ["talk"] else obey(request)


async def test_a_session_that_is_in_use_is_not_opened_a_second_time(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin("hello")
        with pytest.raises(HoldfastError, match="open already"):
            await bench.sessions.resume(session.id)
        async with Bench(tmp_path) as other:
            with pytest.raises(HoldfastError, match="in use by another process"):
                await other.sessions.resume(session.id)
        forked = await bench.sessions.fork(session.id)
        assert (await forked.ask("and I?")).ended == "completed"
        assert (await session.ask("still mine")).ended == "completed"
        await session.close()


class _FullDisk:
    """No file grows any more: what a full disk does to a write, to this process alone."""

    def __init__(self, path: Path, room: int) -> None:
        self._limit = path.stat().st_size + room

    def __enter__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._signal = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._limit, self._before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)
        signal.signal(signal.SIGXFSZ, self._signal)


@pytest.mark.parametrize("room", [0, 100, 700, 1_500, 3_000, 6_000])
async def test_a_full_disk_ends_the_turn_and_nothing_else(tmp_path: Path, room: int) -> None:
    """Wherever in a turn the log cannot be written any more: once there is room the session goes on, here and after a
    restart."""

    count = Counting()
    async with Bench(tmp_path, tools=(count.tool,)) as bench:
        session = await bench.begin("hello")
        path = bench.home / "sessions" / f"{session.id}.jsonl"
        bench.store.flush()
        before, sent = path.stat().st_size, len(bench.sent)
        with _FullDisk(path, room):
            completed = await _failed(session, calls(("count", {"n": 1}), ("count", {"n": 2})))
        assert path.stat().st_size <= before + room
        assert completed or len(bench.sent) <= sent + 2
        await session.ask("there is room again")
        sound(session)
        again = await bench.resumed(session)
        turn = await again.ask("and on")
        assert turn.ended == "completed"
        sound(again)
        assert not [record for record in bench.simulator.journal.records() if record.status == 400]
        assert not bench.breaks()


async def _failed(session: Session, text: str) -> bool:
    """Whether a turn was completed; the disk may have been full in it."""
    try:
        turn = await session.ask(text)
    except HoldfastError as problem:
        if "make room" not in str(problem):
            raise
        return False
    return turn.ended == "completed"
