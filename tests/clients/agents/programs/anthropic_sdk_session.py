"""One run of an agent made with the Anthropic SDK; the messages are kept in a file and resumed from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anthropic

history = Path(os.environ["HISTORY"])
messages = json.loads(history.read_text("utf-8")) if history.exists() else []
messages.append({"role": "user", "content": sys.argv[1]})
schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
tools = [{"name": "run_command", "description": "Run a command.", "input_schema": schema}]
manual = Path(os.environ["MANUAL"]).read_text("utf-8")


def run_command(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


with anthropic.Anthropic(api_key=os.environ["KEY"], base_url=os.environ["ADDRESS"]) as client:
    while True:
        with client.messages.stream(
            model="claude-sonnet-4-6", max_tokens=1000, system=manual, tools=tools, messages=messages
        ) as stream:
            message = stream.get_final_message()
        content = [block.model_dump(mode="json", exclude_none=True) for block in message.content]
        messages.append({"role": "assistant", "content": content})
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            break
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": run_command(call.input["command"])}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
history.write_text(json.dumps(messages), "utf-8")
sys.stdout.write(f"{message.content[-1].text}\n")
