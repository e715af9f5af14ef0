"""OpenAI Chat Completions, and DeepSeek's variant of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.facts import model as facts_of

from ..messages import Reply, ReplyEnvelope, Thought, ToolCall, Words
from .pieces import frame, json_of, pieces, thought_tokens, with_extra

_FINISH = {"end": "stop", "tools": "tool_calls", "limit": "length", "stop_sequence": "stop", "refusal": "stop"}
_DONE = b"data: [DONE]\n\n"


def body(reply: Reply, envelope: ReplyEnvelope) -> bytes:
    """A whole completion."""
    choice = {"index": 0, "message": _message(reply, envelope), "logprobs": None, "finish_reason": _FINISH[reply.stop]}
    members = _head(envelope, "chat.completion") | {"choices": [choice], "usage": _usage(reply, envelope)}
    return json_of(with_extra(members | {"service_tier": "default", "system_fingerprint": None}, envelope))


def events(reply: Reply, envelope: ReplyEnvelope) -> tuple[bytes, ...]:
    """Chunks of one choice; a last chunk without choices carries the usage, if the client asked for it."""
    head = with_extra(_head(envelope, "chat.completion.chunk"), envelope)
    counted: dict[str, Any] = {"usage": None} if envelope.settings.include_usage else {}
    frames = []
    for delta, finish in _deltas(reply, envelope):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        frames.append(frame(head | {"choices": [choice]} | counted))
    if envelope.settings.include_usage:
        frames.append(frame(head | {"choices": [], "usage": _usage(reply, envelope)}))
    return (*frames, _DONE)


def _deltas(reply: Reply, envelope: ReplyEnvelope) -> Iterator[tuple[dict[str, Any], str | None]]:
    message = _message(reply, envelope)
    opening = {"role": "assistant", "content": "" if message["content"] is not None else None, "refusal": None}
    yield opening, None
    for name in ("reasoning_content", "content", "refusal"):
        for piece in pieces(message.get(name) or ""):
            yield {name: piece}, None
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        first = call | {"index": index, "function": function | {"arguments": ""}}
        yield {"tool_calls": [first]}, None
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, _FINISH[reply.stop]


def _head(envelope: ReplyEnvelope, kind: str) -> dict[str, Any]:
    return {"id": envelope.id, "object": kind, "created": envelope.created, "model": envelope.model}


def _message(reply: Reply, envelope: ReplyEnvelope) -> dict[str, Any]:
    """One message holds everything: the texts run together, a refusal stands in the place of the content."""
    texts = [part.text for part in reply.parts if isinstance(part, Words)]
    calls = [_call(part) for part in reply.parts if isinstance(part, ToolCall)]
    text = "".join(texts) if texts or not calls else None
    refused = reply.stop == "refusal"
    message: dict[str, Any] = {"role": "assistant", "content": None if refused else text}
    message["refusal"] = text if refused else None
    if facts_of(envelope.model).provider == "deepseek" and envelope.settings.show_thoughts:
        thoughts = [part.text for part in reply.parts if isinstance(part, Thought)]
        message |= {"reasoning_content": "".join(thoughts)} if thoughts else {}
    return message | ({"tool_calls": calls} if calls else {})


def _call(part: ToolCall) -> dict[str, Any]:
    function = {"name": part.name, "arguments": part.input.decode("utf-8")}
    return {"id": part.id, "type": "function", "function": function}


def _usage(reply: Reply, envelope: ReplyEnvelope) -> dict[str, Any]:
    """Return the usage. The prompt includes cached tokens; only models that charge for writes report them."""
    usage, facts = envelope.usage, facts_of(envelope.model)
    details = {"cached_tokens": usage.read, "audio_tokens": 0}
    if facts.reports_writes:
        details["cache_write_tokens"] = usage.written
    counts: dict[str, Any] = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {
            "reasoning_tokens": thought_tokens(reply, envelope),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    if facts.provider == "deepseek":
        counts["prompt_tokens_details"] = {"cached_tokens": usage.read}
        counts["completion_tokens_details"] = {"reasoning_tokens": thought_tokens(reply, envelope)}
        counts["prompt_cache_hit_tokens"] = usage.read
        counts["prompt_cache_miss_tokens"] = usage.prompt - usage.read
    return counts
