"""Whose a record is: the session it is counted in, or none, because another log had it already.

Clients name their sessions with ids that no other has, and their readers give a copied request once. In other logs a
name may be anybody's, and files are copied and cut into pieces. There a request that another file had is not counted
again; a session goes on in another file if that is later on the same clock, and a lane of it is compared across the
files only if it reads all that it had covered. Otherwise it is another session of that name.
"""

from __future__ import annotations

from msgspec import Struct

from ..logs.dedup import RecentHashes
from ..logs.records import LoggedRequest
from .sessions import SessionTally

BY_ID = frozenset({"claude-code", "codex", "pi", "opencode", "store"})
"""Kinds of logs whose sessions have ids of their own."""


class RequestWindow(Struct, frozen=True):
    """Which requests are counted. Those outside are still what others are compared with, and have their numbers."""

    since: float | None = None
    until: float | None = None
    session: str | None = None

    def holds(self, at: float | None) -> bool:
        if self.since is None and self.until is None:
            return True
        return at is not None and at >= (self.since or at) and (self.until is None or at < self.until)


class SessionIndex:
    """The sessions found so far, in the order in which their logs begin."""

    def __init__(self, wanted: str | None) -> None:
        self._wanted = wanted
        self._known: dict[str, SessionTally] = {}  # of those with one name, the last
        self._given = RecentHashes()
        self._earlier: list[SessionTally] = []
        self.repeated: set[str] = set()
        """Sessions that were left out because logs of another kind had them already."""
        self.copied = 0
        """Requests that were left out because another file of the same kind had them."""

    def all(self) -> list[SessionTally]:
        return sorted([*self._earlier, *self._known.values()], key=lambda session: session.number)

    def of(self, record: LoggedRequest, origin: str, file: str) -> SessionTally | None:
        """The session a record is counted in."""
        name = record.session
        if self._wanted is not None and not name.startswith(self._wanted):
            return None
        session = self._known.get(name)
        if session is None:
            session = self._begin(record, origin, file)
        elif session.origin != origin:
            self.repeated.add(name)
            return None
        if origin in BY_ID or not file:
            return session
        key = _key(record)
        if not self._given.first_time(*key) and session.file != file:
            self.copied += 1
            if hash(key) == session.latest:
                session.goes_on(file)
            return None
        if session.file != file:
            if session.later(record.at):
                session.file = file
            else:
                earlier, session = session, self._begin(record, origin, file)
                self._earlier.append(earlier)
        session.latest = hash(key)
        return session

    def _begin(self, record: LoggedRequest, origin: str, file: str) -> SessionTally:
        source = record.source.rpartition(":")[0] or record.source  # without the line
        name, number = record.session, len(self._earlier) + len(self._known)
        key = f"{name}\0{number}" if name in self._known else name
        session = SessionTally(name, record.client, source, origin, file, key=key, number=number)
        self._known[name] = session
        return session


def _key(record: LoggedRequest) -> tuple[object, ...]:
    """By what a request is known again: its time and what was billed; its bytes where either is missing."""
    bytes_ = record.body if record.at is None or record.usage is None else None
    return record.session, record.agent, record.model, record.at, record.usage, bytes_
