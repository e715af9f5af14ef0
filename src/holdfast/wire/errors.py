"""Errors of providers: parsing error responses, and recognising requests that are too long."""

from __future__ import annotations

import re

from msgspec import Struct

from .raw_json import array_of, object_of, string_of


class WireError(Struct, frozen=True):
    """An error a provider answered, or one of ours on its way to a client; status 0 inside a stream."""

    status: int
    kind: str
    message: str


def error_of(raw: bytes) -> tuple[dict[str, bytes], str]:
    """The members of an error response's `error`, and its message: the beginning of the body where it has none.

    Gemini answers a stream that is not one of events with an array around the error.
    """
    raw = raw.strip()
    whole = object_of(next(iter(array_of(raw) or ()), raw)) or {}
    error = object_of(whole.get("error", b"")) or {}
    return error, string_of(error.get("message")) or raw[:300].decode("utf-8", "replace")


TOO_LONG = re.compile(
    "|".join(
        (
            r"prompt is too long",  # Anthropic
            r"exceed context limit",  # Anthropic: input length and `max_tokens` together
            r"context[_ ]length[_ ]exceeded",  # OpenAI's code
            r"exceeds the context window",  # OpenAI Responses
            r"maximum context length",  # OpenAI Chat, OpenRouter, DeepSeek, vLLM
            r"maximum prompt length is \d",  # Grok
            r"maximum model length",  # vLLM
            r"exceeds the maximum number of tokens",  # Gemini
            r"(exceeds|larger than) the available context size|exceed_context_size",  # llama.cpp
            r"input is too long for requested model",  # Bedrock
            r"greater than the context length",  # LM Studio
            r"exceeded model token limit",  # Kimi
            r"reduce the length of the messages",  # Groq
        )
    ),
    re.IGNORECASE,
)
_LIMITED = frozenset((401, 402, 403, 404, 408, 409, 429))
"""Refusals for another reason, whatever they say of tokens: a limit of tokens a minute is none of the context."""


def is_too_long(status: int, text: str) -> bool:
    """Return whether a provider refused a request as too long for the model's context, by its error text. `status` is 0
    or 200 for an error within a stream; 413 needs no text."""
    return status == 413 or (status not in _LIMITED and status < 500 and TOO_LONG.search(text) is not None)
