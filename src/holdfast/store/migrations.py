"""Bringing a database file to the schema this version knows: forward only, one transaction per version."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from ..errors import HoldfastError
from .bill_sums import add_functions
from .schema import APPLICATION_ID, VERSIONS


def migrate(connection: sqlite3.Connection, path: Path, versions: Sequence[Sequence[str]] = VERSIONS) -> None:
    """Apply what is missing. A crash or an error leaves the version before, complete and usable."""
    check_ours(connection, path, known=len(versions))
    add_functions(connection)
    while schema_version(connection) < len(versions):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: another process may have migrated meanwhile.
            current = schema_version(connection)
            check_ours(connection, path, known=len(versions))
            if current < len(versions):
                for statement in versions[current]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {current + 1}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def schema_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def check_ours(connection: sqlite3.Connection, path: Path, *, known: int = len(VERSIONS)) -> None:
    """Refuse, before anything is written, a file of another program or of a newer Holdfast."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = schema_version(connection)
    if application != APPLICATION_ID and (application or tables or version):
        raise HoldfastError(
            f"{path} is a database of another program; set store.url to another file, it was left untouched"
        )
    if version > known:
        raise HoldfastError(
            f"the store {path} has schema {version} and this Holdfast knows {known}; "
            "upgrade Holdfast or set store.url to another file, it was left untouched"
        )
