"""Sub-agents that share one cache entry: four tasks at once, one of them writes the shared prefix, the others read it.

Runs against a scripted model in this process; `--live` asks the service itself, with ANTHROPIC_API_KEY (some cents).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from holdfast import Task, open_agent
from holdfast.simulator import Simulated, Simulator

GUIDE = "Reviews name the file, the line, what is wrong and what to do about it.\n" * 120
FILES = ("parser.py", "writer.py", "server.py", "tests.py")


async def main(place: Path) -> None:
    (place / "AGENTS.md").write_text(GUIDE)  # project instructions: part of every prompt
    provider = None if "--live" in sys.argv else Simulated(Simulator())
    flags = {"agent.model": "anthropic:claude-sonnet-5-5"}
    async with open_agent(place, home=place / "home", provider=provider, flags=flags) as sessions:
        session = await sessions.create(goal="Review the change.")
        tasks = [Task(task=f"Review {name}.", role="reviewer") for name in FILES]
        reports = await session.delegate(tasks)
    for report in reports:
        used = report.usage
        print(f"{report.role} {report.status}: wrote {used.written:,}, read {used.read:,} tokens, ${report.cost}")
    together = sum(report.usage.prompt for report in reports)
    print(f"read from the cache: {sum(report.usage.read for report in reports) / together:.0%} of {together:,} tokens")


with tempfile.TemporaryDirectory() as directory:
    asyncio.run(main(Path(directory)))
