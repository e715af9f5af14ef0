"""From what was typed to one session, call or tenant."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import report
from holdfast.report import UnknownIdError
from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from tests.report.skill_sessions import Session
from tests.report.workday import CHAT, CODING, NEW, Workday
from tests.store.samples import call


def test_whole_ids_and_beginnings(store: SqliteStore, workday: Workday) -> None:
    assert report.find(store, NEW).kind == "session"
    assert report.find(store, CHAT[:6]).id == CHAT
    ping = workday.calls["ping"]
    found = report.find(store, ping)
    assert (found.kind, found.tenant, found.id) == ("call", "t-two", ping)


def test_an_id_of_several_tenants_needs_one_of_them(store: SqliteStore) -> None:
    with pytest.raises(UnknownIdError, match=rf"several tenants have the session '{CODING}' \(t-two, t-one\)"):
        report.find(store, "5f0c")
    assert report.find(store, "5f0c", tenant="t-one").tenant == "t-one"


def test_a_beginning_of_many_is_refused_with_some_of_them(store: SqliteStore, workday: Workday) -> None:
    with pytest.raises(UnknownIdError, match="fits more than one id") as refused:
        report.find(store, workday.calls["clock"][:2])
    assert "call " in str(refused.value)
    assert "…" in str(refused.value)


def test_a_whole_id_wins_over_those_that_begin_with_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        for number in range(300):
            store.write(op.PutCall(call(session=f"s{number}", id=f"s1{number:04}", started_at=number)))
        store.write(op.PutCall(call(session="s", id="s1", started_at=0))).result()
        found = report.find(store, "s")
        assert (found.kind, found.id) == ("session", "s")
        assert report.find(store, "s1", kind="session").id == "s1"
        assert report.find(store, "s1", kind="call").id == "s1"


def test_close_names_are_offered(store: SqliteStore) -> None:
    with pytest.raises(UnknownIdError, match="did you mean mythical"):
        report.find(store, "mythicle")
    with pytest.raises(UnknownIdError, match="there is no session or call ''"):
        report.find(store, "")


def test_hostile_text_does_not_come_back_raw(store: SqliteStore) -> None:
    with pytest.raises(UnknownIdError) as refused:
        report.find(store, "\x1b[2J" + "x" * 1_000)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_tenant_by_its_beginning(store: SqliteStore, tmp_path: Path) -> None:
    assert report.find_tenant(store, "t-tw") == "t-two"
    with pytest.raises(UnknownIdError, match="'t-' fits more than one tenant; there are t-one, t-two"):
        report.find_tenant(store, "t-")
    with pytest.raises(UnknownIdError, match="'x' is no tenant that has calls; there are t-one, t-two"):
        report.find_tenant(store, "x")
    with open_store(tmp_path / "h.db") as empty, pytest.raises(UnknownIdError, match="none yet"):
        report.find_tenant(empty, "x")


def test_a_tenant_that_has_only_events_is_found_where_these_count(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        Session(store, "one", tenant="teller").load("pdf")
        store.write(op.PutCall(call(tenant="caller"))).result()
        store.flush()
        assert report.find_tenant(store, "tell", events=True) == "teller"
        assert report.find_tenant(store, "call", events=True) == "caller"
        with pytest.raises(UnknownIdError, match="'teller' is no tenant that has calls; there are caller"):
            report.find_tenant(store, "teller")
