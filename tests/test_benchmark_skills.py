"""The comparison that docs/skills.md speaks of holds what it says, on a short session."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import skills


@pytest.mark.slow
def test_a79_bodies_on_request_cost_less_than_all_of_them_and_lose_no_prefix() -> None:
    tasks = skills.workload_tasks(6)
    pasted = asyncio.run(skills.play(skills.PASTED, tasks))
    assert (pasted.requests, pasted.breaks, pasted.loaded) == (len(tasks), 0, 0)
    for arm in skills.ARMS:
        played = asyncio.run(skills.play(arm, tasks))
        assert played.breaks == 0, arm.name
        assert played.loaded > 0, arm.name
        assert played.loaded + played.pointed + played.refused == len(tasks), arm.name
        assert played.dollars < pasted.dollars, arm.name


@pytest.mark.slow
def test_a79_the_cap_on_bodies_acts_on_the_workload() -> None:
    tasks = skills.workload_tasks(skills.TASKS)
    capped, wide = (asyncio.run(skills.play(skills.ARMS[at], tasks)) for at in (0, 4))
    assert (capped.loaded, wide.loaded) == (3, 7)
    assert capped.refused > wide.refused == 0
