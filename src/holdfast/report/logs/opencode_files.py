"""opencode's sessions as early versions stored them: a JSON file for every session, message and part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from .lines import reason
from .opencode_records import BAD, StepUsage, StoredMessage, StoredSession
from .records import Advance, BrokenSource

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
        known = set(_names(self._path / "message"))
        for project in _names(self._path / "session"):
            for name in _names(self._path / "session" / project):
                data = self._read(Path("session", project, name))
                try:
                    found = data if isinstance(data, BrokenSource) else _SESSION(data)
                except BAD as error:
                    found = BrokenSource(f"session/{project}/{name}", f"not a session ({error})")
                if isinstance(found, BrokenSource):
                    yield found
                else:
                    known.discard(_stem(name))
                    yield StoredSession(id=_stem(name), parent=found.parent or "", created=found.time.created or 0)
        yield from (StoredSession(id=name) for name in sorted(known))

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
        """A step is over when its last call of a tool is."""
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
