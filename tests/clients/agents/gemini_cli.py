"""The Gemini CLI: Gemini's API, caching that is implicit and drawn by chance.

Resuming a session in which a tool was used, this version repeats each tool's answer, which the provider refuses. So the
session that is resumed here is one of words only.
"""

from __future__ import annotations

import json

from tests.clients.agents.agent import FIRST, RECALLED, Agent
from tests.clients.programs import Place

GREETING = "Good morning."


class GeminiCli(Agent):
    name, title = "gemini", "Gemini CLI"
    tool = "run_shell_command"
    words = (GREETING, RECALLED)
    seed = 16
    """Whether an implicit hit comes is drawn; with this seed the first five all come."""

    def script(self) -> str:
        return f"""
rules:
  - when: {{contains: make a note}}
    say: I write it down.
    call: {self.call("printf 'buy milk' > note.txt; ls")}
  - when: {{matches: 8 note.txt}}
    say: {RECALLED}
  - when: {{tool_result: {self.tool}}}
    call:
      - {self.call("wc -c note.txt")}
      - {self.call("printf 'eggs' > list.txt; cat note.txt")}
  - say: {GREETING}
"""

    def environment(self, place: Place, address: str) -> dict[str, str]:
        settings = place.home / ".gemini" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
        return place.environment(
            GEMINI_API_KEY="dummy", GOOGLE_GEMINI_BASE_URL=address, GEMINI_CLI_TRUST_WORKSPACE="true"
        )

    def turns(self, program: str, address: str) -> list[list[str]]:
        run = [program, "-m", "gemini-2.5-pro", "--yolo"]
        return [[*run, "-p", GREETING], [*run, "--resume", "latest", "-p", FIRST]]
