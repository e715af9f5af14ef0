"""Sessions on disk: one event a line, appended and never changed.

A line that was begun when the process was killed is cut off when the log is opened for writing; the cut bytes are kept
beside it. From a damaged line on nothing is read; before anything is appended, the whole file is copied. A writer holds
an exclusive lock; reading needs none.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.records.events import Envelope

from .log_content import LogContent, read, to_line
from .window.projection import project

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not everywhere: then it is the user who must not open a session twice
    fcntl = None

SUFFIX = ".jsonl"
TORN = ".torn"
DAMAGED = ".damaged"

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_OWN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_SHOWN = 8


class Log:
    """The log of one session, open for writing. `envelopes` are all that it holds, up to the `damage` if there is
    any."""

    def __init__(self, path: Path, id: str, descriptor: int, raw: bytes) -> None:
        self.path, self.id = path, id
        self._descriptor: int | None = descriptor
        content = read(raw, str(path))
        self.envelopes, self._size, self.damage = list(content.envelopes), content.size, content.damage
        self._dirty = False
        self._linked = os.fstat(descriptor).st_nlink > 0  # some file systems do not say

    @classmethod
    def create(cls, directory: Path, id: str) -> Log:
        """A new log. The directory is made if it is missing, for this user alone."""
        path = log_path(directory, id)
        try:
            _make(directory)
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | _OWN, 0o600)
        except FileExistsError:
            raise HoldfastError(f"session {id} exists already in {directory}; resume it or take another id") from None
        except OSError as error:
            raise HoldfastError(
                f"session {id} cannot be kept in {directory}: {error.strerror or error}; make that directory writable"
            ) from error
        return cls._held(path, id, descriptor)

    @classmethod
    def open(cls, directory: Path, id: str) -> Log:
        """A log that is there, for going on with it. A torn end is cut off; damage stays until `cut_damage`."""
        path = log_path(directory, id)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | _OWN)
        except FileNotFoundError:
            raise HoldfastError(f"there is no session {id} in {directory}; ask for the list of sessions") from None
        except OSError as error:
            raise HoldfastError(
                f"session {id} cannot be opened: {error.strerror or error}; look at the permissions of {path}"
            ) from error
        return cls._held(path, id, descriptor)

    @classmethod
    def _held(cls, path: Path, id: str, descriptor: int) -> Log:
        try:
            _lock(descriptor, id)
            with open(descriptor, "rb", closefd=False) as file:
                raw = file.read()
            log = cls(path, id, descriptor, raw)
            log._mend(raw)
        except BaseException:
            os.close(descriptor)
            raise
        return log

    @property
    def closed(self) -> bool:
        return self._descriptor is None

    def append(self, envelopes: Sequence[Envelope]) -> None:
        """All of them with one write, or none: on a full disk the file is left as it was."""
        if self._descriptor is None:
            raise HoldfastError(f"session {self.id} is closed; resume it first")
        if not envelopes:
            return
        if self._linked and not os.fstat(self._descriptor).st_nlink:
            raise HoldfastError(
                f"{self.path} was removed while session {self.id} was open, so nothing more of it can be kept; "
                "begin a new session"
            )
        if self.damage is not None:
            raise HoldfastError(f"{self.path} is damaged ({self.damage}); copy it before anything is appended")
        data = b"".join(to_line(envelope) for envelope in envelopes)
        self._write(self._descriptor, data)
        self.envelopes += envelopes

    def cut_damage(self) -> Path:
        """Copy the file as it is, then cut it off where it is damaged; gives the copy."""
        descriptor = self._descriptor
        assert descriptor is not None
        try:
            with open(descriptor, "rb", closefd=False) as file:
                file.seek(0)
                copy = _copy(self.path, file.read())
            os.ftruncate(descriptor, self._size)
        except OSError as error:
            raise HoldfastError(
                f"session {self.id} is damaged and cannot be copied: {error.strerror or error}; make room beside "
                f"{self.path}"
            ) from error
        self.damage = None
        return copy

    def close(self) -> None:
        """Release the log, for good."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def discard(self) -> None:
        """Delete the log of a session that was never started."""
        if self._descriptor is not None:
            self.path.unlink(missing_ok=True)
        self.close()

    def _write(self, descriptor: int, data: bytes) -> None:
        try:
            if self._dirty:
                os.ftruncate(descriptor, self._size)
            self._dirty = True
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            self._dirty = False
            self._size += len(data)
        except OSError as error:
            raise HoldfastError(
                f"session {self.id} cannot be written to {self.path}: {error.strerror or error}; "
                "nothing was lost of what it held: make room and go on"
            ) from error
        finally:
            if self._dirty:
                self._undo(descriptor)

    def _undo(self, descriptor: int) -> None:
        """Take back half a write. If even that fails, it is tried again before the next one."""
        try:
            os.ftruncate(descriptor, self._size)
        except OSError:
            return
        self._dirty = False

    def _mend(self, raw: bytes) -> None:
        """Cut off the incomplete end that a killed process left."""
        descriptor = self._descriptor
        assert descriptor is not None
        try:
            if self.damage is not None:
                return
            if self._size < len(raw):
                _keep(self.path, raw[self._size :])
                os.ftruncate(descriptor, self._size)
        except OSError as error:
            raise HoldfastError(
                f"the torn end of session {self.id} cannot be cut off: {error.strerror or error}; "
                f"make room beside {self.path}"
            ) from error
        if self._size and raw[self._size - 1 : self._size] != b"\n":
            self._write(descriptor, b"\n")


def log_path(directory: Path, id: str) -> Path:
    """The file of a session. Ids come from users: one that could be a path is refused."""
    if not _ID.fullmatch(id):
        raise HoldfastError(
            f"{id[:80]!r} is no id of a session; use up to 64 letters, digits, dots, dashes and underscores"
        )
    return directory / f"{id}{SUFFIX}"


def read_log(path: Path) -> tuple[Envelope, ...]:
    """The events of a log, up to the damage if there is any."""
    return read_content(path).envelopes


def read_content(path: Path) -> LogContent:
    """Read a log that may still be written to; an incomplete last line is ignored."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise HoldfastError(f"{path} cannot be read: {error.strerror or error}; look at its permissions") from error
    return read(raw, str(path))


def listed(directory: Path) -> tuple[str, ...]:
    """The ids of the sessions that are kept there, in alphabetical order."""
    try:
        names = sorted(path.name for path in directory.iterdir() if path.suffix == SUFFIX and path.is_file())
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise HoldfastError(
            f"the sessions in {directory} cannot be listed: {error.strerror or error}; look at its permissions"
        ) from error
    return tuple(each for each in (name.removesuffix(SUFFIX) for name in names) if _ID.fullmatch(each))


def find(directory: Path, beginning: str) -> str:
    """Return the id of the only session whose id has this prefix."""
    ids = listed(directory)
    if beginning in ids:
        return beginning
    fits = [each for each in ids if each.startswith(beginning)]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise HoldfastError(f"no session in {directory} begins with {beginning[:80]!r}; ask for the list of sessions")
    more = f" and {len(fits) - _SHOWN} more" if len(fits) > _SHOWN else ""
    raise HoldfastError(
        f"{len(fits)} sessions begin with {beginning[:80]!r}: {', '.join(fits[:_SHOWN])}{more}; give more of the id"
    )


def _make(directory: Path) -> None:
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_mode & 0o077:
        directory.chmod(0o700)


def _lock(descriptor: int, id: str) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HoldfastError(f"session {id} is in use by another process; close it there, or fork it") from None
    except OSError:
        return  # a file system without locks


def _keep(path: Path, torn: bytes) -> None:
    """Save the bytes that were cut off."""
    beside = path.with_name(path.name + TORN)
    descriptor = os.open(beside, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _OWN, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(torn if torn.endswith(b"\n") else torn + b"\n")


def _copy(path: Path, raw: bytes) -> Path:
    """A file of its own for every damage: `ID.jsonl.damaged`, then `ID.jsonl.damaged.2`."""
    for number in range(1, 1_000):
        copy = path.with_name(f"{path.name}{DAMAGED}{'' if number == 1 else f'.{number}'}")
        try:
            descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OWN, 0o600)
        except FileExistsError:
            continue
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(descriptor)
        except BaseException:  # half a copy is none, and takes room
            copy.unlink(missing_ok=True)
            raise
        return copy
    raise FileExistsError(errno.EEXIST, "there are too many copies already", str(path))


class SessionOnDisk(Struct, frozen=True, kw_only=True):
    """A session on disk."""

    id: str
    started_at: int
    last_at: int
    turns: int
    cost: Decimal
    title: str
    model: str
    agent: str = ""
    ended: bool = False
    workspace: str = ""
    damage: str = ""
    """Where its log is damaged, and what is lost."""


class UnreadableLog(Struct, frozen=True):
    """A log on disk of which not even the beginning can be read."""

    id: str
    problem: str


def stored(directory: Path) -> list[SessionOnDisk]:
    """All of them but sub-agents', the newest first."""
    sessions = [session for each in listed(directory) if (session := _session_on_disk(directory, each)) is not None]
    return sorted(sessions, key=lambda each: (each.last_at, each.id), reverse=True)


def forked_from(directory: Path, id: str) -> str | None:
    """The session that another one was forked from, if that is still there."""
    try:
        return project(read_log(log_path(directory, id))[:1]).forked_from
    except HoldfastError:
        return None


def unreadable(directory: Path) -> list[UnreadableLog]:
    """Logs that nothing can be salvaged of."""
    problems = []
    for each in listed(directory):
        try:
            content = read_content(log_path(directory, each))
        except HoldfastError as problem:
            problems.append(UnreadableLog(each, str(problem)))
            continue
        if content.damage is not None and content.state.composed is None:
            problems.append(UnreadableLog(each, f"{content.damage}, so nothing of it can be read"))
    return problems


def _session_on_disk(directory: Path, id: str) -> SessionOnDisk | None:
    """A session as the list shows it; None for sub-agents' and for what cannot be read."""
    try:
        content = read_content(log_path(directory, id))
    except HoldfastError:
        return None
    state, damage = content.state, content.damage
    if state.composed is None or state.composed.parent is not None:
        return None
    return SessionOnDisk(
        id=id,
        started_at=state.started_at,
        last_at=state.last_at,
        turns=state.turns,
        cost=state.cost + state.delegated_cost,
        title=state.title,
        model=state.model,
        agent=state.agent,
        ended=state.ended,
        workspace=state.composed.workspace,
        damage="" if damage is None else f"{damage}; lost: {damage.lost}",
    )
