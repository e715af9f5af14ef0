"""OpenAI Chat Completions and what speaks like it: one message, whose members grow by deltas.

Thoughts come as `reasoning_content` (DeepSeek and others), `reasoning` or `reasoning_details` (OpenRouter); they go
back as members of the message, under the name they came by.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.records import Message, encode_string

from .. import scan
from ..codecs.openai_chat import decode_message
from ..raw_json import arr, array_of, int_of, obj, object_of, string_of
from .parts import Builder, Piece, Stop, is_object, kept, origin_of, plain_extra

_STOPS: dict[str | None, Stop] = {
    "stop": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refusal",
}
_THOUGHTS = ("reasoning_content", "reasoning")
_DETAILS = "reasoning_details"
_GROWING = ("text", "summary", "data", "signature")  # of a detail; its other members are told once
_NO_EXTRA = ("index", "id", "type", "function")


class _Call:
    """One call as far as it has come."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self.extra: dict[str, bytes] = {}
        self._arguments: list[str] = []

    def add(self, members: dict[str, bytes]) -> str | None:
        """Takes a delta; gives the tool's name when it is told."""
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
        """No arguments are an empty object; what is no JSON stays as it is, and no tool takes it."""
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
                shown = shown or text  # some tell a thought under both names
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
        message = decode_message(scan.mended(obj(members)))
        blocks = kept(message.content, whole=whole, made=f"call_{origin_of(id, calls)}_")
        return replace(message, content=blocks, extra=plain_extra(message.extra) if blocks else ())

    def _whole_calls(self, whole: bool) -> list[_Call]:
        """The calls that were told to their end: where the answer broke off or met its limit the last may not be."""
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
