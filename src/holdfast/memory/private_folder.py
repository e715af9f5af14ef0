"""Small files in one directory: read through no link, written by one process at a time and whole or not at all.

Takes a real directory and the name of one below it. Raises OSError; knows nothing of what the files are for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from holdfast.tools import directory, no_file, open_file

try:
    import fcntl
except ImportError:  # no advisory locks here: the last of two processes wins
    fcntl = None  # type: ignore[assignment]

LOCK = "memory.lock"
PATIENCE_S = 10.0
"""How long another process is waited for. One that was killed holds nothing."""

_PRIVATE = 0o600
_OWN = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_LIST = _OWN | os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)


def load(base: Path, folder: str, name: str, most: int) -> tuple[bytes, int]:
    """The first `most` bytes of a file, and how many it has; nothing where there is none."""
    try:
        file = open_file(base, (folder, name))
    except FileNotFoundError:
        return b"", 0
    return _read(file, most)


@contextlib.contextmanager
def alone(base: Path, folder: str, patience: float = PATIENCE_S) -> Iterator[int]:
    """A descriptor of the directory, which is made if it is missing, while no other process has one from here."""
    with directory(base, (folder,), make=True) as at:
        below = os.open(".", _LIST, dir_fd=at)
    try:
        lock = _locked(below, time.monotonic() + patience)
        try:
            yield below
        finally:
            os.close(lock)
    finally:
        os.close(below)


def load_at(at: int, name: str, most: int) -> tuple[bytes, int]:
    """As `load`, from a directory that is open."""
    try:
        descriptor = os.open(name, _OWN | os.O_RDONLY | os.O_NONBLOCK, dir_fd=at)  # a pipe must not hold us up
    except FileNotFoundError:
        return b"", 0
    return _read(os.fdopen(descriptor, "rb"), most)


def put(at: int, name: str, data: bytes) -> None:
    """Write a file. Whoever looks, also after a crash, finds the old one or the new one."""
    temporary = f".{name}.tmp"  # one name, since we are alone: what a killed process left behind is used up
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=at)
    descriptor = os.open(temporary, _OWN | os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE, dir_fd=at)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise
    with contextlib.suppress(OSError):  # not every file system can; the file itself is safe
        os.fsync(at)


def set_aside(at: int, name: str, other: str) -> None:
    """The file is there under another name as well, whatever becomes of the first."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(other, dir_fd=at)
    os.link(name, other, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)


def _read(file: BinaryIO, most: int) -> tuple[bytes, int]:
    with file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise no_file(found.st_mode)
        data = file.read(most)
        return data, max(found.st_size, len(data))


def _locked(at: int, until: float) -> int:
    while True:
        lock = os.open(LOCK, _OWN | os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, _PRIVATE, dir_fd=at)
        try:
            if _taken(lock, at):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        if time.monotonic() > until:
            raise OSError(errno.EAGAIN, "another process has been writing it for too long")
        time.sleep(0.005)


def _taken(lock: int, at: int) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody who tidied up may have removed the file that we waited for; then another one is the lock.
        return os.path.samestat(os.fstat(lock), os.stat(LOCK, dir_fd=at, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False
