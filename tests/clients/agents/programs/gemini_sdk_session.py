"""One run of an agent made with the Google Gen AI SDK; the contents are kept in a file and resumed from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from google import genai
from google.genai import types

history = Path(os.environ["HISTORY"])
manual = Path(os.environ["MANUAL"]).read_text("utf-8")
earlier = json.loads(history.read_text("utf-8")) if history.exists() else []
contents = [types.Content.model_validate(each) for each in earlier]
contents.append(types.Content(role="user", parts=[types.Part(text=sys.argv[1])]))
schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
declared = types.FunctionDeclaration(name="run_command", description="Run a command.", parameters_json_schema=schema)
config = types.GenerateContentConfig(system_instruction=manual, tools=[types.Tool(function_declarations=[declared])])


def run_command(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


options = types.HttpOptions(base_url=os.environ["ADDRESS"])
with genai.Client(api_key=os.environ["KEY"], http_options=options) as client:
    while True:
        parts = []
        for piece in client.models.generate_content_stream(model="gemini-2.5-pro", contents=contents, config=config):
            parts += piece.candidates[0].content.parts or []
        contents.append(types.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            break
        answers = [(call, {"output": run_command(call.args["command"])}) for call in calls]
        contents.append(
            types.Content(
                role="user",
                parts=[
                    types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=answer))
                    for call, answer in answers
                ],
            )
        )
history.write_text(json.dumps([each.model_dump(mode="json", exclude_none=True) for each in contents]), "utf-8")
sys.stdout.write("".join(part.text for part in parts if part.text) + "\n")
