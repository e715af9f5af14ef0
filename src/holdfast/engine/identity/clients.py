"""Which client sends a request, by its headers and content. A name without a version: an upgrade is the same client.

Some clients use the name of their SDK on the wire and are recognised otherwise: by their tools with their names and
order, or by the first sentence of their system text. That name is for people and for what is learned of a client; which
conversation a request belongs to does not depend on it. Without such a mark the name of the SDK is used, unless the
client was started under another name.

A side request (a title, the summary of a topic, a quota check) is not part of any lane: opencode's title comes first,
under the conversation's own session id. A compaction is not one: it carries the whole history.
"""

from __future__ import annotations

import re
from functools import lru_cache

from holdfast.wire import Body, array_of, int_of, object_of, string_of

from .session_names import Headers

_LONGEST = 256  # characters of a user-agent that are looked at
_SHORT = 32

AGENTS = frozenset({"claude-code", "claude-agent-sdk", "codex", "opencode", "gemini-cli", "qwen-code", "pi"})
"""Clients whose conversations always have tools: requests without them are side requests, such as titles. aider and
cline describe their tools in text, so that a first question cannot be told from a title."""

_BEGINNINGS = (
    ("codex", "codex"),
    ("opencode", "opencode"),
    ("geminicli", "gemini-cli"),
    ("qwencode", "qwen-code"),
    ("pydantic-ai", "pydantic-ai"),
    ("agents/", "openai-agents"),
    ("langchain", "langchain"),
    ("deepagents", "deepagents"),
    ("anthropic/python", "anthropic-python"),
    ("asyncanthropic/python", "anthropic-python"),
    ("anthropic/js", "anthropic-js"),
    ("openai/python", "openai-python"),
    ("asyncopenai/python", "openai-python"),
    ("openai/js", "openai-js"),
    ("google-genai-sdk", "google-genai"),
    ("cline", "cline"),
    ("aider", "aider"),
)
_TITLES = {"aider": "aider", "cline": "cline", "llm": "llm"}
"""Clients that go by the name of their SDK but tell their own in the header that OpenRouter lists applications by."""


def client_of(headers: Headers) -> str:
    """A short name: a known client's, else the first product of the user-agent, else nothing."""
    if title := headers.get("x-title"):
        known = _TITLES.get(title[:_SHORT].lower())
        if known is not None:
            return known
    agent = headers.get("user-agent")
    return _of(agent[:_LONGEST]) if agent else ""


@lru_cache(maxsize=256)
def _of(agent: str) -> str:
    text = agent.strip().lower()
    if text.startswith("claude-cli"):
        return "claude-agent-sdk" if "agent-sdk" in text or "sdk-py" in text or "sdk-ts" in text else "claude-code"
    for beginning, name in _BEGINNINGS:
        if text.startswith(beginning):
            return name
    product = re.split(r"[/\s(;,]", text, maxsplit=1)[0]
    return re.sub(r"[^a-z0-9._-]+", "-", product).strip("-")[:_SHORT]


SDKS = frozenset(
    (
        "",
        "ai-sdk",
        "anthropic-js",
        "anthropic-python",
        "google-genai",
        "langchain",
        "litellm",
        "node-fetch",
        "openai-js",
        "openai-python",
        "python-httpx",
        "python-requests",
    )
)
"""Names that say which library asks, not which program."""

HEADER = "x-holdfast-client"
"""By which a program, or `holdfast run` for the one it starts, says its name."""

_MOST_BLOCKS = 40  # a mark stands among a client's own tools, which come first
_MOST_TEXT = 4_096  # bytes of a system text that are looked at

_PI_TOOLS = ("read", "bash", "edit", "write")
_PI_TEXT = b"operating inside pi, a coding agent harness"
_DEEP_TOOLS = frozenset(("ls", "read_file", "write_file", "edit_file", "glob", "grep"))
_AIDER_ROLE = b"Act as an expert "
_AIDER_TASK = re.compile(
    rb"the supplied code|your editor engineer|who edits source code|ALL the existing sources? files"
)


def shown_client(client: str, headers: Headers, body: Body) -> str:
    """The client's own name, where the user-agent gives only that of its SDK."""
    if said := headers.get(HEADER):
        return re.sub(r"[^a-z0-9._-]+", "-", said[:_SHORT].lower()).strip("-") or client
    if client not in SDKS:
        return client
    return _marked(client, body) or client


def _marked(client: str, body: Body) -> str:
    if client in ("anthropic-js", "openai-js"):
        return "pi" if _tools(body)[: len(_PI_TOOLS)] == _PI_TOOLS or _PI_TEXT in _system(body) else ""
    if client in ("langchain", "openai-python", "google-genai") and _DEEP_TOOLS.issubset(_tools(body)):
        return "deepagents"
    if client in ("litellm", "openai-python") and "tools" not in body.members:
        text = _system(body)
        at = text[:64].find(_AIDER_ROLE)  # behind the quotes and keys around it
        return "aider" if at >= 0 and _AIDER_TASK.search(text) else ""
    return ""


def _tools(body: Body) -> tuple[str, ...]:
    """The names of the first tools, in their order."""
    names = []
    for span in body.blocks[:_MOST_BLOCKS]:
        if span.section != "tools":
            continue  # some dialects have the system text in front of them
        tool = object_of(body.text(span)) or {}
        inner = object_of(tool["function"]) or {} if "function" in tool else tool
        names.append(string_of(inner.get("name")) or "")
    return tuple(names)


def _system(body: Body) -> bytes:
    """Return the beginning of the system text as raw bytes of the body."""
    for span in body.blocks:
        if span.section == "system":
            return body.raw[span.start : min(span.end, span.start + _MOST_TEXT)]
        if span.section == "messages":
            break
    return b""


_QUOTA = 32
_PROBE = 16
_SHORT_MESSAGE = 400  # bytes of a message that a probe may have
_NO_TOOLS = 16  # bytes that an empty list may take
_ONE_TOOL = 1_000  # bytes: a search that the provider makes has a name and a few options
_SEARCHES = ("web_search", "web_fetch")
_GEMINI_SEARCHES = ("googleSearch", "google_search", "urlContext", "url_context")
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_FORMATS = (("output_config", "format"), ("text", "format"), ("response_format", ""), ("output_format", ""))
_GEMINI_SCHEMAS = ("responseSchema", "response_schema", "responseJsonSchema", "response_json_schema")


def is_side(client: str, body: Body) -> bool:
    """Return whether it is a side request. For an unknown client only a probe is one: a tiny limit on a short question;
    anything else may be its way to talk."""
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
    """Return whether its only tool is a provider's search: an agent's own search tool sends such requests."""
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
    """Return whether there is no answer yet: roles other than the client's own are the model's."""
    roles = ("user", "system", "developer")
    return all(block.role in roles for block in body.blocks if block.section == "messages")


def _is_short(body: Body) -> bool:
    messages = [block for block in body.blocks if block.section == "messages"]
    return (
        _is_opening(body)
        and len({block.message for block in messages}) <= 1
        and sum(block.end - block.start for block in messages) <= _SHORT_MESSAGE
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
