"""What every dialect's rendering needs: JSON, frames, pieces of text, ids and seals that follow from what they name."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ..messages import Reply, ReplyEnvelope

MOST_PIECES = 64
PIECE = 16
"""Characters of a piece; a long text is cut into few large pieces, so that a stream stays short."""

json_of = msgspec.json.encode


def pieces(text: str) -> Iterator[str]:
    """A text in at least two pieces, where it can be cut."""
    size = max(-(-len(text) // MOST_PIECES), min(PIECE, -(-len(text) // 2)), 1)
    for at in range(0, len(text), size):
        yield text[at : at + size]


def frame(data: Mapping[str, Any], event: str = "") -> bytes:
    """One server-sent event."""
    head = b"event: " + event.encode() + b"\n" if event else b""
    return head + b"data: " + json_of(data) + b"\n\n"


def with_extra(members: dict[str, Any], envelope: ReplyEnvelope) -> dict[str, Any]:
    """A response's members, those of the envelope in their place or after them."""
    return members | {name: Raw(raw) for name, raw in envelope.extra.items()}


def name_of(prefix: str, envelope: ReplyEnvelope, index: int) -> str:
    """The id of an item in a response."""
    digest = hashlib.blake2b(f"{envelope.id}/{index}".encode(), digest_size=16)
    return prefix + digest.hexdigest()


def seal(text: str) -> str:
    """What stands for a provider's signature or encryption of a thought: opaque, the same for the same thought."""
    return b64encode(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=48).digest()).decode()


def thought_tokens(reply: Reply, envelope: ReplyEnvelope) -> int:
    """The share of the reported output that is thinking; a report made smaller than the reply has no more than all."""
    return min(reply.thought_tokens, envelope.usage.output)
