"""Answers of Anthropic Messages: what the events of a stream report, and the message they make.

Content blocks are opened, grow by deltas and are closed. A whole response is read the same way.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.records import Block, Message, NotJson, Opaque, ToolUse, canonical_json, encode_string

from . import scan
from .answer_builder import Builder, Piece, Stop, is_object, origin_of, returnable
from .codecs.anthropic import decode_block
from .errors import error_of
from .raw_json import arr, array_of, canon, int_of, obj, object_of, string_of
from .stream import StreamReport, add_counts, merge_counts, text_of
from .usage import Counts

_TELLING = ("message_start", "message_delta", "message")  # events that bring counts


class _Event(Struct):
    """An event, the message inside `message_start`, or a whole response: what is absent is empty."""

    type: Raw = Raw()
    message: Raw = Raw()
    usage: Raw = Raw()
    id: Raw = Raw()
    model: Raw = Raw()


class _Usual(Struct):
    """The same as it nearly always is, decoded in one go."""

    type: str = ""
    message: Raw = Raw()
    usage: Counts | None = None
    id: str = ""
    model: str = ""


_usual = msgspec.json.Decoder(_Usual).decode


def read_event(data: bytes, report: StreamReport) -> None:
    """`message_start` brings the usage, `message_delta` replaces the fields it names."""
    if b'"content_block_' in data[:64]:
        report.started = True
        if b"_delta" in data[:64]:
            report.add_delta(data)
        return
    try:
        usual = _usual(data)
        kind = usual.type
        if kind == "message_start":
            usual = _usual(usual.message)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        _read_irregular_event(data, report)
        return
    if kind in _TELLING:
        report.started = True
        report.response_id = usual.id or report.response_id
        report.model = usual.model or report.model
        if usual.usage is not None:
            add_counts(report, usual.usage)
    else:
        _end_event(kind, data, report)


def _read_irregular_event(data: bytes, report: StreamReport) -> None:
    """An event in which something has another type than usual: that costs only itself."""
    try:
        event = scan.decode(data, _Event)
        kind = text_of(event.type)
        if kind == "message_start":
            event = scan.decode(bytes(event.message), _Event)
        if kind in _TELLING:
            report.started = True
            report.response_id = text_of(event.id) or report.response_id
            report.model = text_of(event.model) or report.model
            merge_counts(report, event.usage)
        else:
            _end_event(kind, data, report)
    except (msgspec.DecodeError, RecursionError):
        report.error = report.error or "an event that is not JSON"


def _end_event(kind: str | None, data: bytes, report: StreamReport) -> None:
    if kind == "message_stop":
        report.finished = True
    elif kind == "error":
        report.error = error_of(data)[1]


_STOPS: dict[str | None, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "paused",
}
_GROWS = {  # a delta's kind: the member of the block that grows, the member of the delta that holds more of it
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("input", "partial_json"),
    "compaction_delta": ("content", "content"),
}
_CALL = "tool_use"


class _Block:
    """One content block as far as it has come."""

    def __init__(self, members: dict[str, bytes], *, whole: bool) -> None:
        self.kind = string_of(members.get("type"))
        self.closed = self._whole = whole
        self._members = members
        self._grown: dict[str, list[str]] = {}
        self._citations: list[bytes] = []

    def grow(self, member: str, text: str) -> None:
        self._grown.setdefault(member, []).append(text)

    def cite(self, citation: bytes) -> None:
        self._citations.append(citation)

    @property
    def is_cut_off(self) -> bool:
        """Return whether this is a call with incomplete input, such as the last block at the output limit."""
        if self.kind != _CALL or self._whole:
            return False
        return not is_object("".join(self._grown.get("input", ())))

    def read(self) -> Block:
        members = {key: raw for key, raw in self._members.items() if raw != b"null"}
        for member, pieces in self._grown.items():
            text = "".join(pieces)
            if member == "input":
                members["input"] = _input(text) or members.get("input", b"{}")
            else:
                members[member] = encode_string((string_of(members.get(member)) or "") + text)
        if self._citations:
            members["citations"] = arr((*(array_of(members.get("citations", b"")) or ()), *self._citations))
        tool_input = members.get("input", b"{}")
        if self.kind != _CALL or tool_input[:1] == b"{":
            return decode_block(scan.mended(obj(members.items())))
        # A call in a body whose input is no object stays opaque. One that the model made has to be answered.
        call = decode_block(scan.mended(obj({**members, "input": b"{}"}.items())))
        return replace(call, input=canon(tool_input)) if isinstance(call, ToolUse) else call


def _input(text: str) -> bytes:
    """A tool's input from the pieces of its JSON; empty if there were none. Text that is no JSON becomes a JSON string,
    to which every tool answers with an error."""
    try:
        return canonical_json(text.encode("utf-8", "surrogatepass")) if text.strip() else b""
    except NotJson:
        return encode_string(text)


class AnthropicBuilder(Builder):
    def __init__(self) -> None:
        self._blocks: dict[int | None, _Block] = {}

    def event(self, data: bytes) -> Iterator[Piece]:
        members = object_of(data) or {}
        index = int_of(members.get("index"))
        match string_of(members.get("type")):
            case "message_start":
                self.opened = True
            case "content_block_start":
                yield from self._open(index, members.get("content_block", b""))
            case "content_block_delta" if index in self._blocks:
                yield from self._grow(self._blocks[index], object_of(members.get("delta", b"")) or {})
            case "content_block_stop" if index in self._blocks:
                self._blocks[index].closed = True
            case "message_delta":
                self._stopped(object_of(members.get("delta", b"")) or {})
            case "message":
                self.opened = True
                self._stopped(members)
                for place, block in enumerate(array_of(members.get("content", b"")) or ()):
                    yield from self._open(place, block, whole=True)

    def _open(self, index: int | None, raw: bytes, *, whole: bool = False) -> Iterator[Piece]:
        members = object_of(raw)
        if members is None:
            return
        block = self._blocks[index] = _Block(members, whole=whole)
        if block.kind == _CALL and (name := string_of(members.get("name"))):
            yield Piece("tool", name)
        elif block.kind == "text" and (text := string_of(members.get("text"))):
            yield Piece("text", text)
        elif block.kind == "thinking" and (text := string_of(members.get("thinking"))):
            yield Piece("thinking", text)

    def _grow(self, block: _Block, delta: dict[str, bytes]) -> Iterator[Piece]:
        kind = string_of(delta.get("type")) or ""
        if kind == "citations_delta" and "citation" in delta:
            block.cite(delta["citation"])
        if kind not in _GROWS:
            return
        member, source = _GROWS[kind]
        text = string_of(delta.get(source))
        if text:
            block.grow(member, text)
            if member == "text":
                yield Piece("text", text)
            elif member == "thinking":
                yield Piece("thinking", text)

    def _stopped(self, members: dict[str, bytes]) -> None:
        if (reason := string_of(members.get("stop_reason"))) is not None:
            self.stop = _STOPS.get(reason, "unknown")

    def message(self, *, whole: bool, id: str | None) -> Message:
        """The message so far. A block that was not closed is left out, unless it is a text."""
        readable = [block for block in self._blocks.values() if block.closed or block.kind == "text"]
        if self.stop == "length" and readable and readable[-1].is_cut_off:
            readable.pop()
        blocks = [each.read() for each in readable]
        # a call without its id or name can be answered by nobody
        blocks = [block for block in blocks if not (isinstance(block, Opaque) and block.kind == _CALL)]
        return Message("assistant", returnable(blocks, whole=whole, id_prefix=f"toolu_{origin_of(id)}_"))
