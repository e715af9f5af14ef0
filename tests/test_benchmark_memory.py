"""What memory costs is measured on real sessions: the figures that the limits are about come out of them."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import memory_gateway
from benchmarks.memory import LIMIT, MODELS, TURNS, play, run

MODEL = MODELS[0]


@pytest.mark.slow
def test_every_limit_is_kept() -> None:
    results = list(run(quick=True))
    assert [result.name for result in results if result.limit is not None and not result.kept] == []
    assert sum(result.limit == LIMIT for result in results) == 3  # of the agent, and of two clients of the gateway


@pytest.mark.slow
def test_memory_that_changes_is_told_and_what_is_before_it_stays_cached() -> None:
    """A measurement in which nothing was ever told would keep every limit."""
    deltas = asyncio.run(play(MODEL, "deltas"))
    blocks = asyncio.run(play(MODEL, "blocks"))
    assert deltas.told >= TURNS // 4
    assert deltas.own > 0
    assert (deltas.breaks, deltas.resets) == (0, 0)
    assert blocks.resets >= TURNS // 4
    assert blocks.dollars > deltas.dollars


@pytest.mark.slow
@pytest.mark.parametrize("marks", [True, False])
def test_so_it_is_for_clients_of_the_gateway(marks: bool) -> None:
    none, deltas, blocks = (memory_gateway.play(MODEL, arm, marks=marks) for arm in memory_gateway.ARMS)
    assert (none.told, none.own, none.breaks) == (0, 0, 0)
    assert deltas.told >= TURNS // 4
    assert deltas.own > 0
    assert (deltas.breaks, deltas.resets) == (0, 0)
    assert blocks.resets >= TURNS // 4
    assert none.dollars < deltas.dollars < blocks.dollars
