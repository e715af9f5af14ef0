"""The parts of a conversation as frozen values: blocks, messages and tool definitions.

They hold content; the place in a body, the owner and the markers are elsewhere. `extra` holds members beyond the known
ones of a dialect, in order, as canonical JSON text; `Opaque` is a whole block of an unknown kind. Both are sent only in
the dialect that they came from.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Role = Literal["user", "assistant", "system", "tool"]
Extra = tuple[tuple[str, bytes], ...]


class Text(Struct, frozen=True, tag="text"):
    text: str
    extra: Extra = ()


class Image(Struct, frozen=True, tag="image"):
    """Either `data` (base64, with its media type) or `url`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    extra: Extra = ()


class Document(Struct, frozen=True, tag="document"):
    """A file the model reads: `data` (base64 or, for text/plain, the text itself) or `url`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    extra: Extra = ()


class ToolUse(Struct, frozen=True, tag="tool_use"):
    """`input` is canonical JSON text, so that key order and the text of numbers are kept."""

    id: str
    name: str
    input: bytes
    extra: Extra = ()


class ToolResult(Struct, frozen=True, tag="tool_result"):
    tool_use_id: str
    content: tuple[Block, ...] = ()
    is_error: bool = False
    extra: Extra = ()


class Thinking(Struct, frozen=True, tag="thinking"):
    text: str
    signature: str | None = None
    extra: Extra = ()


class RedactedThinking(Struct, frozen=True, tag="redacted_thinking"):
    data: str
    extra: Extra = ()


class Opaque(Struct, frozen=True, tag="opaque"):
    """A block of an unknown kind, kept as the canonical JSON text of its dialect.

    `call_id` is set where the kind is unknown but its part is not: a call or an answer that belongs to one.
    """

    kind: str
    raw: bytes
    call_id: str | None = None


Block = Text | Image | Document | ToolUse | ToolResult | Thinking | RedactedThinking | Opaque


class Message(Struct, frozen=True):
    role: Role
    content: tuple[Block, ...]
    extra: Extra = ()


class ToolDefinition(Struct, frozen=True, tag="tool"):
    """A tool the model may call; `input_schema` is canonical JSON text."""

    name: str
    description: str | None = None
    input_schema: bytes = b'{"type":"object"}'
    extra: Extra = ()


def kind_of(block: Block) -> str:
    """The name of a block's kind, as the catalogue and the validation speak of it."""
    return block.kind if isinstance(block, Opaque) else str(type(block).__struct_config__.tag)
