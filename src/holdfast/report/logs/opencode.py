"""opencode's sessions: a SQLite database since 1.2, before that a directory `storage` of small JSON files.

An assistant's message is one request, in early versions one for each of its steps, with what it used in disjoint
counts. A sub-agent is a session with a parent. A fork is a session that begins with copies of messages older than
itself. Requests for titles are not stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from holdfast.records import Usage

from .conversations import Cuts, RecentHashes
from .lines import BAD, problem
from .opencode_storage import (
    Database,
    Files,
    SessionStorage,
    StepUsage,
    StoredMessage,
    StoredSession,
    is_database,
    is_storage,
)
from .records import Advance, BrokenSource, LoggedRequest, Reader, Record
from .usage import Count, named, usage_of

CLIENT = "opencode"
COMPACTION, TRIMMED = "compaction", "history_trimmed"


class _Message(Struct, gc=False):
    role: str = ""
    parent: str = msgspec.field(name="parentID", default="")
    model: str = msgspec.field(name="modelID", default="")
    provider: str = msgspec.field(name="providerID", default="")
    summary: Raw = Raw()
    tokens: Raw = Raw()


class _Cached(Struct, gc=False, frozen=True):
    read: Count = 0
    write: Count = 0


class _Tokens(Struct, gc=False):
    """`input` of some early versions is below zero where a provider's counts were already disjoint."""

    total: float | None = None
    input: int = 0
    output: Count = 0
    reasoning: Count = 0
    cache: _Cached = _Cached()


def is_mine(path: Path, start: bytes) -> bool:
    return is_storage(path) if path.is_dir() else is_database(path, start)


def reading() -> Reader:
    """A reader for several places: the directory stays when its sessions have been taken over into the database. They
    come session by session, each with its sub-agents in the order of time."""
    seen = RecentHashes()

    def read(path: Path, advance: Advance) -> Iterator[Record]:
        storage: SessionStorage = Files(path, advance) if path.is_dir() else Database(path, advance)
        with storage:
            sessions: dict[str, StoredSession] = {}
            for entry in storage.sessions():
                if isinstance(entry, BrokenSource):
                    yield entry
                else:
                    sessions[entry.id] = entry
            families: dict[str, list[StoredSession]] = {}
            for session in sessions.values():
                families.setdefault(_root(session, sessions), []).append(session)
            for root in sorted(families, key=lambda root: (sessions[root].created, root)):
                yield from _family(root, families[root], storage, seen)

    return read


def _root(session: StoredSession, sessions: dict[str, StoredSession]) -> str:
    """The session that a user began."""
    seen = {session.id}
    while session.parent in sessions and session.parent not in seen:
        seen.add(session.parent)
        session = sessions[session.parent]
    return min(seen) if session.parent in seen else session.id


def _family(root: str, sessions: list[StoredSession], storage: SessionStorage, seen: RecentHashes) -> Iterator[Record]:
    talks = {session.id: _Talk(root, session, storage) for session in sessions}
    messages = heapq.merge(*(storage.messages(session) for session in sessions), key=lambda each: each[0])
    for _, stored in messages:
        if isinstance(stored, BrokenSource):
            yield stored
        elif seen.first_time(stored.id):
            yield from talks[stored.session].add(stored)


class _Talk:
    """The requests of one session."""

    def __init__(self, root: str, session: StoredSession, storage: SessionStorage) -> None:
        self._root, self._session, self._kept = root, session, storage
        self._agent = "" if session.id == root else f"{session.agent} {session.id}".strip()
        self._cuts = Cuts()
        self._trims = storage.trimmed(session)
        self._trimmed = 0
        self._asked = True  # whether a user has spoken since the request before

    def add(self, stored: StoredMessage) -> Iterator[Record]:
        try:
            message = _MESSAGE(stored.data)
        except BAD as error:
            yield BrokenSource(stored.source, problem(error))
            return
        self._asked = self._asked or message.role == "user"
        if message.role == "assistant" and stored.created >= self._session.created:
            yield from self._requests(stored, message)

    def _requests(self, stored: StoredMessage, message: _Message) -> Iterator[Record]:
        """A message's requests: its steps, or itself where no step is stored."""
        sent_at, has_steps = stored.created, False
        for step in self._kept.steps(stored):
            has_steps = True
            yield from self._request(stored, message, step, sent_at)
            sent_at = step.ended or sent_at
        if not has_steps and message.tokens:
            yield from self._request(stored, message, StepUsage(data=bytes(message.tokens)), sent_at)

    def _request(self, stored: StoredMessage, message: _Message, step: StepUsage, sent_at: float) -> Iterator[Record]:
        try:
            tokens = _TOKENS(step.data)
        except BAD as error:
            yield BrokenSource(stored.source, problem(error))
            return
        model = named(message.provider, message.model)
        usage = _usage(model, tokens)
        if not usage.prompt and not usage.output:
            return  # it failed before it was billed, or is not over
        summary = bytes(message.summary) == b"true"
        if stored.removed:
            agent = f"{self._agent} reverted {message.parent}".lstrip()
        else:
            # A summary is made by an agent with instructions of its own and no tools: it goes on with nothing.
            agent = f"{self._agent} compaction {stored.id}".lstrip() if summary else self._agent
        yield LoggedRequest(
            session=self._root,
            source=stored.source,
            model=model,
            client=CLIENT,
            agent=agent,
            at=sent_at / 1000,
            first_token_at=None if step.began is None else step.began / 1000,
            usage=usage,
            reset=self._summarised() if summary else self._reset(agent, model, sent_at),
            kind="user" if self._asked else "tools",
        )
        self._asked = self._asked and summary

    def _reset(self, agent: str, model: str, sent_at: float) -> str | None:
        """Why a request does not go on with the one before: a summary was made, or results of tools were left out."""
        trimmed = sum(time <= sent_at for time in self._trims)
        if trimmed > self._trimmed:
            self._cuts.cut(self._agent, TRIMMED)
            self._trimmed = trimmed
        return self._cuts.reason(agent, model)

    def _summarised(self) -> str:
        self._cuts.cut(self._agent, COMPACTION)
        return COMPACTION


def _usage(model: str, tokens: _Tokens) -> Usage:
    """Newer versions say the sum of all counts, and leave the reasoning out of the output."""
    fresh, output = max(0, tokens.input), tokens.output
    prompt = fresh + tokens.cache.read + tokens.cache.write
    if tokens.total is not None and tokens.total != prompt + output:
        output += tokens.reasoning
    return usage_of(model, input=fresh, read=tokens.cache.read, written=tokens.cache.write, output=output)


_MESSAGE = msgspec.json.Decoder(_Message).decode
_TOKENS = msgspec.json.Decoder(_Tokens).decode
