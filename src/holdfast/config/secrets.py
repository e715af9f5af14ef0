"""Secrets of this installation: files in HOLDFAST_HOME that only this user can read, made on first use.

They have no place in `holdfast.toml`, in the environment or in a log; a message names their file, never what it holds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from holdfast.errors import HoldfastError

_BYTES = 32
_LEAST = 16  # characters; shorter ones were not made here and are easily guessed
_PRIVATE = 0o600


def secret(home: Path, name: str) -> str:
    """The secret of this name; two processes that start at once agree on it."""
    path = home / name
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as problem:
        raise _unreadable(path, problem) from problem
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(path)
        return _read(path)
    except (OSError, UnicodeDecodeError) as problem:
        raise _unreadable(path, problem) from problem


def _read(path: Path) -> str:
    found = path.read_text("utf-8").strip()
    if len(found) < _LEAST or not found.isascii() or not found.isprintable() or " " in found:
        raise HoldfastError(f"{path} holds no secret; remove the file, and a new one is made")
    if path.stat().st_mode & 0o077:
        path.chmod(_PRIVATE)
    return found


def _make(path: Path) -> None:
    """Write it beside and link it into place: nobody sees half of it, and who is second keeps the first one's."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    try:
        with os.fdopen(file, "w") as opened:
            opened.write(secrets.token_urlsafe(_BYTES) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
    finally:
        beside.unlink()


def _unreadable(path: Path, problem: Exception) -> HoldfastError:
    reason = (problem.strerror if isinstance(problem, OSError) else None) or "it is not text"
    return HoldfastError(f"{path} cannot be used ({reason}); mend or remove it, or set HOLDFAST_HOME to another place")
