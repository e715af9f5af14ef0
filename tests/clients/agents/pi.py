"""pi, over each of the three APIs it speaks; on two of them it names no session."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.agents.agent import FIRST, MANUAL, SECOND, Agent
from tests.clients.programs import Place, program


class PiAnthropic(Agent):
    name, title = "pi-anthropic", "pi (Anthropic Messages)"
    tool = "bash"
    api, model, path = "anthropic-messages", "claude-sonnet-4-5", ""

    @property
    def folder(self) -> str:
        return "pi"

    def find(self) -> str:
        return program("pi", "pi")

    def environment(self, place: Place, address: str) -> dict[str, str]:
        model: dict[str, Any] = {"id": self.model, "contextWindow": 200_000, "maxTokens": 8_000}
        provider = {"baseUrl": address + self.path, "api": self.api, "apiKey": "sk-dummy", "models": [model]}
        settings = place.home / ".pi" / "agent" / "models.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"providers": {"here": provider}}), "utf-8")
        return place.environment(PI_OFFLINE="1")

    def turns(self, program: str, address: str) -> list[list[str]]:
        run = [program, "--provider", "here", "--model", self.model, "--append-system-prompt", MANUAL, "-p"]
        return [[*run, FIRST], [*run, "--continue", SECOND]]


class PiChat(PiAnthropic):
    name, title = "pi-chat", "pi (Chat Completions)"
    api, model, path = "openai-completions", "gpt-5.5", "/v1"


class PiResponses(PiAnthropic):
    name, title = "pi-responses", "pi (Responses)"
    api, model, path = "openai-responses", "gpt-5.5", "/v1"
