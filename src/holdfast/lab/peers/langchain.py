"""LangChain's `AnthropicPromptCachingMiddleware`, which deepagents puts into every agent.

It marks the last tool and the last block of the system text and asks for automatic caching of the conversation, all
for five minutes unless `ttl` says `1h`. Anthropic's models only. Compared with langchain-anthropic 1.7.7 in
deepagents 0.7.32, and by itself in an agent of langchain.
"""

from __future__ import annotations

from holdfast.caches import Mark, Prompt

from .peer import Peer, last_block, last_tool, marks, system_texts


def place(prompt: Prompt) -> tuple[Mark, ...]:
    return marks(prompt, (last_tool(prompt), *system_texts(prompt)[-1:], last_block(prompt)))


PEER = Peer(
    name="langchain",
    title="LangChain/deepagents middleware",
    version="1.7.7",
    place=place,
    summary="The last tool, the last system block and automatic caching of the conversation, for five minutes.",
)
