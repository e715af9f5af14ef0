"""What tests of the OpenAI SDK share."""

from __future__ import annotations

from typing import Any

import openai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

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

MODEL = "gpt-5.6"
FUNCTIONS = [
    {"name": name, "description": description, "parameters": schema(name)} for name, (description, _) in TOOLS.items()
]
CHAT_TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
TOOLS_OF_RESPONSES = [{"type": "function", **function} for function in FUNCTIONS]


def chat_used(completion: ChatCompletion) -> Used:
    """The SDK's inclusive counts taken apart."""
    usage = completion.usage
    read = usage.prompt_tokens_details.cached_tokens or 0
    written = usage.prompt_tokens_details.cache_write_tokens or 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    return Used(usage.prompt_tokens - read - written, read, written, usage.completion_tokens)


def used(response: Response) -> Used:
    usage = response.usage
    read, written = usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    return Used(usage.input_tokens - read - written, read, written, usage.output_tokens)


def chatting(words: str, **members: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": words}]} | members


def chat(**members: Any) -> Conversation:
    workshop, said, usage = Workshop(), [], []
    messages: list[Any] = [{"role": "developer", "content": MANUAL}]
    for words in (QUESTION, THANKS):
        messages.append({"role": "user", "content": words})
        while True:
            completion = yield chatting("", tools=CHAT_TOOLS) | {"messages": messages} | members
            choice = completion.choices[0]
            message = choice.message
            said.extend([message.content] if message.content else [])
            usage.append(chat_used(completion))
            messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            if choice.finish_reason != "tool_calls":
                assert choice.finish_reason == "stop"
                break
            for call in message.tool_calls:
                result = workshop.use(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return Session(said, workshop.calls, usage)


def responses(**members: Any) -> Conversation:
    """The whole conversation is sent every time."""
    workshop, said, usage = Workshop(), [], []
    items: list[Any] = []
    for words in (QUESTION, THANKS):
        items.append({"role": "user", "content": words})
        while True:
            response = yield {
                "model": MODEL,
                "instructions": MANUAL,
                "tools": TOOLS_OF_RESPONSES,
                "input": items,
                "store": False,
                **members,
            }
            said.extend([response.output_text] if response.output_text else [])
            usage.append(used(response))
            items.extend(response.output)
            results = _results(response, workshop)
            if not results:
                break
            items.extend(results)
    return Session(said, workshop.calls, usage)


def chained() -> Conversation:
    """Only what is new is sent; the provider keeps the rest."""
    workshop, said, usage, previous = Workshop(), [], [], None
    for words in (QUESTION, THANKS):
        new: list[Any] = [{"role": "user", "content": words}]
        while new:
            response = yield {
                "model": MODEL,
                "instructions": MANUAL,
                "tools": TOOLS_OF_RESPONSES,
                "input": new,
                "previous_response_id": previous,
            }
            said.extend([response.output_text] if response.output_text else [])
            usage.append(used(response))
            previous = response.id
            new = _results(response, workshop)
    return Session(said, workshop.calls, usage)


def _results(response: Response, workshop: Workshop) -> list[Any]:
    assert response.status == "completed"
    return [
        {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": workshop.use(item.name, item.arguments),
        }
        for item in response.output
        if item.type == "function_call"
    ]


def chat_streamed(client: openai.OpenAI, request: dict[str, Any]) -> ChatCompletion:
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        pieces = "".join(event.delta for event in stream if event.type == "content.delta")
        completion = stream.get_final_completion()
    assert pieces == (completion.choices[0].message.content or "")
    return completion


async def chat_astreamed(client: openai.AsyncOpenAI, request: dict[str, Any]) -> ChatCompletion:
    async with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        pieces = "".join([event.delta async for event in stream if event.type == "content.delta"])
        completion = await stream.get_final_completion()
    assert pieces == (completion.choices[0].message.content or "")
    return completion


def streamed(client: openai.OpenAI, request: dict[str, Any]) -> Response:
    with client.responses.stream(**request) as stream:
        pieces = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        response = stream.get_final_response()
    assert pieces == response.output_text
    return response


async def astreamed(client: openai.AsyncOpenAI, request: dict[str, Any]) -> Response:
    async with client.responses.stream(**request) as stream:
        pieces = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        response = await stream.get_final_response()
    assert pieces == response.output_text
    return response
