"""The chain: cumulative digests and token counts of a prompt's blocks.

Two prompts share a prefix exactly as far as their keys are equal. Settings that invalidate a section are mixed into the
chain where that section begins, so a changed setting loses this section and all after it, and nothing before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from .values import Block, Mark, Prompt, Section

Salts = Mapping[Section, bytes]
"""Settings that a section's cached state depends on, by the first section they invalidate."""

_DIGEST = 16  # bytes of a key: collisions would need 2^64 prompts


def build(
    scope: str,
    model: str,
    blocks: Sequence[Block],
    *,
    order: Sequence[Section] = ("tools", "system", "messages"),
    salts: Salts | None = None,
    marks: Sequence[Mark] = (),
    route: str = "",
    mode: str = "",
    like: Prompt | None = None,
) -> Prompt:
    """A prompt from its blocks. `like` is an earlier prompt; what both begin with is not digested again.

    Every section of `order` enters the chain even when it is empty: a request without tools does not share a key with
    one whose system text happens to look like a tool.
    """
    blocks = tuple(blocks)
    seeds = _seeds(scope, model, order, salts or {})
    known = 0 if like is None else _common(blocks, seeds, like)
    keys: list[bytes] = list(like.keys[:known]) if like is not None else []
    ends: list[int] = list(like.ends[:known]) if like is not None else []
    key, end = (keys[-1], ends[-1]) if known else (b"", 0)
    section = blocks[known - 1].section if known else None
    for block in blocks[known:]:
        if block.section != section:
            key = sha256(key + seeds[block.section]).digest()[:_DIGEST]
            section = block.section
        key = sha256(key + block.digest).digest()[:_DIGEST]
        end += block.tokens
        keys.append(key)
        ends.append(end)
    return Prompt(
        scope=scope,
        model=model,
        blocks=blocks,
        keys=tuple(keys),
        ends=tuple(ends),
        marks=tuple(marks),
        route=route,
        mode=mode,
        seeds=tuple(seeds.items()),
    )


def parting(before: Prompt | None, after: Prompt) -> int | None:
    """The first block at which a prompt departs from an earlier one; None where one is the beginning of the other.

    Keys that differ once differ ever after, so halving finds the place.
    """
    if before is None:
        return None
    low, high = 0, min(len(before.keys), len(after.keys))
    if before.keys[:high] == after.keys[:high]:
        return None
    while low < high:
        middle = (low + high) // 2
        if before.keys[middle] == after.keys[middle]:
            low = middle + 1
        else:
            high = middle
    return low


def _seeds(scope: str, model: str, order: Sequence[Section], salts: Salts) -> dict[Section, bytes]:
    """What is mixed in where each section begins: everything that a change of would lose the section.

    A section's seed contains those of the sections before it, because those may have no blocks to carry theirs.
    """
    seeds: dict[Section, bytes] = {}
    seed = sha256(b"\0".join((scope.encode(), model.encode("utf-8", "surrogatepass")))).digest()
    for section in order:
        seed = sha256(seed + section.encode() + b"\0" + salts.get(section, b"")).digest()
        seeds[section] = seed
    return seeds


def _common(blocks: tuple[Block, ...], seeds: Mapping[Section, bytes], like: Prompt) -> int:
    """How many leading blocks have the same keys as in `like`. Slices compare at the speed of memory; halving finds
    the place where they part."""
    high = min(len(blocks), len(like.blocks))
    before = dict(like.seeds)
    if before != seeds:
        changed = (i for i, block in enumerate(blocks[:high]) if seeds[block.section] != before.get(block.section))
        high = next(changed, high)
    low = 0
    if blocks[:high] == like.blocks[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if blocks[low:middle] == like.blocks[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
