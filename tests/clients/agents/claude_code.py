"""Claude Code: three markers of its own, a session header."""

from __future__ import annotations

from tests.clients.agents.agent import FIRST, SECOND, Agent
from tests.clients.programs import Place


class ClaudeCode(Agent):
    name, title, everywhere = "claude", "Claude Code", True
    tool = "Bash"

    def input(self, command: str) -> dict[str, str]:
        return {"command": command, "description": "Do it"}

    def environment(self, place: Place, address: str) -> dict[str, str]:
        return place.environment(
            ANTHROPIC_BASE_URL=address,
            ANTHROPIC_API_KEY="sk-ant-dummy",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )

    def turns(self, program: str, address: str) -> list[list[str]]:
        tools = ["--allowedTools", "Bash,Read"]
        return [[program, "-p", FIRST, *tools], [program, "-p", SECOND, "--continue", *tools]]
