"""Agents of others at the same task, straight to a provider and through the gateway: the same must come of it.

`make test` runs the SDKs and what `make clients` installs; `make test-clients` installs and runs them all and prints
what each paid, with the gateway and without.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from tests.clients.agents import AGENTS, Agent
from tests.clients.agents.agent import FILES
from tests.clients.comparison import Outcome, direct, through

pytestmark = pytest.mark.slow

CREDIT = Decimal("0.25")
"""Dollars that a tenant may lose at most while it is found out what pays."""


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_the_same_comes_of_it_through_the_gateway(
    agent: Agent, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    if not agent.everywhere and not os.environ.get("HOLDFAST_TEST_CLIENTS"):
        pytest.skip(f"{agent.title} is run by `make test-clients`")
    program = agent.find()
    alone = direct(agent, program, tmp_path)
    as_scripted(agent, alone)
    beside, sessions = through(agent, program, tmp_path)
    record_property("agent", (f"{agent.title} {agent.version}", alone.figures, beside.figures))
    as_scripted(agent, beside)
    assert sorted(beside.asked) == sorted(alone.asked)  # titles are asked for beside the conversation
    assert beside.cost <= alone.cost + CREDIT
    assert not [each for each in sessions if "bypassed" in each["kinds"]]
    if agent.sessions is not None:
        assert [each["lanes"] for each in sessions] == [agent.lanes] * agent.sessions


def as_scripted(agent: Agent, outcome: Outcome) -> None:
    """The task was done, and the provider had nothing to complain about."""
    assert outcome.codes == [0] * len(agent.words), outcome.printed
    assert tuple(outcome.said) == agent.words, outcome.printed
    assert outcome.files == FILES
    assert {(each.status, each.state) for each in outcome.records} == {(200, "complete")}
    assert not [each.error for each in outcome.records if each.error]
