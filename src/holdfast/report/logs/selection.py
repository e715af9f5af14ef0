"""Which sessions of some logs are replayed (those that can be, and of many the latest), and their traces.

Logs are read twice: once for an overview, which takes hardly any memory, and once more for the chosen sessions. A
request that a client copied into another file counts at its first occurrence. A request becomes a step with its text if
the bodies of all requests of its lane are known; else a step with its size: the bill gives the size of the prompt, and
the log its parts, as far as it has them. Bodies of one lane repeat each other, so equal messages are stored once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.records import Message, Request, Usage
from holdfast.wire import DIALECTS, Unreadable

from .members import shown
from .records import BrokenSource, LoggedRequest, Record, Source
from .traces import SIDECHAIN, Kind, Shape, ShapeBlock, Trace, TraceStep, kind_of_messages, kind_of_shape

PING = "ping"
"""Agents of the gateway's store that are no requests of a client."""
TURN = 60.0
"""Seconds after which an unmarked request counts as a user turn: tool loops are quicker."""
TAIL = 100
"""Plain input below one part in so many of a lane's prompts is what follows the last marker, which rebuilding leaves
out; more of it belongs to the prompt."""

_CHARS = 4
_DATES = 1e8  # seconds since 1970: smaller numbers are on a clock of the log's own
_MAIN = ("branch ", "compaction ", "reverted ")
"""Agents that are the main conversation on another way."""
_CACHING = ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "cachedContent", "cached_content")


class _Held(Struct):
    """A record without its bytes."""

    record: LoggedRequest
    request: Request | None
    at: float | None


class _Lane(Struct):
    """`spoken` as long as the text of every request is known."""

    held: list[_Held] = []
    last: Request | None = None
    spoken: bool = True


class _Session(Struct):
    source: str
    author: str
    lanes: dict[tuple[str, str], _Lane] = {}
    order: list[tuple[tuple[str, str], _Held]] = []


class TraceBuilder:
    """`add` the records of some sessions, then ask for the `traces`. `failed` counts requests that were left out since
    nothing is known of them but that they were made."""

    def __init__(self, sessions: Collection[str]) -> None:
        self._wanted = frozenset(sessions)
        self._sessions: dict[str, _Session] = {}
        self.failed = 0

    def add(self, record: LoggedRequest, origin: str = "", author: str = "") -> None:
        """Add a record of a log of this format; `author` is the default for records without one."""
        if record.session not in self._wanted or is_ping(record, origin):
            return
        session = self._sessions.get(record.session)
        if session is None:
            session = self._sessions[record.session] = _Session(record.source, shown(record.author or author))
        key = record.agent, record.model
        lane = session.lanes.get(key)
        if lane is None:
            lane = session.lanes[key] = _Lane()
        lane.last = _request(record, lane.last) if lane.spoken else None
        held = _Held(replace(record, body=None, told=None), lane.last, record.at)
        lane.held.append(held)
        if lane.spoken and lane.last is None:
            lane.spoken = False
            for each in lane.held:
                each.request = None
        session.order.append((key, held))

    def traces(self) -> list[Trace]:
        """The sessions in the order in which they began; nothing is to be added afterwards."""
        traces = []
        for name, session in self._sessions.items():
            begun = min((each.at for _, each in session.order if each.at is not None), default=None)
            steps = self._steps(session, begun or 0.0)
            if steps:
                started = None if begun is None or begun < _DATES else begun
                traces.append((begun, Trace(shown(name), shown(session.source), steps, session.author, started)))
        return [trace for _, trace in sorted(traces, key=lambda each: each[0] or 0.0)]

    def _steps(self, session: _Session, begun: float) -> tuple[TraceStep, ...]:
        _timed(session)
        by_number: dict[int, TraceStep] = {}
        for (agent, model), lane in session.lanes.items():
            name = _lane_name(model, agent)
            for held, step in _spoken(lane, name) if lane.spoken else _sized(lane, name):
                by_number[id(held)] = step
        steps = [(held, by_number[id(held)]) for _, held in session.order if id(held) in by_number]
        self.failed += len(session.order) - len(steps)
        steps.sort(key=lambda pair: pair[0].at or 0.0)
        return tuple(
            replace(
                step,
                number=number,
                at=None if held.at is None else round(held.at - begun, 3),
                first_token_at=_first_token(held, begun),
            )
            for number, (held, step) in enumerate(steps, 1)
        )


def is_ping(record: LoggedRequest, origin: str) -> bool:
    """Whether a record is a request of the gateway's own, to keep a cache warm."""
    return origin == "store" and record.agent.partition("#")[0] == PING


def is_known(record: LoggedRequest) -> bool:
    """Return whether a request has enough data to replay it."""
    return record.body is not None or (record.usage is not None and record.usage.prompt > 0)


def _lane_name(model: str, agent: str) -> str:
    if not agent or agent.startswith(_MAIN):
        return f"{model} {agent}".rstrip()
    return f"{model} {agent}{SIDECHAIN}"


def _timed(session: _Session) -> None:
    """Give every request a time, if any has one, which does not go backwards in its lane."""
    if all(held.at is None for _, held in session.order):
        return
    latest = next(held.at for _, held in session.order if held.at is not None)
    lanes: dict[tuple[str, str], float] = {}
    for key, held in session.order:
        at = latest if held.at is None else held.at
        held.at = latest = lanes[key] = max(at, lanes.get(key, at))


def _first_token(held: _Held, begun: float) -> float | None:
    at, first = held.at, held.record.first_token_at
    return None if at is None or first is None else round(max(at, first) - begun, 3)


def _step(
    held: _Held, lane: str, kind: Kind, content: Shape | Request, usage: Usage | None, bill: Usage | None = None
) -> TraceStep:
    return TraceStep(
        number=0,
        at=None,
        first_token_at=None,
        lane=lane,
        model=held.record.model,
        kind=kind,
        content=content,
        reset=held.record.reset,
        usage=usage,
        bill=bill,
    )


def _request(record: LoggedRequest, before: Request | None) -> Request | None:
    """A body as a request without what its client asks of the cache; None where there is none that can be read."""
    if record.body is None or record.dialect not in DIALECTS:
        return None
    dialect = DIALECTS[record.dialect]
    body = dialect.parse(record.body, model=record.model)
    if isinstance(body, Unreadable):
        return None
    request = dialect.decode(body)
    request = replace(request, rest=tuple(each for each in request.rest if each[0] not in _CACHING))
    return request if before is None else _shared(before, request)


def _shared(before: Request, request: Request) -> Request:
    """The same request, made of the values of the one before it as far as they are alike."""
    same = 0
    for old, new in zip(before.messages, request.messages, strict=False):
        if old != new:
            break
        same += 1
    messages = (*before.messages[:same], *request.messages[same:])
    tools = before.tools if before.tools == request.tools else request.tools
    system = before.system_prompt if before.system_prompt == request.system_prompt else request.system_prompt
    return replace(request, messages=messages, tools=tools, system_prompt=system)


def _spoken(lane: _Lane, name: str) -> Iterator[tuple[_Held, TraceStep]]:
    for held in lane.held:
        assert held.request is not None
        yield held, _step(held, name, _kind(held.request.messages), held.request, held.record.usage)


def _kind(messages: Sequence[Message]) -> Kind:
    last = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return kind_of_messages(messages[last + 1 :])


def _sized(lane: _Lane, name: str) -> Iterator[tuple[_Held, TraceStep]]:
    """Yield the requests with known usage, with their sizes."""
    billed = [(held, usage) for held in lane.held if (usage := held.record.usage) is not None and usage.prompt]
    whole = sum(usage.input for _, usage in billed) * TAIL >= sum(usage.prompt for _, usage in billed)
    before: tuple[_Held, Usage] | None = None
    for held, usage in billed:
        sized = _whole(usage, None if held.record.reset else before) if whole else usage
        added = held.record.added or _guessed(held, sized, before)
        yield held, _step(held, name, kind_of_shape(added), Shape(added), sized, None if sized is usage else usage)
        before = held, sized


def _whole(usage: Usage, before: tuple[_Held, Usage] | None) -> Usage:
    """The bill with the plain input among what was covered. A prompt that is a little shorter than the one before, but
    read no less, has lost nothing that was cached."""
    size = usage.prompt
    if before is not None and usage.read >= before[1].read:
        size = max(size, before[1].prompt)
    ttl = usage.writes[-1][0] if usage.writes else "5m"
    writes = {**dict(usage.writes), ttl: usage.written_for(ttl) + size - usage.read - usage.written}
    return replace(usage, input=0, writes=tuple(sorted(pair for pair in writes.items() if pair[1])))


def _guessed(held: _Held, usage: Usage, before: tuple[_Held, Usage] | None) -> tuple[ShapeBlock, ...]:
    """Guess what a request has gained: the answer before it, and the rest from user or tools."""
    if before is None or held.record.reset:
        return (ShapeBlock("user", "text", usage.prompt * _CHARS),)
    grown = max(0, usage.prompt - before[1].prompt)
    if not grown:
        return ()
    output = min(before[1].output, grown)
    kind = held.record.kind or ("tools" if _soon(held.at, before[0].at) else "user")
    call, result = ("tool_use", "tool_result") if kind == "tools" else ("text", "text")
    return (
        ShapeBlock("assistant", call, output * _CHARS),
        ShapeBlock("user", result, (grown - output) * _CHARS),
    )


def _soon(at: float | None, before: float | None) -> bool:
    return at is not None and before is not None and at - before <= TURN


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
        dated = [(each.latest or 0.0, name) for name, each in self._sessions.items() if each.known]
        return [name for _, name in sorted(dated, key=lambda pair: pair[0])]

    def add(self, source: Source, record: Record) -> None:
        if isinstance(record, BrokenSource):
            self.broken += 1
            if len(self.named) < NAMED:
                self.named.append(record)
            return
        if not record.session.startswith(self._begins) or is_ping(record, source.format):
            return
        extent = self._sessions.get(record.session)
        if extent is None:
            extent = self._sessions[record.session] = SessionExtent(source.format)
        elif extent.origin != source.format:
            self.repeated.add(record.session)
            return
        extent.sources.add(self._sources.setdefault(source, len(self._sources)))
        extent.known += is_known(record)
        if record.at is not None:
            extent.latest = record.at if extent.latest is None else max(extent.latest, record.at)
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
