"""Which client sends a request, by what it says of itself. A name without a version: an upgrade is no other client.

Some clients go by the name of their SDK on the wire and are named by what else they send: their tools under their
names and in their order, or the sentence their system text begins with. That name is for people and for what is learned
of a client; which conversation a request belongs to does not depend on it. What has no such mark keeps the name of its
SDK, unless whoever started it says what it is.
"""

from __future__ import annotations

import re
from functools import lru_cache

from holdfast.wire import Body, object_of, string_of

from .session_names import Headers

_LONGEST = 256  # characters of a user-agent that are looked at
_SHORT = 32

AGENTS = frozenset({"claude-code", "claude-agent-sdk", "codex", "opencode", "gemini-cli", "qwen-code", "pi"})
"""Clients whose conversations always have tools: what they send without is beside it, such as titles. aider and cline
describe their tools in words, so that nothing tells a first question from a title."""

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
    """The beginning of the system text, as it stands in the body."""
    for span in body.blocks:
        if span.section == "system":
            return body.raw[span.start : min(span.end, span.start + _MOST_TEXT)]
        if span.section == "messages":
            break
    return b""
