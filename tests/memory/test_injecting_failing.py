"""Memory is never in the way: whatever fails or is late, the client's request goes on, and later ones say why they
differ."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.server import LimitSettings
from holdfast.engine.passage import Passage
from holdfast.memory.entries import Delta, StableBlock
from holdfast.memory.injection_state import LaneMemory, ToldDelta, decode, encode, present_deltas, with_delta
from holdfast.store import Operation
from holdfast.store import operations as op
from tests.memory.memory_door import TENANT, MemoryDoor, client_request, contents, extends, says

QUESTION = "Where does the pointer come from?"
RESET = b"x-holdfast-reset"


def sent(door: MemoryDoor, *said: str, **more: Any) -> Passage:
    passage, exchange = door.send(client_request(*said), **more)
    assert exchange.answer.status == 200, exchange.answer
    return passage


def hurried(door: MemoryDoor, seconds: float) -> None:
    """Little time to wait for the store, from now on."""
    door.configure_gateway(limits=LimitSettings(stages_ms=60_000, wait_ms=seconds * 1_000))


class TestTheStore:
    def test_closed_from_the_start_the_clients_own_goes(self, door: MemoryDoor) -> None:
        door.learn()
        door.store.close()
        passage = sent(door, QUESTION)
        assert contents(passage) == contents(client_request(QUESTION))
        assert passage.bypass is None

    def test_closed_later_what_was_given_before_goes_on(self, door: MemoryDoor) -> None:
        door.learn()
        first = sent(door, QUESTION)
        door.store.close()
        second = sent(door, QUESTION, "So.", "Go on.")
        assert extends(first, second)
        assert says(second, RESET) == ""

    @pytest.mark.slow
    def test_late_at_the_start_the_lane_has_none(self, door: MemoryDoor) -> None:
        door.learn()
        hurried(door, 0.4)
        with locked(door):
            first = sent(door, QUESTION)
        assert contents(first) == contents(client_request(QUESTION))
        hurried(door, 60)
        door.store.flush()
        second = sent(door, QUESTION, "So.", "Go on.")
        assert extends(first, second)
        door.restart()
        assert extends(second, sent(door, QUESTION, "So.", "Go on.", "So.", "More."))
        assert door.told("cache.break") == []

    @pytest.mark.slow
    def test_late_later_the_new_part_is_left_out(self, door: MemoryDoor) -> None:
        ids = door.learn()
        first = sent(door, QUESTION)
        door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
        hurried(door, 0.4)
        with locked(door):
            second = sent(door, QUESTION, "So.", "Go on.")
        assert extends(first, second)
        assert b"elsewhere" not in second.raw
        hurried(door, 60)
        door.store.flush()
        assert contents(sent(door, QUESTION, "So.", "Go on.")) == contents(second)
        third = sent(door, QUESTION, "So.", "Go on.", "So.", "More.")
        assert extends(second, third)
        assert b"elsewhere" in contents(third)[-2]
        assert door.told("cache.break") == []

    @pytest.mark.slow
    def test_late_the_context_block_stays_as_it_was(self, door: MemoryDoor) -> None:
        door.configure(placement="blocks")
        ids = door.learn()
        first = sent(door, QUESTION)
        door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
        hurried(door, 0.4)
        with locked(door):
            second = sent(door, QUESTION, "So.", "Go on.")
        assert extends(first, second)
        assert says(second, RESET) == ""
        hurried(door, 60)
        third = sent(door, QUESTION, "So.", "Go on.", "So.", "More.")
        assert b"elsewhere" in contents(third)[2]
        assert says(third, RESET) == "memory_block_changed"


class locked:  # noqa: N801 - used as a statement
    """Another process writes and does not come to an end."""

    def __init__(self, door: MemoryDoor) -> None:
        door.store.flush()
        self._connection = sqlite3.connect(door.path, isolation_level=None)

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_: object) -> None:
        with closing(self._connection):
            self._connection.execute("ROLLBACK")


class TestOurselves:
    def test_an_error_lets_the_clients_own_go_with_a_reason(
        self, door: MemoryDoor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        door.learn()
        first = sent(door, QUESTION)
        with monkeypatch.context() as patched:
            patched.setattr("holdfast.memory.injection.inject", broken)
            second = sent(door, QUESTION, "So.", "Go on.")
        assert contents(second) == contents(client_request(QUESTION, "So.", "Go on."))
        assert (says(second), says(second, RESET)) == ("", "bypassed")
        third = sent(door, QUESTION, "So.", "Go on.", "So.", "More.")
        assert contents(third)[:3] == contents(first)[:3]
        assert says(third, RESET) == "bypassed"
        assert door.told("cache.break") == []

    def test_an_error_of_the_engine_too(self, door: MemoryDoor, monkeypatch: pytest.MonkeyPatch) -> None:
        door.learn()
        with monkeypatch.context() as patched:
            patched.setattr("holdfast.engine.engine.marked", broken)
            first = sent(door, QUESTION)
        assert (first.raw, first.bypass) == (client_request(QUESTION), "error")
        second = sent(door, QUESTION, "So.", "Go on.")
        assert says(second) == "stable; deltas=1"
        assert says(second, RESET) == "bypassed"
        assert door.told("cache.break") == []

    def test_slow_passes_by(self, door: MemoryDoor, monkeypatch: pytest.MonkeyPatch) -> None:
        door.learn()
        remember = door.injecting.remember

        def slowly(reminder: Any) -> Any:
            found = remember(reminder)
            door.work += late
            return found

        with monkeypatch.context() as patched:
            patched.setattr(door.injecting, "remember", slowly)
            late = 10.0
            assert says(sent(door, QUESTION, session="patient")) == "stable; deltas=1"
            late = 100.0
            first = sent(door, QUESTION)
        assert (first.raw, first.bypass) == (client_request(QUESTION), "slow")
        second = sent(door, QUESTION, "So.", "Go on.")
        assert says(second, RESET) == "bypassed"
        assert door.told("cache.break") == []

    def test_what_was_held_back_was_not_shown(self, door: MemoryDoor) -> None:
        ids = door.learn()
        door.configure_gateway(preflight="hold", preflight_usd=0.0)
        door.clock.advance(10)
        assert door.begin(client_request(QUESTION)).held is not None
        door.store.flush()
        assert door.knowledge().shown(ids["Pointer arithmetic"]) == []


def broken(*_: object, **__: object) -> Any:
    raise RuntimeError("something in memory is broken")


class TestTogether:
    def test_of_two_processes_the_first_bytes_win(
        self, door: MemoryDoor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = door.learn()
        other = MemoryDoor(tmp_path / "m.db")
        other.clock.set(door.clock.now())
        write, theirs = door.store.write, list[Passage]()

        def interrupted(operation: Operation[Any]) -> Any:
            if isinstance(operation, op.PutInjection) and not theirs:
                # Now the other one is quicker, and knows something else.
                door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
                theirs.append(sent(other, QUESTION))
            return write(operation)

        monkeypatch.setattr(door.store, "write", interrupted)
        ours = sent(door, QUESTION)
        other.close()
        assert b"elsewhere" in theirs[0].raw
        assert contents(ours) == contents(theirs[0])

    def test_requests_of_one_lane_at_once_have_the_same_beginning(self, door: MemoryDoor) -> None:
        door.learn()
        first = sent(door, QUESTION)
        with ThreadPoolExecutor(4) as threads:
            said = [(QUESTION, "So.", f"Question {number}.") for number in range(8)]
            passages = list(threads.map(lambda each: door.begin(client_request(*each)), said))
        for passage in passages:
            assert extends(first, passage)
            passage.cut()


class TestState:
    def test_what_cannot_be_read_is_as_good_as_nothing(self) -> None:
        assert decode(b"\xff") is None
        assert decode(encode(LaneMemory(version=2))) is None
        given = LaneMemory(stable=StableBlock(text="x", entries=(("k1", "h"),)), started=True)
        assert decode(encode(given)) == given

    def test_a_lane_with_such_a_state_goes_on_without(self, door: MemoryDoor) -> None:
        door.learn()
        sent(door, QUESTION)
        (lane,) = [each.id for each in door.store.lanes(TENANT, "s")]
        row = door.store.injection(TENANT, lane)
        door.store.write(op.PutInjection(TENANT, lane, b"\xff", expected=row.version)).result(10)
        passage = sent(door, QUESTION, "So.", "Go on.")
        assert contents(passage) == contents(client_request(QUESTION, "So.", "Go on."))

    def test_it_ends_with_its_lane(self, door: MemoryDoor) -> None:
        door.learn()
        passage = sent(door, QUESTION)
        door.engine.end(passage.lane, now=door.clock.now())
        door.store.flush()
        assert door.store.injection(passage.lane.tenant, passage.lane.id) is None

    def test_old_ones_go_when_there_are_too_many(self, monkeypatch: pytest.MonkeyPatch, door: MemoryDoor) -> None:
        monkeypatch.setattr("holdfast.memory.injection_state.MOST", 3)
        blocks = door.engine.read(door.begin(client_request(QUESTION)).prepared.sent).prompt.blocks  # type: ignore[union-attr]
        told = tuple(ToldDelta(block=bytes([n]) * 16, occurrence=1, text=str(n)) for n in range(3))
        here = ToldDelta(block=blocks[-1].digest, occurrence=1, text="here")
        given = LaneMemory(told=(here, *told))
        after = with_delta(
            given, Delta(text="new", entries=(), why="changed"), blocks, 0, present_deltas(given, blocks)
        )
        assert [each.text for each in after.told] == ["here", "2", "new"]

    def test_of_how_many_tenants_it_is_known_is_bounded(
        self, monkeypatch: pytest.MonkeyPatch, door: MemoryDoor
    ) -> None:
        monkeypatch.setattr("holdfast.memory.injection.TENANTS", 2)
        door.learn()
        sent(door, QUESTION)
        injected, asked = door.store.injected, list[str]()
        monkeypatch.setattr(door.store, "injected", lambda tenant: asked.append(tenant) or injected(tenant))
        names = (TENANT, TENANT, "a", "b", "c", TENANT)
        assert [door.injecting.has_memory(name) for name in names] == [True, True, *[False] * 3, True]
        assert asked == ["a", "b", "c", TENANT]
