"""One run of an agent made with pydantic-ai; the history is kept in a file and resumed from it."""

import os
import subprocess
import sys
from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

provider = AnthropicProvider(api_key=os.environ["KEY"], base_url=os.environ["ADDRESS"])
model = AnthropicModel("claude-sonnet-4-5", provider=provider)
agent = Agent(model, instructions=Path(os.environ["MANUAL"]).read_text("utf-8"))
history = Path(os.environ["HISTORY"])


@agent.tool_plain
def run_command(command: str) -> str:
    """Run a command in the work directory and give what it prints."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


earlier = ModelMessagesTypeAdapter.validate_json(history.read_bytes()) if history.exists() else None
result = agent.run_sync(sys.argv[1], message_history=earlier)
history.write_bytes(result.all_messages_json())
sys.stdout.write(f"{result.output}\n")
