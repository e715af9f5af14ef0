"""The workloads of the agent's benchmark are really worked on, and are done whatever padding is set."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks import agent
from benchmarks.agent_script import fixed
from benchmarks.agent_workloads import FIX, WORKLOADS, Workload

HAIKU = agent.MODELS[0]


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=[each.name for each in WORKLOADS])
def test_a54_a79_a_workload_is_done_under_every_padding_without_a_break(workload: Workload) -> None:
    arms = {padding: asyncio.run(agent.play(workload, HAIKU, padding)) for padding in agent.PADDINGS}
    assert {padding: (arm.done, arm.breaks) for padding, arm in arms.items()} == dict.fromkeys(arms, (True, 0))
    assert all(arm.dollars > Decimal(0) for arm in arms.values())
    # What is written stands in the prompt from the first request on, so it is read by all that follow.
    padded = arms["always"].usage
    assert padded.input == 0
    assert padded.read > padded.written > 4096


@pytest.mark.slow
def test_a_model_that_only_says_so_has_not_done_it() -> None:
    boasting = replace(FIX, steps=((fixed("It is mended, and all tests pass."),),))
    played = asyncio.run(agent.play(boasting, HAIKU, "off"))
    assert (played.done, played.calls) == (False, 1)


@pytest.mark.parametrize("workload", WORKLOADS, ids=[each.name for each in WORKLOADS])
def test_nothing_is_done_before_the_agent_comes(workload: Workload, tmp_path: Path) -> None:
    workload.lay_out(tmp_path)
    assert not workload.done(tmp_path)


@pytest.mark.slow
def test_a_workload_costs_the_same_every_time() -> None:
    one, other = (asyncio.run(agent.play(FIX, HAIKU, "always")) for _ in range(2))
    assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("warm", [False, True])
def test_a_fan_out_writes_the_parents_prompt_once(warm: bool) -> None:
    prefix, used = asyncio.run(agent.fan_out(HAIKU, warm=warm))
    assert len(used) == agent.CHILDREN
    assert prefix >= agent.PARENT * 95 // 100
    assert sum(each.written >= prefix for each in used) == (0 if warm else 1)
    assert sum(each.read >= prefix for each in used) == agent.CHILDREN - (0 if warm else 1)
    assert agent.relative(HAIKU, prefix, used)[0] <= agent.LIMIT
