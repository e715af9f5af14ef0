"""OpenAI Chat Completions: system messages, then tools, then messages; from GPT-5.6 on, breakpoints on parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.caches import Section
from holdfast.records import Extra, Message, Request, encode_string

from . import openai, scan
from .answer_builder import Builder, Piece, Stop, is_object, origin_of, plain_extra, returnable
from .body import BlockSpan, Body, Marker, Splice, Ttl, Unreadable, change_members, guarded, tool_spans, with_context
from .cache_control import as_text_block
from .codecs import openai_chat as codec
from .raw_json import arr, array_of, canon, int_of, obj, object_of, string_of
from .stream import StreamReport, Tap, merge_counts, text_of
from .usage import openai_usage

NAME = "openai_chat"
PARTS = ("text", "image_url", "input_audio", "file")
_NO_CONTEXT = ("role", "content", "tool_calls", "cache_control")
_STOPS: dict[str | None, Stop] = {
    "stop": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refusal",
}
_THOUGHTS = ("reasoning_content", "reasoning")
_DETAILS = "reasoning_details"
_GROWING = ("text", "summary", "data", "signature")  # of a detail; its other members come once
_NO_EXTRA = ("index", "id", "type", "function")


class _Message(Struct):
    role: str
    content: list[Raw] | str | None = None
    tool_calls: list[Raw] | None = None


class _Top(Struct):
    model: str = ""
    tools: list[Raw] | None = None
    messages: list[_Message] = []


class _Walk:
    """Collects the block spans of one body."""

    def __init__(self, raw: bytes, top: _Top, name: str) -> None:
        self.raw = raw
        self.top = top
        self.name = name
        self.tools: list[BlockSpan] = []
        self.messages: list[BlockSpan] = []
        roles = [message.role for message in top.messages]
        self.leading = next((i for i, role in enumerate(roles) if role not in openai.SYSTEM_ROLES), len(roles))

    def body(self) -> Body:
        handlers = {"messages": lambda pos: scan.walk_objects(self.raw, pos, len(self.top.messages), self.walk_message)}
        if self.top.tools is not None:
            handlers["tools"] = self.walk_tools
        members, end = scan.walk_body(self.raw, handlers)
        system = [block for block in self.messages if block.section == "system"]
        others = [block for block in self.messages if block.section != "system"]
        blocks = (*system, *self.tools, *others)
        return Body(self.raw, self.name, self.top.model, blocks, {m.key: m for m in members}, end)

    def walk_tools(self, pos: int) -> int:
        self.tools, end = tool_spans(self.raw, pos, self.top.tools or [])
        return end

    def walk_message(self, index: int, pos: int) -> int:
        message = self.top.messages[index]
        section: Section = "system" if index < self.leading else "messages"
        blocks: list[BlockSpan] = []

        def items(field: str, values: list[Raw], at: int) -> int:
            spans, end = scan.walk_array(self.raw, at, values)
            where = f"messages[{{0}}].{field}[{{1}}]"
            blocks.extend(BlockSpan(where, section, message.role, *span, index, j) for j, span in enumerate(spans))
            return end

        def content(at: int) -> int:
            if isinstance(message.content, list):
                return items("content", message.content, at)
            end = scan.skip_value(self.raw, at)
            if message.content is not None:
                where = "messages[{0}].content[{1}]"
                blocks.append(BlockSpan(where, section, message.role, at, end, index, 0, "string"))
            return end

        handlers = {"content": content}
        calls = message.tool_calls
        if calls is not None:
            handlers["tool_calls"] = lambda at: items("tool_calls", calls, at)
        members, end = scan.walk_object(self.raw, pos, handlers)
        if not blocks:
            blocks.append(BlockSpan("messages[{0}]", section, message.role, pos, end, index))
        else:
            with_context(blocks, [m for m in members if m.key not in _NO_CONTEXT])
        self.messages += blocks
        return end


class _Call:
    """One call as far as it has come."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self.extra: dict[str, bytes] = {}
        self._arguments: list[str] = []

    def add(self, members: dict[str, bytes]) -> str | None:
        """Add a delta; returns the tool's name when it first appears."""
        function = object_of(members.get("function", b"")) or {}
        new = None if self.name else string_of(function.get("name")) or None
        self.id = self.id or string_of(members.get("id")) or ""
        self.name = self.name or new or ""
        self._arguments.append(string_of(function.get("arguments")) or "")
        self.extra |= {key: raw for key, raw in members.items() if key not in _NO_EXTRA and raw != b"null"}
        return new

    @property
    def arguments(self) -> str:
        return "".join(self._arguments)

    def raw(self) -> bytes:
        """Return the call as JSON. Missing arguments become `{}`; no tool accepts the invalid ones, which stay."""
        text = self.arguments.strip()
        arguments = "{}" if text in ("", "null") else self.arguments
        function = obj((("name", encode_string(self.name)), ("arguments", encode_string(arguments))))
        members = (("id", encode_string(self.id)), ("type", b'"function"'), ("function", function))
        return obj((*members, *self.extra.items()))


class ChatBuilder(Builder):
    _finished = False

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thoughts: dict[str, list[str]] = {}
        self._details: list[tuple[dict[str, bytes], dict[str, list[str]]]] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def event(self, data: bytes) -> Iterator[Piece]:
        for raw in array_of((object_of(data) or {}).get("choices", b"")) or ():
            choice = object_of(raw) or {}
            if choice.get("index", b"0") != b"0":
                continue
            self.opened = True
            for name in ("delta", "message"):
                yield from self._add(object_of(choice.get(name, b"")) or {})
            if (reason := string_of(choice.get("finish_reason"))) is not None:
                self._finished = True
                self.stop = self.stop if self.stop == "refusal" else _STOPS.get(reason, "unknown")

    def _add(self, delta: dict[str, bytes]) -> Iterator[Piece]:
        for detail in array_of(delta.get(_DETAILS, b"")) or ():
            self._detail({key: raw for key, raw in (object_of(detail) or {}).items() if raw != b"null"})
        shown = ""
        for name in _THOUGHTS:
            if text := string_of(delta.get(name)):
                self._thoughts.setdefault(name, []).append(text)
                shown = shown or text  # some send a thought under both names
        if shown:
            yield Piece("thinking", shown)
        refusal = string_of(delta.get("refusal")) or ""
        if refusal:
            self.stop = "refusal"
        for text in (_words(delta.get("content", b"")), refusal):
            if text:
                self._text.append(text)
                yield Piece("text", text)
        for call in array_of(delta.get("tool_calls", b"")) or ():
            if tool := self._call(object_of(call) or {}):
                yield Piece("tool", tool)

    def _call(self, members: dict[str, bytes]) -> str | None:
        """A delta of a call. Some servers give every call the same index and another id, some no index at all."""
        index, identity = int_of(members.get("index")), string_of(members.get("id"))
        call = self._by_index.get(index) if index is not None else None
        if index is None and not identity and b'"name"' not in members.get("function", b"") and self._calls:
            call = self._calls[-1]
        if call is None or (identity and call.id and call.id != identity):
            call = _Call()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        return call.add(members)

    def _detail(self, members: dict[str, bytes]) -> None:
        """A piece of a thought's details: neighbours of one kind and index are one detail."""
        last, grown = self._details[-1] if self._details else ({}, {})
        if not last or any(last.get(key) != members.get(key) for key in ("type", "index")):
            last, grown = {}, {}
            self._details.append((last, grown))
        for key, raw in members.items():
            last[key] = raw
            if key in _GROWING and (text := string_of(raw)) is not None:
                grown.setdefault(key, []).append(text)

    def message(self, *, whole: bool, id: str | None) -> Message:
        members = [("role", b'"assistant"'), ("content", encode_string("".join(self._text)))]
        if calls := [call.raw() for call in self._whole_calls(whole)]:
            members.append(("tool_calls", arr(calls)))
        if whole:
            members += self._reasoning()
        message = codec.decode_message(scan.mended(obj(members)))
        blocks = returnable(message.content, whole=whole, id_prefix=f"call_{origin_of(id, calls)}_")
        return replace(message, content=blocks, extra=plain_extra(message.extra) if blocks else ())

    def _whole_calls(self, whole: bool) -> list[_Call]:
        """The complete calls: where the answer broke off or met its limit, the last may be incomplete."""
        calls = list(self._calls)
        if not whole and not self._finished and calls:
            calls.pop()
        if not whole:
            calls = [call for call in calls if not call.arguments.strip() or is_object(call.arguments)]
        elif self.stop == "length" and calls and not is_object(calls[-1].arguments):
            calls.pop()
        return [call for call in calls if call.name]

    def _reasoning(self) -> list[tuple[str, bytes]]:
        if self._details:
            return [(_DETAILS, arr(_grown(members, grown) for members, grown in self._details if members))]
        return [(name, encode_string("".join(texts))) for name, texts in self._thoughts.items()]


def _grown(members: dict[str, bytes], grown: dict[str, list[str]]) -> bytes:
    return obj((members | {key: encode_string("".join(texts)) for key, texts in grown.items()}).items())


def _words(content: bytes) -> str:
    """The words of a content, which some servers send as a list of parts."""
    if (text := string_of(content)) is not None:
        return text
    parts = [object_of(part) or {} for part in array_of(content) or ()]
    return "".join(string_of(part.get("text")) or "" for part in parts if string_of(part.get("type")) == "text")


class OpenAIChat(openai.OpenAIDialect):
    """The dialect of `POST /v1/chat/completions`."""

    name = NAME
    marker_key = openai.BREAKPOINT_KEY
    limit_key = "max_completion_tokens"
    images: tuple[bytes, ...] = (b'"type":"image_url"',)
    marker_keys: tuple[str, ...] = codec.MARKER_KEYS
    text_part = b'{"type":"text","text":'
    streamed: Extra = (("stream", b"true"), ("stream_options", b'{"include_usage":true}'))
    builder: type[Builder] = ChatBuilder

    def model_in_path(self, path: str) -> str | None:
        """The model that a request path names, empty if the body does; None if it is no path of this dialect."""
        return "" if path.endswith("/chat/completions") else None

    def path(self, model: str) -> tuple[str, dict[str, str]]:
        return "/v1/chat/completions", {}

    def parse(self, raw: bytes, *, model: str = "", like: Body | None = None) -> Body | Unreadable:
        """`model` is for dialects that name it elsewhere; here the body does."""
        return guarded(raw, _Top, lambda top: _Walk(raw, top, self.name).body())

    # Markers

    def marker_value(self, ttl: str) -> bytes:
        return openai.BREAKPOINT

    def kind(self, body: Body, index: int) -> str:
        block = body.blocks[index]
        if block.form == "string":
            return "text"
        if block.section == "tools":
            return "tool"
        if ".tool_calls[" in block.where:
            return "tool_use"
        return string_of((object_of(body.text(block)) or {}).get("type")) or "unknown"

    def markers(self, body: Body, among: Sequence[int] | None = None) -> tuple[Marker, ...]:
        """The body's own markers in prefix order."""
        markers = []
        for index in range(len(body.blocks)) if among is None else among:
            block = body.blocks[index]
            if block.form == "object" and scan.may_name(body.raw, self.marker_key, block.start, block.end):
                marker = (object_of(body.text(block)) or {}).get(self.marker_key, b"null")
                if marker[:1] == b"{":
                    markers.append(Marker(index, self.ttl_of(body, marker), at=block.start))
        return tuple(markers)

    def ttl_of(self, body: Body, marker: bytes) -> str:
        return openai.breakpoint_ttl(body.model)

    def markable(self, body: Body, index: int) -> bool:
        """Markers stand on non-empty content parts only, never on tools or tool calls."""
        block = body.blocks[index]
        if ".content[" not in block.where or not self.takes_markers(body.model):
            return False
        if block.form == "string":
            return bool(string_of(body.text(block)))
        kind, members = self.kind(body, index), object_of(body.text(block)) or {}
        return kind in PARTS and (kind != "text" or bool(string_of(members.get("text"))))

    def place(self, body: Body, index: int, ttl: Ttl) -> list[Splice]:
        """Splices that put a marker on a markable part, in the place of one it has."""
        if not self.markable(body, index):
            raise body.no_place(index)
        block, value = body.blocks[index], self.marker_value(ttl)
        if block.form == "string":
            tail = b"," + encode_string(self.marker_key) + b":" + value + b"}]"
            head = b'[{"type":"text","text":'
            return [Splice(block.start, block.start, head), Splice(block.end, block.end, tail)]
        members, end = scan.walk_object(body.raw, block.start)
        return change_members(members, end, {self.marker_key: value})

    def remove(self, body: Body, marker: Marker) -> list[Splice]:
        if marker.block is None:
            return body.change_members({}, (self.marker_key,))
        members, end = scan.walk_object(body.raw, marker.at)
        return change_members(members, end, {}, (self.marker_key,))

    def content(self, body: Body, index: int) -> bytes:
        """The block's canonical bytes, without markers: equal for equal content, whatever its spelling.

        Role and message borders are the block's own fields, not part of its content.
        """
        block = body.blocks[index]
        text = body.text(block)
        if block.form == "string":
            return as_text_block(text) + body.context(block)
        members = object_of(text)
        if members is None:
            return canon(text) + body.context(block)
        content = ((key, canon(value)) for key, value in members.items() if key not in codec.MARKER_KEYS)
        return obj(content) + body.context(block)

    # Canonical values

    def decode(self, body: Body) -> Request:
        """The request in canonical form; leading system and developer messages are the system prompt."""
        return codec.decode(body.top(), self.name, self.provider)

    def encode(self, request: Request) -> bytes:
        return codec.encode(request, self.name, limit_key=self.limit_key)

    # Responses

    def tap(self) -> Tap:
        return Tap(read_event, openai_usage)


class _Chunk(Struct):
    """A chunk or a whole response; what is absent is empty."""

    id: Raw = Raw()
    model: Raw = Raw()
    usage: Raw = Raw()
    error: Raw = Raw()


def read_event(data: bytes, report: StreamReport) -> None:
    """Usage comes in the last chunk, or in every one with the counts so far: the latest counts."""
    report.started = True
    if data.strip() == b"[DONE]":
        report.finished = True
        return
    try:
        chunk = scan.decode(data, _Chunk)
    except (msgspec.DecodeError, RecursionError):
        report.error = report.error or "an event that is not JSON"
        return
    report.response_id = text_of(chunk.id) or report.response_id
    report.model = text_of(chunk.model) or report.model
    merge_counts(report, chunk.usage)
    if bytes(chunk.error) not in (b"", b"null"):
        report.error = openai.read_error(0, data).message
    else:
        report.add_delta(data)
