"""Gemini `generateContent`: every chunk is a response of its own, whose parts come after those of the one before."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.records import Message, encode_string

from .. import scan
from ..codecs.gemini import MADE_ID, decode_parts
from ..raw_json import array_of, obj, object_of, string_of
from .parts import SEALED, Builder, Piece, Stop, kept, origin_of

_STOPS: dict[str | None, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "refusal"),
}
_SPOILT = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
"""The model said something that the provider could not read, and gives none of it."""
_PLAIN = {"text", "thought"}
Part = dict[str, bytes]


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
        blocks = kept(decode_parts(raw, origin), whole=whole, made=f"{MADE_ID}{origin}again-")
        return Message("assistant", blocks)


def _call(call: Part, name: str) -> Iterator[tuple[str, bytes]]:
    """A call's members: what else stands there tells how it was streamed and is not taken back."""
    if identity := string_of(call.get("id")):
        yield "id", encode_string(identity)
    yield "name", encode_string(name)
    args = call.get("args", b"{}")
    yield "args", args if args[:1] == b"{" else b"{}"
