"""Codex: the Responses API, a cache key that is its session."""

from __future__ import annotations

from tests.clients.agents.agent import FIRST, SECOND, Agent
from tests.clients.programs import Place


class Codex(Agent):
    name, title, everywhere = "codex", "Codex", True
    tool, argument = "exec_command", "cmd"

    def environment(self, place: Place, address: str) -> dict[str, str]:
        return place.environment(PROVIDER_KEY="sk-dummy")

    def turns(self, program: str, address: str) -> list[list[str]]:
        provider = f'{{name="here",base_url="{address}/v1",env_key="PROVIDER_KEY",wire_api="responses"}}'
        settings = ["model_provider=here", f"model_providers.here={provider}", 'sandbox_mode="danger-full-access"']
        options = ["--skip-git-repo-check", "-m", "gpt-5.5", *(word for each in settings for word in ("-c", each))]
        return [[program, "exec", *options, FIRST], [program, "exec", "resume", "--last", *options, SECOND]]
