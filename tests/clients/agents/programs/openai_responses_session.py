"""One run of an agent made with the OpenAI SDK and Responses; the items are kept in a file and resumed from it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import openai

history = Path(os.environ["HISTORY"])
manual = Path(os.environ["MANUAL"]).read_text("utf-8")
items = json.loads(history.read_text("utf-8")) if history.exists() else []
items.append({"role": "user", "content": sys.argv[1]})
schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
tools = [{"type": "function", "name": "run_command", "description": "Run a command.", "parameters": schema}]


def run_command(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


async def main() -> str:
    async with openai.AsyncOpenAI(api_key=os.environ["KEY"], base_url=os.environ["ADDRESS"] + "/v1") as client:
        while True:
            response = await client.responses.create(
                model="gpt-5.6", instructions=manual, tools=tools, input=items, store=False
            )
            items.extend(item.model_dump(mode="json", exclude_none=True) for item in response.output)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return response.output_text
            for call in calls:
                result = run_command(json.loads(call.arguments)["command"])
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})


said = asyncio.run(main())
history.write_text(json.dumps(items), "utf-8")
sys.stdout.write(f"{said}\n")
