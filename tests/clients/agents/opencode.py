"""opencode: Anthropic's API, a title request of another model before the conversation."""

from __future__ import annotations

import json

from tests.clients.agents.agent import FIRST, SECOND, Agent
from tests.clients.programs import Place


class OpenCode(Agent):
    name, title = "opencode", "opencode"
    tool = "bash"
    lanes = 2

    def input(self, command: str) -> dict[str, str]:
        return {"command": command, "description": "Do it"}

    def environment(self, place: Place, address: str) -> dict[str, str]:
        provider = {"anthropic": {"options": {"baseURL": f"{address}/v1", "apiKey": "sk-ant-dummy"}}}
        settings = {"permission": {"*": "allow"}, "provider": provider, "autoupdate": False}
        return place.environment(OPENCODE_CONFIG_CONTENT=json.dumps(settings))

    def turns(self, program: str, address: str) -> list[list[str]]:
        run = [program, "run", "-m", "anthropic/claude-sonnet-4-5"]
        return [[*run, FIRST], [*run, "--continue", SECOND]]
