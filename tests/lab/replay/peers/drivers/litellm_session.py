"""Tool conversations sent by LiteLLM; ROUTE says by which of its calls, and who tells it where to put markers."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import litellm

talk = json.loads(Path(os.environ["TALK"]).read_text("utf-8"))
route = os.environ["ROUTE"]
common: dict[str, Any] = {"api_key": "sk-dummy", "api_base": os.environ["ADDRESS"], "max_tokens": 1000}
tools = [{"name": name, "description": told, "input_schema": talk["schema"]} for name, told in talk["tools"].items()]
texts = [{"type": "text", "text": text} for text in talk["system"]]

if route == "points":
    system_and_last = [{"location": "message", "role": "system"}, {"location": "message", "index": -1}]
    common["cache_control_injection_points"] = system_and_last
else:
    litellm.enable_anthropic_prompt_caching = True


async def by_messages(messages: list[Any]) -> None:
    """Anthropic's own form."""
    for words in talk["turns"]:
        messages.append({"role": "user", "content": words})
        while True:
            answer: Any = await litellm.anthropic.messages.acreate(
                model="anthropic/claude-sonnet-4-5", system=texts, tools=tools, messages=messages, **common
            )
            messages.append({"role": "assistant", "content": answer["content"]})
            calls = [block for block in answer["content"] if block["type"] == "tool_use"]
            if not calls:
                break
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "known"} for call in calls]
            messages.append({"role": "user", "content": results})


def by_chat(history: list[Any]) -> None:
    """OpenAI's form, which LiteLLM translates."""
    functions = [
        {"type": "function", "function": {"name": name, "description": told, "parameters": talk["schema"]}}
        for name, told in talk["tools"].items()
    ]
    messages: list[Any] = [{"role": "system", "content": texts}, *history]
    for words in talk["turns"]:
        messages.append({"role": "user", "content": words})
        while True:
            answer: Any = litellm.completion(
                model="anthropic/claude-sonnet-4-5", messages=messages, tools=functions, **common
            )
            said = answer.choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            if not said.tool_calls:
                break
            messages += [{"role": "tool", "tool_call_id": call.id, "content": "known"} for call in said.tool_calls]


for history in talk["histories"]:
    earlier = [{"role": role, "content": said} for role, said in history]
    if route == "chat":
        by_chat(earlier)
    else:
        asyncio.run(by_messages(earlier))
