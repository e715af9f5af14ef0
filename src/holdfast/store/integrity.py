"""A whole store, page by page and file by file: what is damaged, and what is left over."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from holdfast.errors import HoldfastError

from .bill_sums import SUM_OF_CALLS
from .blobs import BlobFiles, digest_of
from .connections import connect
from .migrations import check_ours, schema_version
from .problems import store_problem
from .schema import VERSIONS

MOST = 100
"""Problems that are named of one kind."""

Progress = Callable[[str], None]


class Checked(Struct, frozen=True, kw_only=True):
    """`damage` needs a backup; `leftovers` are files that no row names, which `holdfast store prune` removes."""

    path: str
    size: int
    schema: int
    pages: int
    free_pages: int
    blobs: int
    damage: tuple[str, ...]
    leftovers: tuple[str, ...]


def check(path: Path, blobs: BlobFiles, progress: Progress = lambda _what: None) -> Checked:
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
    return Checked(
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
    said = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({MOST})")]
    return [] if said == ["ok"] else said


def _sums(connection: sqlite3.Connection) -> list[str]:
    """The sums for bills against the calls they sum."""
    again = f"{SUM_OF_CALLS} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8"
    differ = connection.execute(
        f"SELECT count(*) FROM (SELECT * FROM (SELECT * FROM bill_hours EXCEPT {again}) "
        f"UNION ALL SELECT * FROM ({again} EXCEPT SELECT * FROM bill_hours))"
    ).fetchone()[0]
    return [f"sums: {differ:,} sums for bills do not fit the calls"] if differ else []


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
