"""Which tenants are one account: in a table that a store of the release before gets when it is opened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast.store import open_store
from holdfast.store import operations as op
from holdfast.store.sqlite.schema import VERSIONS, migrate


def test_a_store_of_the_second_schema_learns_it(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        migrate(old, path, VERSIONS[:2])
        old.execute("INSERT INTO sessions (tenant, id, started_at) VALUES ('t1', 's1', 1)")
    with open_store(path) as store:
        assert [each.id for each in store.sessions()] == ["s1"]
        assert store.account("s-1") is None
        store.write(op.PutAccount("s-1", "s-0", at=1)).result()
        store.write(op.PutAccount("s-1", "s-9", at=2)).result()
    with open_store(path) as store:
        assert store.account("s-1") == "s-9"
