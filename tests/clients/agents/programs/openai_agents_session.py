"""One run of an agent made with openai-agents; its session is a SQLite file and is resumed from it."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def run_command(command: str) -> str:
    """Run a command in the work directory and give what it prints."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


async def main() -> None:
    async with AsyncOpenAI(api_key=os.environ["KEY"], base_url=os.environ["ADDRESS"] + "/v1") as client:
        model = OpenAIResponsesModel("gpt-5.6", openai_client=client)
        manual = Path(os.environ["MANUAL"]).read_text("utf-8")
        agent = Agent(name="keeper", instructions=manual, model=model, tools=[run_command])
        session = SQLiteSession("conversation", os.environ["HISTORY"])
        result = await Runner.run(agent, sys.argv[1], session=session)
        sys.stdout.write(f"{result.final_output}\n")


asyncio.run(main())
