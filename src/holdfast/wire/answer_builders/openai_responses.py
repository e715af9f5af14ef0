"""OpenAI Responses: output items, each told whole when it is done, and all of them again at the end."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.records import Message, encode_string

from .. import scan
from ..codecs.openai_responses import decode_input
from ..raw_json import arr, array_of, int_of, obj, object_of, string_of
from .parts import Builder, Piece, is_object, kept, origin_of

LAST = ("response.completed", "response.incomplete", "response.failed")
"""The events that end a response."""

_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_WORDS = ("response.output_text.delta", "response.refusal.delta")
Item = dict[str, bytes]


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
        items = [_said(item) for item in items]
        readable = [item for item in items if not self._is_lost(item) and not self._is_cut_off(item)]
        if any(map(self._is_lost, items)):  # an id would make the provider look for the thought that went before
            readable = [{key: raw for key, raw in item.items() if key != "id"} for item in readable]
        raw = [scan.mended(obj(item.items())) for item in readable]
        blocks = [block for message in decode_input(arr(raw)) for block in message.content]
        return Message("assistant", kept(blocks, whole=whole, made=f"call_{origin_of(id, raw)}_"))

    def _is_lost(self, item: Item) -> bool:
        """A thought that the provider neither keeps nor gave along: its id alone leads nowhere."""
        return _kind(item) == "reasoning" and not self._stored and "encrypted_content" not in item

    def _is_cut_off(self, item: Item) -> bool:
        """A call that was not told to its end, or is none."""
        if _kind(item) != "function_call":
            return not item
        arguments = string_of(item.get("arguments")) or ""
        cut = self.stop == "length" and not is_object(arguments)
        return cut or string_of(item.get("status")) == "incomplete" or not string_of(item.get("name"))


def _kind(item: Item) -> str | None:
    return string_of(item.get("type"))


def _words(text: str) -> Item:
    part = obj((("type", b'"output_text"'), ("text", encode_string(text))))
    return {"type": b'"message"', "role": b'"assistant"', "content": arr([part])}


def _refuses(item: Item) -> bool:
    parts = array_of(item.get("content", b"")) or ()
    return any(string_of((object_of(part) or {}).get("type")) == "refusal" for part in parts)


def _said(item: Item) -> Item:
    """An item as it goes back: a refusal as the words it is, a call without arguments with none."""
    item = {key: raw for key, raw in item.items() if raw != b"null"}
    if _kind(item) == "message" and _refuses(item):
        parts = [object_of(part) or {} for part in array_of(item["content"]) or ()]
        return _words("".join(string_of(part.get("refusal")) or string_of(part.get("text")) or "" for part in parts))
    if _kind(item) == "function_call":
        item["call_id"] = item.get("call_id", b'""')
        if (string_of(item.get("arguments")) or "").strip() in ("", "null"):
            item["arguments"] = b'"{}"'
    return item
