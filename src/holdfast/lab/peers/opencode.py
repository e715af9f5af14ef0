"""opencode: the first two of its system messages and the last two of all others, each at its end, for five minutes.

What it calls messages is finer than what the provider is sent: tool results and the user's words after them are two.
So are, in a request for a title, which has no tools, what is asked and the user's words it is asked of. Claude models
only. Compared with 1.18.33.
"""

from __future__ import annotations

from itertools import islice

from holdfast.caches import Block, Mark, Prompt

from .peer import Peer, endings, last_tool, marks, system_texts


def place(prompt: Prompt) -> tuple[Mark, ...]:
    blocks = prompt.blocks
    first = next((block for block in blocks if block.section == "messages"), None)
    title_text = first if last_tool(prompt) is None else None

    def is_border(block: Block, following: Block) -> bool:
        if block.message != following.message or block.role != following.role or block is title_text:
            return True
        return block.kind == "tool_result" and following.kind != "tool_result"

    return marks(prompt, (*system_texts(prompt)[:2], *islice(endings(blocks, is_border), 2)))


PEER = Peer(
    name="opencode",
    title="opencode",
    version="1.18.33",
    place=place,
    summary="The first two system blocks and the ends of the last two messages, for five minutes.",
)
