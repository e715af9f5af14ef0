"""pi's sessions: `sessions/--DIRECTORY--/TIME_ID.jsonl`, a header and entries that form a tree.

Every answer of a model is an entry with what its request used, in disjoint counts, and the time it was sent. Going back
to an earlier entry makes a branch in the same file: a conversation of its own from there on. A fork is a new file that
begins with copies of the entries of another, older than its own header. Requests for summaries are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from holdfast.records import Usage

from .conversations import Cuts, Growth, RecentHashes, answered
from .lines import BAD, checked, lines, objects, problem
from .records import Advance, BrokenSource, LoggedRequest, Reader, Record
from .traces import Role
from .usage import Count, named, seconds, usage_of

CLIENT = "pi"
COMPACTION = "compaction"


class _Entry(Struct, gc=False, rename="camel"):
    type: str = ""
    id: str | None = None
    parent_id: str | None = None
    timestamp: str | None = None
    message: Raw = Raw()
    parent_session: str | None = None


class _Message(Struct, gc=False, rename="camel"):
    role: str = ""
    provider: str = ""
    model: str = ""
    stop_reason: str | None = None
    timestamp: float | None = None
    usage: Raw = Raw()
    content: Raw = Raw()


class _Tokens(Struct, gc=False, rename="camel"):
    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0


def is_mine(path: Path, start: bytes) -> bool:
    first = next(objects(start), {})
    return bytes(first.get("type", b"")) == b'"session"' and {"id", "timestamp", "cwd"} <= first.keys()


def reading() -> Reader:
    """A reader for many sessions, each in the order in which its requests were answered: of a file that is there twice
    they are given once."""
    seen = RecentHashes()

    def read(path: Path, advance: Advance) -> Iterator[Record]:
        session = SessionFile(path, seen)
        for line in lines(path, advance):
            if isinstance(line, BrokenSource):
                session.lost()
                yield line
            elif (request := session.add(*line)) is not None:
                yield request

    return read


class SessionFile:
    """Requests from the lines of one file. Of the tree only the ends of its branches are kept: an entry either goes on
    at one of them or begins a branch."""

    def __init__(self, path: Path, seen: RecentHashes) -> None:
        self._given = seen
        self._id = path.name.partition(".")[0].rpartition("_")[2]
        self._forked: float | None = None
        self._agent = ""
        self._ends: dict[str | None, str] = {None: ""}
        self._torn = False  # a line could not be read: what it was the parent of goes on
        self._asked: str | None = None
        self._cuts = Cuts()
        self._said: dict[str, Growth] = {}

    def add(self, place: str, raw: bytes) -> Record | None:
        """Take a line in: a request, what is wrong with the line, or nothing."""
        try:
            return self._take(place, _ENTRY(checked(raw)))
        except BAD as error:
            self._torn = True
            return BrokenSource(place, problem(error))

    def lost(self) -> None:
        """A line that was too long to be held."""
        self._torn = True

    def _take(self, place: str, entry: _Entry) -> LoggedRequest | None:
        if entry.type == "session":
            self._id = entry.id or self._id
            self._forked = seconds(entry.timestamp) if entry.parent_session else None
            return None
        self._walk(entry)
        request = None
        if entry.type == "compaction":
            self._cuts.cut(self._agent, COMPACTION)
            self._growth().cut()
        elif entry.type == "message" and entry.message:
            message = _MESSAGE(entry.message)
            if message.role == "assistant":
                request = self._request(place, message, is_copy=self._is_repeated(entry))
            self._growth().says(*_said(message))
        self._asked = entry.timestamp or self._asked
        return request

    def _growth(self) -> Growth:
        return self._said.setdefault(self._agent, Growth())

    def _is_repeated(self, entry: _Entry) -> bool:
        """Whether an entry is older than the file that it is in, a copy, or was given before."""
        at = None if self._forked is None else seconds(entry.timestamp)
        if at is not None and self._forked is not None and at < self._forked:
            return True
        return entry.id is not None and not self._given.first_time(self._id, entry.id, entry.timestamp)

    def _walk(self, entry: _Entry) -> None:
        """Which branch an entry is on. The first versions had no tree and no ids."""
        if entry.id is None:
            return
        if entry.parent_id in self._ends:
            self._agent = self._ends.pop(entry.parent_id)
        elif not self._torn:
            self._agent = f"branch {entry.id}"
        self._ends[entry.id] = self._agent
        self._torn = False

    def _request(self, place: str, message: _Message, *, is_copy: bool) -> LoggedRequest | None:
        tokens = _TOKENS(message.usage) if message.usage else None
        if tokens == _NOTHING or (tokens is None and message.stop_reason in ("error", "aborted")):
            return None  # it failed before it was billed
        model = named(message.provider, message.model)
        reset = self._cuts.reason(self._agent, model)  # also if it is known: what follows may be compared with it
        if is_copy:
            return None
        return LoggedRequest(
            session=self._id,
            source=place,
            model=model,
            client=CLIENT,
            agent=self._agent,
            at=seconds(self._asked) if message.timestamp is None else message.timestamp / 1000,
            usage=None if tokens is None else _usage(model, tokens),
            reset=reset,
            added=self._growth().new(model),
        )


def _said(message: _Message) -> tuple[Role, tuple[str, int, int]]:
    if message.role == "assistant":
        return "assistant", answered(message.content, b'"toolCall"')
    return "user", ("tool_result" if message.role == "toolResult" else "text", 1, len(message.content))


def _usage(model: str, tokens: _Tokens) -> Usage:
    return usage_of(model, input=tokens.input, read=tokens.cache_read, written=tokens.cache_write, output=tokens.output)


_ENTRY = msgspec.json.Decoder(_Entry).decode
_MESSAGE = msgspec.json.Decoder(_Message).decode
_TOKENS = msgspec.json.Decoder(_Tokens).decode
_NOTHING = _Tokens()
