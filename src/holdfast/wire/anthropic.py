"""Anthropic Messages: tools, then system, then messages; markers are `cache_control` members."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.caches import Section
from holdfast.facts import ModelFacts
from holdfast.facts import model as facts_of
from holdfast.records import Capabilities, Extra, Request, encode_string

from . import cache_control, scan
from .answer_builder import Builder
from .anthropic_answers import AnthropicBuilder, read_event
from .body import (
    BlockSpan,
    Body,
    Marker,
    Splice,
    Ttl,
    Unreadable,
    change_members,
    guarded,
    tool_spans,
    with_context,
)
from .codecs import anthropic as codec
from .errors import WireError, error_of
from .raw_json import facts_at, obj, object_of, string_of
from .resume import Resumed, resume
from .stream import Tap
from .usage import anthropic_usage

NAME = "anthropic"
_KEY = "cache_control"
_MARKABLE = ("text", "image", "document", "search_result", "tool_use", "tool_result", "tool_reference")
EMPTY = "messages[{0}]"
_REMEMBERED = 65_536  # bytes of a block whose places for markers are remembered
_kind = re.compile(rb'\{\s*"type"\s*:\s*"([a-z0-9_]+)"').match
_COMPACT = {role: b'{"role":"%s","content":[' % role.encode() for role in ("user", "assistant", "system")}
_COMPACT_END = (b"]},{", b"]}]")
_SECTIONS: tuple[Section, ...] = ("tools", "system")
_COMMA, _SPACE = ord(","), ord(" ")
_PATH = "messages[{0}].content[{1}]"
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    529: "overloaded_error",
}


class _Message(Struct):
    role: str
    content: list[Raw] | str | None = None


class _Top(Struct):
    model: str = ""
    system: list[Raw] | str | None = None
    tools: list[Raw] | None = None
    messages: list[_Message] = []


_messages = msgspec.json.Decoder(list[_Message]).decode


class _Walk:
    """Collects the block spans of one body."""

    def __init__(self, raw: bytes, top: _Top, resumed: Resumed | None = None) -> None:
        self.raw = raw
        self.top = top
        self.resumed = resumed
        self.tools: list[BlockSpan] = []
        self.system: list[BlockSpan] = []
        self.messages: list[BlockSpan] = []

    def body(self) -> Body:
        handlers = {"messages": self.walk_messages}
        if isinstance(self.top.system, list | str):
            handlers["system"] = self.walk_system
        if self.top.tools is not None:
            handlers["tools"] = self.walk_tools
        members, end = scan.walk_body(self.raw, handlers)
        blocks = (*self.tools, *self.system, *self.messages)
        return Body(self.raw, NAME, self.top.model, blocks, {m.key: m for m in members}, end)

    def walk_tools(self, pos: int) -> int:
        if self.resumed is not None and (resumed := self.resumed.section("tools", pos)) is not None:
            self.tools, end = resumed
            return end
        self.tools, end = tool_spans(self.raw, pos, self.top.tools or [])
        return end

    def walk_system(self, pos: int) -> int:
        if self.resumed is not None and (resumed := self.resumed.section("system", pos)) is not None:
            self.system, end = resumed
            return end
        if isinstance(self.top.system, str):
            end = scan.skip_value(self.raw, pos)
            self.system.append(BlockSpan("system[{1}]", "system", "system", pos, end, form="string"))
            return end
        spans, end = scan.walk_array(self.raw, pos, self.top.system or [])
        self.system += [BlockSpan("system[{1}]", "system", "system", *span, -1, i) for i, span in enumerate(spans)]
        return end

    def walk_messages(self, pos: int) -> int:
        """All messages. Most are written role first and without spaces, and a long body is nearly all of that shape:
        those are walked by their lengths alone, in a third of the time of the general walk."""
        if self.resumed is None:
            return self.walk_on(0, scan.first_item(self.raw, pos))
        self.messages += self.resumed.blocks
        return self.walk_on(self.resumed.message, self.resumed.at)

    def walk_on(self, first: int, pos: int) -> int:
        """The messages from number `first` on, which begins at `pos`."""
        raw, messages, add = self.raw, self.top.messages, self.messages.append
        for index, message in enumerate(messages, first):
            role, content = message.role, message.content
            head = _COMPACT.get(role, b"\0")
            if type(content) is list and raw.startswith(head, pos):
                before, end = len(self.messages), pos + len(head) - 1
                for j, item in enumerate(content):
                    start = end + 1
                    end = start + len(item)
                    add(BlockSpan(_PATH, "messages", role, start, end, index, j))
                    if raw[end] != _COMMA:
                        break
                if raw.startswith(_COMPACT_END, end) and len(self.messages) - before == len(content):
                    pos = end + 3
                    continue
                del self.messages[before:]
            pos = scan.next_item(raw, self.walk_message(index, message, pos))
        return pos if messages else pos + 1

    def walk_message(self, index: int, message: _Message, pos: int) -> int:
        blocks: list[BlockSpan] = []

        def walk_content(at: int) -> int:
            blocks[:], end = self.walk_content(index, message, at)
            return end

        members, end = scan.walk_object(self.raw, pos, {"content": walk_content})
        with_context(blocks, [m for m in members if m.key not in ("role", "content")])
        self.messages += blocks or [BlockSpan(EMPTY, "messages", message.role, pos, end, index)]
        return end

    def walk_content(self, index: int, message: _Message, pos: int) -> tuple[list[BlockSpan], int]:
        role = message.role
        if isinstance(message.content, list):
            spans, end = scan.walk_array(self.raw, pos, message.content)
            return [BlockSpan(_PATH, "messages", role, *span, index, j) for j, span in enumerate(spans)], end
        end = scan.skip_value(self.raw, pos)
        if message.content is None:
            return [], end
        return [BlockSpan(_PATH, "messages", role, pos, end, index, 0, "string")], end


def _grown(raw: bytes, resumed: Resumed) -> Body | None:
    """A body that differs from an earlier one in its last messages alone, as nearly all do: only those are parsed. None
    if anything else differs, or if they cannot be parsed alone."""
    end = resumed.unchanged_from(raw)
    if end is None:
        return None
    try:
        walk = _Walk(raw, _Top(messages=_messages(b"[" + raw[resumed.at : end])))
        if walk.walk_on(resumed.message, resumed.at) != end:
            return None
    except (msgspec.MsgspecError, scan.Misfit, IndexError, RecursionError, UnicodeError):
        return None
    return resumed.body(raw, walk.messages, end)


class Anthropic:
    """The dialect of `POST /v1/messages`."""

    name = NAME
    provider = NAME
    images: tuple[bytes, ...] = (b'"type":"image"',)
    marker_keys: tuple[str, ...] = (_KEY,)
    text_part = b'{"type":"text","text":'
    streamed: Extra = (("stream", b"true"),)
    builder: type[Builder] = AnthropicBuilder

    def model_in_path(self, path: str) -> str | None:
        """The model that a request path names, empty if the body does; None if it is no path of this dialect."""
        return "" if path.endswith(("/messages", "/messages/count_tokens")) and "/threads/" not in path else None

    def path(self, model: str) -> tuple[str, dict[str, str]]:
        return "/v1/messages", {}

    def facts(self, model: str) -> ModelFacts:
        return facts_at(self.provider, model)

    def parse(self, raw: bytes, *, model: str = "", like: Body | None = None) -> Body | Unreadable:
        """`model` is for dialects that name it elsewhere; here the body does. `like` is an earlier body: messages that
        stand unchanged in it are taken over."""
        resumed = None if like is None or like.dialect != NAME else resume(raw, like, "messages")
        if resumed is not None:
            if (grown := _grown(raw, resumed)) is not None:
                return grown
            body = guarded(raw, _Top, lambda top: _Walk(raw, top, resumed).body(), resumed.shortened(raw, _SECTIONS))
            if isinstance(body, Body):
                return body
        return guarded(raw, _Top, lambda top: _Walk(raw, top).body())

    # Markers

    def kind(self, body: Body, index: int) -> str:
        """The block's `type`; "tool" for tool definitions without one, "message" for a message without content."""
        block = body.blocks[index]
        if block.form == "string":
            return "text"
        if block.where == EMPTY:
            return "message"
        match = _kind(body.raw, block.start, block.end)
        if match is not None:
            return match[1].decode()
        members = object_of(body.text(block)) or {}
        return string_of(members.get("type")) or ("tool" if block.section == "tools" else "unknown")

    def deferred(self, body: Body, index: int) -> bool:
        """A tool with `defer_loading`: no part of the prefix, and no place for a marker."""
        block = body.blocks[index]
        if block.section != "tools" or not scan.may_name(body.raw, "defer_loading", block.start, block.end):
            return False
        return cache_control.is_deferred(body.text(block))

    def markers(self, body: Body, among: Sequence[int] | None = None) -> tuple[Marker, ...]:
        """The body's own markers in prefix order; the automatic one (top level) last. `among` are the blocks to look at
        where it is known which can have one."""
        markers = []
        for index in range(len(body.blocks)) if among is None else among:
            block = body.blocks[index]
            if block.form == "object" and scan.may_name(body.raw, _KEY, block.start, block.end):
                for at, ttl in cache_control.markers(body.raw, block.start):
                    markers.append(Marker(index, ttl, at != block.start, at))
        if (automatic := cache_control.ttl_of(body.member(_KEY))) is not None:
            markers.append(Marker(None, automatic))
        return tuple(markers)

    def markable(self, body: Body, index: int) -> bool:
        """Whether the provider accepts a marker on this block (rule 1.7)."""
        block, kind = body.blocks[index], self.kind(body, index)
        if block.section == "tools":
            return bool(object_of(body.text(block))) and not self.deferred(body, index)
        if not (may_carry(kind) if block.section == "messages" else kind == "text" or kind.endswith("_tool_result")):
            return False
        if block.form == "string":
            return bool(string_of(body.text(block)))
        members = object_of(body.text(block))
        return members is not None and (kind != "text" or bool(string_of(members.get("text"))))

    def place(self, body: Body, index: int, ttl: Ttl) -> list[Splice]:
        """Splices that put a marker on a markable block, in the place of those it has on or in it."""
        block = body.blocks[index]
        if block.section != "messages" and not block.context and block.end - block.start <= _REMEMBERED:
            splices = _placed(body.text(block), block.section, block.form, ttl)
            return [Splice(s.start + block.start, s.end + block.start, s.new, s.outer) for s in splices]
        return self._place(body, index, ttl)

    def _place(self, body: Body, index: int, ttl: Ttl) -> list[Splice]:
        if not self.markable(body, index):
            raise body.no_place(index)
        block, value = body.blocks[index], cache_control.MARKERS[ttl]
        if block.form == "string":
            head, tail = b'[{"type":"text","text":', b',"cache_control":' + value + b"}]"
            return [Splice(block.start, block.start, head), Splice(block.end, block.end, tail)]
        at = block.end - 1
        if body.raw[at - 1] > _SPACE and not scan.may_name(body.raw, _KEY, block.start, block.end):
            return [Splice(at, at, b',"cache_control":' + value, outer=1)]  # a markable block is not empty
        members, end = scan.walk_object(body.raw, block.start)
        splices = change_members(members, end, {_KEY: value})
        if scan.may_name(body.raw, _KEY, block.start, block.end):
            nested = [at for at, _ in cache_control.markers(body.raw, block.start) if at != block.start]
            splices += self._unmark(body, nested)
        return splices

    def remove(self, body: Body, marker: Marker) -> list[Splice]:
        """Splices that take one of the body's own markers away."""
        if marker.block is None:
            return body.change_members({}, (_KEY,))
        return self._unmark(body, [marker.at])

    def _unmark(self, body: Body, places: list[int]) -> list[Splice]:
        walks = (scan.walk_object(body.raw, at) for at in places)
        return [s for members, end in walks for s in change_members(members, end, {}, (_KEY,))]

    def content(self, body: Body, index: int) -> bytes:
        """The block's canonical bytes, without markers: equal for equal content, whatever its spelling.

        Role and message borders are the block's own fields, not part of its content.
        """
        block = body.blocks[index]
        text = body.text(block)
        whole = cache_control.as_text_block(text) if block.form == "string" else cache_control.unmarked(text)
        return whole + body.context(block)

    # Canonical values

    def decode(self, body: Body) -> Request:
        """The request in canonical form. System blocks after the last marked one are the volatile segment."""
        return codec.decode(body.top())

    def encode(self, request: Request) -> bytes:
        """A body for the request, without markers: a plan's are placed later.

        The provider demands an output limit: a request from another dialect without one gets the model's own.
        """
        if request.output_limit is None and request.dialect not in (None, self.name):
            request = replace(request, output_limit=facts_of(request.model).output_limit)
        return codec.encode(request)

    # Responses

    def tap(self) -> Tap:
        return Tap(read_event, anthropic_usage)

    def capabilities(self, facts: ModelFacts) -> Capabilities:
        """Caching is supported wherever the facts know it: this dialect writes the breakpoints itself."""
        return facts.capabilities

    def read_error(self, status: int, raw: bytes) -> WireError:
        """Parse an error response; never fails."""
        error, message = error_of(raw)
        return WireError(status, string_of(error.get("type")) or ERROR_TYPES.get(status, "api_error"), message)

    def write_error(self, error: WireError) -> bytes:
        """An error body of our own in the provider's form."""
        inner = obj((("type", encode_string(error.kind)), ("message", encode_string(error.message))))
        return obj((("type", b'"error"'), ("error", inner)))


def may_carry(kind: str) -> bool:
    """Whether blocks of this kind can carry a marker in a message."""
    return kind in _MARKABLE or kind.endswith("_tool_result")


@lru_cache(maxsize=64)
def _placed(text: bytes, section: Section, form: Literal["object", "string"], ttl: Ttl) -> tuple[Splice, ...]:
    """The splices that mark this block where it stands alone. Tools and system text are the same at every turn."""
    span = BlockSpan(section, section, "", 0, len(text), form=form)
    return tuple(Anthropic()._place(Body(text, NAME, "", (span,), {}, len(text)), 0, ttl))
