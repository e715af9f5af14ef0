"""Gemini `generateContent`: candidates of parts, streamed as events or as one growing JSON array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from ..messages import Part, Reply, ReplyEnvelope, Thought, ToolCall
from .pieces import json_of, pieces, seal, thought_tokens, with_extra

_FINISH = {"end": "STOP", "tools": "STOP", "limit": "MAX_TOKENS", "stop_sequence": "STOP", "refusal": "SAFETY"}


def body(reply: Reply, envelope: ReplyEnvelope) -> bytes:
    """A whole response."""
    parts = [part for index in range(len(reply.parts)) for part in _parts(reply, envelope, index, whole=True)]
    return json_of(_response(parts, reply, envelope, last=True))


def events(reply: Reply, envelope: ReplyEnvelope) -> tuple[bytes, ...]:
    """Server-sent events, as with `alt=sse`."""
    return tuple(b"data: " + chunk + b"\r\n\r\n" for chunk in _chunks(reply, envelope))


def array(reply: Reply, envelope: ReplyEnvelope) -> tuple[bytes, ...]:
    """The elements of one JSON array as they come, as without `alt=sse`."""
    chunks = _chunks(reply, envelope)
    opened = [(b",\r\n" if index else b"[") + chunk for index, chunk in enumerate(chunks)]
    return (*opened, b"\n]")


def _chunks(reply: Reply, envelope: ReplyEnvelope) -> list[bytes]:
    """Each chunk is a response of its own with the counts so far; the last says why it ended."""
    parts = [part for index in range(len(reply.parts)) for part in _parts(reply, envelope, index, whole=False)]
    parts = parts or [{"text": ""}]
    last = len(parts) - 1
    return [json_of(_response([part], reply, envelope, last=index == last)) for index, part in enumerate(parts)]


def _parts(reply: Reply, envelope: ReplyEnvelope, index: int, *, whole: bool) -> Iterator[dict[str, Any]]:
    """A part as it is sent: texts in pieces, calls in one. The first call after thoughts carries their signature."""
    part = reply.parts[index]
    if isinstance(part, ToolCall):
        call = {"id": part.id, "name": part.name, "args": Raw(part.input)}
        yield {"functionCall": call, **_signature(reply.parts, index)}
        return
    thought = {"thought": True} if isinstance(part, Thought) else {}
    if thought and not envelope.settings.show_thoughts:
        return
    for text in (part.text,) if whole else pieces(part.text):
        yield {"text": text, **thought}


def _signature(parts: tuple[Part, ...], index: int) -> dict[str, str]:
    before = parts[:index]
    thoughts = "".join(part.text for part in before if isinstance(part, Thought))
    first = not any(isinstance(part, ToolCall) for part in before)
    return {"thoughtSignature": seal(thoughts)} if thoughts and first else {}


def _response(parts: list[dict[str, Any]], reply: Reply, envelope: ReplyEnvelope, *, last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"} if parts else {"role": "model"}}
    if last:
        candidate["finishReason"] = _FINISH[reply.stop]
    candidate["index"] = 0
    members = {
        "candidates": [candidate],
        "usageMetadata": _usage(reply, envelope, last=last),
        "modelVersion": envelope.model,
        "responseId": envelope.id,
    }
    return with_extra(members, envelope)


def _usage(reply: Reply, envelope: ReplyEnvelope, *, last: bool) -> dict[str, Any]:
    """The prompt includes the cached contents; like all its zeros, Gemini leaves out a count of nothing."""
    usage = envelope.usage
    output, thoughts = (usage.output, thought_tokens(reply, envelope)) if last else (0, 0)
    counts = {
        "promptTokenCount": usage.prompt,
        "cachedContentTokenCount": usage.read,
        "candidatesTokenCount": output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": usage.prompt + output,
    }
    details = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.prompt}]}
    if usage.read:
        details["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": usage.read}]
    return {name: count for name, count in counts.items() if count} | details
