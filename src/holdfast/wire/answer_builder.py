"""The base of every dialect's answer builder, and which blocks of an answer can be sent back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.records import (
    Block,
    Extra,
    Message,
    NotJson,
    Opaque,
    RedactedThinking,
    Text,
    Thinking,
    ToolUse,
    canonical_json,
    encode_string,
)

from . import scan

Stop = Literal["end", "tools", "length", "refusal", "paused", "unknown"]
"""Why the model ended: complete, tool calls, length limit, refusal, paused by the provider, or unknown."""

SEALED = "thoughtSignature"
_REASONING = "reasoning"
_DEEPEST = 100
"""Levels of JSON within a block: a request with more may be one that nobody can read, and no tool asks for it."""

_nesting = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL).finditer


class Piece(Struct, frozen=True):
    """What can be shown while an answer comes. Of a call it is the tool's name, as soon as that is known."""

    kind: Literal["text", "thinking", "tool"]
    text: str


class Builder:
    """Builds one answer from its events. A dialect implements `event`, which adds one, and `message`, the result."""

    stop: Stop = "unknown"
    opened = False
    """Something was an answer, or the beginning of one."""
    ended = False
    """The answer itself has marked its end, in a way that a tap does not recognise."""
    problem: str | None = None

    def event(self, data: bytes) -> Iterable[Piece]:
        """Takes the canonical JSON of one event, or of a whole response."""
        raise NotImplementedError

    def message(self, *, whole: bool, id: str | None) -> Message:
        """The message so far; `id` is the response's."""
        raise NotImplementedError


def is_object(text: str) -> bool:
    """Whether a tool's input, as text, is a JSON object."""
    try:
        return canonical_json(text.encode("utf-8", "surrogatepass"))[:1] == b"{"
    except NotJson:
        return False


def origin_of(id: str | None, raw: Iterable[bytes] = ()) -> str:
    """A short name of an answer, for ids that we have to make: a hash of the response's id, or else of its content."""
    source = b"\n".join(raw) if id is None else id.encode("utf-8", "surrogatepass")
    return blake2b(source, digest_size=8).hexdigest()


def returnable(blocks: Iterable[Block], *, whole: bool, id_prefix: str) -> tuple[Block, ...]:
    """Return the blocks that a provider accepts back.

    Left out are blank texts, thoughts that lead to nothing, and calls of a kind that cannot be answered here; blocks
    nested too deeply and duplicate ids are replaced. `id_prefix` is the prefix of ids where one is missing.
    """
    shallow = tuple(_shallow(block) for block in blocks if not (isinstance(block, Opaque) and _is_deep(block.raw)))
    blocks = [block for block in _answerable(shallow) if not _is_blank(block)]
    while blocks:  # OpenAI refuses a thought that nothing follows
        last = blocks[-1]
        opaque = isinstance(last, Opaque) and (not whole or last.kind == _REASONING)
        if not opaque and not isinstance(last, Thinking | RedactedThinking):
            break
        blocks.pop()
    ids: set[str] = set()
    for index, block in enumerate(blocks):
        if isinstance(block, ToolUse):
            identity = block.id if block.id and block.id not in ids else f"{id_prefix}{index}"
            ids.add(identity)
            blocks[index] = replace(block, id=identity, input=scan.mended(block.input))
    return tuple(blocks)


def plain_extra(extra: Extra) -> Extra:
    """Further members, without those that are nested too deeply."""
    return tuple((name, raw) for name, raw in extra if not _is_deep(raw))


def _shallow(block: Block) -> Block:
    """A block without what is nested too deeply. Such an input of a call becomes a string, as if it were no JSON; the
    tool then answers with an error."""
    if isinstance(block, Opaque):
        return block
    if isinstance(block, ToolUse) and _is_deep(block.input):
        block = replace(block, input=encode_string(block.input.decode("utf-8", "replace")))
    return replace(block, extra=plain_extra(block.extra)) if block.extra else block


def _is_deep(raw: bytes) -> bool:
    if raw.count(b"{") + raw.count(b"[") <= _DEEPEST:
        return False
    depth = 0
    for bracket in _nesting(raw):
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(bracket[0], 0)
        if depth > _DEEPEST:
            return True
    return False


def _answerable(blocks: tuple[Block, ...]) -> Iterable[Block]:
    """The blocks without unknown calls that nobody here can answer. Two unknown blocks with one id are a call and its
    output, run by the provider itself: they stay, without the id."""
    ids = [block.call_id for block in blocks if isinstance(block, Opaque) and block.call_id is not None]
    for block in blocks:
        if isinstance(block, Opaque) and block.call_id is not None:
            if ids.count(block.call_id) > 1:
                yield replace(block, call_id=None)
        else:
            yield block


def _is_blank(block: Block) -> bool:
    return isinstance(block, Text) and not block.text.strip() and SEALED not in dict(block.extra)
