"""Tool conversations of an agent made with pydantic-ai, its caching switched on; ROUTE says how, and by which API."""

import json
import os
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

talk = json.loads(Path(os.environ["TALK"]).read_text("utf-8"))
route, address = os.environ["ROUTE"], os.environ["ADDRESS"]
settings: dict[str, Any] = {"cache": True}
if route in ("chat", "responses"):
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIChatModel if route == "chat" else OpenAIResponsesModel
    model: Any = kind("gpt-5.6", provider=OpenAIProvider(api_key="sk-dummy", base_url=f"{address}/v1"))
else:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    model = AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="sk-dummy", base_url=address))
    if route == "each":
        settings = {
            "anthropic_cache_tool_definitions": True,
            "anthropic_cache_instructions": True,
            "anthropic_cache": True,
        }
    elif route == "blocks":
        settings = {
            "anthropic_cache_tool_definitions": True,
            "anthropic_cache_instructions": True,
            "anthropic_cache_messages": True,
        }

agent = Agent(model, system_prompt=talk["system"][0], instructions=talk["system"][1], model_settings=settings)


@agent.tool_plain
def lookup(name: str) -> str:
    """Say what is known of a place."""
    return f"{name} is known."


@agent.tool_plain
def note(name: str) -> str:
    """Write something down."""
    return f"{name} is kept."


for history in talk["histories"]:
    messages: list[Any] = []
    for role, said in history:
        if role == "user":
            messages.append(ModelRequest(parts=[UserPromptPart(said)]))
        else:
            messages.append(ModelResponse(parts=[TextPart(said)]))
    for words in talk["turns"]:
        messages = agent.run_sync(words, message_history=messages).all_messages()
