"""Claude Code's transcripts: `SESSION.jsonl`, with sub-agents in it, beside it or in `SESSION/subagents`.

A request is all assistant lines of one message id: each content block is a line of its own that repeats the usage, and
tool results may come between them. It was sent when the last line it answers was written, or at the time that newer
versions record (`api-request`). Text is never read: a line's members show its type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from holdfast.lru import LRU
from holdfast.records import Usage
from holdfast.wire import anthropic_usage, count, counts_of

from .claude_bodies import KINDS, RecordedRequests
from .conversations import Growth, RecentHashes, answered, asked
from .lines import BAD, checked, gathered, lines, objects, problem
from .records import Advance, BrokenSource, LoggedRequest, Reader, Record
from .traces import ShapeBlock
from .usage import seconds, tier_of

CLIENT = "claude-code"
COMPACTION, TRIMMED = "compaction", "history_trimmed"
BOUNDARIES = {"compact_boundary": COMPACTION, "microcompact_boundary": TRIMMED}
SYNTHETIC = "<synthetic>"
"""The model of messages that the client wrote itself: errors, interruptions."""
WAITING = 64
"""Requests that wait for one before them whose lines are not over; the next one pushes the first out."""
_RECENT = 4_096
_SAID = ("user", "assistant", "attachment", "system", "api-request")
_Value = TypeVar("_Value")


class _Line(Struct, rename="camel", gc=False):
    """What matters of a line; the rest is passed over without being built."""

    type: str = ""
    subtype: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    request_id: str | None = None
    request_ref: str | None = None
    id: str | None = None
    is_api_error_message: bool | None = None
    is_compact_summary: bool | None = None
    message: Raw = Raw()


class _Kind(Struct):
    type: object = None


class _Message(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: Raw = Raw()
    content: Raw = Raw()


class _Request(Struct, gc=False):
    """A request that is still being read."""

    name: tuple[str, str]
    source: str
    session: str
    agent: str
    model: str
    usage: Usage
    at: float | None
    answered: float | None
    reset: str | None
    ref: str | None = None
    body: bytes | None = None
    over: bool = False
    added: tuple[ShapeBlock, ...] = ()
    tier: str = ""


class _Lane(Struct, gc=False):
    """One conversation of a file. `asked` is when the latest message or result came that no request has answered yet;
    `cuts` counts compactions and trimmings, and `seen` what each model's latest request knew of them."""

    agent: str
    asked: float | None = None
    latest: float | None = None
    request: _Request | None = None
    cuts: tuple[int, int] = (0, 0)
    seen: dict[str, tuple[int, int]] = {}
    said: Growth = msgspec.field(default_factory=Growth)


class Transcript:
    """Requests from the lines of one file, given in the order of their first lines."""

    def __init__(self, path: Path, seen: RecentHashes) -> None:
        self._stem = path.name.partition(".")[0]
        self._given = seen
        self._met = RecentHashes()
        self._lanes: dict[str, _Lane] = {}
        self._side: LRU[str, str] = LRU(_RECENT)
        self._last_side = "sidechain"
        self._sent: LRU[str, float | None] = LRU(_RECENT)
        self._waiting: deque[_Request] = deque()
        self._recorded = RecordedRequests()

    def add(self, place: str, raw: bytes) -> BrokenSource | None:
        """Take a line in; what is wrong with it, if it cannot be read."""
        try:
            line = _DECODE(checked(raw))
            if line.type in KINDS:
                self._recorded.keep(line.type, raw)
            if line.type in _SAID:
                self._take(place, line)
        except msgspec.ValidationError as error:
            return BrokenSource(place, str(error)) if _matters(raw) else None
        except BAD as error:
            return BrokenSource(place, problem(error))
        return None

    def _take(self, place: str, line: _Line) -> None:
        at = seconds(line.timestamp)
        if line.type == "api-request":
            if line.id:
                self._sent[line.id] = at
            return
        lane = self._lane(line)
        if line.type == "assistant":
            self._assistant(place, line, lane, at)
        elif line.type == "user":
            if line.is_compact_summary:
                lane.cuts = _cut(lane.cuts, COMPACTION)
                lane.said.cut()
            lane.said.says("user", asked(line.message))
            lane.asked = _later(lane.asked, at)
        elif line.subtype == "api_error":  # it is sent again after this
            lane.asked = _later(lane.asked, at)
        elif line.subtype in BOUNDARIES:
            lane.cuts = _cut(lane.cuts, BOUNDARIES[line.subtype])
            if BOUNDARIES[line.subtype] == COMPACTION:
                self._recorded.compacted()
                lane.said.cut()
        lane.latest = at if at is not None else lane.latest

    def _lane(self, line: _Line) -> _Lane:
        agent = line.agent_id or (self._side_chain(line) if line.is_sidechain else "")
        lane = self._lanes.get(agent)
        if lane is None:
            lane = self._lanes[agent] = _Lane(agent)
        return lane

    def _side_chain(self, line: _Line) -> str:
        """A side chain without a name, in files of earlier versions: the uuid of its first line."""
        if self._stem.startswith("agent-"):
            return self._stem.removeprefix("agent-")
        parent = line.parent_uuid or line.logical_parent_uuid  # a compaction begins a chain that goes on logically
        chain = self._side.peek(parent or "")
        if chain is None:
            chain = (line.uuid if not parent else None) or self._last_side
        if line.uuid:
            self._side[line.uuid] = self._last_side = chain
        return chain

    def _assistant(self, place: str, line: _Line, lane: _Lane, at: float | None) -> None:
        message = _MESSAGE(line.message or b"{}")
        counts = counts_of(message.usage) if message.usage else None
        if counts is None or line.is_api_error_message or message.model == SYNTHETIC:
            return
        growth = answered(message.content)
        # A message kept over a compaction stands in the file again with zeros for what it once cost.
        if not any(count(counts, name) for name in _COUNTS):
            lane.said.says("assistant", growth)
            return
        usage = anthropic_usage(counts)
        name = (message.id or "", line.request_id or "" if message.id else line.request_id or line.uuid or place)
        request = lane.request
        if request is not None and request.name == name:
            if usage.output >= request.usage.output:
                request.usage = usage
            lane.said.says("assistant", growth)
            return
        if not self._met.first_time(lane.agent, *name):
            return
        if request is not None:
            request.over = True
        model = message.model or ""
        lane.request = _Request(
            name=name,
            source=place,
            session=line.session_id or self._stem,
            agent=lane.agent,
            model=model,
            usage=usage,
            at=self._sent_at(line, lane, at),
            answered=at,
            reset=_reason(lane, model),
            ref=line.request_ref,
            added=lane.said.new(model),
            tier=tier_of(counts),
        )
        lane.asked = None
        lane.said.says("assistant", growth)
        lane.seen[model] = lane.cuts  # also if another file had it: what follows may be compared with it
        if self._given.first_time(*name, line.timestamp):
            if request is not None:
                self._show(request, lane.request)
            self._waiting.append(lane.request)

    def _show(self, before: _Request, request: _Request) -> None:
        """Where a request read less than the one before had covered, their bodies tell why. Others are not needed."""
        short = request.usage.read < before.usage.read + before.usage.written
        if short and request.reset is None and before.model == request.model and before.ref and request.ref:
            before.body = before.body or self._recorded.body(before.ref)
            request.body = self._recorded.body(request.ref) if before.body else None

    def _sent_at(self, line: _Line, lane: _Lane, answered: float | None) -> float | None:
        """When a request was sent: never after its answer."""
        sent_at = self._sent.peek(line.request_ref or "")
        at = next((time for time in (sent_at, lane.asked, lane.latest, answered) if time is not None), None)
        return at if at is None or answered is None else min(at, answered)

    def ready(self) -> Iterator[LoggedRequest]:
        while self._waiting and (self._waiting[0].over or len(self._waiting) > WAITING):
            yield _logged(self._waiting.popleft())

    def rest(self) -> Iterator[LoggedRequest]:
        while self._waiting:
            yield _logged(self._waiting.popleft())


_DECODE = msgspec.json.Decoder(_Line).decode
_MESSAGE = msgspec.json.Decoder(_Message).decode
_KIND = msgspec.json.Decoder(_Kind).decode
_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def _matters(raw: bytes) -> bool:
    """Whether a line with a member of an unexpected type is one that requests are read from."""
    try:
        return _KIND(raw).type in _SAID
    except (msgspec.DecodeError, RecursionError):  # not an object, or not JSON further on
        return True


def _logged(request: _Request) -> LoggedRequest:
    return LoggedRequest(
        session=request.session,
        source=request.source,
        model=request.model,
        client=CLIENT,
        agent=request.agent,
        at=request.at,
        first_token_at=request.answered,
        usage=request.usage,
        reset=request.reset,
        body=request.body,
        dialect="anthropic",
        added=request.added,
        tier=request.tier,
    )


def _cut(cuts: tuple[int, int], reason: str | None) -> tuple[int, int]:
    compactions, trimmings = cuts
    return compactions + (reason == COMPACTION), trimmings + (reason == TRIMMED)


def _reason(lane: _Lane, model: str) -> str | None:
    """Return why a model's prefix ends: what was cut since its last request in this conversation."""
    compactions, trimmings = lane.seen.get(model, lane.cuts)
    if lane.cuts[0] > compactions:
        return COMPACTION
    return TRIMMED if lane.cuts[1] > trimmings else None


def _later(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


_NOTES = {"queue-operation", "file-history-snapshot", "last-prompt", "mode", "permission-mode", "summary", "ai-title"}
"""Lines that may come before the conversation."""


def is_mine(path: Path, start: bytes) -> bool:
    if b"parentUuid" not in start and b"sessionId" not in start:
        return False
    for members in objects(start):
        if "parentUuid" in members and "isSidechain" in members:
            return True
        if "sessionId" in members and _text(members.get("type")) in _NOTES:
            return True
    return False


def owner(path: Path, start: bytes) -> str | None:
    """Return the session to which a sub-agent's file belongs."""
    if not path.name.startswith("agent-"):
        return None
    return next((name for members in objects(start) if (name := _text(members.get("sessionId")))), None)


def began(path: Path, start: bytes) -> str:
    """Return when the conversation's first line was written; notes before it may be older."""
    times = (_text(members.get("timestamp")) for members in objects(start) if "parentUuid" in members)
    return next((time for time in times if time), "")


def _text(raw: Raw | None) -> str:
    try:
        value = None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return value if isinstance(value, str) else ""


def reading() -> Reader:
    """A reader for many transcripts. Resuming or forking a session copies lines into another file under another
    session's name, with their ids and times: such a request is given where it is met first."""
    seen = RecentHashes()

    def read(path: Path, advance: Advance) -> Iterator[Record]:
        return gathered(Transcript(path, seen), lines(path, advance))

    return read
