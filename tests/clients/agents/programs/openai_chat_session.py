"""One run of an agent made with the OpenAI SDK and Chat Completions; the messages are kept in a file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import openai

history = Path(os.environ["HISTORY"])
manual = Path(os.environ["MANUAL"]).read_text("utf-8")
messages = json.loads(history.read_text("utf-8")) if history.exists() else [{"role": "developer", "content": manual}]
messages.append({"role": "user", "content": sys.argv[1]})
schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
function = {"name": "run_command", "description": "Run a command.", "parameters": schema}
tools = [{"type": "function", "function": function}]


def run_command(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


with openai.OpenAI(api_key=os.environ["KEY"], base_url=os.environ["ADDRESS"] + "/v1") as client:
    while True:
        with client.chat.completions.stream(
            model="gpt-5.6", messages=messages, tools=tools, stream_options={"include_usage": True}
        ) as stream:
            message = stream.get_final_completion().choices[0].message
        messages.append(message.model_dump(mode="json", exclude_none=True, exclude={"parsed"}))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            result = run_command(json.loads(call.function.arguments)["command"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
history.write_text(json.dumps(messages), "utf-8")
sys.stdout.write(f"{message.content}\n")
