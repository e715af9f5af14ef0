"""pydantic-ai with its `cache` setting switched on, which stands for all of its provider's cache settings.

On Anthropic these are `anthropic_cache_tool_definitions`, `anthropic_cache_instructions` and `anthropic_cache`: the
last tool, the last block of the instructions and automatic caching of the conversation, for five minutes unless told
otherwise. From GPT-5.6 on it marks the end of the instructions and leaves the rest to the implicit mode. Without the
setting it marks nothing. Compared with 2.66.0.
"""

from __future__ import annotations

from holdfast import facts
from holdfast.caches import Mark, Prompt, developer_end

from .peer import Peer, last_block, last_tool, marks, system_texts


def place(prompt: Prompt) -> tuple[Mark, ...]:
    model = facts.model(prompt.model)
    if model.provider == "openai" and model.breakpoints:
        end = developer_end(prompt.blocks)
        return () if end is None or not prompt.blocks[end].markable else (Mark(end, model.default_ttl or ""),)
    return marks(prompt, (last_tool(prompt), *system_texts(prompt)[-1:], last_block(prompt)))


PEER = Peer(
    name="pydantic-ai",
    title="pydantic-ai cache settings",
    version="2.66.0",
    place=place,
    summary="With its cache setting switched on: the last tool, the last system block and automatic caching of the "
    "conversation, for five minutes; from GPT-5.6 on a breakpoint after the instructions.",
)
