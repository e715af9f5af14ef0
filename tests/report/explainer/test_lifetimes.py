"""What another lifetime would have cost: reckoned from gaps and billed tokens, beside the same lane replayed."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pytest

from holdfast.records import Usage
from holdfast.report.explainer.results import OtherTtl
from holdfast.report.logs.traces import lanes
from tests.lab.recordings import needs_recordings, recorded
from tests.report.explainer.lane_replay import OPUS, Turn, cost, lane, log, replay
from tests.report.explainer.logs import billed, explained, lines, of_trace

TOLERANCE = Decimal("0.02")
"""Of the replayed cost. Apart are they by the head alone: whether others keep it alive through a pause is not known
until it is seen."""


def reckoned(turns: list[Turn], usages: list[Usage]) -> OtherTtl:
    found = explained(log(turns, usages)).totals.ttl
    assert found is not None
    return found


@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("seed", range(6))
def test_generated_lanes_that_others_keep_the_head_of(seed: int, ttl: str) -> None:
    turns = lane(Random(seed), 80, 12_000)
    found = reckoned(turns, replay(turns, 12_000, ttl, others=True))
    assert found.as_billed == cost(replay(turns, 12_000, ttl, others=True))
    assert found.all_5m == cost(replay(turns, 12_000, "5m", others=True))
    assert found.all_1h == cost(replay(turns, 12_000, "1h", others=True))


@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("seed", range(6))
def test_generated_lanes_alone(seed: int, ttl: str) -> None:
    turns = lane(Random(seed), 80, 12_000)
    found = reckoned(turns, replay(turns, 12_000, ttl, known=False))
    assert found.all_5m == pytest.approx(cost(replay(turns, 12_000, "5m", known=False)), rel=TOLERANCE)
    assert found.all_1h == pytest.approx(cost(replay(turns, 12_000, "1h", known=False)), rel=TOLERANCE)


@needs_recordings
@pytest.mark.parametrize("name", ["coding-1", "coding-2"])
def test_recorded_sessions(name: str) -> None:
    """Their lanes with the same gaps and sizes, and other messages where one read less and no pause explains it."""
    trace = recorded(name)
    found = explained(of_trace(trace))
    broke = {each.request for each in found.sessions[0].breaks if not (each.cause or "").startswith("ttl_")}
    (steps,) = lanes(trace).values()
    turns: list[Turn] = []
    before = steps[0].at
    for step in steps:
        assert step.at is not None
        assert before is not None
        covers = step.usage.read + step.usage.written
        anew = step.number in broke
        turns.append(Turn(step.at - before, covers, anew, step.usage.input, step.usage.output))
        before = step.at
    first = steps[0].usage
    assert found.totals.ttl.all_5m == pytest.approx(cost(replay(turns, first.read, "5m")), rel=TOLERANCE)
    assert found.totals.ttl.all_1h == pytest.approx(cost(replay(turns, first.read, "1h")), rel=TOLERANCE)


def test_what_is_still_read_after_an_expiry_is_what_others_keep() -> None:
    turns = [Turn(10.0, 20_000), Turn(10.0, 21_000), Turn(900.0, 22_000), Turn(900.0, 23_000)]
    usages = [
        billed(short=20_000),
        billed(read=20_000, short=1_000),
        *(billed(read=12_000, short=s) for s in (10_000, 11_000)),
    ]
    found = reckoned(turns, usages)
    assert found.all_5m == found.as_billed == cost(usages)


def test_no_cache_is_all_plain_input() -> None:
    found = explained(lines([billed(input=100, short=8_000), billed(read=8_000, short=500)])).totals.ttl
    assert found.no_cache == cost([billed(input=8_100), billed(input=8_503)])
    assert found.requests == 2


def test_providers_with_one_lifetime_have_no_other() -> None:
    report = explained(lines([billed(input=9_000), billed(input=400, read=8_960)], model="gpt-5.5"))
    assert report.totals.cost_usd is not None
    assert report.totals.ttl is None


def test_pauses_are_advised_on_with_the_figures_of_their_session() -> None:
    pauses = [Turn(1_000.0, 20_000 + number * 500) for number in range(12)]
    report = explained(log(pauses, replay(pauses, 12_000, "5m")))
    found = report.sessions[0].breaks[-1]
    assert found.cause == "ttl_expired_5m"
    assert found.setting == 'cache.client_markers = "manage"'
    assert f"${report.totals.ttl.as_billed:.2f}" in (found.advice or "")
    assert report.totals.cures[0].cure == "ttl_expired_5m"
    assert report.totals.cures[0].saves_usd == report.totals.ttl.as_billed - report.totals.ttl.all_1h
    once = [Turn(10.0, 20_000 + number * 2_000) for number in range(30)]
    once[2] = Turn(400.0, once[2].covers)
    calm = explained(log(once, replay(once, 12_000, "5m")))
    assert "nothing to change" in (calm.sessions[0].breaks[0].advice or "")
    assert calm.totals.cures == ()
    assert OPUS in calm.sessions[0].models
