"""JSONL of request bodies: one request per line, as gateways, loggers and test recorders write them.

A line has the body (as an object or as the JSON's text) under `body`, `request`, `request_body`, `requestBody`,
`payload`, `params`, `json` or `input`, or inside a `request` that was written down with its address and headers; or the
line is the body itself (`messages`, `contents`, or `input` with a `model`) and says more beside it. All other members
are optional; `members.py` has every name that is understood:

- usage: `usage` in the form of Anthropic, OpenAI, Gemini, OpenRouter, LiteLLM or LangChain, or as this project writes
  it (`input`, `read`, `write_5m`, `write_1h`, `output`); or a `response`: the object, its text, or the events of a
  stream; `predicted` counts where neither is there. A line that tells of an error (a status from 400) is left out.
- time: `at`, `time`, `timestamp`, `ts`, `created_at`, `created`, `start_time`…: seconds, milli-, micro- or nanoseconds,
  or a date as in ISO 8601 (UTC where it names no zone).
- whose: `session`, `session_id`, `conversation_id`, `thread_id`… and `agent`; otherwise the headers and fields by which
  known clients name their session; otherwise `run` or `trace_id`, inside the file; otherwise the file is the session.
- `model`, `dialect`, `path` or `url`, `client`, `headers`.

Without an `agent` or a client that names its lanes, the conversations of a session are told apart by who continues whom
(`threads.py`). What stands beside a conversation (titles, quota checks) has the agent `side`, `side#2`…: none
goes on with another. A body that goes on from
a response which the provider keeps holds only what is new, so it is not handed on. Of a body that cannot be read, a
line with usage still counts, by its usage alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Raw, Struct

from holdfast.engine.identity import AGENTS as KNOWN_CLIENTS
from holdfast.engine.identity import SessionName, client_of, is_side, named, previous_response
from holdfast.wire import DIALECTS, Body, Unreadable

from .documents import first_objects
from .forms import LoggedBody, dialect, find, is_aside, kind
from .lines import lines
from .members import (
    AGENT,
    AT,
    BODY,
    CLIENT,
    FIRST_TOKEN,
    MODEL,
    NULL,
    PLAYED,
    PREDICTED,
    RUN,
    SESSION,
    USER_AGENT,
    Members,
    first,
    headers_of,
    members_of,
    moment,
    name_of,
    read_line,
    shown,
)
from .records import Advance, BrokenSource, LoggedRequest, Record
from .threads import Threads, history_of
from .usage import LoggedAnswer, answer_of

SIDE = "side"
_MOST_LANES = 20_000
_EMPTY = Raw(b'""')


class _Who(Struct):
    """Whom a line names. `named` if the log or a header names the session, `sure` if also the lane."""

    session: str
    agent: str = ""
    named: bool = True
    sure: bool = False


def read(path: Path, advance: Advance) -> Iterator[Record]:
    """The requests of a file, one for each line that has one."""
    reading = Requests(path)
    for line in lines(path, advance):
        if isinstance(line, BrokenSource):
            yield line
            continue
        record = reading.line(*line)
        if record is not None:
            yield record


def is_mine(path: Path, start: bytes) -> bool:
    """Whether the first lines that say anything are requests."""
    seen: list[Members] = []
    for members in first_objects(path, start):
        record_kind = kind(members)
        if record_kind is None and not _is_empty_request(members) and not _is_bill(members):
            continue
        if record_kind != "dialogue" or any(_same_conversation(before, members) for before in seen):
            return True
        seen.append(members)
    return False


def _is_empty_request(members: Members) -> bool:
    """A request of a recording that has no body, such as one for the list of models."""
    return "method" in members and "headers" in members and any(name in members for name in BODY)


def _is_bill(members: Members) -> bool:
    """Return whether a line without a request has a usage and a model."""
    if "added" in members:  # a shape trace
        return False
    answer = _any_answer(members)
    return answer.usage is not None and bool(name_of(members, MODEL) or answer.model)


def _same_conversation(one: Members, other: Members) -> bool:
    """Whether two lines are requests of one conversation, not two conversations."""
    session = name_of(one, SESSION)
    if session and session == name_of(other, SESSION):
        return True
    before, after = bytes(one["messages"]).rstrip(), bytes(other["messages"]).rstrip()
    return len(after) > len(before) and after.startswith(before[:-1].rstrip())


class Requests:
    """Reads the lines of one file. Holds what tells its conversations apart, not the lines."""

    def __init__(self, path: Path) -> None:
        self.session = session_of(path)
        self.threads = Threads()
        self._last: dict[
            tuple[str, str], str
        ] = {}  # the agent by session and model: for what cannot be placed otherwise
        self._runs: dict[str, str] = {}

    def line(self, place: str, text: bytes) -> Record | None:
        """A line's request; None where it has none that is billed."""
        members = read_line(text)
        if isinstance(members, str):
            return BrokenSource(place, members)
        return self.request(place, members)

    def request(self, place: str, members: Members) -> Record | None:
        logged_body = find(members)
        if logged_body is None or isinstance(logged_body, str):
            return self._without_body(place, members, logged_body or _missing(members))
        if is_aside(logged_body.path):
            return None
        name, model = dialect(members, logged_body)
        answer = answer_of(members, name)
        if answer.failed and answer.usage is None:
            return None
        model = name_of(logged_body.members, MODEL) or model or name_of(members, MODEL) or shown(answer.model)
        body = DIALECTS[name].parse(logged_body.raw, model=model)
        if isinstance(body, Unreadable):
            return self._without_body(place, members, body.reason)
        return self._logged(place, members, logged_body, body, answer, model)

    def _logged(
        self, place: str, members: Members, logged_body: LoggedBody, body: Body, answer: LoggedAnswer, model: str
    ) -> LoggedRequest:
        headers = headers_of(logged_body.headers)
        client = client_of(headers) or _client(members)
        name, previous = named(headers, body, client), previous_response(body)
        if is_side(_client_name(client), body):
            session = self._who(members, name).session
            session = self._runs.get(session, session)
            agent = SIDE + self.threads.find(f"{session}\0{SIDE}", history_of(body), is_named=False)
        else:
            session, agent = self._lane(members, name, body, answer, previous)
            self._last[session, model] = agent
            if len(self._last) > _MOST_LANES:
                del self._last[next(iter(self._last))]
        is_partial = previous is not None or (body.dialect == "openai_responses" and "conversation" in body.members)
        return LoggedRequest(
            session=session,
            source=place,
            model=model,
            client=client,
            agent=agent,
            at=_at(members, answer),
            first_token_at=moment(first(members, FIRST_TOKEN)),
            usage=answer.usage,
            tier=answer.tier,
            body=None if is_partial else logged_body.raw,
            dialect="" if is_partial else body.dialect,
        )

    def _who(self, members: Members, name: SessionName | None) -> _Who:
        session, agent = name_of(members, SESSION), name_of(members, AGENT)
        if session and any(name in members for name in PREDICTED):
            session = shown(" ".join(filter(None, (session, *(name_of(members, (name,)) for name in PLAYED)))))
        agent_name = agent or ("" if name is None or not name.subagent else shown(name.agent or name.session))
        sure = bool(agent) or (name is not None and name.sure)
        if session:
            return _Who(session, agent_name, sure=sure)
        if name is not None and name.sure:  # some give every sub-agent a session of its own and name the first
            return _Who(shown(name.parent or name.session), agent_name, sure=True)
        if run := name_of(members, RUN):
            return _Who(f"{self.session}:{run}", agent, named=False, sure=bool(agent))
        if name is not None:
            return _Who(shown(name.session), agent, named=False, sure=bool(agent))
        return _Who(self.session, agent, named=False, sure=bool(agent))

    def _lane(
        self, members: Members, name: SessionName | None, body: Body, answer: LoggedAnswer, previous: str | None
    ) -> tuple[str, str]:
        """Session and agent."""
        who = self._who(members, name)
        if who.sure:
            return who.session, who.agent
        history = history_of(body)
        if not who.named and not self.threads.knows(who.session):
            session = self._runs.get(who.session) or self.threads.session_of(history, previous)
            if session is not None and session != who.session:
                if len(self._runs) < _MOST_LANES:
                    self._runs[who.session] = session
                who.session = session
        agent = self.threads.find(
            who.session,
            history,
            is_named=who.named,
            previous=previous,
            response=answer.response_id,
            billed=answer.usage is not None,
        )
        return who.session, agent

    def _without_body(self, place: str, members: Members, why: str) -> Record | None:
        """A line without a body that can be read: what was billed still counts, in the lane that was used last."""
        answer = _any_answer(members)
        if answer.usage is None:
            return BrokenSource(place, why) if why and not answer.failed else None
        model = name_of(members, MODEL) or shown(answer.model)
        who = self._who(members, None)
        session = self._runs.get(who.session, who.session)
        return LoggedRequest(
            session=session,
            source=place,
            model=model,
            client=_client(members),
            agent=who.agent or self._last.get((session, model), ""),
            at=_at(members, answer),
            first_token_at=moment(first(members, FIRST_TOKEN)),
            usage=answer.usage,
            tier=answer.tier,
        )


def _missing(members: Members) -> str:
    """Why there is no request in a line that should have one; empty where it is about something else."""
    if any(members.get(name, NULL) not in (NULL, _EMPTY) for name in (*BODY[:4], "messages", "contents")):
        return "no request in it that can be recognised"
    return ""


def _any_answer(members: Members) -> LoggedAnswer:
    """Read the answer of a line of an unknown dialect."""
    answer = LoggedAnswer()
    for name in DIALECTS:
        answer = answer_of(members, name)
        if answer.usage is not None:
            break
    return answer


def session_of(path: Path) -> str:
    """A file as a session: its name without endings, after that of its directory, as many files are called alike."""
    name = path.name
    for ending in (".gz", ".zst", ".jsonl", ".ndjson", ".json", ".log"):
        name = name.removesuffix(ending)
    parent = path.absolute().parent.name
    return shown(f"{parent}/{name}" if parent else name)


def _client(members: Members) -> str:
    """The client as the log calls it, or by the user-agent it has written down."""
    return name_of(members, CLIENT) or client_of({"user-agent": name_of(members, USER_AGENT)})


def _client_name(client: str) -> str:
    """The client as identity knows it, where a log has its version behind the name."""
    return next((name for name in KNOWN_CLIENTS if client == name or client.startswith(f"{name}-")), client)


def _at(members: Members, answer: LoggedAnswer) -> float | None:
    """When it was sent; inside the request that was written down, or when it was answered, where the line has none."""
    at = moment(first(members, AT))
    if at is None:
        inner = members_of(members.get("request"))
        at = None if inner is None else moment(first(inner, AT))
    return answer.at if at is None else at
