"""A simulator as a provider in the same process: what comes, when the clock moves, and what a fault does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from holdfast.agent.contract import OutgoingRequest
from holdfast.simulator import Script, Simulator, VirtualClock
from holdfast.simulator.faults import Fault, Options, Place
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.messages import Words
from holdfast.simulator.script.rules import ScriptStep
from holdfast.wire import DIALECTS
from holdfast.wire.answers import Unreachable

from ..wire.marked_bodies import encoded
from ..wire.simulator_client import FULL, MODELS, NAMES, TEXT, asking, going_on, read_answer, replying, simulator, words

T = TypeVar("T")


def outgoing(dialect: str, raw: bytes | None = None) -> OutgoingRequest:
    raw = encoded(asking(dialect), dialect) if raw is None else raw
    return OutgoingRequest(dialect=dialect, model=f"x:{MODELS[dialect]}", raw=raw, session="s1")


def run(work: Awaitable[T]) -> T:
    async def wait() -> T:
        return await work

    return asyncio.run(wait())


def spoilt(kind: str, at: Place = "mid") -> Simulator:
    here = simulator(FULL)
    here.faults.add(Fault(kind, options=Options(at=at, message="Too busy.")))  # type: ignore[arg-type]
    return here


@pytest.mark.parametrize("dialect", NAMES)
def test_a_conversation(dialect: str) -> None:
    here = simulator(FULL, (Words("Done."),))
    first = run(read_answer(Simulated(here), outgoing(dialect)))
    assert first.whole
    assert words(first.message) == [TEXT]
    again = encoded(going_on(asking(dialect), first), dialect)
    second = run(read_answer(Simulated(here), outgoing(dialect, again)))
    assert words(second.message) == ["Done."]
    records = here.journal.records(session="s1")
    assert [record.state for record in records] == ["complete", "complete"]
    assert second.usage == records[1].usage


def test_the_second_request_reads_what_the_first_one_wrote() -> None:
    here = simulator(FULL)
    first, second = (run(read_answer(Simulated(here), outgoing("anthropic"))) for _ in range(2))
    assert (first.usage.read, second.usage.read) == (0, first.usage.written)


def test_a_virtual_clock_moves_by_what_the_reply_takes() -> None:
    clock = VirtualClock(1000.0)
    script = Script(name="slow", turns=(ScriptStep(say="Hello there.", first_token=2.0, per_token=0.5),))
    here = Simulator(script=script, clock=clock)
    assert run(read_answer(Simulated(here), outgoing("anthropic"))).whole
    record = here.journal.records()[0]
    assert record.first_token_at == 1002.0
    assert record.usage is not None
    assert 1002.0 < clock.now() <= 1002.0 + 0.5 * record.usage.output


async def test_status_and_headers_come_before_the_first_token() -> None:
    here = simulator(FULL)
    async with Simulated(here).open(outgoing("anthropic")) as answering:
        assert answering.status == 200
        assert answering.headers["content-type"].startswith("text/event-stream")
        assert answering.headers["request-id"]
        assert here.journal.records()[0].first_token_at is None
        async for _ in answering:
            assert here.journal.records()[0].first_token_at is not None
            break
    assert here.journal.records()[0].state == "abandoned"


async def test_what_was_written_before_the_first_token_is_lost_to_whoever_leaves_early() -> None:
    here = simulator(FULL)
    async with Simulated(here).open(outgoing("anthropic")):
        pass
    answer = await read_answer(Simulated(here), outgoing("anthropic"))
    assert answer.usage.read == 0


@pytest.mark.parametrize("dialect", NAMES)
async def test_a_refusal_is_an_answer(dialect: str) -> None:
    here = simulator(FULL)
    here.faults.add(Fault("status", options=Options(status=429, retry_after=7)))
    async with Simulated(here).open(outgoing(dialect)) as answering:
        assert (answering.status, answering.headers["retry-after"]) == (429, "7")
        body = b"".join([chunk async for chunk in answering])
    assert "rate limit" in DIALECTS[dialect].read_error(429, body).message


@pytest.mark.parametrize("at", ["early", "mid", "before_last"])
@pytest.mark.parametrize("dialect", NAMES)
def test_a_connection_that_is_cut(dialect: str, at: Place) -> None:
    here = spoilt("cut", at)
    with pytest.raises(Unreachable, match="broke off"):
        run(read_answer(Simulated(here), outgoing(dialect)))
    assert here.journal.records()[0].state == "abandoned"
    assert run(read_answer(Simulated(here), outgoing(dialect))).whole


@pytest.mark.parametrize(("kind", "why"), [("close", "broke off"), ("sse_error", "Too busy."), ("malformed", "")])
@pytest.mark.parametrize("dialect", NAMES)
def test_a_spoilt_answer_is_not_whole(dialect: str, kind: str, why: str) -> None:
    answer = run(read_answer(Simulated(spoilt(kind)), outgoing(dialect)))
    assert not answer.whole
    assert why in (answer.error or "")


@pytest.mark.parametrize("kind", ["stall", "drip"])
def test_slow_answers_take_no_real_time_on_a_virtual_clock(kind: str) -> None:
    here = spoilt(kind)
    before = here.clock.now()
    assert run(read_answer(Simulated(here), outgoing("openai_chat"))).whole
    assert (here.clock.now() - before == 30.0) == (kind == "stall")


async def test_two_answers_at_once_come_in_turns() -> None:
    """Between two chunks others have their turn: nobody who is alone in a process would see a race otherwise."""
    here, seen = simulator(FULL), list[str]()

    async def watch(name: str) -> None:
        async with Simulated(here).open(outgoing("anthropic")) as answering:
            async for _ in answering:
                seen.append(name)

    await asyncio.gather(watch("a"), watch("b"))
    assert seen.index("b") < len(seen) - 1 - seen[::-1].index("a")


async def test_whoever_is_cancelled_has_left() -> None:
    here = Simulator(script=replying(FULL))  # on the machine's time
    here.faults.add(Fault("stall", options=Options(seconds=600)))
    begun = asyncio.Event()

    async def wait() -> None:
        async with Simulated(here).open(outgoing("anthropic")) as answering:
            async for _ in answering:
                begun.set()

    task = asyncio.create_task(wait())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert here.journal.records()[0].state == "abandoned"
