"""The chain: cumulative digests and token counts of a prompt's blocks.

Two prompts share a prefix exactly as far as their keys are equal. Settings that invalidate a section are mixed into the
chain where that section begins, so a changed setting loses this section and all after it, and nothing before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from holdfast.records import common_head

from .prompts import Block, CacheControls, Mark, Prompt, Section

Salts = Mapping[Section, bytes]
"""Settings that a section's cached state depends on, by the first section they invalidate."""

NO_CONTROLS = CacheControls()
_DIGEST = 16  # bytes of a key: collisions would need 2^64 prompts


def build(
    model: str,
    blocks: Sequence[Block],
    controls: CacheControls = NO_CONTROLS,
    *,
    order: Sequence[Section] = ("tools", "system", "messages"),
    salts: Salts | None = None,
    like: Prompt | None = None,
) -> Prompt:
    """A prompt from its blocks; of the controls' settings and automatic marker the salts and marks have been made. What
    it begins with like an earlier prompt, `like`, is not digested again.

    Every section of `order` enters the chain even when it is empty: a request without tools does not share a key with
    one whose system text happens to look like a tool.
    """
    blocks = tuple(blocks)
    seeds = _seeds(controls.scope, model, order, salts or {})
    same = 0 if like is None else _common_keys(blocks, seeds, like)
    keys, ends = ((), ()) if like is None else (like.keys[:same], like.ends[:same])
    pairs = tuple(seeds.items())
    keys, ends = _chained(blocks, same, keys, ends, pairs)
    marks = tuple(controls.marks)
    return Prompt(controls.scope, model, blocks, keys, ends, marks, controls.route, (), controls.mode, pairs)


def grown(like: Prompt, blocks: Sequence[Block], marks: Sequence[Mark]) -> Prompt:
    """A prompt of the same settings, scope and model as an earlier one."""
    blocks = tuple(blocks)
    same = common_head(blocks, like.blocks)
    keys, ends = _chained(blocks, same, like.keys[:same], like.ends[:same], like.seeds)
    return Prompt(like.scope, like.model, blocks, keys, ends, tuple(marks), like.route, (), like.mode, like.seeds)


def _chained(
    blocks: tuple[Block, ...],
    same: int,
    keys: tuple[bytes, ...],
    ends: tuple[int, ...],
    seeds: Iterable[tuple[Section, bytes]],
) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
    """Keys and ends of all blocks, from those of the first `known`."""
    key, end, section = (keys[-1], ends[-1], blocks[same - 1].section) if same else (b"", 0, None)
    more, counts = [], []
    for block in blocks[same:]:
        if block.section != section:
            key = sha256(key + dict(seeds)[block.section]).digest()[:_DIGEST]
            section = block.section
        key = sha256(key + block.digest).digest()[:_DIGEST]
        end += block.tokens
        more.append(key)
        counts.append(end)
    return keys + tuple(more), ends + tuple(counts)


def parting(before: Prompt | None, after: Prompt) -> int | None:
    """The first block at which a prompt departs from an earlier one; None where one is the beginning of the other."""
    if before is None:
        return None
    shared = common_head(before.keys, after.keys)
    return None if shared == min(len(before.keys), len(after.keys)) else shared


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


def _common_keys(blocks: tuple[Block, ...], seeds: Mapping[Section, bytes], like: Prompt) -> int:
    """How many leading blocks have the same keys as in `like`."""
    high = min(len(blocks), len(like.blocks))
    before = dict(like.seeds)
    if before != seeds:
        changed = (i for i, block in enumerate(blocks[:high]) if seeds[block.section] != before.get(block.section))
        high = next(changed, high)
    return common_head(blocks, like.blocks, high)
