"""Tool conversations of an agent made with deepagents, or of one made with langchain and its caching middleware."""

import json
import os
from pathlib import Path

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.messages import SystemMessage

talk = json.loads(Path(os.environ["TALK"]).read_text("utf-8"))


def lookup(name: str) -> str:
    """Say what is known of a place."""
    return f"{name} is known."


def note(name: str) -> str:
    """Write something down."""
    return f"{name} is kept."


model = ChatAnthropic(model="claude-sonnet-4-5", api_key="sk-dummy", base_url=os.environ["ADDRESS"])
texts = SystemMessage([{"type": "text", "text": text} for text in talk["system"]])
if os.environ["ROUTE"] == "deepagents":
    agent = create_deep_agent(model=model, tools=[lookup, note], system_prompt="\n\n".join(talk["system"]))
else:
    agent = create_agent(
        model=model, tools=[lookup, note], system_prompt=texts, middleware=[AnthropicPromptCachingMiddleware()]
    )
for history in talk["histories"]:
    messages = [(role, said) for role, said in history]
    for words in talk["turns"]:
        messages = agent.invoke({"messages": [*messages, ("user", words)]})["messages"]
