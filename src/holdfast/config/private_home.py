"""HOLDFAST_HOME is for its user alone: it holds keys, conversations and reports of breaks.

A home that others can look into, made by hand or by an older version, is closed when a door opens on it; what is not
ours to close is reported instead, once in a process. Its secrets are files that only this user can read, made on first
use: they have no place in `holdfast.toml`, in the environment or in a log, and a message names their file, never what
it holds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
import tempfile
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.notices import warn_once

log = logging.getLogger(__name__)

PRIVATE, PRIVATE_FILE = 0o700, 0o600
_OTHERS = 0o077

_FILES = ("access-key", "admin-token", "tenant-key", "holdfast.db", "holdfast.db-wal", "holdfast.db-shm")
_DIRECTORIES = ("sessions", "cache-breaks", "blobs")
"""What in it holds secrets or texts, should others get as far."""

_SHARED = "is used by more than Holdfast"
"""The reason to leave it open for others; no advice to close it by hand follows."""

_DEFAULT = ".holdfast"
"""The name of a home that is nobody else's, wherever it lies."""


def close_to_others(home: Path, *, workspace: Path | None = None) -> None:
    """Revoke everyone else's access to HOLDFAST_HOME, or log why not. Never fails: a user locked out by a mode loses
    more than the mode protects. A `workspace` is not ours to close."""
    try:
        mode = home.lstat().st_mode
        target = home.stat()
    except OSError:  # it is made when something is stored, for this user alone
        return
    why = None
    if stat.S_ISDIR(target.st_mode) and target.st_mode & _OTHERS:
        why = _not_to_be_closed(home, mode, target, workspace)
        if why is None:
            why = _close(home, PRIVATE)
        if why is None:
            log.warning("%s was open to other users (mode %03o); it is closed now (700)", home, _mode(target))
        else:
            warn_once(
                log,
                "%s is open to other users (mode %03o) and %s; %sset HOLDFAST_HOME to a directory of your own",
                home,
                _mode(target),
                why,
                "" if why == _SHARED else "`chmod 700` it, or ",
            )
    for name in _FILES:
        _close_inside(home / name, PRIVATE_FILE)
    if why != _SHARED:  # there others have such names too; ours are closed when they are used
        for name in _DIRECTORIES:
            _close_inside(home / name, PRIVATE)


def _mode(status: os.stat_result) -> int:
    return stat.S_IMODE(status.st_mode)


def _not_to_be_closed(home: Path, mode: int, target: os.stat_result, workspace: Path | None) -> str | None:
    """Why it is left as it is: others need it, or it is not ours."""
    if stat.S_ISLNK(mode):
        return "is a link"
    if hasattr(os, "getuid") and target.st_uid != os.getuid():
        return "belongs to another user"
    if target.st_mode & stat.S_ISVTX or _is_shared(home, workspace):
        return _SHARED
    return None


def _is_shared(home: Path, workspace: Path | None) -> bool:
    """Return whether other programs or people need the directory: the root, a shared or home directory, a workspace, a
    directory in a repository, unless its name shows that it is ours."""
    place = home.resolve()
    if place == Path(place.anchor) or (place / ".git").exists():
        return True
    if place.name != _DEFAULT and any((each / ".git").exists() for each in place.parents):
        return True
    others = [Path("/tmp"), Path("/var/tmp"), *(() if workspace is None else (workspace,))]
    for find in (Path.home, Path.cwd, tempfile.gettempdir):
        with contextlib.suppress(OSError, RuntimeError):  # not everyone has one
            others.append(Path(find()))
    return any(place == other.resolve() for other in others)


def _close(path: Path, private: int) -> str | None:
    try:
        path.chmod(private)
    except OSError as problem:
        return f"cannot be closed ({problem.strerror})"
    return None


def _close_inside(path: Path, private: int) -> None:
    """Close a file or directory to others if it belongs to this user; links are not followed."""
    try:
        status = path.lstat()
    except OSError:
        return
    ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    if ours and not stat.S_ISLNK(status.st_mode) and status.st_mode & _OTHERS:
        _close(path, private)


_BYTES = 32
_LEAST = 16  # characters; shorter ones were not made here and are easily guessed


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
    text = path.read_text("utf-8").strip()
    if len(text) < _LEAST or not text.isascii() or not text.isprintable() or " " in text:
        raise HoldfastError(f"{path} holds no secret; remove the file, and a new one is made")
    if path.stat().st_mode & 0o077:
        path.chmod(PRIVATE_FILE)
    return text


def _make(path: Path) -> None:
    """Write a temporary file and link it into place: it is never seen half-written, and the first writer wins."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
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
