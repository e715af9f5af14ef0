"""An agent of your own: a tool, a skill and memory, whose second turn reads the first one from the cache.

Runs in a directory of its own against a scripted model in this process; `--live` asks the service itself, with
ANTHROPIC_API_KEY (some cents).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from holdfast import Watch, open_agent, tool
from holdfast.simulator import Simulated, Simulator, load_script

SKILL = """---
name: reporting
description: How weather is reported here. Load it before you report any.
---
Give degrees Celsius first, then one word for the sky.
"""
SCRIPT = """
rules:
  - when: {turn: 1}
    call: {tool: skill_load, input: {name: reporting}}
  - when: {tool_result: skill_load}
    call: {tool: weather, input: {city: Oslo}}
  - when: {tool_result: weather}
    call: {tool: memory_add, input: {file: user, text: Lives in Oslo.}}
  - when: {tool_result: memory_add}
    say: It is -3 degrees, snow.
  - say: A warm coat.
"""


@tool(effect="read")
async def weather(city: str) -> str:
    """How the weather is in a city now."""
    return f"{city}: -3 degrees, snow"


class Calls(Watch):
    def calling(self, call: Any) -> None:
        print("   calls", call.name, call.input.decode())


async def main(place: Path) -> None:
    (place / ".holdfast/skills/reporting").mkdir(parents=True)
    (place / ".holdfast/skills/reporting/SKILL.md").write_text(SKILL)
    (place / "script.yaml").write_text(SCRIPT)
    provider = None if "--live" in sys.argv else Simulated(Simulator(script=load_script(place / "script.yaml")))
    flags = {"agent.model": "anthropic:claude-sonnet-5-5"}
    async with open_agent(place, home=place / "home", provider=provider, flags=flags, tools=[weather]) as sessions:
        session = await sessions.create(goal="Help with the weather.")
        for words in ("I live in Oslo. How is the weather?", "And what should I wear?"):
            turn = await session.ask(words, watch=Calls())
            used = turn.line.usage
            print(turn.text)
            figures = f"{turn.line.calls} calls, {used.read:,} of {used.prompt:,} tokens read, ${turn.line.cost}"
            print(f"   {turn.ended}: {figures}")
    print("remembered:", (place / ".holdfast/USER.md").read_text().strip())


with tempfile.TemporaryDirectory() as directory:
    asyncio.run(main(Path(directory)))
