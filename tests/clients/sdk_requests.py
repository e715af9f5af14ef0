"""Requests of the SDKs with the engine inside, and an answer."""

from __future__ import annotations

from typing import Any

from google.genai import types

from tests.clients import anthropic_sdk as claude
from tests.clients import gemini_sdk as gemini
from tests.clients.sessions import MANUAL

ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": claude.MODEL,
    "content": [{"type": "text", "text": "Yes."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
"""What a provider may say."""


def anthropic_request(words: str = "count", **members: Any) -> dict[str, Any]:
    return claude.asking(words, system=MANUAL, **members)


def with_http(address: str, attempts: int = 1, **clients: Any) -> types.HttpOptions:
    """Options of the Google SDK with HTTP clients of ours."""
    return gemini.options(address, attempts).model_copy(update=clients)
