"""Conversations as OpenAI chat JSON, or in Anthropic's form: an exported chat, a dialogue, stored completions.

Three kinds of files: JSONL with a conversation per line (`messages`, usually `session`; tool definitions may stand in
`NAME-tools.json` beside it), a JSON file with one conversation or a list of them (also under `data` or
`conversations`), or with one list of messages. Every answer was a request whose body is what stands before it; bodies
are made one at a time. In Anthropic's form messages after the last answer are one more request, as they ask for one.

`model`, `tools` and `system` stand beside the messages; `usage`, `model` and a time may stand in an answer, or `usage`
beside the messages as a list with one for each answer. Where no model is named there is none. A
line or item that is a request with its response (`choices`, `usage`) is read as in `bodies.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from holdfast.errors import HoldfastError
from holdfast.records import Usage, encode_string

from . import bodies
from .documents import first_item, first_objects, outline, values, whole
from .forms import conversation_form, is_answer, is_body, kind
from .lines import beginning, lines
from .members import (
    AT,
    BODY,
    MODEL,
    NULL,
    RESPONSE,
    SESSION,
    USAGE,
    Members,
    begins,
    first,
    items_of,
    members_of,
    moment,
    name_of,
    read_line,
    text_of,
)
from .records import Advance, BrokenSource, LoggedRequest, Record
from .trace_files import TOOLS, DialogueDefaults
from .usage import answer_of

_LISTS = ("data", "conversations", "dialogues", "sessions", "chats")
"""Where a document may have its list."""

_SENT = (
    *("model", "tools", "functions", "system", "tool_choice", "parallel_tool_calls", "response_format", "thinking"),
    *("reasoning_effort", "output_config", "prompt_cache_key", "max_tokens", "temperature"),
)
"""Members beside the messages that were part of every request."""

_NOT_SENT = frozenset([*AT, *USAGE, *RESPONSE, *MODEL, "id", "metadata"])
"""Members of a message that an export adds."""

_ROLES = ("user", "assistant", "system", "tool", "developer", "function")
_CONTENTS = (b'"', b"[", b"n")
_USUAL = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})


class _Message(Struct):
    """A message as it was sent; `members` are its own where it has more than the usual ones."""

    raw: bytes
    answers: bool
    members: Members = {}
    at: float | None = None


def read(path: Path, advance: Advance) -> Iterator[Record]:
    """The requests behind the conversations of a file, in its order."""
    reading = _Reading(path)
    if any(True for _ in first_objects(path, _start(path))):
        for line in lines(path, advance):
            yield from [line] if isinstance(line, BrokenSource) else reading.text(*line)
        return
    if reading.is_one_list(_start(path)):
        document = whole(path, advance)
        yield from [document] if isinstance(document, BrokenSource) else reading.messages(path.name, document)
        return
    for item in values(path, advance):
        yield from [item] if isinstance(item, BrokenSource) else reading.text(*item, alone=True)


def is_mine(path: Path, start: bytes) -> bool:
    """Whether a file holds conversations rather than single requests."""
    if path.name.endswith(TOOLS):
        return False
    objects = list(first_objects(path, start))
    if objects and any(kind(members) for members in objects):
        return not bodies.is_mine(path, start)
    if objects and not any(name in members for members in objects for name in _LISTS):
        return False
    return _holds(start)


def _holds(start: bytes) -> bool:
    """Whether a document that is not cut into lines begins like conversations."""
    item = first_item(start)
    members = outline(item or start)
    if not item:
        item = next((first_value for name in _LISTS if (first_value := first_item(members.get(name)))), b"")
        members = outline(item) if item else members
    if item and _is_message(members):
        return True
    if "messages" in members:
        return _is_message(outline(first_item(members["messages"])))
    return any(is_body(outline(bytes(members[name]))) for name in BODY if name in members)


def _is_message(members: Members) -> bool:
    return bool(name_of(members, ("role",))) and any(name in members for name in ("content", "tool_calls"))


def _start(path: Path) -> bytes:
    try:
        return beginning(path)
    except OSError:
        return b""


class _Reading:
    """Reads the conversations of one file."""

    def __init__(self, path: Path) -> None:
        self._path, self._session, self._requests = path, bodies.session_of(path), bodies.Requests(path)
        self._tools: bytes | None = None
        self._unnamed = 0

    def is_one_list(self, start: bytes) -> bool:
        members = outline(first_item(start))
        return _is_message(members) and "messages" not in members

    def text(self, place: str, text: bytes, *, alone: bool = False, inside: bool = False) -> Iterator[Record]:
        """A line or an item: a conversation, a request, or a list of either. `alone` if it is not one of many lines,
        `inside` if it is in such a list."""
        members = read_line(text)
        if isinstance(members, str):
            yield BrokenSource(place, members)
            return
        record_kind = kind(members)
        if record_kind is None and not inside and (items := _listed(members)) is not None:
            for number, item in enumerate(items):
                yield from self.text(f"{place}[{number}]", bytes(item), alone=True, inside=True)
            return
        if record_kind == "dialogue" or (alone and _has_answers(members)):
            yield from self._conversation(place, members)
            return
        record = self._requests.request(place, members)
        if record is not None:
            yield record

    def messages(self, place: str, text: bytes) -> Iterator[Record]:
        """A document that is one list of messages."""
        yield from self._conversation(place, {"messages": Raw(text.strip())})

    def _conversation(self, place: str, members: Members) -> Iterator[Record]:
        messages = _messages(members)
        if isinstance(messages, str):
            yield BrokenSource(place, messages)
            return
        if self._tools is None:
            self._tools = b"[]"
            try:
                self._tools = DialogueDefaults(self._path.with_name(self._path.stem + TOOLS), None).tools
            except HoldfastError as error:  # the dialogues are read without them
                yield BrokenSource(self._path.stem + TOOLS, str(error))
        tools = bytes(members["tools"]) if first(members, ("tools",)) is not None else self._tools
        yield from self._requests_of(place, members, messages, tools)

    def _requests_of(self, place: str, members: Members, messages: list[_Message], tools: bytes) -> Iterator[Record]:
        dialect = _dialect(members, messages, tools)
        model = name_of(members, MODEL)
        head = _head(members, model, tools)
        session = self._name(members)
        client, usages = name_of(members, ("client",)), _usages(members, messages, dialect)
        ends = [index for index, message in enumerate(messages) if message.answers and index]
        if dialect == "anthropic" and not messages[-1].answers:
            ends.append(len(messages))
        body, at = bytearray(head), 0
        for end in ends:
            for message in messages[at:end]:
                body += (b"," if at else b"") + message.raw
                at += 1
            answer = messages[end] if end < len(messages) else None
            asked_at = messages[end - 1].at
            yield LoggedRequest(
                session=session,
                source=place,
                model=(answer is not None and name_of(answer.members, MODEL)) or model,
                client=client,
                at=asked_at if asked_at is not None or answer is None else answer.at,
                usage=usages.get(end),
                body=bytes(body) + b"]}",
                dialect=dialect,
            )

    def _name(self, members: Members) -> str:
        if session := name_of(members, (*SESSION, "id", "title")):
            return session
        self._unnamed += 1
        return self._session if self._unnamed == 1 else f"{self._session}:{self._unnamed}"


def _listed(members: Members) -> list[Raw] | None:
    return next((items for name in _LISTS if (items := items_of(members.get(name))) is not None), None)


def _has_answers(members: Members) -> bool:
    """Return whether a document has messages with answers and no usage of a single request."""
    if any(name in members for name in (*USAGE, *RESPONSE, "choices")):
        return False
    return any(is_answer(message) for message in items_of(members.get("messages")) or ())


def _messages(members: Members) -> list[_Message] | str:
    """The messages of a conversation as they were sent; or why they cannot be read."""
    messages = []
    for index, raw in enumerate(items_of(members.get("messages")) or ()):
        inside = members_of(raw)
        if inside is None:
            return f"messages[{index}] is not an object that can be read"
        role = text_of(inside.get("role"))
        if role not in _ROLES:
            return f"messages[{index}] has no known role"
        if begins(inside.get("content", NULL)) not in _CONTENTS:
            return f"messages[{index}].content is neither a text nor a list"
        if inside.keys() <= _USUAL:
            messages.append(_Message(bytes(raw), role == "assistant"))
            continue
        members_sent = [(name, value) for name, value in inside.items() if name not in _NOT_SENT]
        text = bytes(raw)
        if len(members_sent) < len(inside):
            text = b"{" + b",".join(encode_string(name) + b":" + bytes(value) for name, value in members_sent) + b"}"
        messages.append(_Message(text, role == "assistant", inside, moment(first(inside, AT))))
    return messages if messages else "no messages in it"


def _dialect(members: Members, messages: Sequence[_Message], tools: bytes) -> str:
    if first(members, ("system",)) is not None:
        return "anthropic"
    form = conversation_form([Raw(message.raw) for message in messages], items_of(tools) or [])
    return form or ("anthropic" if name_of(members, MODEL).startswith("claude") else "openai_chat")


def _head(members: Members, model: str, tools: bytes) -> bytes:
    """A request up to its first message."""
    parts = {"model": msgspec.json.encode(model)} if model else {}
    if tools not in (b"[]", b"null"):
        parts["tools"] = tools
    for name in _SENT:
        value = first(members, (name,))
        if value is not None:
            parts.setdefault(name, bytes(value))
    return b"{" + b"".join(encode_string(name) + b":" + value + b"," for name, value in parts.items()) + b'"messages":['


def _usages(members: Members, messages: Sequence[_Message], dialect: str) -> dict[int, Usage]:
    """Usage by the place of the answer: in the answer, or of a list beside the messages, one for each."""
    answers = [index for index, message in enumerate(messages) if message.answers]
    by_place: dict[int, Usage] = {}
    listed = items_of(first(members, USAGE)) or ()
    if len(listed) == len(answers):
        for index, raw in zip(answers, listed, strict=True):
            if (billed := answer_of({"usage": raw}, dialect).usage) is not None:
                by_place[index] = billed
    for index in answers:
        inside = messages[index].members
        for place in (inside, members_of(inside.get("metadata")) or {}) if inside else ():
            if (billed := answer_of(place, dialect).usage) is not None:
                by_place[index] = billed
    return by_place
