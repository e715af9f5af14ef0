"""Sessions with their texts: what each call of a recorded conversation sent.

A conversation is decoded once by its dialect and each call is a prefix of it, so the calls share their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import Message, Request, ToolResult
from holdfast.wire import DIALECTS, Unreadable

from .traces import Kind, Trace, TraceStep


class _Role(Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]


class _Session(Struct, frozen=True):
    messages: tuple[Raw, ...]
    system: Raw = Raw(b"null")
    tools: Raw = Raw(b"[]")
    model: Any = None


class _Chat(Struct, frozen=True):
    session: str
    messages: tuple[Raw, ...]
    model: Any = None


class DialogueDefaults:
    """What all dialogues of a file share: their tools, from the file beside them, and the model of those that name
    none."""

    def __init__(self, tools: Path, model: str | None) -> None:
        self.model = model or ""
        self.tools = b"[]"
        try:
            self.tools = tools.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise HoldfastError(f"{tools.name} cannot be read ({error.strerror}); check its permissions.") from error
        try:
            msgspec.json.decode(self.tools, type=tuple[dict[str, Raw], ...])
        except msgspec.DecodeError as error:
            raise HoldfastError(f"{tools.name}: not a list of tool definitions ({error}); correct it.") from error


def read_session(name: str, raw: bytes, model: str | None) -> Trace:
    """One conversation in Anthropic's form.

    Call k sends what stands before the k-th assistant message; messages after the last one are one more call.
    """
    try:
        session = msgspec.json.decode(raw, type=_Session)
    except msgspec.ValidationError as error:
        raise HoldfastError(f"{name}: {error}; give a session with messages in Anthropic's form.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{name}: not JSON ({error}); correct the file.") from error
    model = _named(session.model) or model or ""
    members = {"model": _written(model), "tools": bytes(session.tools), "system": bytes(session.system)}
    request = _decode(name, "anthropic", members, session.messages)
    ends = [i for i, message in enumerate(request.messages) if message.role == "assistant"]
    if request.messages and request.messages[-1].role != "assistant":
        ends.append(len(request.messages))
    return Trace(name.removesuffix(".json"), name, _steps(name, request, ends, model))


def read_chat(place: str, line: bytes, spoken: DialogueDefaults) -> Trace:
    """One dialogue in OpenAI's form; each assistant message is a call, and what follows the last was not sent."""
    try:
        chat = msgspec.json.decode(line, type=_Chat)
    except msgspec.ValidationError as error:
        raise HoldfastError(f"{place}: {error}; correct the field or remove the line.") from error
    model = _named(chat.model) or spoken.model
    members = {"model": _written(model), "tools": spoken.tools}
    request = _decode(place, "openai_chat", members, chat.messages)
    ends = [i for i, message in enumerate(request.messages) if message.role == "assistant"]
    return Trace(chat.session, place, _steps(place, request, ends, model))


def _named(model: object) -> str:
    return model if isinstance(model, str) else ""


def _written(model: str) -> bytes:
    """The model as a member of a request, which a request without one does not have."""
    return msgspec.json.encode(model or None)


def _decode(place: str, dialect: str, members: dict[str, bytes], messages: Sequence[Raw]) -> Request:
    for index, message in enumerate(messages):
        try:
            msgspec.json.decode(message, type=_Role)
        except msgspec.DecodeError as error:
            raise HoldfastError(f"{place}: messages[{index}]: {error}; correct the message.") from error
    parts = {**members, "messages": b"[" + b",".join(bytes(message) for message in messages) + b"]"}
    parts = {name: value for name, value in parts.items() if value not in (b"null", b"[]") or name == "messages"}
    body = DIALECTS[dialect].parse(b"{" + b",".join(b'"%s":%s' % (n.encode(), v) for n, v in parts.items()) + b"}")
    if isinstance(body, Unreadable):
        raise HoldfastError(f"{place}: no {dialect} conversation ({body.reason}); correct it.")
    return DIALECTS[dialect].decode(body)


def _steps(place: str, request: Request, ends: Sequence[int], model: str) -> tuple[TraceStep, ...]:
    if not ends or ends[0] == 0:
        raise HoldfastError(f"{place}: no call can be told from its messages; begin with a user message.")
    return tuple(
        TraceStep(
            number=number,
            at=None,
            first_token_at=None,
            lane=model,
            model=model,
            kind=_kind(request.messages[start + 1 : end] if number > 1 else request.messages[:end]),
            content=replace(request, messages=request.messages[:end]),
        )
        for number, (start, end) in enumerate(zip((-1, *ends), ends, strict=False), 1)
    )


def _kind(new: Sequence[Message]) -> Kind:
    """A user turn if anything but tool results came since the last answer, or nothing at all."""
    blocks = [(message.role, block) for message in new for block in message.content]
    answers = [role == "tool" or isinstance(block, ToolResult) for role, block in blocks]
    return "tools" if answers and all(answers) else "user"
