"""`llm` with its Anthropic plugin: tools are functions of a file, conversations are continued; it places no markers."""

from __future__ import annotations

from pathlib import Path

from tests.clients.agents.agent import FIRST, MANUAL, NOTED, PROGRAMS, RECALLED, SECOND, Library
from tests.clients.programs import Place


class Llm(Library):
    name, title = "llm", "llm"
    words = (f"I write it down.  {NOTED}", RECALLED)

    def environment(self, place: Place, address: str) -> dict[str, str]:
        return super().environment(place, address) | {
            "ANTHROPIC_API_KEY": "sk-ant-dummy",
            "ANTHROPIC_BASE_URL": address,
        }

    def turns(self, program: str, address: str) -> list[list[str]]:
        run = [str(Path(program).with_name("llm")), "-m", "claude-sonnet-4.5"]
        run += ["--functions", str(PROGRAMS / "llm_functions.py")]
        return [[*run, "-s", MANUAL, FIRST], [*run, "-c", SECOND]]
