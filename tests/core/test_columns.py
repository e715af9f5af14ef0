"""Blocks as columns: what is taken over from the request before is what would have been written anew."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from holdfast.caches import CacheControls
from holdfast.caches.prompts import Block, Prompt
from holdfast.caches.providers import prompt as prompt_of
from holdfast.core.plan import Sent, columns, head
from tests.caches.prompts import SMALL
from tests.core.lanes import said, system, tool

HEAD = [tool("bash"), tool("read"), system("host")]
TURNS = [said(number, tokens=100 + number) for number in range(9)]


def read(*blocks: Block) -> Prompt:
    return prompt_of(SMALL, list(blocks))


def sent(prompt: Prompt, *entries: int) -> Sent:
    found = columns(prompt)
    kept = tuple((block, prompt.keys[block]) for block in entries)
    return Sent("c", 0.0, prompt.model, found.digests, found.tokens, found.sections, entries=kept)


@pytest.mark.parametrize("entry", [0, 2, 4, 7])
def test_what_is_taken_over_is_what_would_be_written_anew(entry: int) -> None:
    before, longer = sent(read(*HEAD, *TURNS[:5]), 0, entry), read(*HEAD, *TURNS)
    found = columns(longer, before)
    assert found.same == entry + 1
    assert replace(found, same=0) == columns(longer)


def test_nothing_is_taken_over_from_another_prefix() -> None:
    before = sent(read(*HEAD, *TURNS[:5]), 7)
    for other in (
        read(*HEAD, said(0, name="another"), *TURNS[1:]),
        read(*HEAD, *TURNS[:4]),
        read(tool("more"), *HEAD, *TURNS),
        prompt_of(SMALL, [*HEAD, *TURNS], CacheControls(settings={"speed": b"fast"})),
    ):
        assert columns(other, before) == columns(other)


def test_nor_where_tokens_are_counted_otherwise_or_no_entry_tells() -> None:
    longer = read(*HEAD, *TURNS)
    recounted = read(*HEAD, *(replace(block, tokens=block.tokens + 1) for block in TURNS))
    assert recounted.keys == longer.keys
    assert columns(recounted, sent(longer, 7)) == columns(recounted)
    assert columns(longer, sent(longer)).same == 0


@pytest.mark.parametrize("seed", range(20))
def test_the_head_is_what_stands_before_the_messages(seed: int) -> None:
    chance = Random(seed)
    counts = [chance.randrange(4) for _ in range(3)]
    blocks = [tool(f"t{i}") for i in range(counts[0])] + [system(f"s{i}") for i in range(counts[1])]
    prompt = read(*blocks, *TURNS[: counts[2]])
    assert head(prompt) == sum(block.section != "messages" for block in prompt.blocks)
