"""Events across sessions: by type, time, tenant, session and tool, by an index, one at a time."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast.records.events import Envelope
from holdfast.records.events.tools import SkillLoaded, ToolCompleted
from holdfast.store import SqliteStore, StoredEvent
from holdfast.store import operations as op
from holdfast.store.sqlite import connections

from .samples import HOUR, NOON, event, ids


def completed(tool: str, *, at: int = NOON, session: str = "s1", output: str = "") -> Envelope:
    payload = ToolCompleted(tool=tool, tool_use_id="u", output=output)
    return Envelope.of(payload, id=ids.new(), at=at, session=session, actor="tool")


def loaded(skill: str, *, at: int = NOON, session: str = "s1") -> Envelope:
    payload = SkillLoaded(
        skill_id=skill,
        skill_version="0",
        load_reason="always",
        load_size_tokens=1,
        source="global",
        triggered_by_tool_use_id=None,
    )
    return Envelope.of(payload, id=ids.new(), at=at, session=session, actor="tool")


def seen(store: SqliteStore, type: str, **asked: object) -> list[StoredEvent]:
    found: list[StoredEvent] = []
    store.visit_events(found.append, type, **asked)  # type: ignore[arg-type]
    return found


def statements(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What SQLite is asked from now on, as it goes on."""
    asked: list[str] = []
    connect = connections.connect

    def listening(*values: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*values, **named)
        connection.set_trace_callback(asked.append)
        return connection

    store.readers.free.clear()
    monkeypatch.setattr(connections, "connect", listening)
    return asked


def test_only_the_type_asked_for_by_time(store: SqliteStore) -> None:
    events = [event(1), loaded("b", at=NOON + 3 * HOUR), loaded("a"), event(2), completed("x", at=NOON + 5)]
    store.write(op.AppendEvents.of("t1", events)).result()
    assert [each.at for each in seen(store, "skill.loaded")] == [NOON, NOON + 3 * HOUR]
    assert [each.at for each in seen(store, "tool.completed")] == [NOON + 5]
    (first, _) = seen(store, "skill.loaded")
    assert (first.tenant, first.session) == ("t1", "s1")
    assert b'"skill_id":"a"' in first.payload
    assert seen(store, "nothing.such") == []


def test_the_start_is_included_and_the_end_is_not(store: SqliteStore) -> None:
    times = [NOON - HOUR, NOON - 1, NOON, NOON + 1, NOON + HOUR - 1, NOON + HOUR, NOON + 30 * HOUR]
    store.write(op.AppendEvents.of("t1", [loaded("x", at=at) for at in times])).result()
    for start in (None, *times):
        for end in (None, *times):
            expected = [at for at in times if (start is None or at >= start) and (end is None or at < end)]
            assert [each.at for each in seen(store, "skill.loaded", start=start, end=end)] == expected
            within = seen(store, "skill.loaded", tenant="t1", session="s1", start=start, end=end)
            assert [each.at for each in within] == expected


def test_tenants_and_sessions_are_kept_apart(store: SqliteStore) -> None:
    store.write(op.AppendEvents.of("t1", [loaded("a"), loaded("b", session="s2")]))
    store.write(op.AppendEvents.of("t2", [loaded("c")])).result()

    def names(**asked: object) -> list[bytes]:
        return sorted(each.payload[13:14] for each in seen(store, "skill.loaded", **asked))

    assert names() == [b"a", b"b", b"c"]
    assert names(tenant="t1") == [b"a", b"b"]
    assert names(tenant="t1", session="s1") == [b"a"]
    assert names(session="s1") == [b"a", b"c"]
    assert names(tenant="t3") == names(tenant="t2", session="s2") == []


@pytest.mark.parametrize("session", [None, "s1"])
def test_a_tool_is_known_by_its_member_alone(store: SqliteStore, session: str | None) -> None:
    hostile = '","tool":"skill_load","x":"'
    events = [
        completed("skill_load", output="large " * 5_000),
        completed("skill_load_2", output=hostile),
        completed("my_skill_load", output='{"tool":"skill_load"}'),
        completed('skill_load"', output="skill_load"),
        completed("Skill_Load"),
        completed("größe"),
    ]
    store.write(op.AppendEvents.of("t1", events)).result()
    tenant = None if session is None else "t1"
    (only,) = seen(store, "tool.completed", tool="skill_load", tenant=tenant, session=session)
    assert only.payload.startswith(b'{"tool":"skill_load",')
    assert len(seen(store, "tool.completed", tool='skill_load"', tenant=tenant, session=session)) == 1
    assert len(seen(store, "tool.completed", tool="größe", tenant=tenant, session=session)) == 1
    assert seen(store, "tool.completed", tool="skill", tenant=tenant, session=session) == []


def test_the_words_of_a_private_event_are_kept_as_they_were_told(store: SqliteStore) -> None:
    told = completed("skill_load", output="private words")
    store.write(op.AppendEvents.of("t1", [told])).result()
    assert told.sensitivity == "private"
    (found,) = seen(store, "tool.completed")
    assert b"private words" in found.payload


def test_an_index_finds_them(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours without any of the types are not read: there is no plan that reads all events."""
    store.write(op.AppendEvents.of("t1", [loaded("a"), completed("x")])).result()
    asked = statements(store, monkeypatch)
    seen(store, "skill.loaded", start=NOON)
    seen(store, "tool.completed", tenant="t1", session="s1", tool="x")
    plans = []
    with sqlite3.connect(path) as connection:
        for statement in (each for each in asked if "payload" in each):
            rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}")
            plans.append([row[3] for row in rows if "events" in row[3]])
    connection.close()
    assert [plan[0].split(" (")[0] for plan in plans] == [
        "SEARCH events USING INDEX events_by_time",
        "SEARCH events USING INDEX events_by_stream",
    ]
    assert all(len(plan) == 1 for plan in plans)


def test_hours_that_have_none_are_not_looked_into(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(op.AppendEvents.of("t1", [event(number, at=NOON + number * HOUR) for number in range(50)]))
    store.write(op.AppendEvents.of("t1", [loaded("a", at=NOON + 20 * HOUR)]))
    store.write(op.AppendEvents.of("t2", [loaded("a", at=NOON + 30 * HOUR)])).result()
    asked = statements(store, monkeypatch)
    assert len(seen(store, "skill.loaded", tenant="t1")) == 1
    assert len([each for each in asked if "payload" in each]) == 1


def test_pruned_events_are_gone_and_nothing_fails(store: SqliteStore) -> None:
    store.write(op.AppendEvents.of("t1", [loaded("a"), loaded("b", at=NOON + 2 * HOUR)])).result()
    store.prune(NOON + HOUR)
    assert [each.at for each in seen(store, "skill.loaded")] == [NOON + 2 * HOUR]


def test_what_the_visitor_raises_comes_out_and_the_store_goes_on(store: SqliteStore) -> None:
    store.write(op.AppendEvents.of("t1", [loaded("a"), loaded("b")])).result()

    def refuse(told: StoredEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.visit_events(refuse, "skill.loaded")
    assert len(seen(store, "skill.loaded")) == 2
