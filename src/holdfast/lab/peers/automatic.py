"""The provider's own automatic caching, switched on and nothing else.

Anthropic: `cache_control` at the top of the request, which marks the last block that can carry a marker (A8), for five
minutes. OpenAI from GPT-5.6 on: the implicit mode, its default. Other providers cache without being asked.
"""

from __future__ import annotations

from holdfast import facts
from holdfast.caches import Mark, Prompt

from .peer import Peer, last_block, marks


def place(prompt: Prompt) -> tuple[Mark, ...]:
    return marks(prompt, (last_block(prompt),)) if facts.model(prompt.model).automatic_field else ()


PEER = Peer(
    name="automatic",
    title="automatic caching",
    version="",
    place=place,
    mode="implicit",
    summary="The provider's automatic caching: on Anthropic the last block, for five minutes.",
)
