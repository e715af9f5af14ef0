"""Files reached one directory at a time, never through a link: what is swapped in after a check leads nowhere.

Takes a real directory and the names below it. Raises OSError; knows nothing of workspaces.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_OWN = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
# O_PATH needs no permission to list the directory, only to pass through it.
_PASS = _OWN | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
# Without O_NONBLOCK a pipe would keep us waiting for its other end.
_LOOK = _OWN | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
}

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def no_file(mode: int) -> OSError:
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    return OSError(code, f"it is {kind(mode)}, not a file")


@contextmanager
def directory(base: Path, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """A descriptor of the directory; `make` makes those on the way that are missing."""
    at = os.open(base, _PASS)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=at)
            below = os.open(part, _PASS, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def open_file(base: Path, parts: Sequence[str]) -> BinaryIO:
    """A regular file, opened for reading."""
    if not parts:
        raise no_file(stat.S_IFDIR)
    with directory(base, parts[:-1]) as at:
        descriptor = os.open(parts[-1], _LOOK | os.O_RDONLY, dir_fd=at)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise no_file(mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def put_file(base: Path, parts: Sequence[str], data: bytes, *, mode: int | None = None) -> None:
    """Write a file as a whole, with the directories that are missing. A reader sees the old one or the new one.

    An existing file keeps its permissions, and one that we may not write stays as it is. `mode` beats both.
    """
    if not parts:
        raise no_file(stat.S_IFDIR)
    with directory(base, parts[:-1], make=True) as at:
        before = _before(at, parts[-1]) if mode is None else None
        temporary = f".{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, _OWN | os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode or 0o666, dir_fd=at)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if before is not None:
                    _like(descriptor, before)
            os.rename(temporary, parts[-1], src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=at)
            raise


def _before(at: int, name: str) -> os.stat_result | None:
    try:
        descriptor = os.open(name, _LOOK | os.O_WRONLY, dir_fd=at)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise no_file(status.st_mode)
    return status


def _like(descriptor: int, before: os.stat_result) -> None:
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # only root may give a file away; its permissions matter more
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)


def write_private(directory: Path, files: dict[str, bytes]) -> None:
    """Write files for this user alone into a directory, which is created if missing. OSError if that fails.

    A directory of another owner, or a symlink in its place, is refused. Not synced: the files survive the death of the
    process, which is what durable means here.
    """
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    at = os.open(directory, _OWN | os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        owner = os.fstat(at)
        if owner.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the directory belongs to somebody else")
        if stat.S_IMODE(owner.st_mode) != PRIVATE_DIRECTORY:
            os.fchmod(at, PRIVATE_DIRECTORY)
        for name, data in files.items():
            if not _holds(at, name, data):
                put_file(directory, [name], data, mode=PRIVATE_FILE)
    finally:
        os.close(at)


def _holds(at: int, name: str, data: bytes) -> bool:
    """Whether a private file of ours with these bytes is there already: then a full disk is no obstacle."""
    try:
        descriptor = os.open(name, _OWN | os.O_RDONLY | os.O_NONBLOCK, dir_fd=at)  # a pipe must not hold us up
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        return (
            stat.S_ISREG(status.st_mode)
            and stat.S_IMODE(status.st_mode) == PRIVATE_FILE
            and (status.st_uid, status.st_nlink, status.st_size) == (os.geteuid(), 1, len(data))
            and file.read(len(data) + 1) == data
        )
