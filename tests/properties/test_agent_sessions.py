"""Laws 1 to 5 in sessions of the agent: whatever happens to one, its requests extend each other or say why not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast.wire import DIALECTS
from tests.properties.agent_player import Played

TURNS = 300
UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
"""A seed cannot be made simpler."""


async def play(place: Path, seed: int, dialect: str, steps: int) -> int:
    """So many things happen to a session, and all that is sent is checked; gives how many requests that were."""
    random = Random(seed)
    played = Played(place, random, dialect)
    try:
        await played.begin()
        for _ in range(steps):
            await random.choice(played.steps())()
            played.check()
        played.laws.check_breaks()
    finally:
        await played.close()
    return len(played.bench.sent)


def run(seed: int, dialect: str, steps: int) -> int:
    with TemporaryDirectory() as place:
        return asyncio.run(play(Path(place), seed, dialect, steps))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_short_session(dialect: str) -> None:
    assert run(1, dialect, 5) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=4, deadline=None, phases=UNSHRUNK)
@given(st.integers(0, 2**32))
def test_whatever_happens_requests_extend_each_other_or_say_why_not(dialect: str, seed: int) -> None:
    run(seed, dialect, 20)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_long_session(dialect: str) -> None:
    turns = TURNS if dialect == "anthropic" else TURNS // 2  # its rules are the strictest, and time is not without end
    assert run(7, dialect, turns) > turns
