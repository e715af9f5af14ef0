"""How many tokens the entries of a window have: estimated from their rendered texts, and set right by real usage."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from holdfast.facts import IMAGE_TOKENS, estimate, estimate_json
from holdfast.records import Block, Document, Image, Message, Opaque, RedactedThinking, Text, Thinking, ToolUse

from ..window.entries import Entry, Static, Window
from ..window.renderer import render

_MESSAGE = 4
"""Tokens of a message beside its content: its role and its borders."""

_WILDEST = 4.0
"""An estimate is never off by more than this: a larger difference means that usage speaks of something else."""


class Sizes(Struct, frozen=True, kw_only=True):
    """`fixed` is what stands before the window (tools, system text), `entries` has one number for each entry; `ratio`
    is what a token of an estimate comes to."""

    fixed: int
    entries: tuple[int, ...]
    ratio: float = 1.0

    @property
    def total(self) -> int:
        return self.fixed + sum(self.entries)

    def of(self, text: str) -> int:
        """Tokens of a text that stands in a message of its own."""
        return scaled(estimate(text) + _MESSAGE, self.ratio)


def scaled(tokens: int, ratio: float) -> int:
    return max(1, round(tokens * ratio)) if tokens else 0


def message_tokens(messages: Iterable[Message]) -> int:
    """Tokens of messages, estimated."""
    return sum(_MESSAGE + sum(_block_tokens(block) for block in message.content) for message in messages)


def _block_tokens(block: Block) -> int:
    match block:
        case Text() | Thinking():
            return estimate(block.text)
        case Document(media_type="text/plain", data=str(text)):
            return estimate(text)
        case Image() | Document():
            return IMAGE_TOKENS
        case ToolUse():
            return _MESSAGE + estimate(block.name) + estimate(block.input.decode("utf-8", "replace"))
        case Opaque():
            return estimate_json(block.raw)
        case RedactedThinking():
            return estimate(block.data)
        case _:
            return _MESSAGE + sum(_block_tokens(inner) for inner in block.content)


def entry_tokens(entry: Entry, static: Static) -> int:
    """Tokens of one entry, estimated from what it renders to."""
    return message_tokens(render(Window(entries=(entry,), borders=(True,)), static))


def sizes(
    entries: Iterable[Entry],
    static: Static,
    *,
    before: Iterable[str] = (),
    used: int = 0,
    pending: Iterable[Message] = (),
) -> Sizes:
    """The sizes of a window's entries. `before` are the texts that stand in front of it; `used` is what the provider
    counted for all of it but the `pending` messages at its end, 0 where nobody has counted."""
    fixed = sum(map(estimate, before))
    found = [entry_tokens(entry, static) for entry in entries]
    counted = fixed + sum(found) - message_tokens(pending)
    ratio = used / counted if used > 0 and counted > 0 else 1.0
    ratio = min(max(ratio, 1 / _WILDEST), _WILDEST)
    return Sizes(fixed=scaled(fixed, ratio), entries=tuple(scaled(each, ratio) for each in found), ratio=ratio)
