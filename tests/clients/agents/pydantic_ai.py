"""pydantic-ai: no markers, no session; the key as a bearer's to Anthropic's API."""

from __future__ import annotations

from tests.clients.agents.agent import Library


class PydanticAI(Library):
    name, title = "pydantic-ai", "pydantic-ai"
