"""One run of a deep agent; the messages are kept in a file and resumed from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from deepagents import create_deep_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, messages_from_dict, messages_to_dict

history = Path(os.environ["HISTORY"])


def run_command(command: str) -> str:
    """Run a command in the work directory and give what it prints."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


model = ChatAnthropic(model="claude-sonnet-4-5", api_key=os.environ["KEY"], base_url=os.environ["ADDRESS"])
agent = create_deep_agent(model=model, tools=[run_command], system_prompt="You keep notes.")
earlier = messages_from_dict(json.loads(history.read_text("utf-8"))) if history.exists() else []
messages = agent.invoke({"messages": [*earlier, HumanMessage(sys.argv[1])]})["messages"]
history.write_text(json.dumps(messages_to_dict(messages)), "utf-8")
sys.stdout.write(f"{messages[-1].text}\n")
