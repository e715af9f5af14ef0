"""Lanes known by their chain survive a restart, through a real store; a store that fails means memory only."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import EngineCore
from holdfast.engine.identity import Identity, lane_store
from holdfast.errors import HoldfastError
from holdfast.store import Call, Operation, Session, SqliteStore, Store, open_store
from holdfast.store import Lane as LaneRow
from holdfast.store import operations as op
from holdfast.store.interface import Writes
from tests.engine.identity.desk import NOW, Desk, run_of, words

HEADERS = {"user-agent": "my-agent/1.0", "x-api-key": "one"}


def _send(desk: Desk, *texts: str, **more: Any) -> Identity:
    found = desk.send(HEADERS, desk.body("anthropic", words(*texts, **more)))
    _remember_session(desk.identities.store, found)
    return found


def _remember_session(store: Writes | None, found: Identity) -> None:
    """The engine's part: the session's row."""
    if store is not None:
        row = Session(tenant=found.lane.tenant, id=found.lane.session, started_at=int(NOW * 1e6))
        store.write(op.PutSession(row)).result()


@pytest.mark.parametrize(
    ("client", "before", "after"),
    [("pi-0.73", "anthropic", "anthropic-c"), ("llm-0.36", "anthropic", "anthropic-c")],
)
def test_a_recorded_conversation_is_resumed_after_a_restart(
    tmp_path: Path, client: str, before: str, after: str
) -> None:
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        first = [found for shape in run_of(client, before) if (found := desk.replay(shape)) is not None]
        _remember_session(store, first[0])
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        again = [found.lane for shape in run_of(client, after) if (found := desk.replay(shape)) is not None]
    assert again
    assert {lane.id for lane in again} == {first[0].lane.id}


def test_the_engines_row_is_kept_and_the_lane_found_again(tmp_path: Path) -> None:
    shapes = run_of("pi-0.73", "anthropic")
    lanes = []
    for part in (shapes[:2], shapes[2:]):
        with open_store(tmp_path / "h.db") as store:
            desk, engine = Desk(store), EngineCore(store=store)
            for shape in part:
                body = desk.body("anthropic", shape.body or b"")
                found = desk.find(HEADERS, body)
                prepared = engine.prepare(body, lane=found.lane, now=desk.now)
                desk.identities.sent(found, body, lambda: pytest.fail("it was read already"), desk.now)
                engine.abandon(prepared, now=desk.now)
                desk.now += 1
                lanes.append(found.lane)
            engine.close(now=desk.now)
    assert {lane.id for lane in lanes} == {lanes[0].id}
    with open_store(tmp_path / "h.db") as store:
        row = store.lane(lanes[0].tenant, lanes[0].id)
        assert (row.started_at, row.session, row.client) == (int(NOW * 1e6), lanes[0].session, "my-agent")
        assert row.model == "claude-sonnet-4-5"
        assert store.session(lanes[0].tenant, lanes[0].session) is not None


def test_a_lane_comes_back_with_all_that_is_asked_of_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        examples = _send(desk, "2+2?", "4", "7+7?")
        talk = [_send(desk, *("Hello", "Hi", "Read it", "Done", "Thanks")[:end]) for end in (1, 3, 5)][-1]
        content = {"model": "gpt-5", "input": "Hello"}
        kept = desk.send(HEADERS, desk.body("openai_responses", content))
        _remember_session(store, kept)
        desk.identities.answered(kept, "resp_1")
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        assert _send(desk, "2+2?", "4", "8+8?").lane != examples.lane
        assert _send(desk, "2+2?", "4", "7+7?", "14", "Why?").lane == examples.lane
        assert _send(desk, "Hello", "Hi", "Write it").lane == talk.lane
        clock = _send(desk, "Hello", "Hi", "Write it", "Yes", "Now", system="It is late.")
        assert clock.lane == talk.lane
        content = {"model": "gpt-5", "previous_response_id": "resp_1", "input": "More"}
        assert desk.send(HEADERS, desk.body("openai_responses", content)).lane == kept.lane


def test_another_tenant_does_not_get_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        lane = _send(Desk(store), "Hello").lane
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        other = desk.send({**HEADERS, "x-api-key": "two"}, desk.body("anthropic", words("Hello", "Hi", "Go on")))
        assert other.lane.id != lane.id
        assert _send(desk, "Hello", "Hi", "Go on").lane == lane


def test_a_lane_comes_back_with_its_project(tmp_path: Path) -> None:
    texts, lanes = ("Hello", "Hi", "Go on", "Done", "More"), []
    for end in (1, 3, 5):
        with open_store(tmp_path / "h.db") as store:
            desk = Desk(store)
            body = desk.body("anthropic", words(*texts[:end]))
            found = [desk.send(HEADERS, body, project=project) for project in ("/shop", "/blog")]
            for each in found:
                _remember_session(store, each)
            lanes.append([each.lane for each in found])
    assert lanes[0] == lanes[1] == lanes[2]
    assert lanes[0][0] != lanes[0][1]


def test_with_another_key_nothing_is_recognised(tmp_path: Path) -> None:
    """Not even for the tenant without a credential, whose name is the same under every key."""
    lanes = []
    for key, texts in (
        (b"one", ("Hello",)),
        (b"another", ("Hello", "Hi", "Go on")),
        (b"one", ("Hello", "Hi", "Go on")),
    ):
        with open_store(tmp_path / "h.db") as store:
            desk = Desk(store, key=key)
            found = desk.send({}, desk.body("anthropic", words(*texts)))
            _remember_session(store, found)
            lanes.append(found.lane)
    assert {lane.tenant for lane in lanes} == {"local"}
    assert lanes[0] == lanes[2] != lanes[1]


def test_only_what_changed_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        first = _send(desk, "Hello")
        write = store.write
        rows: list[LaneRow] = []

        def count(operation: Operation[Any]) -> Any:
            if isinstance(operation, op.PutLane):
                rows.append(operation.lane)
            return write(operation)

        monkeypatch.setattr(store, "write", count)
        desk.identities.unanswered(first)
        assert _send(desk, "Hello").lane == first.lane
        assert rows == []
        follow = _send(desk, "Hello", "Hi", "Go on")
        desk.identities.answered(follow, "msg_1")  # nobody goes on from a message's id
        assert [row.id for row in rows] == [first.lane.id]


def test_a_lane_that_has_ended_is_left_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        lane = _send(Desk(store), "Hello").lane
        store.write(op.EndLane(lane.tenant, lane.id, int(NOW * 1e6))).result()
        assert _send(Desk(store), "Hello", "Hi", "Go on").lane != lane


@pytest.mark.parametrize("data", [None, b"", b"\xff", b"\x91\xa1x", "other"])
def test_rows_of_somebody_else_are_no_matter(tmp_path: Path, data: bytes | str | None) -> None:
    with open_store(tmp_path / "h.db") as store:
        lane = _send(Desk(store), "Hello").lane
        row = store.lane(lane.tenant, lane.id)
        assert row.data is not None
        raw = row.data.replace(b"chain-1", b"other-1") if isinstance(data, str) else data
        fields = {name: getattr(row, name) for name in row.__struct_fields__} | {"data": raw}
        store.write(op.PutLane(LaneRow(**fields))).result()
        assert _send(Desk(store), "Hello", "Hi", "Go on").lane != lane


def test_an_odd_model_is_stored_as_well(tmp_path: Path) -> None:
    body = b'{"model":"\\ud800","max_tokens":100,"messages":[{"role":"user","content":"Hello"}]}'
    follow = body.replace(b"}]}", b'},{"role":"assistant","content":"Hi"},{"role":"user","content":"x"}]}')
    lanes = []
    for raw in (body, follow):
        with open_store(tmp_path / "h.db") as store:
            desk = Desk(store)
            found = desk.send(HEADERS, desk.body("anthropic", raw))
            _remember_session(store, found)
            lanes.append(found.lane)
    assert lanes[0] == lanes[1]


def test_no_more_lanes_are_loaded_than_are_of_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_store, "MOST", 3)
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        lanes = []
        for number in range(5):
            found = desk.send(HEADERS, desk.body("anthropic", words(f"Hello {number}")))
            row = Session(tenant=found.lane.tenant, id=found.lane.session, started_at=number)
            store.write(op.PutSession(row)).result()
            lanes.append(found.lane)
        desk = Desk(store)
        again = [desk.send(HEADERS, desk.body("anthropic", words(f"Hello {n}", "Hi", "Go on"))).lane for n in range(5)]
    assert [a == b for a, b in zip(again, lanes, strict=True)] == [False, False, True, True, True]


class _Failing:
    """A store whose every call fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def fail(*args: object, **more: object) -> Any:
            raise self._error

        return fail


@pytest.mark.parametrize(
    "error", [HoldfastError("no"), sqlite3.OperationalError("no"), OSError("no"), RuntimeError("closed")]
)
def test_a_store_that_fails_means_memory_only(error: Exception) -> None:
    store: Any = _Failing(error)
    desk = Desk(store)
    lanes = [desk.send(HEADERS, desk.body("anthropic", words(*texts))).lane for texts in (("A",), ("A", "B", "C"))]
    assert lanes[0] == lanes[1]
    sub = {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}
    assert desk.send(sub, desk.body("anthropic", words("A"))).lane.parent is None


def test_a_closed_store_means_memory_only(tmp_path: Path) -> None:
    store: SqliteStore = open_store(tmp_path / "h.db")
    store.close()
    kept: Store = store
    desk = Desk(kept)
    lanes = [desk.send(HEADERS, desk.body("anthropic", words(*texts))).lane for texts in (("A",), ("A", "B", "C"))]
    assert lanes[0] == lanes[1]


def test_what_was_used_last_is_found_among_many_that_began_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_store, "MOST", 3)
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        _send(desk, "the first")
        first = _send(desk, "the first", "an answer", "more")
        for number in range(6):
            desk.now += 1
            other = _send(desk, f"another {number}")
            later = Session(tenant=other.lane.tenant, id=other.lane.session, started_at=int(desk.now * 1e6))
            store.write(op.PutSession(later)).result()
        desk.now += 1
        assert _send(desk, "the first", "an answer", "more", "yes", "and more").lane == first.lane
        call = Call(
            tenant=first.lane.tenant,
            id="c",
            session=first.lane.session,
            lane=first.lane.id,
            model="anthropic:claude-opus-5-5",
            started_at=int(desk.now * 1e6),
        )
        store.write(op.PutCall(call)).result()
    with open_store(tmp_path / "h.db") as store:
        again, found = Desk(store), ("the first", "an answer", "more", "yes", "and more", "well", "go on")
        again.now = desk.now + 5
        assert _send(again, *found).lane.id == first.lane.id


def test_a_lane_that_may_be_anothers_stays_one_after_a_restart(tmp_path: Path) -> None:
    texts = ("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait")
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store, care="repairs")
        for _ in range(2):
            _send(desk, "Hello")
        shared = _send(desk, *texts[:3])
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store, care="repairs")
        assert _send(desk, *texts[:5]).lane == shared.lane
        assert _send(desk, *texts, system="You help, too.").lane != shared.lane
