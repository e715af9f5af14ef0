"""LiteLLM's automatic injection (`enable_anthropic_prompt_caching`, for a request or a key `enable_prompt_caching`).

It marks the last block of the system text and the last block of the last message, both for five minutes unless
`anthropic_prompt_caching_ttl` says otherwise, and stands down where a request has markers of its own. The same places
as `cache_control_injection_points` for role `system` and index -1. Claude models of Anthropic, Bedrock, Vertex and
Azure only. Off by default. Compared with 1.106.2.
"""

from __future__ import annotations

from holdfast.caches import Mark, Prompt

from .peer import Peer, marks, system_texts


def place(prompt: Prompt) -> tuple[Mark, ...]:
    if prompt.model.startswith("openrouter:"):
        return ()
    end = len(prompt.blocks) - 1
    last = end if end >= 0 and prompt.blocks[end].section == "messages" else None
    return marks(prompt, (*system_texts(prompt)[-1:], last))


PEER = Peer(
    name="litellm",
    title="LiteLLM auto-injection",
    version="1.106.2",
    place=place,
    summary="With its automatic injection switched on: the last system block and the last block of the last message, "
    "for five minutes.",
)
