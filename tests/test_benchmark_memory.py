"""What memory costs is measured on real sessions: the figures that the limits are about come out of them."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.memory import LIMIT, TURNS, play, run


@pytest.mark.slow
def test_every_limit_is_kept() -> None:
    results = list(run(quick=True))
    assert [result.name for result in results if result.limit is not None and not result.kept] == []
    assert sum(result.limit == LIMIT for result in results) == 1


@pytest.mark.slow
def test_memory_that_changes_is_told_and_what_is_before_it_stays_cached() -> None:
    """A measurement in which nothing was ever told would keep every limit."""
    deltas = asyncio.run(play("anthropic:claude-sonnet-5-5", "deltas"))
    blocks = asyncio.run(play("anthropic:claude-sonnet-5-5", "blocks"))
    assert deltas.told >= TURNS // 4
    assert deltas.own > 0
    assert (deltas.breaks, deltas.resets) == (0, 0)
    assert blocks.resets >= TURNS // 4
    assert blocks.dollars > deltas.dollars
