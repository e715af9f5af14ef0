"""Reads recorded sessions from files, and writes shape traces.

Three formats: shape traces (`.jsonl`, one request per line, sizes without text), chat dialogues (`.jsonl`, one session
per line in OpenAI's form, tool definitions in `NAME-tools.json` beside it) and a session (`.json`, one conversation in
Anthropic's form). Every problem is one sentence with file and line. The first line of a session in a shape trace may
have its owner (`author`) and when it began (`started`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import Request, Usage, usage
from holdfast.wire import DIALECTS, Unreadable

from .traces import Shape, ShapeBlock, Trace, TraceStep, kind_of_messages, kind_of_shape, lane_name


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
            kind=kind_of_messages(request.messages[start + 1 : end] if number > 1 else request.messages[:end]),
            content=replace(request, messages=request.messages[:end]),
        )
        for number, (start, end) in enumerate(zip((-1, *ends), ends, strict=False), 1)
    )


FORMATS = (
    "shape traces (.jsonl lines with session, request, at, added), "
    "chat dialogues (.jsonl lines with session, messages) and "
    "sessions (.json with messages in Anthropic's form)"
)
TOOLS = "-tools.json"

Count = Annotated[int, Meta(ge=0)]
Time = Annotated[float, Meta(ge=0)]


class ShapeUsage(Struct, frozen=True):
    input: Count
    read: Count
    write_5m: Count
    write_1h: Count
    output: Count


class ShapeLine(Struct, frozen=True):
    """One line of a shape trace."""

    session: str
    request: Count
    at: Time | None
    first_token_at: Time | None
    model: str
    added: tuple[ShapeBlock, ...]
    sidechain: bool = False
    reset: str | None = None
    usage: ShapeUsage | None = None
    author: str = ""
    started: Time | None = None


def read(path: Path | str, *, model: str | None = None) -> list[Trace]:
    """All sessions of a file, or of every trace file in a directory; `model` is that of those that name none."""
    path = Path(path)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".jsonl", ".json") and not p.name.endswith(TOOLS))
        if not files:
            raise HoldfastError(f"{path.name} holds no trace; give {FORMATS}.")
        return [trace for file in files for trace in read(file, model=model)]
    if not path.exists():
        raise HoldfastError(f"{path.name} cannot be read (No such file or directory); check the path.")
    if path.name.endswith(TOOLS):
        raise HoldfastError(f"{path.name} holds tool definitions; give the dialogues beside it.")
    if path.suffix == ".jsonl":
        return _lines(path, model)
    if path.suffix == ".json":
        return [read_session(path.name, _whole(path), model)]
    raise HoldfastError(f"{path.name} is of no known format; known are {FORMATS}.")


def write(traces: Trace | Sequence[Trace], path: Path | str) -> None:
    """Write shape traces, one request per line."""
    chosen = [traces] if isinstance(traces, Trace) else traces
    lines = [_line(trace, step) for trace in chosen for step in trace.steps]
    Path(path).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def _line(trace: Trace, step: TraceStep) -> dict[str, Any]:
    if not isinstance(step.content, Shape):
        raise HoldfastError(f"{trace.name} has texts and cannot be written as a shape trace; keep its own file.")
    billed = step.usage
    return {
        "session": trace.name,
        "request": step.number,
        "at": step.at,
        "first_token_at": step.first_token_at,
        "model": step.model,
        "sidechain": step.lane != lane_name(step.model),
        "reset": step.reset,
        "added": [_sized(block) for block in step.content.added],
        "usage": None if billed is None else _billed(billed),
        **({"author": trace.author} if trace.author else {}),
        **({} if trace.started is None else {"started": trace.started}),
    }


def _sized(block: ShapeBlock) -> dict[str, Any]:
    members = {"role": block.role, "type": block.type, "chars": block.chars, "tool": block.tool, "error": block.error}
    return {key: value for key, value in members.items() if value is not None}


def _billed(billed: Usage) -> dict[str, int]:
    return {
        "input": billed.input,
        "read": billed.read,
        "write_5m": billed.written_for("5m"),
        "write_1h": billed.written_for("1h"),
        "output": billed.output,
    }


def _whole(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not raw.strip():
        raise HoldfastError(f"{path.name} is empty; give {FORMATS}.")
    return raw


def _numbered(path: Path) -> Iterator[tuple[str, bytes]]:
    """The lines of a file that say something, each with its place."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path.name}:{number}", line
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> HoldfastError:
    return HoldfastError(f"{path.name} cannot be read ({error.strerror or error}); check the path and its permissions.")


def _lines(path: Path, model: str | None) -> list[Trace]:
    steps: dict[str, list[TraceStep]] = {}
    spoken: list[Trace] = []
    places: dict[str, str] = {}
    about: dict[str, tuple[str, float | None]] = {}
    chat: DialogueDefaults | None = None
    for place, line in _numbered(path):
        names = _names(place, line)
        if "added" in names or "request" in names:
            record = _shape_line(place, line)
            before = steps.setdefault(record.session, [])
            places.setdefault(record.session, place)
            about.setdefault(record.session, (record.author, record.started))
            before.append(_step(place, record, before[-1] if before else None))
        elif "messages" in names:
            if chat is None:
                chat = DialogueDefaults(path.with_name(path.stem + TOOLS), model)
            spoken.append(read_chat(place, line, chat))
        else:
            raise HoldfastError(f"{place}: of no known format; known are {FORMATS}.")
    traces = [Trace(name, places[name], tuple(each), *about[name]) for name, each in steps.items()] + spoken
    if not traces:
        raise HoldfastError(f"{path.name} is empty; give {FORMATS}.")
    return traces


def _names(place: str, line: bytes) -> frozenset[str]:
    """The members of a line's object."""
    try:
        return frozenset(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
    except msgspec.ValidationError as error:
        raise HoldfastError(f"{place}: not an object; correct or remove the line.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{place}: not JSON ({error}); correct or remove the line.") from error


def _shape_line(place: str, line: bytes) -> ShapeLine:
    try:
        return msgspec.json.decode(line, type=ShapeLine)
    except msgspec.ValidationError as error:
        raise HoldfastError(f"{place}: {error}; correct the field or remove the line.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HoldfastError(f"{place}: not JSON ({error}); correct or remove the line.") from error


def _step(place: str, line: ShapeLine, before: TraceStep | None) -> TraceStep:
    _check_order(place, line, before)
    billed = line.usage
    return TraceStep(
        number=line.request,
        at=line.at,
        first_token_at=line.first_token_at,
        lane=lane_name(line.model, line.sidechain),
        model=line.model,
        kind=kind_of_shape(line.added),
        content=Shape(line.added),
        reset=line.reset,
        usage=None
        if billed is None
        else usage(
            input=billed.input,
            read=billed.read,
            output=billed.output,
            writes={"5m": billed.write_5m, "1h": billed.write_1h},
        ),
    )


def _check_order(place: str, line: ShapeLine, before: TraceStep | None) -> None:
    if line.at is not None and line.first_token_at is not None and line.first_token_at < line.at:
        raise HoldfastError(f"{place}: first_token_at ({line.first_token_at}) is before at ({line.at}); correct it.")
    if line.at is None and line.first_token_at is not None:
        raise HoldfastError(f"{place}: first_token_at is given without at; give both or neither.")
    if before is None:
        return
    if line.request <= before.number:
        raise HoldfastError(f"{place}: request {line.request} comes after request {before.number}; sort the lines.")
    if (line.at is None) != (before.at is None):
        raise HoldfastError(f"{place}: at is given for some requests of {line.session} only; give all or none.")
    if line.at is not None and before.at is not None and line.at < before.at:
        raise HoldfastError(f"{place}: at goes backwards from {before.at} to {line.at}; sort the lines by time.")
