"""What other tools send: where each puts its cache markers, and for how long, as a pure function of the prompt.

The rules were found by running the tools, and tests compare them with the tools' own requests wherever `make
bench-peers` or `make test-clients` has installed one. Places are block numbers. A tool that was written for Anthropic's
markers sends none to a model that takes others or none at all: there the provider's own caching acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from holdfast import facts
from holdfast.caches import Block, Mark, Prompt, developer_end

_ANTHROPIC = ("cache_control", "cachePoint")


class Peer(Struct, frozen=True, kw_only=True):
    """A tool, or a way of doing without one. `version` is the one it was compared with, empty where it has none;
    `mode` is for `Prompt.mode` where the provider has one (`mode_for`); `summary` is one sentence for reports."""

    name: str
    title: str
    version: str
    place: Callable[[Prompt], tuple[Mark, ...]]
    mode: str = ""
    summary: str

    def mode_for(self, model: facts.ModelFacts) -> str:
        """Return the `Prompt.mode`: OpenAI has modes from GPT-5.6 on, elsewhere that field means other things."""
        return self.mode if model.breakpoints else ""


def marks(prompt: Prompt, places: Iterable[int | None]) -> tuple[Mark, ...]:
    """Anthropic's markers at these places, for five minutes, where model and blocks can carry them."""
    if facts.model(prompt.model).marker not in _ANTHROPIC:
        return ()
    carrying = {place for place in places if place is not None and prompt.blocks[place].markable}
    return tuple([Mark(place, "5m") for place in sorted(carrying)])


def last_tool(prompt: Prompt) -> int | None:
    return next(reversed([i for i, block in _head(prompt) if block.section == "tools"]), None)


def system_texts(prompt: Prompt) -> list[int]:
    """The blocks of the system text in order; tools that count as a part of it are none."""
    return [i for i, block in _head(prompt) if block.section == "system" and block.role == "system"]


def last_block(prompt: Prompt) -> int | None:
    """The last block of all that can carry a marker."""
    return next((i for i in range(len(prompt.blocks) - 1, -1, -1) if prompt.blocks[i].markable), None)


def endings(blocks: Sequence[Block], is_border: Callable[[Block, Block], bool]) -> Iterator[int]:
    """The last block of each message from the end of the prompt backwards, with a border wherever one is seen between
    a block and the next one."""
    for index in range(len(blocks) - 1, -1, -1):
        if blocks[index].section != "messages":
            return
        if index + 1 == len(blocks) or is_border(blocks[index], blocks[index + 1]):
            yield index


def _head(prompt: Prompt) -> Iterator[tuple[int, Block]]:
    """Yield the blocks before the messages."""
    for index, block in enumerate(prompt.blocks):
        if block.section == "messages":
            return
        yield index, block


def _litellm(prompt: Prompt) -> tuple[Mark, ...]:
    """LiteLLM's automatic injection (`enable_anthropic_prompt_caching`, for a request or a key
    `enable_prompt_caching`).

    It marks the last block of the system text and the last block of the last message, both for five minutes unless
    `anthropic_prompt_caching_ttl` says otherwise, and stands down where a request has markers of its own. The same
    places as `cache_control_injection_points` for role `system` and index -1. Claude models of Anthropic, Bedrock,
    Vertex and Azure only. Off by default. Compared with 1.106.2.
    """
    if prompt.model.startswith("openrouter:"):
        return ()
    end = len(prompt.blocks) - 1
    last = end if end >= 0 and prompt.blocks[end].section == "messages" else None
    return marks(prompt, (*system_texts(prompt)[-1:], last))


def _langchain(prompt: Prompt) -> tuple[Mark, ...]:
    """LangChain's `AnthropicPromptCachingMiddleware`, which deepagents puts into every agent.

    It marks the last tool and the last block of the system text and asks for automatic caching of the conversation, all
    for five minutes unless `ttl` says `1h`. Anthropic's models only. Compared with langchain-anthropic 1.7.7 in
    deepagents 0.7.32, and by itself in an agent of langchain.
    """
    return marks(prompt, (last_tool(prompt), *system_texts(prompt)[-1:], last_block(prompt)))


def _pydantic_ai(prompt: Prompt) -> tuple[Mark, ...]:
    """pydantic-ai with its `cache` setting switched on, which stands for all of its provider's cache settings.

    On Anthropic these are `anthropic_cache_tool_definitions`, `anthropic_cache_instructions` and `anthropic_cache`: the
    last tool, the last block of the instructions and automatic caching of the conversation, for five minutes unless
    told otherwise. From GPT-5.6 on it marks the end of the instructions and leaves the rest to the implicit mode.
    Without the setting it marks nothing. Compared with 2.66.0.
    """
    model = facts.model(prompt.model)
    if model.provider == "openai" and model.breakpoints:
        end = developer_end(prompt.blocks)
        return () if end is None or not prompt.blocks[end].markable else (Mark(end, model.default_ttl or ""),)
    return marks(prompt, (last_tool(prompt), *system_texts(prompt)[-1:], last_block(prompt)))


def _claude_code(prompt: Prompt) -> tuple[Mark, ...]:
    """Claude Code: three markers of its own, all with one lifetime.

    They stand on the last two blocks of its system text (before these it has a billing line, which no cache sees) and
    on the last block of the conversation. With an API key the lifetime is five minutes; `ENABLE_PROMPT_CACHING_1H` asks
    for one hour. What it asks beside the conversation, such as a title, has no markers: a replay has no such requests.
    Compared with 2.1.325.
    """
    return marks(prompt, (*system_texts(prompt)[-2:], last_block(prompt)))


def _opencode(prompt: Prompt) -> tuple[Mark, ...]:
    """opencode: the first two of its system messages and the last two of all others, each at its end, for five minutes.

    Its messages are finer than the provider's: tool results and the user's text after them are two. In a request for a
    title, which has no tools, so are the question and the user's text it is about. Claude models only. Compared with
    1.18.33.
    """
    blocks = prompt.blocks
    first = next((block for block in blocks if block.section == "messages"), None)
    title_text = first if last_tool(prompt) is None else None

    def is_border(block: Block, following: Block) -> bool:
        if block.message != following.message or block.role != following.role or block is title_text:
            return True
        return block.kind == "tool_result" and following.kind != "tool_result"

    return marks(prompt, (*system_texts(prompt)[:2], *islice(endings(blocks, is_border), 2)))


def _automatic(prompt: Prompt) -> tuple[Mark, ...]:
    """The provider's own automatic caching, switched on and nothing else.

    Anthropic: `cache_control` at the top of the request, which marks the last block that can carry a marker (A8), for
    five minutes. OpenAI from GPT-5.6 on: the implicit mode, its default. Other providers cache without being asked.
    """
    return marks(prompt, (last_block(prompt),)) if facts.model(prompt.model).automatic_field else ()


def _no_cache(prompt: Prompt) -> tuple[Mark, ...]:
    """No caching: no marker, and on OpenAI from GPT-5.6 on the explicit mode without breakpoints.

    Older OpenAI models, Gemini and other providers that cache by themselves cannot be told not to: there this is the
    same as `automatic`.
    """
    return ()


_ALL = (
    Peer(
        name="litellm",
        title="LiteLLM auto-injection",
        version="1.106.2",
        place=_litellm,
        summary="With its automatic injection switched on: the last system block and the last block of the last "
        "message, for five minutes.",
    ),
    Peer(
        name="langchain",
        title="LangChain/deepagents middleware",
        version="1.7.7",
        place=_langchain,
        summary="The last tool, the last system block and automatic caching of the conversation, for five minutes.",
    ),
    Peer(
        name="pydantic-ai",
        title="pydantic-ai cache settings",
        version="2.66.0",
        place=_pydantic_ai,
        summary="With its cache setting switched on: the last tool, the last system block and automatic caching of the "
        "conversation, for five minutes; from GPT-5.6 on a breakpoint after the instructions.",
    ),
    Peer(
        name="claude-code",
        title="Claude Code",
        version="2.1.325",
        place=_claude_code,
        summary="Both parts of its system text and the last block, for five minutes as with an API key (it has a "
        "switch for one hour).",
    ),
    Peer(
        name="opencode",
        title="opencode",
        version="1.18.33",
        place=_opencode,
        summary="The first two system blocks and the ends of the last two messages, for five minutes.",
    ),
    Peer(
        name="automatic",
        title="automatic caching",
        version="",
        place=_automatic,
        mode="implicit",
        summary="The provider's automatic caching: on Anthropic the last block, for five minutes.",
    ),
    Peer(
        name="none",
        title="no caching",
        version="",
        place=_no_cache,
        mode="explicit",
        summary="No marker at all; a provider that caches by itself still does, except OpenAI from GPT-5.6 on.",
    ),
)
PEERS: dict[str, Peer] = {peer.name: peer for peer in _ALL}
"""By the name under which a replay offers them as a strategy."""
