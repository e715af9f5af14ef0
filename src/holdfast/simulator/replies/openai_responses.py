"""OpenAI Responses: a list of output items; every event carries its number, every finished thing is told whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.facts import model as facts_of

from ..messages import Part, Reply, ReplyEnvelope, Thought, ToolCall
from .pieces import frame, json_of, name_of, pieces, seal, thought_tokens, with_extra

Item = dict[str, Any]


def body(reply: Reply, envelope: ReplyEnvelope) -> bytes:
    """A whole response."""
    return json_of(_final(reply, envelope))


def events(reply: Reply, envelope: ReplyEnvelope) -> tuple[bytes, ...]:
    """The response as it grows: created, items with their parts, and at the end the whole of it with its usage."""
    frames = []
    for number, event in enumerate(_events(reply, envelope)):
        kind = event["type"]
        frames.append(frame({"type": kind, "sequence_number": number} | event, kind))
    return tuple(frames)


def _events(reply: Reply, envelope: ReplyEnvelope) -> Iterator[Item]:
    begun = _response(envelope, status="in_progress", output=[], usage=None)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(_items(reply, envelope)):
        for event in _item_events(item):
            yield {"type": event["type"], "output_index": index} | event
    final = _final(reply, envelope)
    yield {"type": f"response.{final['status']}", "response": final}


def _item_events(item: Item) -> Iterator[Item]:
    opening = {key: value for key, value in item.items() if key != "encrypted_content"}
    if "status" in item:
        opening["status"] = "in_progress"
    for key, empty in (("content", []), ("summary", []), ("arguments", "")):
        if key in item:
            opening[key] = empty
    yield {"type": "response.output_item.added", "item": opening}
    if item["type"] == "function_call":
        yield from _argument_events(item)
    for index, part in enumerate(item.get("content", ())):
        yield from _part_events(item["id"], index, part)
    for index, part in enumerate(item.get("summary", ())):
        yield from _summary_events(item["id"], index, part)
    yield {"type": "response.output_item.done", "item": item}


def _argument_events(item: Item) -> Iterator[Item]:
    kind = "response.function_call_arguments"
    for piece in pieces(item["arguments"]):
        yield {"type": f"{kind}.delta", "item_id": item["id"], "delta": piece}
    yield {"type": f"{kind}.done", "item_id": item["id"], "name": item["name"], "arguments": item["arguments"]}


def _part_events(item_id: str, index: int, part: Item) -> Iterator[Item]:
    where = {"item_id": item_id, "content_index": index}
    key = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if key == "refusal" else "response.output_text"
    odds: Item = {} if key == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **where, "part": part | {key: ""}}
    for piece in pieces(part[key]):
        yield {"type": f"{kind}.delta", **where, "delta": piece, **odds}
    yield {"type": f"{kind}.done", **where, key: part[key], **odds}
    yield {"type": "response.content_part.done", **where, "part": part}


def _summary_events(item_id: str, index: int, part: Item) -> Iterator[Item]:
    where = {"item_id": item_id, "summary_index": index}
    yield {"type": "response.reasoning_summary_part.added", **where, "part": part | {"text": ""}}
    for piece in pieces(part["text"]):
        yield {"type": "response.reasoning_summary_text.delta", **where, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **where, "text": part["text"]}
    yield {"type": "response.reasoning_summary_part.done", **where, "part": part}


def _items(reply: Reply, envelope: ReplyEnvelope) -> list[Item]:
    items = [_item(part, reply, envelope, index) for index, part in enumerate(reply.parts)]
    if reply.stop == "limit" and items and "status" in items[-1]:
        items[-1]["status"] = "incomplete"
    return items


def _item(part: Part, reply: Reply, envelope: ReplyEnvelope, index: int) -> Item:
    if isinstance(part, Thought):
        summary = [{"type": "summary_text", "text": part.text}] if envelope.settings.show_thoughts else []
        item = {"id": name_of("rs_", envelope, index), "type": "reasoning", "summary": summary}
        return item | ({"encrypted_content": seal(part.text)} if envelope.settings.encrypted_thoughts else {})
    if isinstance(part, ToolCall):
        return {
            "id": name_of("fc_", envelope, index),
            "type": "function_call",
            "status": "completed",
            "arguments": part.input.decode("utf-8"),
            "call_id": part.id,
            "name": part.name,
        }
    content: Item = {"type": "output_text", "annotations": [], "logprobs": [], "text": part.text}
    if reply.stop == "refusal":
        content = {"type": "refusal", "refusal": part.text}
    return {
        "id": name_of("msg_", envelope, index),
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [content],
    }


def _final(reply: Reply, envelope: ReplyEnvelope) -> Item:
    limited = reply.stop == "limit"
    return _response(
        envelope,
        status="incomplete" if limited else "completed",
        output=_items(reply, envelope),
        usage=_usage(reply, envelope),
        incomplete={"reason": "max_output_tokens"} if limited else None,
    )


def _response(
    envelope: ReplyEnvelope, *, status: str, output: list[Item], usage: Item | None, incomplete: Item | None = None
) -> Item:
    members: Item = {
        "id": envelope.id,
        "object": "response",
        "created_at": envelope.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": incomplete,
        "instructions": None,
        "max_output_tokens": envelope.settings.limit,
        "model": envelope.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }
    return with_extra(members, envelope)


def _usage(reply: Reply, envelope: ReplyEnvelope) -> Item:
    """The input includes what was cached; a model that writes for free reports no writes."""
    usage = envelope.usage
    written = usage.written if facts_of(envelope.model).reports_writes else 0
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.read, "cache_write_tokens": written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": thought_tokens(reply, envelope)},
        "total_tokens": usage.prompt + usage.output,
    }
