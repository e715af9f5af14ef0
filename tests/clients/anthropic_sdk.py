"""What tests of the Anthropic SDK share."""

from __future__ import annotations

from typing import Any

import anthropic
from anthropic.types import Message

from tests.clients.sessions import (
    MANUAL,
    QUESTION,
    THANKS,
    TOOLS,
    Conversation,
    Session,
    Used,
    Workshop,
    schema,
)

MODEL = "claude-sonnet-4-6"
KEY = "sk-ant-dummy"
OFFERED: list[Any] = [
    {"name": name, "description": description, "input_schema": schema(name)} for name, (description, _) in TOOLS.items()
]


def asking(words: str, **members: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 500, "messages": [{"role": "user", "content": words}]} | members


def used(message: Message) -> Used:
    usage = message.usage
    return Used(
        usage.input_tokens,
        usage.cache_read_input_tokens or 0,
        usage.cache_creation_input_tokens or 0,
        usage.output_tokens,
    )


def texts(message: Message) -> list[str]:
    return [block.text for block in message.content if block.type == "text"]


def conversation(**members: Any) -> Conversation:
    """Two questions of the user and the tool calls they lead to."""
    workshop, said, usage = Workshop(), [], []
    messages: list[Any] = []
    for words in (QUESTION, THANKS):
        messages.append({"role": "user", "content": words})
        while True:
            message = yield asking("", system=MANUAL, tools=OFFERED, cache_control={"type": "ephemeral"}) | {
                "messages": messages,
                **members,
            }
            said.extend(texts(message))
            usage.append(used(message))
            messages.append({"role": "assistant", "content": message.content})
            if message.stop_reason != "tool_use":
                assert message.stop_reason == "end_turn"
                break
            calls = [block for block in message.content if block.type == "tool_use"]
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": workshop.use(call.name, call.input)}
                for call in calls
            ]
            messages.append({"role": "user", "content": results})
    return Session(said, workshop.calls, usage)


def streamed(client: anthropic.Anthropic, request: dict[str, Any]) -> Message:
    """The SDK puts the message together from events; the text must also have come piece by piece."""
    with client.messages.stream(**request) as stream:
        pieces = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert pieces == "".join(texts(message))
    return message


async def astreamed(client: anthropic.AsyncAnthropic, request: dict[str, Any]) -> Message:
    async with client.messages.stream(**request) as stream:
        pieces = "".join([piece async for piece in stream.text_stream])
        message = await stream.get_final_message()
    assert pieces == "".join(texts(message))
    return message
