"""OpenAI Responses: instructions, then tools, then input items; from GPT-5.6 on, breakpoints on content parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct

from holdfast.caches import Section
from holdfast.records import Extra, Message, Request, encode_string

from . import openai, scan
from .answer_builder import Builder, Piece, is_object, origin_of, returnable
from .body import BlockSpan, Body, Marker, Splice, Ttl, Unreadable, change_members, guarded, tool_spans, with_context
from .codecs import openai_responses as codec
from .openai import BREAKPOINT
from .openai import BREAKPOINT_KEY as _KEY
from .raw_json import arr, array_of, canon, int_of, obj, object_at, object_of, string_of
from .stream import StreamReport, Tap, merge_counts, text_of
from .usage import openai_usage

NAME = "openai_responses"
PARTS = ("input_text", "output_text", "input_image", "input_file")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
_SPEAKING = {"content", "call_id", "encrypted_content", "output", "arguments", "input", "action", "tools"}
_PATH = "input[{0}].content[{1}]"
LAST = ("response.completed", "response.incomplete", "response.failed")
"""The events that end a response."""
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_WORDS = ("response.output_text.delta", "response.refusal.delta")
Item = dict[str, bytes]


class _Item(Struct):
    type: str | None = None
    role: str | None = None
    content: list[Raw] | str | None = None


class _Top(Struct):
    model: str = ""
    instructions: str | None = None
    input: list[_Item] | str | None = None
    tools: list[Raw] | None = None


class _Walk:
    """Collects the block spans of one body."""

    def __init__(self, raw: bytes, top: _Top) -> None:
        self.raw = raw
        self.top = top
        self.items = top.input if isinstance(top.input, list) else []
        self.tools: list[BlockSpan] = []
        self.system: list[BlockSpan] = []
        self.messages: list[BlockSpan] = []
        roles = [item.role for item in self.items]
        self.leading = next((i for i, role in enumerate(roles) if role not in openai.SYSTEM_ROLES), len(roles))

    def body(self) -> Body:
        handlers = {}
        if self.top.input is not None:
            handlers["input"] = self.walk_input
        if self.top.instructions is not None:
            handlers["instructions"] = self.walk_instructions
        if self.top.tools is not None:
            handlers["tools"] = self.walk_tools
        members, end = scan.walk_body(self.raw, handlers)
        self.system.sort(key=lambda block: block.message)  # instructions come first wherever they stand in the body
        blocks = (*self.system, *self.tools, *self.messages)
        return Body(self.raw, NAME, self.top.model, blocks, {m.key: m for m in members}, end)

    def walk_instructions(self, pos: int) -> int:
        end = scan.skip_value(self.raw, pos)
        self.system.append(BlockSpan("instructions", "system", "system", pos, end, form="string"))
        return end

    def walk_tools(self, pos: int) -> int:
        self.tools, end = tool_spans(self.raw, pos, self.top.tools or [])
        return end

    def walk_input(self, pos: int) -> int:
        if isinstance(self.top.input, list):
            return scan.walk_objects(self.raw, pos, len(self.items), self.walk_item)
        end = scan.skip_value(self.raw, pos)
        self.messages.append(BlockSpan(_PATH, "messages", "user", pos, end, 0, 0, "string"))
        return end

    def walk_item(self, index: int, pos: int) -> int:
        item = self.items[index]
        section: Section = "system" if index < self.leading else "messages"
        blocks: list[BlockSpan] = []

        def content(at: int) -> int:
            if isinstance(item.content, list):
                spans, end = scan.walk_array(self.raw, at, item.content)
                blocks.extend(BlockSpan(_PATH, section, item.role or "", *s, index, j) for j, s in enumerate(spans))
                return end
            end = scan.skip_value(self.raw, at)
            if item.content is not None:
                blocks.append(BlockSpan(_PATH, section, item.role or "", at, end, index, 0, "string"))
            return end

        is_message = item.role is not None and item.type in (None, "message")
        members, end = scan.walk_object(self.raw, pos, {"content": content} if is_message else None)
        if blocks:
            # Item ids differ between sessions and are not part of what the model reads.
            with_context(blocks, [m for m in members if m.key not in ("type", "role", "content", "id", "status")])
        else:
            blocks.append(BlockSpan("input[{0}]", section, item.role or "", pos, end, index))
        (self.system if section == "system" else self.messages).extend(blocks)
        return end


class ResponsesBuilder(Builder):
    def __init__(self) -> None:
        self._begun: dict[int, list[str]] = {}  # the words so far of items that are not done
        self._done: dict[int, Item] = {}
        self._stored = False

    def event(self, data: bytes) -> Iterator[Piece]:
        members = object_of(data) or {}
        kind, index = string_of(members.get("type")), int_of(members.get("output_index")) or 0
        if kind in _WORDS or kind in _THOUGHTS:
            if text := string_of(members.get("delta")):
                if kind in _WORDS:
                    self._begun.setdefault(index, []).append(text)
                yield Piece("text" if kind in _WORDS else "thinking", text)
        elif kind == "response.reasoning_summary_part.added" and int_of(members.get("summary_index")):
            yield Piece("thinking", "\n\n")
        elif kind == "response.output_item.added":
            item = object_of(members.get("item", b"")) or {}
            if string_of(item.get("type")) == "function_call" and (name := string_of(item.get("name"))):
                yield Piece("tool", name)
        elif kind == "response.output_item.done":
            self._done[index] = object_of(members.get("item", b"")) or {}
        elif kind in LAST:
            self._finish(object_of(members.get("response", b"")) or {})
        elif kind in ("response.created", "response.in_progress"):
            self.opened = True
        elif string_of(members.get("object")) == "response":
            self._finish(members)

    def _finish(self, response: Item) -> None:
        """The whole response: what it repeats counts, where it repeats anything."""
        self.opened = True
        self._stored = response.get("store") == b"true"
        if output := array_of(response.get("output", b"")):
            self._done = {index: object_of(item) or {} for index, item in enumerate(output)}
        details = object_of(response.get("incomplete_details", b"")) or {}
        match string_of(response.get("status")), string_of(details.get("reason")):
            case "incomplete", "content_filter":
                self.stop = "refusal"
            case "incomplete", _:
                self.stop = "length"
            case "completed", _:
                self.stop = "end"
        if any(_refuses(item) for item in self._done.values()):
            self.stop = "refusal"

    def message(self, *, whole: bool, id: str | None) -> Message:
        indices = sorted({*self._begun, *self._done})
        items = [self._done[at] if at in self._done else _words("".join(self._begun[at])) for at in indices]
        items = [_sendable(item) for item in items]
        readable = [item for item in items if not self._is_lost(item) and not self._is_cut_off(item)]
        if any(map(self._is_lost, items)):  # an id would make the provider look for the thought that went before
            readable = [{key: raw for key, raw in item.items() if key != "id"} for item in readable]
        raw = [scan.mended(obj(item.items())) for item in readable]
        blocks = [block for message in codec.decode_input(arr(raw)) for block in message.content]
        return Message("assistant", returnable(blocks, whole=whole, id_prefix=f"call_{origin_of(id, raw)}_"))

    def _is_lost(self, item: Item) -> bool:
        """Whether this is a thought that the provider neither stores nor included: its id alone is of no use."""
        return _item_kind(item) == "reasoning" and not self._stored and "encrypted_content" not in item

    def _is_cut_off(self, item: Item) -> bool:
        """Whether this is a call that is incomplete, or an empty item."""
        if _item_kind(item) != "function_call":
            return not item
        arguments = string_of(item.get("arguments")) or ""
        cut = self.stop == "length" and not is_object(arguments)
        return cut or string_of(item.get("status")) == "incomplete" or not string_of(item.get("name"))


def _item_kind(item: Item) -> str | None:
    return string_of(item.get("type"))


def _words(text: str) -> Item:
    part = obj((("type", b'"output_text"'), ("text", encode_string(text))))
    return {"type": b'"message"', "role": b'"assistant"', "content": arr([part])}


def _refuses(item: Item) -> bool:
    parts = array_of(item.get("content", b"")) or ()
    return any(string_of((object_of(part) or {}).get("type")) == "refusal" for part in parts)


def _sendable(item: Item) -> Item:
    """An item as it is sent back: a refusal as a text, a call without arguments with an empty object."""
    item = {key: raw for key, raw in item.items() if raw != b"null"}
    if _item_kind(item) == "message" and _refuses(item):
        parts = [object_of(part) or {} for part in array_of(item["content"]) or ()]
        return _words("".join(string_of(part.get("refusal")) or string_of(part.get("text")) or "" for part in parts))
    if _item_kind(item) == "function_call":
        item["call_id"] = item.get("call_id", b'""')
        if (string_of(item.get("arguments")) or "").strip() in ("", "null"):
            item["arguments"] = b'"{}"'
    return item


class OpenAIResponses(openai.OpenAIDialect):
    """The dialect of `POST /v1/responses`."""

    name = NAME
    images: tuple[bytes, ...] = (b'"type":"input_image"',)
    marker_keys: tuple[str, ...] = (_KEY,)
    text_part = b'{"type":"input_text","text":'
    streamed: Extra = (("stream", b"true"),)
    builder: type[Builder] = ResponsesBuilder

    def model_in_path(self, path: str) -> str | None:
        """The model that a request path names, empty if the body does; None if it is no path of this dialect."""
        return "" if path.endswith("/responses") else None

    def path(self, model: str) -> tuple[str, dict[str, str]]:
        return "/v1/responses", {}

    def parse(self, raw: bytes, *, model: str = "", like: Body | None = None) -> Body | Unreadable:
        """`model` is for dialects that name it elsewhere; here the body does."""
        return guarded(raw, _Top, lambda top: _Walk(raw, top).body())

    # Markers

    def kind(self, body: Body, index: int) -> str:
        block = body.blocks[index]
        if block.form == "string":
            return "text"
        if block.section == "tools":
            return "tool"
        return string_of((object_of(body.text(block)) or {}).get("type")) or "unknown"

    def markers(self, body: Body, among: Sequence[int] | None = None) -> tuple[Marker, ...]:
        """The body's own markers in prefix order; one inside a tool output counts for its item."""
        markers = []
        ttl = openai.breakpoint_ttl(body.model)
        for index in range(len(body.blocks)) if among is None else among:
            block = body.blocks[index]
            if block.form == "object" and scan.may_name(body.raw, _KEY, block.start, block.end):
                for at in (block.start, *self._output_parts(body, index)):
                    if (object_at(body.raw, at) or {}).get(_KEY, b"")[:1] == b"{":
                        markers.append(Marker(index, ttl, at != block.start, at))
        return tuple(markers)

    def _output_parts(self, body: Body, index: int) -> list[int]:
        """Where the parts of a tool output begin; none for other items and for outputs that are not parts."""
        block = body.blocks[index]
        if self.kind(body, index) not in OUTPUTS or ".content[" in block.where:
            return []
        output = scan.member_at(body.raw, block.start, "output")
        if output is None or body.raw[output.start : output.start + 1] != b"[":
            return []
        spans, _ = scan.walk_values(body.raw, output.start)
        return [start for start, _ in spans if body.raw[start : start + 1] == b"{"]

    def markable(self, body: Body, index: int) -> bool:
        """Markers stand on content parts and on the last part of a tool output, never on tools or instructions."""
        block = body.blocks[index]
        if block.section == "tools" or block.where == "instructions" or not self.takes_markers(body.model):
            return False
        if block.form == "string":
            return bool(string_of(body.text(block)))
        if ".content[" in block.where:
            return _is_part(body.raw, block.start)
        if self.kind(body, index) not in OUTPUTS:
            return False
        if string_of((object_of(body.text(block)) or {}).get("output")):
            return True
        parts = self._output_parts(body, index)
        return bool(parts) and _is_part(body.raw, parts[-1])

    def place(self, body: Body, index: int, ttl: Ttl) -> list[Splice]:
        """Splices that put a breakpoint on a markable block. The provider has one TTL."""
        if not self.markable(body, index):
            raise body.no_place(index)
        block = body.blocks[index]
        if block.form == "string":
            return self._wrap(body, index, block.start, block.end)
        parts = self._output_parts(body, index)
        if parts or ".content[" in block.where:
            members, end = scan.walk_object(body.raw, parts[-1] if parts else block.start)
            return change_members(members, end, {_KEY: BREAKPOINT})
        members, _ = scan.walk_object(body.raw, block.start)
        output = next(m for m in members if m.key == "output")
        return self._wrap(body, index, output.start, output.end)

    def _wrap(self, body: Body, index: int, start: int, end: int) -> list[Splice]:
        block = body.blocks[index]
        kind = b"output_text" if block.role == "assistant" else b"input_text"
        head, tail = b'[{"type":"' + kind + b'","text":', b',"prompt_cache_breakpoint":' + BREAKPOINT + b"}]"
        if body.members["input"].start == block.start:  # the whole input is one string
            head, tail = b'[{"type":"message","role":"user","content":' + head, tail + b"}]"
        return [Splice(start, start, head), Splice(end, end, tail)]

    def remove(self, body: Body, marker: Marker) -> list[Splice]:
        members, end = scan.walk_object(body.raw, marker.at)
        return change_members(members, end, {}, (_KEY,))

    def content(self, body: Body, index: int) -> bytes:
        """The block's canonical bytes, without markers: equal for equal content, whatever its spelling.

        Item ids differ between sessions and are left out, except where the id is all an item says. Role and message
        borders are the block's own fields, not part of its content.
        """
        block = body.blocks[index]
        text = body.text(block)
        if block.form == "string":
            kind = b"output_text" if block.role == "assistant" else b"input_text"
            return b'{"type":"' + kind + b'","text":' + canon(text) + b"}" + body.context(block)
        members = object_of(text)
        if members is None or block.section == "tools":
            return canon(text)
        members.pop(_KEY, None)
        if ".content[" not in block.where:
            if members.keys() & _SPEAKING:
                members.pop("id", None)
                members.pop("status", None)
            if self.kind(body, index) in OUTPUTS:
                members["output"] = _unmarked_output(members.get("output", b"null"))
        return obj((key, canon(value)) for key, value in members.items()) + body.context(block)

    # Canonical values

    def decode(self, body: Body) -> Request:
        return codec.decode(body.top())

    def encode(self, request: Request) -> bytes:
        return codec.encode(request)

    # Responses

    def tap(self) -> Tap:
        return Tap(_read_event, openai_usage)


def _is_part(raw: bytes, start: int) -> bool:
    """Whether a content part that can carry a breakpoint begins here."""
    members = object_at(raw, start) or {}
    kind = string_of(members.get("type"))
    return kind in PARTS and (not kind.endswith("_text") or bool(string_of(members.get("text"))))


def _unmarked_output(raw: bytes) -> bytes:
    """A tool output without markers; a string is one part."""
    if raw[:1] == b'"':
        return b'[{"type":"input_text","text":' + canon(raw) + b"}]"
    parts = array_of(raw)
    return canon(raw) if parts is None else arr(_unmarked(part) for part in parts)


def _unmarked(part: bytes) -> bytes:
    members = object_of(part)
    if members is None:
        return canon(part)
    return obj((key, canon(value)) for key, value in members.items() if key != _KEY)


class _Event(Struct):
    """An event, the response inside one, or a whole response; what is absent is empty."""

    type: Raw = Raw()
    response: Raw = Raw()
    id: Raw = Raw()
    model: Raw = Raw()
    usage: Raw = Raw()
    message: Raw = Raw()
    status: Raw = Raw()


_is_delta = re.compile(rb'\s*\{\s*"type"\s*:\s*"response\.[a-z_.]*\.delta"').match


def _read_event(data: bytes, report: StreamReport) -> None:
    """The last event carries the response with its usage; a response that is not streamed is that object itself."""
    report.started = True
    if _is_delta(data):
        report.add_delta(data)
        return
    try:
        event = scan.decode(data, _Event)
        response = scan.decode(bytes(event.response), _Event) if bytes(event.response) else event
    except (msgspec.DecodeError, RecursionError):
        report.error = report.error or "an event that is not JSON"
        return
    kind = text_of(event.type)
    report.response_id = text_of(response.id) or report.response_id
    report.model = text_of(response.model) or report.model
    merge_counts(report, response.usage)
    if kind in LAST:
        report.finished = True
    if kind == "error" or text_of(response.status) == "failed" or kind == "response.failed":
        report.error = text_of(event.message) or openai.read_error(0, bytes(event.response) or data).message
