"""Where a line has its request, and in which dialect it is: by its address, else by its own form."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Raw, Struct

from holdfast.records import encode_string
from holdfast.wire import DIALECTS, dialect_of

from .members import (
    ANSWER,
    BODY,
    DIALECT,
    HEADERS,
    INNER_BODY,
    LOGS,
    MODEL,
    PATH,
    PREDICTED,
    RESPONSE,
    USAGE,
    Members,
    begins,
    bytes_of,
    first,
    items_of,
    members_of,
    name_of,
    text_of,
)

_ASIDE = ("/count_tokens", ":countTokens", "/embeddings", ":embedContent", "/models", "/moderations", "/input_tokens")
"""Ends of addresses that are asked beside conversations and that no prompt is billed for."""

_ANTHROPIC = ("system", "anthropic_version", "anthropic-version", "thinking", "stop_sequences", "top_k")
_OPENAI = (
    *("max_completion_tokens", "stream_options", "response_format", "frequency_penalty", "presence_penalty"),
    *("logprobs", "parallel_tool_calls", "reasoning_effort", "functions", "n", "seed", "stop", "prompt_cache_key"),
)
_OPENAI_ROLES = ("system", "developer", "tool", "function")
_ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document")
_LOOKED_AT = 12
"""The number of first messages that are examined."""

_LIMITS = ("max_tokens", "max_completion_tokens", "stream")
_MODELS = re.compile(r"(?:^|[/.])claude-").search


class LoggedBody(Struct):
    """A request as a line has it: its bytes, the members of its body, and what was written down with it."""

    raw: bytes
    members: Members
    path: str = ""
    headers: Raw | None = None


def is_body(members: Members) -> bool:
    """Whether an object is the body of a model call."""
    for name in ("messages", "contents"):
        if begins(members.get(name)) == b"[":
            return True
    return begins(members.get("input")) in (b"[", b'"') and _has_name(members)


def _has_name(members: Members) -> bool:
    return any(name in members for name in ("model", "instructions", "previous_response_id"))


def find(members: Members) -> LoggedBody | str | None:
    """The request of a line: under a name of its own, or the line itself without what belongs to the log. None where
    there is none; a reason where there is one that cannot be read."""
    path, headers = text_of(first(members, PATH)) or "", first(members, HEADERS)
    broken = None
    for name in BODY:
        raw = members.get(name)
        if raw is None or begins(raw) not in (b"{", b'"'):
            continue
        body = _body(raw)
        if isinstance(body, LoggedBody):
            body.path, body.headers = path or body.path, headers or body.headers
            return body
        if isinstance(body, str) and name in BODY[:4]:
            broken = body
    if is_body(members):
        return _without_log(members, path, headers)
    return broken


def _body(raw: Raw) -> LoggedBody | str | None:
    text = bytes_of(raw)
    if text is None:
        return "the request's body is not a text that can be read"
    if text.lstrip()[:1] != b"{":
        return None
    members = members_of(text.strip())
    if members is None:
        return "the request's body is not JSON that can be read"
    if is_body(members):
        return LoggedBody(text, members)
    for name in INNER_BODY:
        inner = bytes_of(members.get(name))
        inside = None if inner is None else members_of(inner.strip())
        if inner is not None and inside is not None and is_body(inside):
            return LoggedBody(inner, inside, text_of(first(members, PATH)) or "", first(members, HEADERS))
    return None


def _without_log(members: Members, path: str, headers: Raw | None) -> LoggedBody:
    """The line as a body. A conversation that the provider keeps is named in the body itself (Responses)."""
    kept = {
        name: raw
        for name, raw in members.items()
        if name not in LOGS or (name == "conversation" and "input" in members)
    }
    text = b"{" + b",".join(encode_string(name) + b":" + bytes(raw) for name, raw in kept.items()) + b"}"
    return LoggedBody(text, kept, path, headers)


def is_aside(path: str) -> bool:
    return path.partition("?")[0].rstrip("/").endswith(_ASIDE)


def dialect(line: Members, logged_body: LoggedBody) -> tuple[str, str]:
    """The name of the dialect, and the model if the address names it."""
    dialect_name = name_of(line, DIALECT)
    by_path = dialect_of(logged_body.path) if logged_body.path else None
    model = "" if by_path is None else by_path[1]
    if dialect_name in DIALECTS:
        return dialect_name, model
    if "openrouter" in logged_body.path:
        return ("openrouter" if "messages" in logged_body.members else "openai_responses"), model
    if by_path is not None:
        return by_path[0].name, model
    return _by_form(line, logged_body.members), model


def _by_form(line: Members, body: Members) -> str:
    if "messages" not in body:
        return "gemini" if "contents" in body else "openai_responses"
    model = name_of(body, MODEL) or name_of(line, MODEL)
    usage = members_of(first(line, USAGE)) or {}
    response = members_of(first(line, RESPONSE)) or {}
    if any(name in body for name in _OPENAI) or "choices" in response or "choices" in line or "prompt_tokens" in usage:
        return _routed(model)
    if any(name in body for name in _ANTHROPIC) or "stop_reason" in response or "input_tokens" in usage:
        return "anthropic"
    return conversation_form(items_of(body.get("messages")) or [], items_of(body.get("tools")) or []) or (
        "anthropic" if _MODELS(model) and "/" not in model else _routed(model)
    )


def _routed(model: str) -> str:
    """Chat Completions by who serves them: OpenRouter's models have their maker's name in front."""
    return "openrouter" if "/" in model and ":" not in model.partition("/")[0] else "openai_chat"


def conversation_form(messages: list[Raw], tools: list[Raw]) -> str | None:
    """Return the dialect of messages and tools; None if both dialects would write them like that."""
    for tool in tools[:2]:
        inside = members_of(tool) or {}
        if "function" in inside:
            return "openai_chat"
        if "input_schema" in inside:
            return "anthropic"
    for message in messages[:_LOOKED_AT]:
        inside = members_of(message) or {}
        if "tool_calls" in inside or name_of(inside, ("role",)) in _OPENAI_ROLES:
            return "openai_chat"
        for block in (items_of(inside.get("content")) or [])[:4]:
            kind = name_of(members_of(block) or {}, ("type",))
            if kind in _ANTHROPIC_BLOCKS:
                return "anthropic"
            if kind == "image_url":
                return "openai_chat"
    return None


def kind(members: Members) -> Literal["request", "dialogue"] | None:
    """Return whether a line is one request, or a conversation in which every answer was a request.

    A conversation has answers, and nothing that only a request has: no usage, no limit. It may also be a request with
    details in the lines around it.
    """
    messages = items_of(members.get("messages"))
    if messages is None or not all("role" in (members_of(message) or {}) for message in messages[:2]):
        return "request" if isinstance(find(members), LoggedBody) else None
    if any(name in members for name in (*USAGE, *RESPONSE, *ANSWER, *PREDICTED)) and not _has_lists(members):
        return "request"
    if messages and is_answer(messages[-1]):
        return "dialogue"
    if not any(is_answer(message) for message in messages):
        return "request"
    return "request" if any(name in members for name in _LIMITS) else "dialogue"


def is_answer(message: Raw) -> bool:
    return text_of((members_of(message) or {}).get("role")) == "assistant"


def _has_lists(members: Members) -> bool:
    """Whether its usage is a list, one for each answer."""
    return items_of(first(members, USAGE)) is not None
