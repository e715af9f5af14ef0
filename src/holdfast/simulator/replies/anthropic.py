"""Anthropic Messages: content blocks and disjoint counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from ..messages import Part, Reply, ReplyEnvelope, Thought, ToolCall
from .pieces import frame, json_of, pieces, seal, thought_tokens, with_extra

_STOP = {
    "end": "end_turn",
    "tools": "tool_use",
    "limit": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}
_FIRST_OUTPUT = 1
"""What `message_start` reports of the output, which has only begun."""


def body(reply: Reply, envelope: ReplyEnvelope) -> bytes:
    """A whole message."""
    members = _message(envelope) | {
        "content": [_block(part, envelope) for part in reply.parts],
        "stop_reason": _STOP[reply.stop],
        "stop_sequence": reply.stop_sequence,
        "usage": _usage(reply, envelope),
    }
    return json_of(with_extra(members, envelope))


def events(reply: Reply, envelope: ReplyEnvelope) -> tuple[bytes, ...]:
    """`message_start` with the input's counts, the blocks, `message_delta` with the output's."""
    return tuple(frame(data, data["type"]) for data in _events(reply, envelope))


def _events(reply: Reply, envelope: ReplyEnvelope) -> Iterator[dict[str, Any]]:
    start = _usage(reply, envelope) | {"output_tokens": min(_FIRST_OUTPUT, envelope.usage.output)}
    start.pop("output_tokens_details", None)
    message = _message(envelope) | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": start}
    yield {"type": "message_start", "message": with_extra(message, envelope)}
    for index, part in enumerate(reply.parts):
        yield {"type": "content_block_start", "index": index, "content_block": _opening(part)}
        if index == 0:
            yield {"type": "ping"}
        for delta in _deltas(part, envelope):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    final = _usage(reply, envelope)
    for name in ("cache_creation", "service_tier"):
        del final[name]
    stop = {"stop_reason": _STOP[reply.stop], "stop_sequence": reply.stop_sequence}
    yield {"type": "message_delta", "delta": stop, "usage": final}
    yield {"type": "message_stop"}


def _message(envelope: ReplyEnvelope) -> dict[str, Any]:
    return {"id": envelope.id, "type": "message", "role": "assistant", "model": envelope.model}


def _block(part: Part, envelope: ReplyEnvelope) -> dict[str, Any]:
    if isinstance(part, Thought):
        text = part.text if envelope.settings.show_thoughts else ""
        return {"type": "thinking", "thinking": text, "signature": seal(part.text)}
    if isinstance(part, ToolCall):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": Raw(part.input)}
    return {"type": "text", "text": part.text}


def _opening(part: Part) -> dict[str, Any]:
    if isinstance(part, Thought):
        return {"type": "thinking", "thinking": "", "signature": ""}
    if isinstance(part, ToolCall):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
    return {"type": "text", "text": ""}


def _deltas(part: Part, envelope: ReplyEnvelope) -> Iterator[dict[str, Any]]:
    if isinstance(part, Thought):
        if envelope.settings.show_thoughts:
            for piece in pieces(part.text):
                yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": seal(part.text)}
    elif isinstance(part, ToolCall):
        yield {"type": "input_json_delta", "partial_json": ""}
        for piece in pieces(part.input.decode("utf-8")):
            yield {"type": "input_json_delta", "partial_json": piece}
    else:
        for piece in pieces(part.text):
            yield {"type": "text_delta", "text": piece}


def _usage(reply: Reply, envelope: ReplyEnvelope) -> dict[str, Any]:
    usage = envelope.usage
    counts: dict[str, Any] = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.written,
        "cache_read_input_tokens": usage.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.written_for("5m"),
            "ephemeral_1h_input_tokens": usage.written_for("1h"),
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    }
    thoughts = thought_tokens(reply, envelope)
    return counts | ({"output_tokens_details": {"thinking_tokens": thoughts}} if thoughts else {})
