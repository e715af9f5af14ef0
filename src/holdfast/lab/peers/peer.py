"""What is said of another tool, and the places in a prompt that tools tell apart.

Places are block numbers. A tool that was written for Anthropic's markers sends none to a model that takes others or
none at all: there the provider's own caching acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from holdfast import facts
from holdfast.caches import Block, Mark, Prompt

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
        """What to say for `Prompt.mode`: OpenAI has modes from GPT-5.6 on, elsewhere that field means other things."""
        return self.mode if model.breakpoints else ""


def marks(prompt: Prompt, places: Iterable[int | None], ttl: str = "5m") -> tuple[Mark, ...]:
    """Anthropic's markers at these places, where the model takes them and the blocks can carry them."""
    if facts.model(prompt.model).marker not in _ANTHROPIC:
        return ()
    carrying = {place for place in places if place is not None and prompt.blocks[place].markable}
    return tuple([Mark(place, ttl) for place in sorted(carrying)])


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
    """What stands before the messages."""
    for index, block in enumerate(prompt.blocks):
        if block.section == "messages":
            return
        yield index, block
