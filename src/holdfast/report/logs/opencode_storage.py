"""How opencode stores its sessions: a SQLite database, in early versions a directory of small JSON files.

Both are read without changing them or standing in the client's way.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from .lines import BAD, reason
from .records import Advance, BrokenSource


class StoredSession(Struct, frozen=True, kw_only=True):
    """`created` is in milliseconds; messages that are older were copied from another session."""

    id: str
    parent: str = ""
    agent: str = ""
    created: float = 0


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message, undecoded. `removed` ones were taken back by the user, after they had been paid for."""

    id: str
    session: str
    source: str
    created: float
    data: bytes
    removed: bool = False


class StepUsage(Struct, frozen=True, kw_only=True):
    """What a step of a message used, undecoded; in milliseconds, when its answer began and when it was over."""

    data: bytes
    began: float | None = None
    ended: float | None = None


class SessionStorage(Protocol):
    """A database or a directory, open until it is left."""

    def __enter__(self) -> SessionStorage: ...

    def __exit__(self, *error: object) -> None: ...

    def sessions(self) -> Iterator[StoredSession | BrokenSource]: ...

    def messages(self, session: StoredSession) -> Iterator[tuple[float, StoredMessage | BrokenSource]]:
        """A session's messages with their times, in order."""

    def steps(self, message: StoredMessage) -> Iterator[StepUsage]: ...

    def trimmed(self, session: StoredSession) -> Collection[float]:
        """When results of tools were left out of the session's requests from then on, in milliseconds: as far as the
        messages have been read."""


LONGEST = 64 * 2**20
"""Bytes of a file that are held."""


class _Created(Struct, gc=False, frozen=True):
    created: float | None = None


class _Session(Struct, gc=False):
    parent: str | None = msgspec.field(name="parentID", default=None)
    time: _Created = _Created()


class _Message(Struct, gc=False):
    time: _Created = _Created()


class _Times(Struct, gc=False, frozen=True):
    start: float | None = None
    end: float | None = None
    compacted: float | None = None


class _State(Struct, gc=False, frozen=True):
    time: _Times = _Times()


class _Part(Struct, gc=False):
    type: str = ""
    tokens: Raw = Raw()
    state: _State = _State()
    time: _Times = _Times()


def is_storage(path: Path) -> bool:
    """Whether a directory has sessions with messages in it."""
    return any(name.startswith("ses_") for name in _names(path / "message"))


class Files:
    """The directory `storage`. Files come in the order of their names, which is that of time."""

    def __init__(self, path: Path, advance: Advance) -> None:
        self._path, self._advance = path, advance
        self._trims: dict[str, set[float]] = {}

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def sessions(self) -> Iterator[StoredSession | BrokenSource]:
        """A session that is not described, or cannot be read, has its messages all the same."""
        undescribed = set(_names(self._path / "message"))
        for project in _names(self._path / "session"):
            for name in _names(self._path / "session" / project):
                data = self._read(Path("session", project, name))
                try:
                    session = data if isinstance(data, BrokenSource) else _SESSION(data)
                except BAD as error:
                    session = BrokenSource(f"session/{project}/{name}", f"not a session ({error})")
                if isinstance(session, BrokenSource):
                    yield session
                else:
                    undescribed.discard(_stem(name))
                    yield StoredSession(id=_stem(name), parent=session.parent or "", created=session.time.created or 0)
        yield from (StoredSession(id=name) for name in sorted(undescribed))

    def messages(self, session: StoredSession) -> Iterator[tuple[float, StoredMessage | BrokenSource]]:
        latest = session.created
        for name in _names(self._path / "message" / session.id):
            source = f"message/{session.id}/{name}"
            data = self._read(Path(source))
            if isinstance(data, BrokenSource):
                yield latest, data
                continue
            try:
                latest = _MESSAGE(data).time.created or latest
            except BAD as error:
                yield latest, BrokenSource(source, f"not a message ({error})")
                continue
            yield latest, StoredMessage(id=_stem(name), session=session.id, source=source, created=latest, data=data)

    def steps(self, message: StoredMessage) -> Iterator[StepUsage]:
        """Yield the steps of a message; a step ends with its last tool call."""
        began = ended = None
        trims = self._trims.setdefault(message.session, set())
        for part in self._parts(message.id):
            if part.state.time.compacted is not None:
                trims.add(part.state.time.compacted)
            if part.type == "step-finish" and part.tokens:
                yield StepUsage(data=bytes(part.tokens), began=began, ended=ended)
                began = None
            else:
                began = began or part.time.start
                ended = part.state.time.end or part.time.end or ended

    def trimmed(self, session: StoredSession) -> set[float]:
        return self._trims.setdefault(session.id, set())

    def _parts(self, message: str) -> Iterator[_Part]:
        """A part that cannot be read is passed over: the message itself tells what it used."""
        for name in _names(self._path / "part" / message):
            data = self._read(Path("part", message, name))
            try:
                if not isinstance(data, BrokenSource):
                    yield _PART(data)
            except BAD:
                continue

    def _read(self, name: Path) -> bytes | BrokenSource:
        try:
            path = self._path / name
            size = path.stat().st_size
            data = path.read_bytes() if size <= LONGEST else None
        except OSError as error:
            return BrokenSource(name.as_posix(), reason(error))
        self._advance(size)
        return BrokenSource(name.as_posix(), f"the file is longer than {LONGEST >> 20} MiB") if data is None else data


def _names(path: Path) -> list[str]:
    """The files of a directory in order; none where it cannot be read."""
    try:
        return sorted(entry.name for entry in path.iterdir())
    except OSError:
        return []


def _stem(name: str) -> str:
    return name.removesuffix(".json")


_SESSION = msgspec.json.Decoder(_Session).decode
_MESSAGE = msgspec.json.Decoder(_Message).decode
_PART = msgspec.json.Decoder(_Part).decode


_Value = TypeVar("_Value")
_TABLES = (
    "SELECT id, parent_id, time_created FROM session LIMIT 0",
    "SELECT id, session_id, time_created, data FROM message LIMIT 0",
    "SELECT id, message_id, session_id, time_created, data FROM part LIMIT 0",
)
_HEADER = b"SQLite format 3\0"
_SHORT = 400
"""Characters of a part in which its type stands, unless it is a long one."""
_TELL = 256
"""Rows between two progress reports."""

_SESSIONS = """
    SELECT id, parent_id, {agent}, time_created FROM session
    UNION ALL SELECT DISTINCT session_id, NULL, NULL, 0 FROM message WHERE session_id NOT IN (SELECT id FROM session)
"""
_MESSAGES = "SELECT id, time_created, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_STEPS = f"""
    SELECT time_created, data FROM part
    WHERE message_id = ? AND instr(substr(data, 1, {_SHORT}), '"type":"step-') ORDER BY id
"""
# A quote inside a text is escaped: these are members.
_TRIMS = """SELECT data FROM part WHERE session_id = ? AND instr(data, '"compacted":')"""
_REMOVALS = "SELECT data FROM event WHERE aggregate_id = ? AND type = 'message.removed.1'"
_UPDATES = "SELECT data FROM event WHERE aggregate_id = ? AND type = 'message.updated.1' ORDER BY seq"


class _StepRow(Struct, gc=False):
    type: str = ""
    tokens: Raw = Raw()


class _ToolTimes(Struct, gc=False, frozen=True):
    compacted: float | None = None


class _ToolState(Struct, gc=False, frozen=True):
    time: _ToolTimes = _ToolTimes()


class _Tool(Struct, gc=False):
    state: _ToolState = _ToolState()


class _Removed(Struct, gc=False):
    message: str = msgspec.field(name="messageID", default="")


class _EventTime(Struct, gc=False, frozen=True):
    created: float = 0


class _MessageInfo(Struct, gc=False):
    id: str = ""
    time: _EventTime = _EventTime()


class _Updated(Struct, gc=False):
    info: Raw = Raw(b"{}")


def is_database(path: Path, start: bytes) -> bool:
    """Whether a SQLite file has opencode's tables."""
    if not start.startswith(_HEADER):
        return False
    try:
        connection = _open(path)
    except sqlite3.Error:
        return False
    try:
        for table in _TABLES:
            connection.execute(table)
    except sqlite3.Error:
        return False
    finally:
        connection.close()
    return True


def _open(path: Path) -> sqlite3.Connection:
    """Open read-only. A database without a write-ahead log is unused at the moment, and opened as immutable: otherwise
    SQLite would leave such a log behind."""
    logged = path.with_name(f"{path.name}-wal").exists()
    address = f"file:{quote(str(path.absolute()))}?{'mode=ro' if logged else 'immutable=1'}"
    connection = sqlite3.connect(address, uri=True)
    connection.text_factory = bytes
    return connection


class Database:
    """A row that cannot be read is `BrokenSource`; so is a session whose rows cannot be read further."""

    def __init__(self, path: Path, advance: Advance) -> None:
        self._path, self._name, self._advance = path, path.name, advance
        self._connection: sqlite3.Connection | None = None
        self._rows = self._read = self._size = self._told = 0
        self._events = False

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection is not None:
            self._connection.close()
        self._advance(self._size - self._told)

    def sessions(self) -> Iterator[StoredSession | BrokenSource]:
        try:
            self._size = self._path.stat().st_size
            self._connection = _open(self._path)
            self._events = bool(self._columns("event"))
            self._rows = self._connection.execute("SELECT count(*) FROM message").fetchone()[0]
            agent = "agent" if "agent" in self._columns("session") else "NULL"  # early versions did not store it
            for session, parent, name, created in self._connection.execute(_SESSIONS.format(agent=agent)):
                yield StoredSession(
                    id=_text(session), parent=_text(parent), agent=_text(name), created=_number(created) or 0
                )
        except (sqlite3.Error, OSError) as error:
            yield BrokenSource(self._name, reason(error))

    def messages(self, session: StoredSession) -> Iterator[tuple[float, StoredMessage | BrokenSource]]:
        return heapq.merge(self._stored(session), self._removed(session), key=lambda each: each[0])

    def steps(self, message: StoredMessage) -> Iterator[StepUsage]:
        """Where they cannot be read, the message itself tells."""
        began: float | None = None
        if message.removed:
            return
        for created, data in self._select(_STEPS, message.id):
            part = _decoded(_STEP_ROW, data)
            if part is None:
                continue
            if part.type == "step-start":
                began = _number(created)
            elif part.type == "step-finish" and part.tokens:
                yield StepUsage(data=bytes(part.tokens), began=began, ended=_number(created))

    def trimmed(self, session: StoredSession) -> set[float]:
        times = set()
        for (data,) in self._select(_TRIMS, session.id):
            tool = _decoded(_TOOL, data)
            if tool is not None and tool.state.time.compacted is not None:
                times.add(tool.state.time.compacted)
        return times

    def _columns(self, table: str) -> set[str]:
        return {_text(row[0]) for row in self._execute("SELECT name FROM pragma_table_info(?)", table)}

    def _execute(self, query: str, *values: str) -> sqlite3.Cursor:
        if self._connection is None:
            raise sqlite3.OperationalError("not open")
        return self._connection.execute(query, values)

    def _select(self, query: str, key: str) -> Iterator[Any]:
        """Rows, as far as they can be read."""
        try:
            yield from self._execute(query, key)
        except sqlite3.Error:
            return

    def _stored(self, session: StoredSession) -> Iterator[tuple[float, StoredMessage | BrokenSource]]:
        latest = session.created
        try:
            for key, created, data in self._execute(_MESSAGES, session.id):
                self._passed()
                source, at = f"{self._name}:{_text(key)}", _number(created)
                if at is None or not isinstance(data, bytes):
                    yield (
                        latest,
                        BrokenSource(source, "`time_created` is no number" if at is None else "`data` is no text"),
                    )
                    continue
                latest = at
                yield at, StoredMessage(id=_text(key), session=session.id, source=source, created=at, data=data)
        except sqlite3.Error as error:
            yield latest, BrokenSource(f"{self._name}:{session.id}", reason(error))

    def _removed(self, session: StoredSession) -> Iterator[tuple[float, StoredMessage]]:
        """Yield answers that the user undid: they are deleted, but their last state is among the events."""
        if not self._events:
            return
        events = (_decoded(_REMOVED, data) for (data,) in self._select(_REMOVALS, session.id))
        removed = {event.message for event in events if event is not None}
        latest: dict[str, tuple[float, StoredMessage]] = {}
        for (data,) in self._select(_UPDATES, session.id) if removed else ():
            event = _decoded(_UPDATED, data)
            info = b"" if event is None else bytes(event.info)
            message = _decoded(_MESSAGE_INFO, info)
            if message is not None and message.id in removed:
                at, source = message.time.created, f"{self._name}:{message.id}"
                latest[message.id] = (
                    at,
                    StoredMessage(
                        id=message.id, session=session.id, source=source, created=at, data=info, removed=True
                    ),
                )
        yield from sorted(latest.values(), key=lambda each: each[0])

    def _passed(self) -> None:
        self._read += 1
        if self._read % _TELL == 0:
            here = self._size * min(self._read, self._rows) // max(self._rows, 1)
            self._advance(here - self._told)
            self._told = here


def _decoded(decode: Callable[[bytes], _Value], data: object) -> _Value | None:
    """A value that matters little: None where it cannot be read."""
    try:
        return decode(data) if isinstance(data, bytes) else None
    except BAD:
        return None


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


_STEP_ROW = msgspec.json.Decoder(_StepRow).decode
_TOOL = msgspec.json.Decoder(_Tool).decode
_REMOVED = msgspec.json.Decoder(_Removed).decode
_UPDATED = msgspec.json.Decoder(_Updated).decode
_MESSAGE_INFO = msgspec.json.Decoder(_MessageInfo).decode
