"""Whether a store is complete: page by page and file by file; and for an open one, whether it still exists.

Both use a fresh connection, whose pages come from the file and not from memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from holdfast.errors import HoldfastError

from ..blobs import BlobFiles, digest_of
from .activity import ACTIVITY_OF_CALLS
from .bill_sums import SUM_OF_CALLS
from .connections import connect
from .problems import store_problem
from .schema import VERSIONS, check_ours, schema_version

MOST = 100
"""Problems that are named of one kind."""

SEEN = "seen"
"""The mark that is written to see whether it can be read back."""

_BUSY_S = 2.0

Progress = Callable[[str], None]


class IntegrityReport(Struct, frozen=True, kw_only=True):
    """`damage` needs a backup; `leftovers` are files that no row names, which `holdfast store prune` removes."""

    path: str
    size: int
    schema: int
    pages: int
    free_pages: int
    blobs: int
    damage: tuple[str, ...]
    leftovers: tuple[str, ...]


def check(path: Path, blobs: BlobFiles, progress: Progress = lambda _what: None) -> IntegrityReport:
    """Everything that can be known of a store without changing it."""
    damage: list[str] = []
    leftovers: list[str] = []
    version = pages = free = files = 0
    try:
        connection = connect(path, busy_timeout=5.0, create=False)
        try:
            connection.execute("PRAGMA query_only = ON")
            check_ours(connection, path)
            version = schema_version(connection)
            pages, free = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
            )
            progress(f"reading {pages:,} pages")
            damage += [f"pages: {line}" for line in _pages(connection)]
            if not damage and version == len(VERSIONS):
                progress("adding up the sums")
                damage += _sums(connection)
            files = _files(connection, blobs, damage, leftovers, progress)
        finally:
            connection.close()
    except sqlite3.Error as error:
        damage.append(str(store_problem(path, error)))
    except HoldfastError as error:
        damage.append(str(error))
    return IntegrityReport(
        path=str(path),
        size=path.stat().st_size,
        schema=version,
        pages=pages,
        free_pages=free,
        blobs=files,
        damage=tuple(damage),
        leftovers=tuple(leftovers),
    )


def _pages(connection: sqlite3.Connection) -> list[str]:
    lines = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({MOST})")]
    return [] if lines == ["ok"] else lines


def _sums(connection: sqlite3.Connection) -> list[str]:
    """Compare the sums with the calls that they sum."""
    again = f"{SUM_OF_CALLS} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8"
    differ = connection.execute(
        f"SELECT count(*) FROM (SELECT * FROM (SELECT * FROM bill_hours EXCEPT {again}) "
        f"UNION ALL SELECT * FROM ({again} EXCEPT SELECT * FROM bill_hours))"
    ).fetchone()[0]
    problems = [f"sums: {differ:,} sums for bills do not fit the calls"] if differ else []
    again = f"{ACTIVITY_OF_CALLS} GROUP BY tenant, session"
    differ = connection.execute(
        f"SELECT count(*) FROM (SELECT * FROM (SELECT * FROM session_activity EXCEPT {again}) "
        f"UNION ALL SELECT * FROM ({again} EXCEPT SELECT * FROM session_activity))"
    ).fetchone()[0]
    return [*problems, f"sums: {differ:,} sessions were active at other times than their calls"] if differ else problems


def _files(
    connection: sqlite3.Connection, blobs: BlobFiles, damage: list[str], leftovers: list[str], progress: Progress
) -> int:
    rows = connection.execute("SELECT DISTINCT tenant, digest FROM blobs").fetchall()
    progress(f"reading {len(rows):,} blobs")
    wrong = []
    for tenant, digest in rows:
        file = blobs.path(tenant, digest)
        try:
            if digest_of(file.read_bytes()) != digest:
                wrong.append(f"blobs: {file.name} holds other bytes than it should")
        except OSError as error:
            again = connection.execute("SELECT 1 FROM blobs WHERE tenant = ? AND digest = ?", (tenant, digest))
            if again.fetchone() is None:  # its lane ended meanwhile
                continue
            wrong.append(f"blobs: {file.name} cannot be read ({error.strerror})")
    unheld = connection.execute(
        "SELECT count(*) FROM edits WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.tenant = edits.tenant "
        "AND blobs.digest = edits.blob)"
    ).fetchone()[0]
    if unheld:
        wrong.append(f"edits: the bytes of {unheld:,} recorded edits are gone")
    damage += wrong[:MOST]
    owned = {(blobs.tenant_directory(tenant), digest) for tenant, digest in rows}
    leftovers += [str(file) for folder, name, file in blobs.stored() if (folder, name) not in owned][:MOST]
    return len(rows)


def check_open(path: Path, blobs: BlobFiles, seen: int, *, whole: bool) -> None:
    """Raise where something is wrong. `seen` is the mark that was just written; `whole` reads every page."""
    try:
        connection = connect(path, busy_timeout=_BUSY_S, create=False)
        try:
            connection.execute("PRAGMA query_only = ON")
            _read_back(connection, path, blobs, seen)
            if whole and (damage := _first_damage(connection)) is not None:
                raise HoldfastError(f"the store {path} is damaged ({damage}); restore a backup")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise store_problem(path, error) from error


def _first_damage(connection: sqlite3.Connection) -> str | None:
    line = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return None if line == "ok" else line.strip().splitlines()[-1]


def _read_back(connection: sqlite3.Connection, path: Path, blobs: BlobFiles, seen: int) -> None:
    """Read the last write back, and a row of every table."""
    row = connection.execute("SELECT at FROM marks WHERE name = ?", (SEEN,)).fetchone()
    if row is None or row[0] < seen:
        raise HoldfastError(
            f"the store {path} does not hold what was written to it: its -wal file was moved or deleted while it was "
            "open; restart the gateway"
        )
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'knowledge_fts%'"
    ).fetchall()
    for (name,) in tables:
        connection.execute(f'SELECT * FROM "{name}" LIMIT 1').fetchone()
    if not blobs.root.is_dir() and connection.execute("SELECT 1 FROM blobs LIMIT 1").fetchone() is not None:
        raise HoldfastError(f"the blobs of the store {path} are gone: put {blobs.root} back, or restore a backup")
