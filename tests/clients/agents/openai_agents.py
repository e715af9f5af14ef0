"""openai-agents: the Responses API with the whole history every time."""

from __future__ import annotations

from tests.clients.agents.agent import Library


class OpenAIAgents(Library):
    name, title = "openai-agents", "openai-agents"
