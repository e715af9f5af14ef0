"""Files for this user alone in one directory: written whole or not at all, and never through a symlink.

A directory that somebody else owns, or that has become a symlink, is refused. Knows nothing of what the files are for.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .safe_files import put_file

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

_OWN = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = _OWN | os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)


def write(directory: Path, files: dict[str, bytes]) -> None:
    """Put files into the directory, which is made if it is missing. OSError if one of them cannot be there.

    Not synced: what was written survives the death of the process, which is what durable means here.
    """
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    with _opened(directory) as at:
        owner = os.fstat(at)
        if owner.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the directory belongs to somebody else")
        if stat.S_IMODE(owner.st_mode) != PRIVATE_DIRECTORY:
            os.fchmod(at, PRIVATE_DIRECTORY)
        for name, data in files.items():
            if not _holds(at, name, data):
                put_file(directory, [name], data, mode=PRIVATE_FILE)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    at = os.open(directory, _DIRECTORY)
    try:
        yield at
    finally:
        os.close(at)


def _holds(at: int, name: str, data: bytes) -> bool:
    """Whether a private file of ours with these bytes is there already: then a full disk is no obstacle."""
    try:
        descriptor = os.open(name, _OWN | os.O_RDONLY | os.O_NONBLOCK, dir_fd=at)  # a pipe must not hold us up
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        return (
            stat.S_ISREG(found.st_mode)
            and stat.S_IMODE(found.st_mode) == PRIVATE_FILE
            and (found.st_uid, found.st_nlink, found.st_size) == (os.geteuid(), 1, len(data))
            and file.read(len(data) + 1) == data
        )
