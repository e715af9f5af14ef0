"""Which client sends a request, by what it says of itself. A name without a version: an upgrade is no other client."""

from __future__ import annotations

import re
from functools import lru_cache

from .names_and_ids import Headers

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
