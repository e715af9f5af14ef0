"""Requests beside the conversation: titles, summaries of a topic, quota checks.

They are no part of any lane: opencode's title comes first, under the conversation's own session id. A compaction is
none of them, it carries the whole history.
"""

from __future__ import annotations

from holdfast.wire import Body, array_of, int_of, object_of, string_of

from .clients import AGENTS

_QUOTA = 32
_PROBE = 16
_SHORT = 400  # bytes of a message that a probe may have
_NO_TOOLS = 16  # bytes that an empty list may take
_ONE_TOOL = 1_000  # bytes: a search that the provider makes has a name and a few options
_SEARCHES = ("web_search", "web_fetch")
_GEMINI_SEARCHES = ("googleSearch", "google_search", "urlContext", "url_context")
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_FORMATS = (("output_config", "format"), ("text", "format"), ("response_format", ""), ("output_format", ""))
_GEMINI_SCHEMAS = ("responseSchema", "response_schema", "responseJsonSchema", "response_json_schema")


def is_side(client: str, body: Body) -> bool:
    """Whether a request stands beside the conversation. Of an unknown client only a probe does: a tiny limit on a short
    question; anything else may be its way to talk."""
    if _has_tools(body):
        return client in AGENTS and _only_searches(body) and _is_opening(body)
    limit = _limit(body)
    if client not in AGENTS:
        return limit is not None and limit <= _PROBE and _is_short(body)
    return (limit is not None and limit <= _QUOTA) or _is_opening(body) or _wants_json(body)


def _has_tools(body: Body) -> bool:
    for name in ("tools", "functions"):
        member = body.members.get(name)
        if member is not None and (member.end - member.start > _NO_TOOLS or array_of(body.member(name) or b"")):
            return True
    return False


def _only_searches(body: Body) -> bool:
    """Whether its only tool is a search that the provider makes: an agent's own search tool asks in this way."""
    member = body.members.get("tools")
    if member is None or member.end - member.start > _ONE_TOOL:
        return False
    tools = array_of(body.raw[member.start : member.end])
    if tools is None or len(tools) != 1:
        return False
    members = object_of(tools[0]) or {}
    return any(name in members for name in _GEMINI_SEARCHES) or (string_of(members.get("type")) or "").startswith(
        _SEARCHES
    )


def _is_opening(body: Body) -> bool:
    """Whether nobody has answered yet: roles other than the client's own are the model's."""
    roles = ("user", "system", "developer")
    return all(block.role in roles for block in body.blocks if block.section == "messages")


def _is_short(body: Body) -> bool:
    messages = [block for block in body.blocks if block.section == "messages"]
    return (
        _is_opening(body)
        and len({block.message for block in messages}) <= 1
        and sum(block.end - block.start for block in messages) <= _SHORT
    )


def _limit(body: Body) -> int | None:
    if body.dialect == "gemini":
        config = _gemini_config(body)
        return int_of(config.get("maxOutputTokens") or config.get("max_output_tokens"))
    return next((found for name in _LIMITS if (found := int_of(body.member(name))) is not None), None)


def _wants_json(body: Body) -> bool:
    """Whether the answer has to follow a schema."""
    if body.dialect == "gemini":
        config = _gemini_config(body)
        if any(config.get(name, b"null") != b"null" for name in _GEMINI_SCHEMAS):
            return True
        return string_of(config.get("responseMimeType") or config.get("response_mime_type")) == "application/json"
    for name, inner in _FORMATS:
        value = object_of(body.member(name) or b"")
        if value is not None and inner:
            value = object_of(value.get(inner, b""))
        if value is not None and string_of(value.get("type")) not in (None, "text"):
            return True
    return False


def _gemini_config(body: Body) -> dict[str, bytes]:
    raw = body.member("generationConfig") or body.member("generation_config")
    return object_of(raw or b"") or {}
