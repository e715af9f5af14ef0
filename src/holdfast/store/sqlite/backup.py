"""A copy of a store that is in use: all of one moment, with its blobs, verified before it takes its name."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from holdfast.errors import HoldfastError

from ..blobs import PRIVATE_FILE, BlobFiles, blobs_of, file_problem, make_private_directory
from .connections import connect
from .integrity import IntegrityReport, check
from .problems import store_problem

_PAGES = 2_000
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

Progress = Callable[[str, int, int], None]
"""What is copied, how much of it is done, and how much there is."""


def back_up(
    path: Path, target: Path, *, force: bool = False, progress: Progress = lambda _what, _done, _all: None
) -> IntegrityReport:
    """Copy the store to `target`, and its blobs beside it. An existing target is replaced only with `force`, and only
    by a verified copy."""
    target = target.expanduser().resolve()
    blobs, copied = blobs_of(path), blobs_of(target)
    if target == path:
        raise HoldfastError(f"{target} is the store itself; name another file for its backup")
    if target.is_dir():
        raise HoldfastError(f"{target} is a directory; name a file in it, such as {target / path.name}")
    if not force and (target.exists() or copied.root.exists()):
        raise HoldfastError(f"{target} is there already; name another file, or replace it with --force")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    beside = blobs_of(partial)
    try:
        make_private_directory(target.parent)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
        _copy_database(path, partial, progress)
        _copy_blobs(partial, blobs, beside, progress)
        result = check(partial, beside)
        if result.damage:
            raise HoldfastError(f"the backup is not whole ({result.damage[0]}); nothing was replaced")
        _replace(beside.root, copied.root)
        for end in ("-wal", "-shm", "-turn"):  # of what was there before
            target.with_name(target.name + end).unlink(missing_ok=True)
        partial.replace(target)
    except sqlite3.Error as error:
        damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED  # page by page it is a copy of the damage
        raise store_problem(path if damaged else target, error) from error
    except OSError as error:
        raise file_problem(target, error) from error
    finally:
        partial.unlink(missing_ok=True)
        shutil.rmtree(beside.root, ignore_errors=True)
    return result


def _copy_database(path: Path, target: Path, progress: Progress) -> None:
    source = connect(path, busy_timeout=5.0, create=False)
    try:
        copy = sqlite3.connect(target)
        try:
            source.backup(
                copy,
                pages=_PAGES,
                progress=lambda _state, left, pages: progress("pages", pages - left, pages),
                sleep=0.01,
            )
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        finally:
            copy.close()
    finally:
        source.close()


def _copy_blobs(copy: Path, blobs: BlobFiles, beside: BlobFiles, progress: Progress) -> None:
    """Those that the copy names. One whose lane ended since it was made is gone with its lane."""
    connection = sqlite3.connect(copy)
    try:
        rows = connection.execute("SELECT DISTINCT tenant, digest FROM blobs").fetchall()
        for number, (tenant, digest) in enumerate(rows, 1):
            source, target = blobs.path(tenant, digest), beside.path(tenant, digest)
            make_private_directory(target.parent)
            try:
                data = source.read_bytes()
            except FileNotFoundError:
                with connection:
                    for table, column in (("blobs", "digest"), ("edits", "blob")):
                        connection.execute(f"DELETE FROM {table} WHERE tenant = ? AND {column} = ?", (tenant, digest))
                continue
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            progress("blobs", number, len(rows))
    finally:
        connection.close()


def _replace(new: Path, old: Path) -> None:
    if old.exists():
        shutil.rmtree(old)
    if new.exists():
        new.replace(old)
