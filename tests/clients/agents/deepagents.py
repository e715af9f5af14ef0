"""deepagents: one marker at the top of the request, which the provider places."""

from __future__ import annotations

from tests.clients.agents.agent import Library


class DeepAgents(Library):
    name, title = "deepagents", "deepagents"
