"""Sessions by their last call: from the kept spans as from the calls themselves, whatever is written and removed."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store import Call, SessionActivity, SqliteStore, open_existing, open_store
from holdfast.store import operations as op

from .samples import HOUR, NOON, call


def fill(store: SqliteStore, chance: random.Random) -> None:
    for number in range(400):
        tenant, session = f"t{chance.randrange(3)}", f"s{chance.randrange(40):02}"
        at = NOON + chance.randrange(24) * HOUR + chance.randrange(100)
        status = chance.choice(["settled", "pending"])
        store.write(op.PutCall(call(id=f"c{number:03}", tenant=tenant, session=session, started_at=at, status=status)))
    for number in chance.sample(range(400), 60):  # some end, some stand elsewhere now
        (tenant, name), *_ = store.call_ids(f"c{number:03}") or [("t0", "")]
        row = store.call(tenant, name)
        if row is not None:
            store.write(op.PutCall(call(id=name, tenant=tenant, session=row.session, started_at=row.started_at - HOUR)))
    store.write(op.DeleteSession("t1", "s07")).result()


def expected(calls: list[Call], start: int | None, end: int | None, prefix: str) -> list[SessionActivity]:
    found = []
    for tenant, session in sorted({(each.tenant, each.session) for each in calls}):
        times = [each.started_at for each in calls if (each.tenant, each.session) == (tenant, session)]
        within = [at for at in times if (start is None or at >= start) and (end is None or at < end)]
        if within and session.startswith(prefix):
            activity = SessionActivity(tenant=tenant, session=session, first=min(times), last=max(times))
            found.append(((session != prefix, -max(within), session, tenant), activity))
    return [activity for _, activity in sorted(found)]


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_as_the_calls_say(store: SqliteStore, seed: int, pruned: bool) -> None:
    chance = random.Random(seed)
    fill(store, chance)
    if pruned:
        store.prune(NOON + 9 * HOUR, keep=["s03"])
    calls = store.calls(limit=1_000)
    for start, end in ((None, None), (NOON + 5 * HOUR, None), (None, NOON + 12 * HOUR), (NOON + HOUR, NOON + 8 * HOUR)):
        for tenant in (None, "t1"):
            of_tenant = [each for each in calls if tenant in (None, each.tenant)]
            for prefix in ("", "s1", "s11"):
                found = store.active_sessions(tenant, start=start, end=end, prefix=prefix, limit=1_000)
                assert sorted(found, key=repr) == sorted(expected(of_tenant, start, end, prefix), key=repr)
                first = store.active_sessions(tenant, start=start, end=end, prefix=prefix, limit=5)
                assert [each.last for each in first] == [each.last for each in found][:5]
    assert store.active_tenants() == sorted({each.tenant for each in calls})
    store.check(whole=True)


def test_an_older_store_has_it_when_it_was_brought_up_to_date_and_without(store: SqliteStore, path: Path) -> None:
    fill(store, random.Random(9))
    now = store.active_sessions(limit=1_000)
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        older.execute("DROP TABLE session_activity")
        older.execute("PRAGMA user_version = 4")
    looking = open_existing(path)
    assert looking is not None
    with looking:
        assert sorted(looking.active_sessions(limit=1_000), key=repr) == sorted(now, key=repr)
    with open_store(path) as again:
        assert again.active_sessions(limit=1_000) == now


def test_ids_are_found_by_their_beginning_in_every_tenant(store: SqliteStore) -> None:
    for tenant, name in (("t1", "ab"), ("t2", "ab"), ("t1", "abc"), ("t3", "abd"), ("t3", "b"), ("t1", "a\U0010ffff")):
        store.write(op.PutCall(call(tenant=tenant, id=name))).result()
    assert store.call_ids("ab") == [("t1", "ab"), ("t2", "ab"), ("t3", "abd"), ("t1", "abc")]
    assert store.call_ids("ab", "t3") == [("t3", "abd")]
    assert store.call_ids("a", limit=1) == [("t1", "a\U0010ffff")]
    assert len(store.call_ids("")) == 6
    assert store.call(None, "b") is not None
    assert store.call(None, "c") is None


def test_the_newest_hours_hold_about_as_many_calls_as_asked(store: SqliteStore) -> None:
    assert store.newest_hour(10) is None
    for number, hour in enumerate((0, 0, 1, 1, 1, 3)):
        store.write(op.PutCall(call(id=f"c{number}", started_at=NOON + hour * HOUR))).result()
    assert [(store.newest_hour(calls) or 0) - NOON for calls in (0, 1, 3, 4, 5, 6, 100)] == [
        each * HOUR for each in (3, 3, 3, 1, 1, 0, 0)
    ]
