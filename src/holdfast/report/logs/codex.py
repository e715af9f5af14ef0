"""Codex's rollouts: `sessions/YYYY/MM/DD/rollout-TIME-THREAD.jsonl`, one thread a file, packed (`.zst`) when old.

A request's usage is in a `token_usage_record` (newer versions) and again in `token_count` events, which may be
repeated: the thread's running total shows repetitions. Counts include cached tokens. A request was sent when the last
line it answers was written. Forks and sub-agents begin with lines of the thread they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from .conversations import Cuts, Growth, RecentHashes
from .lines import BAD, checked, gathered, lines, objects, problem
from .records import Advance, BrokenSource, LoggedRequest, Reader, Record
from .usage import Count, named, seconds, usage_of


class RolloutLine(Struct, gc=False):
    type: str = ""
    timestamp: str | None = None
    payload: Raw = Raw()


class Meta(Struct, gc=False):
    """A thread: `session_id` is that of the thread that was started by the user, in newer versions."""

    id: str = ""
    session_id: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    source: Raw = Raw()
    agent_path: str | None = None
    agent_nickname: str | None = None
    model_provider: str | None = None


class Spawned(Struct, gc=False):
    parent_thread_id: str | None = None
    agent_path: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None


class TurnContext(Struct, gc=False):
    model: str = ""


class ResponseItem(Struct, gc=False):
    type: str = ""
    role: str | None = None


class CodexTokens(Struct, gc=False, frozen=True):
    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    cache_write_input_tokens: Count = 0
    output_tokens: Count = 0

    def less(self, other: CodexTokens) -> CodexTokens:
        """Return the increase since another total, zero for counts that were larger there."""
        counts, others = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return CodexTokens(*(max(0, one - another) for one, another in zip(counts, others, strict=True)))


class Info(Struct, gc=False):
    last_token_usage: CodexTokens | None = None
    total_token_usage: CodexTokens | None = None


class PlanLimits(Struct, gc=False):
    """What is left of a plan; there is none with an API key."""

    plan_type: str | None = None


class EventLine(Struct, gc=False):
    type: str = ""
    info: Raw = Raw()
    rate_limits: Raw = Raw()


class UsageRecord(Struct, gc=False):
    usage: CodexTokens
    thread_id: str | None = None
    response_id: str | None = None
    thread_token_usage: CodexTokens | None = None


class CompactedLine(Struct, gc=False):
    compaction_response_id: str | None = None


def spawned_by(source: Raw) -> Spawned | None:
    """Return the origin of a sub-agent: a word for the client's own kinds, an object for those of models."""
    try:
        kind = msgspec.json.decode(source or b"null", type=dict[str, Raw]).get("subagent")
        if kind is None:
            return None
    except msgspec.ValidationError:
        return None
    try:
        return msgspec.json.decode(kind, type=dict[str, Spawned]).get("thread_spawn", Spawned())
    except msgspec.ValidationError:
        return Spawned(agent_role=text(kind))


def has_plan(limits: Raw) -> bool:
    """Whether a ChatGPT plan paid."""
    try:
        plan_limits = msgspec.json.decode(limits or b"null", type=PlanLimits | None)
    except msgspec.ValidationError:
        return False
    return plan_limits is not None and bool(plan_limits.plan_type)


def text(raw: Raw) -> str:
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else ""


line_of = msgspec.json.Decoder(RolloutLine).decode
meta_of = msgspec.json.Decoder(Meta).decode
turn_of = msgspec.json.Decoder(TurnContext).decode
item_of = msgspec.json.Decoder(ResponseItem).decode
event_of = msgspec.json.Decoder(EventLine).decode
info_of = msgspec.json.Decoder(Info | None).decode
used_of = msgspec.json.Decoder(UsageRecord).decode
compacted_of = msgspec.json.Decoder(CompactedLine).decode


CLIENT = "codex"
COMPACTION = "compaction"
_KINDS = {"session_meta", "turn_context", "response_item", "event_msg", "compacted", "token_usage_record"}
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
_ANSWERS = ("reasoning", "web_search_call", "image_generation_call", *_CALLS)


def is_mine(path: Path, start: bytes) -> bool:
    if b"timestamp" not in start:
        return False
    for members in objects(start):
        kind = text(members.get("type", Raw(b"null")))
        if "timestamp" in members and kind in _KINDS and (kind == "session_meta" or "payload" in members):
            return True
    return False


def reading() -> Reader:
    """A reader for many rollouts: what a fork has copied from another thread is given once."""
    threads = RolloutThreads()

    def read(path: Path, advance: Advance) -> Iterator[Record]:
        return gathered(Rollout(path, threads), lines(path, advance))

    return read


class RolloutThreads:
    """The threads of many rollouts: their sessions, the families with a common beginning, and the hashes of records
    already read."""

    def __init__(self) -> None:
        self.sessions: dict[str, str] = {}
        self.families: dict[str, str] = {}
        self.given = RecentHashes()


class Rollout:
    """Requests from the lines of one file. The latest is held until it is known whether it made a summary."""

    def __init__(self, path: Path, threads: RolloutThreads) -> None:
        self._stem = path.name.partition(".")[0]
        self._threads = threads
        self._thread = self._session = self._agent = ""
        self._provider = self._model = ""
        self._branch = self._compactions = 0
        self._family = self._stem
        self._copied = True  # whether what comes may be a copy: until the first request that is not
        self._total: CodexTokens | None = None
        self._asked: str | None = None
        self._sent: str | None = None
        self._calls = False
        self._cuts = Cuts()
        self._said = Growth()
        self._answer: int | None = None  # where the answer that is being read begins
        self._held: tuple[LoggedRequest, str | None] | None = None
        self._may_summarise = False
        self._subscription = False
        self._ready: list[LoggedRequest] = []

    def add(self, place: str, raw: bytes) -> BrokenSource | None:
        """Take a line in; what is wrong with it, if it cannot be read."""
        try:
            line = line_of(checked(raw))
            if line.type in _KINDS:
                if not line.payload:
                    return BrokenSource(place, "Object missing required field `payload`")
                self._take(place, line)
        except BAD as error:
            return BrokenSource(place, problem(error))
        return None

    def ready(self) -> Iterator[LoggedRequest]:
        yield from self._ready
        self._ready.clear()

    def rest(self) -> Iterator[LoggedRequest]:
        self._release()
        yield from self.ready()

    def _take(self, place: str, line: RolloutLine) -> None:
        if line.type == "response_item":
            self._item(item_of(line.payload), line.timestamp, len(line.payload))
        elif line.type == "event_msg":
            self._event(place, event_of(line.payload), line.timestamp)
        elif line.type == "token_usage_record":
            used = used_of(line.payload)
            self._total = used.thread_token_usage or self._total
            if used.thread_id is None or used.thread_id == self._thread or not self._thread:
                self._used(place, used.usage, used.response_id)
        elif line.type == "turn_context":
            self._model = turn_of(line.payload).model or self._model
            self._begin(line.timestamp)
        elif line.type == "compacted":
            self._compacted(compacted_of(line.payload).compaction_response_id)
        elif line.type == "session_meta":
            meta = meta_of(line.payload)
            if not self._thread:
                self._meta(meta)
            self._joins(meta.forked_from_id or meta.id)

    def _meta(self, meta: Meta) -> None:
        """The first line of the file."""
        self._thread = meta.id or self._stem
        spawned = spawned_by(meta.source)
        parent = meta.parent_thread_id or (spawned.parent_thread_id if spawned else None)
        self._session = meta.session_id or self._threads.sessions.get(parent or "", parent or self._thread)
        self._threads.sessions[self._thread] = self._session
        self._provider = meta.model_provider or ""
        if spawned is not None:
            name = meta.agent_path or meta.agent_nickname or spawned.agent_path or spawned.agent_nickname
            self._agent = f"{name or spawned.agent_role or 'sub-agent'} {self._thread[-8:]}"

    def _joins(self, thread: str) -> None:
        """A fork names the thread it comes from, or has that thread's first line after its own."""
        if thread and self._copied:
            families = self._threads.families
            self._family = families[self._thread] = families.get(thread, thread)

    def _item(self, item: ResponseItem, at: str | None, size: int) -> None:
        if item.type in _ANSWERS or (item.type == "message" and item.role == "assistant"):
            if self._answer is None:
                self._answer = self._said.end
            kind = "tool_use" if item.type in _CALLS else "thinking" if item.type == "reasoning" else "text"
            self._said.says("assistant", (kind, 1, size))
            if self._sent is None:
                self._sent = self._asked
            self._calls = self._calls or item.type in _CALLS
        elif item.type.endswith("_output"):
            self._said.says("user", ("tool_result", 1, size))
            self._asked = at or self._asked
        elif item.type in ("message", "agent_message"):
            self._said.says("user", ("text", 1, size))
            self._begin(at)

    def _begin(self, at: str | None) -> None:
        self._asked, self._sent = at or self._asked, None

    def _event(self, place: str, event: EventLine, at: str | None) -> None:
        if event.type == "token_count":
            if not self._subscription and has_plan(event.rate_limits):
                self._subscription = True
                if self._held is not None:  # its counts are told before what is left of the plan
                    self._held = msgspec.structs.replace(self._held[0], subscription=True), self._held[1]
            self._counted(place, info_of(event.info or b"null"))
        elif event.type in ("task_started", "turn_started"):
            self._begin(at)
            self._may_summarise = False
        elif event.type in ("task_complete", "turn_complete", "turn_aborted"):
            self._may_summarise = False
        elif event.type == "context_compacted":
            self._cuts.cut(self._branch, COMPACTION)
        elif event.type == "thread_rolled_back":
            # The user took turns back and went on from an earlier place: another conversation with a shared beginning.
            self._branch += 1

    def _counted(self, place: str, info: Info | None) -> None:
        if info is None:
            return
        before, total = self._total, info.total_token_usage
        last = info.last_token_usage
        if total is not None:
            if total == before:
                return
            self._total = total
            last = last or total.less(before or CodexTokens())
        if last is not None:
            self._used(place, last, None)

    def _used(self, place: str, tokens: CodexTokens, response: str | None) -> None:
        """A request, as far as it used anything: after a compaction the size of the history is told like a usage."""
        sent_at, calls, answer = self._sent or self._asked, self._calls, self._answer
        self._sent, self._calls, self._answer = None, False, None
        if not tokens.input_tokens and not tokens.output_tokens:
            return
        model = named(self._provider, self._model)
        added = self._said.new(model, answer)
        reset = self._cuts.reason(self._branch, model)  # also if it is known: what follows may be compared with it
        if self._is_repeated(tokens, response):
            return
        self._release()
        read = min(tokens.cached_input_tokens, tokens.input_tokens)
        written = min(tokens.cache_write_input_tokens, tokens.input_tokens - read)
        logged = LoggedRequest(
            session=self._session or self._stem,
            source=place,
            model=model,
            client=CLIENT,
            agent=self._name("branch", self._branch) if self._branch else self._agent,
            at=seconds(sent_at),
            usage=usage_of(
                model,
                input=tokens.input_tokens - read - written,
                read=read,
                written=written,
                output=tokens.output_tokens,
            ),
            reset=reset,
            added=added,
            subscription=self._subscription,
        )
        self._held, self._may_summarise = (logged, response), not calls

    def _is_repeated(self, tokens: CodexTokens, response: str | None) -> bool:
        """Whether a request has been given: by its name, or by its place in the running total, as far as the beginning
        of the file repeats another."""
        first_time, family = self._threads.given.first_time, self._family
        is_copy = response is not None and not first_time(family, response)
        counted = not first_time(family, tokens, self._total)
        self._copied = self._copied and counted
        return is_copy or self._copied

    def _compacted(self, response: str | None) -> None:
        """What went before is replaced by a summary. The request that made it, where one did, is the last one, calls no
        tool and does not end the turn; it offers no tools, so it goes on with nothing and is alone in its lane."""
        self._cuts.cut(self._branch, COMPACTION)
        self._said.cut()
        self._compactions += 1
        if self._held is not None:
            logged, summary = self._held
            is_own = response is not None and summary is not None
            if summary == response if is_own else self._may_summarise:
                agent = self._name(COMPACTION, self._compactions)
                self._held = msgspec.structs.replace(logged, agent=agent, reset=COMPACTION), summary
        self._may_summarise = False

    def _name(self, noun: str, number: int) -> str:
        return f"{self._agent} {noun} {number}".lstrip()

    def _release(self) -> None:
        if self._held is not None:
            self._ready.append(self._held[0])
            self._held = None
