"""A client of each provider on its official SDK: it keeps its own history and sends all of it with every turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types

from tests.doors.sessions import Play

TOOLS = ("read_notes", "write_notes", "find_notes")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "line": {"type": "integer"}},
    "required": ["name"],
}
Headers = Mapping[str, str]


def system(play: Play, turn: int) -> str:
    return play.system if play.client_system is None else play.client_system(turn)


def tools(play: Play, turn: int) -> tuple[str, ...]:
    return TOOLS if play.client_tools is None else play.client_tools(turn)


def members(play: Play, turn: int) -> dict[str, Any]:
    return {} if play.client_members is None else play.client_members(turn)


def said(play: Play, turn: int, number: int) -> str:
    if number == 0 and play.client_rewrites is not None:
        return play.client_rewrites(turn)
    return play.turns[number]


def keyed(play: Play, turn: int, value: dict[str, Any]) -> dict[str, Any]:
    """An object with its keys in another order every second turn, of a client that does so."""
    return dict(reversed(value.items())) if play.client_shuffles_keys and turn % 2 else value


class AnthropicClient:
    def __init__(self, address: str, http: Mapping[str, Any], headers: Headers) -> None:
        self._client = anthropic.Anthropic(
            base_url=address, api_key="k", max_retries=0, default_headers=headers, http_client=http.get("httpx2")
        )

    def __enter__(self) -> AnthropicClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, play: Play, model: str, turn: int) -> Headers:
        messages: list[dict[str, Any]] = []
        for number in range(turn + 1):
            part = keyed(play, turn, {"type": "text", "text": said(play, turn, number)})
            messages.append({"role": "user", "content": [part]})
            if number < turn:
                messages.append({"role": "assistant", "content": f"Answer {number}."})
        request: dict[str, Any] = {
            "model": model,
            "max_tokens": 64,
            "system": system(play, turn),
            "tools": [{"name": n, "description": f"Does {n}.", "input_schema": SCHEMA} for n in tools(play, turn)],
            "messages": messages,
        }
        answer: Any = self._client.messages.with_raw_response.create(**request | members(play, turn))
        return dict(answer.headers)


class OpenAIClient:
    """Of the Responses API."""

    def __init__(self, address: str, http: Mapping[str, Any], headers: Headers) -> None:
        self._client = openai.OpenAI(
            base_url=f"{address}/v1",
            api_key="k",
            max_retries=0,
            default_headers=headers,
            http_client=http.get("httpx2"),
        )

    def __enter__(self) -> OpenAIClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, play: Play, model: str, turn: int) -> Headers:
        items: list[dict[str, Any]] = [{"role": "developer", "content": system(play, turn)}]
        for number in range(turn + 1):
            part = keyed(play, turn, {"type": "input_text", "text": said(play, turn, number)})
            items.append({"role": "user", "content": [part]})
            if number < turn:
                items.append({"role": "assistant", "content": f"Answer {number}."})
        request: dict[str, Any] = {
            "model": model,
            "input": items,
            "tools": [
                {"type": "function", "name": n, "description": f"Does {n}.", "parameters": SCHEMA, "strict": False}
                for n in tools(play, turn)
            ],
        }
        answer: Any = self._client.responses.with_raw_response.create(**request | members(play, turn))
        return dict(answer.headers)


class GeminiClient:
    def __init__(self, address: str, http: Mapping[str, Any], headers: Headers) -> None:
        options = types.HttpOptions(base_url=address, headers=dict(headers), httpx_client=http.get("httpx"))
        self._client = genai.Client(api_key="k", http_options=options)

    def __enter__(self) -> GeminiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, play: Play, model: str, turn: int) -> Headers:
        contents: list[dict[str, Any]] = []
        for number in range(turn + 1):
            contents.append({"role": "user", "parts": [{"text": said(play, turn, number)}]})
            if number < turn:
                # The SDK orders the keys of everything but what a tool was called with.
                asked = {"name": "read_notes", "args": keyed(play, turn, {"name": "a", "line": number})}
                answered = {"name": "read_notes", "response": {"output": f"Answer {number}."}}
                contents.append({"role": "model", "parts": [{"function_call": asked}]})
                contents.append({"role": "user", "parts": [{"function_response": answered}]})
                contents.append({"role": "model", "parts": [{"text": f"Answer {number}."}]})
        declared = [
            {"name": n, "description": f"Does {n}.", "parameters_json_schema": SCHEMA} for n in tools(play, turn)
        ]
        config: Any = {"system_instruction": system(play, turn), "tools": [{"function_declarations": declared}]}
        config |= members(play, turn)
        answer = self._client.models.generate_content(model=model, contents=contents, config=config)
        response = answer.sdk_http_response
        return {} if response is None or response.headers is None else response.headers


CLIENTS: dict[str, Any] = {"anthropic": AnthropicClient, "openai": OpenAIClient, "gemini": GeminiClient}
