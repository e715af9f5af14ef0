"""How providers say that a request does not fit into a model's context."""

from __future__ import annotations

import re

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
    """Whether a provider refused a request because it does not fit into the model's context, by the providers' own
    words. `status` is 0 or 200 where the refusal came within a stream; 413 says it by itself."""
    return status == 413 or (status not in _LIMITED and status < 500 and TOO_LONG.search(text) is not None)
