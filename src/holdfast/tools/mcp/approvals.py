"""Which servers of a workspace the user allowed: a file in HOLDFAST_HOME that only this user can read.

Kept are digests of definitions, never what they hold. A workspace may be a stranger's repository, so a change of one
character in what is started asks again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError

from .. import private_files
from .server import Server

FILE = "mcp-approved.json"
_LARGEST = 10_000_000


class _Entry(Struct, frozen=True):
    server: str
    workspace: str


class _Approved(Struct):
    approved: dict[str, _Entry] = {}


def approved(home: Path, server: Server) -> bool:
    """Whether the user allowed exactly this definition. A file that cannot be read allows nothing."""
    try:
        return server.digest in _read(home).approved
    except HoldfastError:
        return False


def approve(home: Path, server: Server) -> None:
    """Allow this definition in its workspace from now on."""
    kept = _read(home)
    kept.approved[server.digest] = _Entry(server.name, server.workspace)
    _write(home, kept)


def revoke(home: Path, server: Server) -> bool:
    """Take back what was allowed under this name in this workspace; whether there was anything."""
    kept = _read(home)
    left = {
        digest: entry
        for digest, entry in kept.approved.items()
        if digest != server.digest and (entry.server, entry.workspace) != (server.name, server.workspace)
    }
    if len(left) == len(kept.approved):
        return False
    _write(home, _Approved(left))
    return True


def _read(home: Path) -> _Approved:
    path = home / FILE
    try:
        if path.stat().st_size > _LARGEST:
            raise HoldfastError(f"{path} is larger than 10 MB; remove it, and approve your servers again")
        return msgspec.json.decode(path.read_bytes(), type=_Approved)
    except FileNotFoundError:
        return _Approved()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as problem:
        reason = (problem.strerror if isinstance(problem, OSError) else None) or "it is damaged"
        raise HoldfastError(f"{path} cannot be read ({reason}); remove it, and approve your servers again") from problem


def _write(home: Path, kept: _Approved) -> None:
    try:
        # HOLDFAST_HOME itself may be a symlink of the user's own.
        private_files.write(home.resolve(), {FILE: msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n"})
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise HoldfastError(f"{home / FILE} cannot be written ({reason}); make its place writable") from problem
