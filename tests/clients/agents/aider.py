"""aider: no tools and no session; files are written from what the model says, and the history is rewritten."""

from __future__ import annotations

from tests.clients.agents.agent import FIRST, MANUAL, NOTED, RECALLED, SECOND, Agent
from tests.clients.programs import Place, interpreter

FINE = "That is fine."


class Aider(Agent):
    name, title = "aider", "aider"
    words = (NOTED, RECALLED, FINE, FINE)
    sessions = None

    @property
    def folder(self) -> str:
        return "py-aider"

    def find(self) -> str:
        return interpreter(self.name, self.title)

    def script(self) -> str:
        return f"""
rules:
  - when: {{contains: make a note}}
    say: |
      {NOTED}

      note.txt
      ```
      buy milk
      ```
  - when: {{contains: what did I want}}
    say: |
      {RECALLED}

      list.txt
      ```
      eggs
      ```
  - say: {FINE}
"""

    def environment(self, place: Place, address: str) -> dict[str, str]:
        (place.home / "manual.txt").write_text(MANUAL, "utf-8")
        return place.environment(
            ANTHROPIC_API_BASE=address,
            ANTHROPIC_API_KEY="sk-ant-dummy",
            AIDER_ANALYTICS="false",
            AIDER_CHECK_UPDATE="false",
            LITELLM_LOCAL_MODEL_COST_MAP="True",
        )

    def turns(self, program: str, address: str) -> list[list[str]]:
        run = [program, "-m", "aider", "--model", "anthropic/claude-sonnet-4-5", "--edit-format", "whole"]
        run += ["--yes-always", "--no-git", "--no-pretty", "--no-show-model-warnings", "--no-show-release-notes"]
        run += ["--map-tokens", "0", "--restore-chat-history", "--read", "../home/manual.txt"]
        return [[*run, "--message", words] for words in (FIRST, SECOND, "Thank you.", "Goodbye.")]

    def said(self, printed: str) -> str:
        return next((words for words in (RECALLED, NOTED, FINE) if words in printed), printed)
