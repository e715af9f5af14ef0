"""Which sessions of some logs are replayed: those that can be, and of many the latest.

Logs are read twice: once to see what there is, which takes no memory to speak of, and once more where the chosen
sessions are. A request that a client copied into another file counts where it was met the first time.
"""

from __future__ import annotations

from msgspec import Struct

from .records import BrokenSource, LoggedRequest, Record, Source
from .trace_builder import TraceBuilder, is_known, is_ping

SESSIONS, REQUESTS = 20, 10_000
"""Sessions that are taken where no number is given, and requests that they have together, unless one alone has more."""
SUBAGENTS = "subagents"
NAMED = 5
"""Lines that could not be read and are named; the others are counted."""


class SessionExtent(Struct):
    """A session: when its latest request was sent, how many requests are known well enough, and where they are."""

    origin: str
    latest: float | None = None
    known: int = 0
    sources: set[int] = set()


class SessionChooser:
    """`add` every record with its source; `chosen` are the sources to read again, with `again`."""

    def __init__(self, session: str | None = None) -> None:
        self._begins = session or ""
        self._sessions: dict[str, SessionExtent] = {}
        self._sources: dict[Source, int] = {}
        self._places: set[int] = set()
        self.broken = 0
        self.named: list[BrokenSource] = []
        self.repeated: set[str] = set()
        """Sessions that logs of two kinds have; the first kind counts."""

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    @property
    def known(self) -> list[str]:
        """The sessions that can be replayed, the earliest first; of those without times, in the order of the logs."""
        found = [(each.latest or 0.0, name) for name, each in self._sessions.items() if each.known]
        return [name for _, name in sorted(found, key=lambda pair: pair[0])]

    def add(self, source: Source, record: Record) -> None:
        if isinstance(record, BrokenSource):
            self.broken += 1
            if len(self.named) < NAMED:
                self.named.append(record)
            return
        if not record.session.startswith(self._begins) or is_ping(record, source.format):
            return
        found = self._sessions.get(record.session)
        if found is None:
            found = self._sessions[record.session] = SessionExtent(source.format)
        elif found.origin != source.format:
            self.repeated.add(record.session)
            return
        found.sources.add(self._sources.setdefault(source, len(self._sources)))
        found.known += is_known(record)
        if record.at is not None:
            found.latest = record.at if found.latest is None else max(found.latest, record.at)
        self._places.add(_place(source, record))

    def chosen(self, limit: int | None = None) -> SecondReading:
        """The latest sessions: so many, or as many as are replayed in a minute or two."""
        names = self.known[-(limit or SESSIONS) :]
        requests = 0
        for place in range(len(names) - 1, -1, -1):
            requests += self._sessions[names[place]].known
            if limit is None and requests > REQUESTS and place < len(names) - 1:
                names = names[place + 1 :]
                break
        numbers = {number for name in names for number in self._sessions[name].sources}
        return SecondReading(
            names, [source for source, number in self._sources.items() if number in numbers], self._places
        )


class SecondReading:
    """The second reading: `add` the records of the `sources`, in their order."""

    def __init__(self, sessions: list[str], sources: list[Source], places: set[int]) -> None:
        self.sessions, self.sources = sessions, sources
        self.tracing = TraceBuilder(sessions)
        self._places = places

    def add(self, source: Source, record: Record) -> None:
        if isinstance(record, LoggedRequest) and _place(source, record) in self._places:
            self.tracing.add(record, source.format, author_of(source))


def author_of(source: Source) -> str:
    """The project or directory that a log belongs to. Claude Code keeps sub-agents in a directory of their session,
    Codex has directories by date."""
    folder = source.path.parent
    if folder.name == SUBAGENTS:
        folder = folder.parent.parent
    while folder.name.isdigit() and folder.parent != folder:
        folder = folder.parent
    return str(folder)


def _place(source: Source, record: LoggedRequest) -> int:
    return hash((source.path, record.session, record.source))
