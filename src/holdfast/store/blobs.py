"""Blobs as files: named by their SHA-256, readable by this user alone, one directory per tenant.

Knows no tables: who owns a blob and when it goes is decided by the rows, under the database's write lock.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from holdfast.errors import HoldfastError

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

_serial = count()


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_private_directory(path: Path) -> None:
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


def file_problem(path: Path, error: OSError) -> HoldfastError:
    """Return a file system error as one sentence on which a user can act."""
    if error.errno == errno.ENOSPC:
        return HoldfastError(f"{path} cannot be written because the disk is full; free some space")
    reason = error.strerror or type(error).__name__
    return HoldfastError(f"{path} cannot be used ({reason}); make it writable or set store.url to another file")


class BlobFiles:
    """The files of all blobs under one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, tenant: str, digest: str) -> Path:
        return self.root / self.tenant_directory(tenant) / digest[:2] / digest

    @staticmethod
    def tenant_directory(tenant: str) -> str:
        """A tenant's name may hold anything; its hash is always a safe directory name."""
        return digest_of(tenant.encode("utf-8", "surrogatepass"))[:32]

    def write(self, tenant: str, data: bytes) -> str:
        """Put the bytes in place atomically, so that a file under its digest is always whole."""
        digest = digest_of(data)
        path = self.path(tenant, digest)
        try:
            if not _holds(path, data):
                make_private_directory(path.parent)
                _write_atomically(path, data)
        except OSError as error:
            raise file_problem(path, error) from error
        return digest

    def read(self, tenant: str, digest: str) -> bytes:
        path = self.path(tenant, digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise HoldfastError(f"the blob {path} is gone; its lane may have ended, record it again") from error
        except OSError as error:
            raise file_problem(path, error) from error
        if digest_of(data) != digest:
            raise HoldfastError(f"the blob {path} is damaged; restore it from a backup or end its lane")
        return data

    def remove(self, tenant: str, digest: str) -> None:
        self.unlink(self.path(tenant, digest))

    @staticmethod
    def unlink(path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise file_problem(path, error) from error

    def stored(self) -> Iterator[tuple[str, str, Path]]:
        """Every file there is: tenant directory, name, path; unfinished ones too."""
        for path in self.root.glob("*/*/*"):
            if not path.is_dir():
                yield path.parent.parent.name, path.name, path


def blobs_of(path: Path) -> BlobFiles:
    """The blobs of the store in this file."""
    return BlobFiles(path.with_name(path.name + ".blobs"))


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except FileNotFoundError:
        return False


def _write_atomically(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{next(_serial)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
