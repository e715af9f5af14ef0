"""Gemini: system instruction, then tools, then contents; no markers, but an explicit `cachedContent` object."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.caches import Section
from holdfast.facts import ModelFacts
from holdfast.records import Capabilities, Extra, Message, Request, encode_string

from . import scan
from .answer_builder import SEALED, Builder, Piece, Stop, origin_of, returnable
from .body import BlockSpan, Body, Marker, Splice, Ttl, Unreadable, guarded, with_context
from .codecs import gemini as codec
from .errors import WireError, error_of
from .raw_json import array_of, canon, facts_at, obj, object_of, string_of
from .stream import StreamReport, Tap, merge_counts, text_of
from .usage import gemini_usage

NAME = "gemini"
FROZEN = ("systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config", "cached_content")
"""What a cached object carries in the place of the request, and the other spelling of its own name."""

_path = re.compile(r"/models/([^/:]+):(?:streamGenerateContent|generateContent|countTokens)$").search
_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_STATUS |= {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
_STOPS: dict[str | None, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "refusal"),
}
_SPOILT = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
"""The model's output was malformed, and the provider returns none of it."""
_PLAIN = {"text", "thought"}
Part = dict[str, bytes]


class _Content(Struct):
    role: str | None = None
    parts: list[Raw] = []


class _Tool(Struct):
    functionDeclarations: list[Raw] | None = None  # noqa: N815  the wire's own spelling


class _Top(Struct):
    contents: list[_Content] = []
    systemInstruction: _Content | None = None  # noqa: N815
    system_instruction: _Content | None = None
    tools: list[_Tool] | None = None


class _Walk:
    """Collects the block spans of one body."""

    def __init__(self, raw: bytes, top: _Top, model: str) -> None:
        self.raw = raw
        self.top = top
        self.model = model
        self.tools: list[BlockSpan] = []
        self.system: list[BlockSpan] = []
        self.messages: list[BlockSpan] = []

    def body(self) -> Body:
        handlers = {"contents": lambda pos: scan.walk_objects(self.raw, pos, len(self.top.contents), self.walk_content)}
        for name in ("systemInstruction", "system_instruction"):
            if (content := getattr(self.top, name)) is not None:
                handlers[name] = self._system_handler(name, content)
        if (tools := self.top.tools) is not None:
            handlers["tools"] = lambda pos: scan.walk_objects(self.raw, pos, len(tools), self.walk_tool)
        members, end = scan.walk_body(self.raw, handlers)
        blocks = (*self.system, *self.tools, *self.messages)
        return Body(self.raw, NAME, self.model, blocks, {m.key: m for m in members}, end)

    def _system_handler(self, name: str, content: _Content) -> Callable[[int], int]:
        role = content.role or "system"
        return lambda pos: self._items(pos, content.parts, name, "parts", "system", role, self.system)

    def walk_content(self, index: int, pos: int) -> int:
        content = self.top.contents[index]
        blocks: list[BlockSpan] = []
        end = self._items(pos, content.parts, "contents[{0}]", "parts", "messages", content.role or "user", blocks)
        self.messages += [replace(block, message=index) for block in blocks]
        return end

    def walk_tool(self, index: int, pos: int) -> int:
        functions = self.top.tools[index].functionDeclarations if self.top.tools else None
        path = f"tools[{index}]"
        if functions:
            return self._items(pos, functions, path, "functionDeclarations", "tools", "", self.tools)
        end = scan.skip_value(self.raw, pos)
        self.tools.append(BlockSpan(path, "tools", "", pos, end))
        return end

    def _items(
        self, pos: int, values: list[Raw], path: str, field: str, section: Section, role: str, into: list[BlockSpan]
    ) -> int:
        """The items of one list member of an object as blocks; its other members hang on the first."""
        blocks: list[BlockSpan] = []
        where = f"{path}.{field}[{{1}}]"

        def walk(at: int) -> int:
            spans, end = scan.walk_array(self.raw, at, values)
            blocks.extend(BlockSpan(where, section, role, *span, -1, j) for j, span in enumerate(spans))
            return end

        members, end = scan.walk_object(self.raw, pos, {field: walk})
        with_context(blocks, [m for m in members if m.key not in ("role", field)])
        into += blocks or [BlockSpan(path, section, role, pos, end)]
        return end


class GeminiBuilder(Builder):
    def __init__(self) -> None:
        self._parts: list[tuple[Part, list[str]]] = []  # each with its words, as they came

    def event(self, data: bytes) -> Iterator[Piece]:
        members = object_of(data) or {}
        feedback = object_of(members.get("promptFeedback", b"")) or {}
        if string_of(feedback.get("blockReason")) is not None:
            self.opened = self.ended = True
            self.stop = "refusal"
        for raw in array_of(members.get("candidates", b"")) or ():
            candidate = object_of(raw) or {}
            if candidate.get("index", b"0") != b"0":
                continue
            self.opened = True
            content = object_of(candidate.get("content", b"")) or {}
            for part in array_of(content.get("parts", b"")) or ():
                yield from self._add(object_of(part) or {})
            self._stopped(candidate)

    def _stopped(self, candidate: Part) -> None:
        reason = string_of(candidate.get("finishReason"))
        if reason is None:
            return
        self.stop = _STOPS.get(reason, "unknown")
        if reason in _SPOILT:
            text = string_of(candidate.get("finishMessage")) or "the model called a tool in a way that cannot be read"
            self.problem = f"{text} ({reason})"

    def _add(self, part: Part) -> Iterator[Piece]:
        text = string_of(part.get("text"))
        call = object_of(part.get("functionCall", b""))
        if text is not None:
            self._words(part, text)
            if text:
                yield Piece("thinking" if part.get("thought") == b"true" else "text", text)
        elif call is None:
            if part:
                self._parts.append((part, []))
        elif name := string_of(call.get("name")):
            self._parts.append(({**part, "functionCall": obj(_call(call, name))}, []))
            yield Piece("tool", name)

    def _words(self, part: Part, text: str) -> None:
        """A text comes in many parts that are one. What carries a signature stays a part of its own, even without any
        words: the signature is for exactly that part."""
        last, words = self._parts[-1] if self._parts else ({}, [])
        plain = part.keys() <= _PLAIN and last.keys() <= _PLAIN and part.get("thought") == last.get("thought")
        if plain and words:
            words.append(text)
        elif text or SEALED in part:
            self._parts.append((part, [text]))

    def message(self, *, whole: bool, id: str | None) -> Message:
        parts = [{**part, "text": encode_string("".join(words))} if words else part for part, words in self._parts]
        raw = [scan.mended(obj(part.items())) for part in parts]
        origin = f"{origin_of(id, raw)}-"
        blocks = returnable(codec.decode_parts(raw, origin), whole=whole, id_prefix=f"{codec.MADE_ID}{origin}again-")
        return Message("assistant", blocks)


def _call(call: Part, name: str) -> Iterator[tuple[str, bytes]]:
    """The members of a call that the provider takes back; the others are about streaming."""
    if identity := string_of(call.get("id")):
        yield "id", encode_string(identity)
    yield "name", encode_string(name)
    args = call.get("args", b"{}")
    yield "args", args if args[:1] == b"{" else b"{}"


class Gemini:
    """The dialect of `…/models/{model}:generateContent`; the model is named in the path."""

    name = NAME
    provider = NAME
    images: tuple[bytes, ...] = (b'"inlineData"', b'"inline_data"')
    marker_keys: tuple[str, ...] = ()
    text_part = b'{"text":'
    streamed: Extra = ()
    builder: type[Builder] = GeminiBuilder

    def model_in_path(self, path: str) -> str | None:
        """The model that a request path names, empty if the body does; None if it is no path of this dialect."""
        match = _path(path)
        return None if match is None else match[1]

    def path(self, model: str) -> tuple[str, dict[str, str]]:
        name = quote(model.removeprefix("models/"), safe="")
        return f"/v1beta/models/{name}:streamGenerateContent", {"alt": "sse"}

    def facts(self, model: str) -> ModelFacts:
        return facts_at(self.provider, model)

    def parse(self, raw: bytes, *, model: str = "", like: Body | None = None) -> Body | Unreadable:
        return guarded(raw, _Top, lambda top: _Walk(raw, top, model).body())

    # Markers: there are none

    def kind(self, body: Body, index: int) -> str:
        block = body.blocks[index]
        if block.section == "tools":
            return "tool"
        members = object_of(body.text(block)) or {}
        if "text" in members:
            return "thinking" if members.get("thought") == b"true" else "text"
        kinds = {"functionCall": "tool_use", "functionResponse": "tool_result"}
        return next((kinds.get(key, key) for key in members if key != "thoughtSignature"), "unknown")

    def deferred(self, body: Body, index: int) -> bool:
        return False

    def markers(self, body: Body, among: Sequence[int] | None = None) -> tuple[Marker, ...]:
        return ()

    def markable(self, body: Body, index: int) -> bool:
        return False

    def place(self, body: Body, index: int, ttl: Ttl) -> list[Splice]:
        if not self.markable(body, index):
            raise body.no_place(index)
        return []

    def remove(self, body: Body, marker: Marker) -> list[Splice]:
        return []

    def use_cached(self, body: Body, name: str, contents: int = 0) -> list[Splice]:
        """Use a cached object: it takes the place of system instruction, tools and the first `contents` contents."""
        splices = body.change_members({"cachedContent": encode_string(name)}, FROZEN)
        member = body.members.get("contents")
        spans = scan.walk_values(body.raw, member.start)[0][: max(contents, 0) + 1] if member is not None else []
        if spans and contents > 0:
            end = spans[contents][0] if contents < len(spans) else spans[-1][1]
            splices.append(Splice(spans[0][0], end, b""))
        return splices

    def content(self, body: Body, index: int) -> bytes:
        """The block's canonical bytes: equal for equal content, whatever its spelling."""
        block = body.blocks[index]
        return canon(body.text(block)) + body.context(block)

    # Canonical values

    def decode(self, body: Body) -> Request:
        return codec.decode(body.top(), body.model)

    def encode(self, request: Request) -> bytes:
        return codec.encode(request)

    # Responses

    def tap(self) -> Tap:
        return Tap(_read_event, gemini_usage)

    def capabilities(self, facts: ModelFacts) -> Capabilities:
        """The provider caches prefixes by itself, and this dialect keeps them byte-stable."""
        return facts.capabilities

    def read_error(self, status: int, raw: bytes) -> WireError:
        """Parse an error response; never fails."""
        error, message = error_of(raw)
        return WireError(status, string_of(error.get("status")) or _STATUS.get(status, "UNKNOWN"), message)

    def write_error(self, error: WireError) -> bytes:
        """An error body of our own in the provider's form."""
        status = _STATUS.get(error.status, error.kind)
        inner = (
            ("code", b"%d" % error.status),
            ("message", encode_string(error.message)),
            ("status", encode_string(status)),
        )
        return obj((("error", obj(inner)),))


class _Chunk(Struct, rename="camel"):
    """A chunk or a whole response; what is absent is empty."""

    usage_metadata: Raw = Raw()
    response_id: Raw = Raw()
    model_version: Raw = Raw()
    candidates: Raw = Raw()
    error: Raw = Raw()


def _read_event(data: bytes, report: StreamReport) -> None:
    """Every chunk carries the counts so far; the latest counts."""
    report.started = True
    try:
        chunk = scan.decode(data, _Chunk)
    except (msgspec.DecodeError, RecursionError):
        report.error = report.error or "an event that is not JSON"
        return
    report.response_id = text_of(chunk.response_id) or report.response_id
    report.model = text_of(chunk.model_version) or report.model
    merge_counts(report, chunk.usage_metadata)
    if bytes(chunk.error) not in (b"", b"null"):
        report.error = Gemini().read_error(0, data).message
    else:
        report.add_delta(data)
    if b'"finishReason"' in data:
        candidates = array_of(bytes(chunk.candidates)) or []
        report.finished |= any("finishReason" in (object_of(candidate) or {}) for candidate in candidates)
