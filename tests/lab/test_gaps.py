"""Gap patterns on user turns."""

from __future__ import annotations

from itertools import pairwise
from math import log
from statistics import median, stdev

import pytest
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.lab import PATTERNS, SEEDS, Trace, TraceStep, with_gaps
from holdfast.lab.gaps import TOOL_GAP
from holdfast.records import Request
from tests.lab.recordings import own


def gaps(trace: Trace) -> list[tuple[TraceStep, float]]:
    """Each request but the first, with the seconds since the start of the one before."""
    return [(after, round((after.at or 0) - (before.at or 0), 3)) for before, after in pairwise(trace.steps)]


def session(kinds: str, name: str = "s") -> Trace:
    """An untimed session: u is a user turn, t a round of a tool loop."""
    steps = [
        TraceStep(
            number=number,
            at=None,
            first_token_at=None,
            lane="m",
            model="m",
            kind="user" if kind == "u" else "tools",
            content=Request(model="m"),
        )
        for number, kind in enumerate(kinds, 1)
    ]
    return Trace(name, "", tuple(steps))


def test_the_patterns_and_the_five_seeds_are_published() -> None:
    assert PATTERNS == ("real", "none", "minutes", "office")
    assert len(set(SEEDS)) == 5


def test_real_is_as_recorded() -> None:
    assert with_gaps(own("made-1"), "real") == own("made-1")


def test_real_needs_recorded_times() -> None:
    with pytest.raises(HoldfastError, match="session has no recorded times; use a gap pattern other than real"):
        with_gaps(own("session"), "real")


def test_an_unknown_pattern_says_which_there_are() -> None:
    with pytest.raises(HoldfastError, match="no gap pattern 'weekend'; use one of real, none, minutes, office"):
        with_gaps(own("session"), "weekend")


def test_none_puts_ten_seconds_before_every_user_turn() -> None:
    told = gaps(with_gaps(own("session"), "none"))
    assert {gap for step, gap in told if step.kind == "user"} == {10.0}
    assert {gap for step, gap in told if step.kind == "tools"} == {TOOL_GAP}


@pytest.mark.parametrize("pattern", ["none", "minutes", "office"])
def test_recorded_gaps_stay_inside_tool_loops_and_in_other_lanes(pattern: str) -> None:
    trace = own("made-1")
    before = {step.number: gap for step, gap in gaps(trace)}
    for step, gap in gaps(with_gaps(trace, pattern)):
        if step.kind == "tools" or step.model != "claude-opus-4-6":
            assert gap == before[step.number]


def test_minutes_are_log_normal_around_four_minutes() -> None:
    drawn = [gap for step, gap in gaps(with_gaps(session("u" * 4_001), "minutes", SEEDS[1]))]
    assert 225 < median(drawn) < 255
    assert 0.95 < stdev(log(gap) for gap in drawn) < 1.05


def test_an_office_day_pauses_only_before_a_user_turn_after_a_full_burst() -> None:
    trace = with_gaps(session("uttutt" * 200), "office", SEEDS[2])
    served = 1
    bursts, pauses = [], []
    for step, gap in gaps(trace):
        if gap > 60:
            assert step.kind == "user"
            bursts.append(served)
            pauses.append(gap)
            served = 0
        served += 1
    assert min(pauses) >= 600
    assert max(pauses) <= 3000
    assert max(pauses) - min(pauses) > 1800
    # A burst is full after 5 to 15 requests and ends at the next user turn, at most two tool rounds later.
    assert min(bursts) >= 5
    assert max(bursts) <= 17
    assert len(set(bursts)) > 2


def test_bursts_of_user_turns_alone_hold_5_to_15_requests() -> None:
    sizes, served = [], 1
    for _, gap in gaps(with_gaps(session("u" * 3_000), "office")):
        if gap > 60:
            sizes.append(served)
            served = 0
        served += 1
    assert set(sizes) == set(range(5, 16))


def test_the_same_seed_gives_the_same_times_and_another_seed_or_session_others() -> None:
    trace = session("u" * 30)
    times = [tuple(step.at for step in with_gaps(trace, "minutes", seed).steps) for seed in (*SEEDS, SEEDS[0])]
    assert times[0] == times[-1]
    assert len(set(times)) == 5
    assert tuple(s.at for s in with_gaps(replace(trace, name="other"), "minutes", SEEDS[0]).steps) != times[0]


def test_the_sequence_is_the_published_one() -> None:
    """Figures are compared across versions of Python: these times must never change."""
    told = with_gaps(session("u" * 6), "minutes", SEEDS[0])
    assert [step.at for step in told.steps] == [0.0, 998.641, 1110.634, 1518.13, 4457.688, 4685.869]
    assert [gap for _, gap in gaps(with_gaps(session("u" * 40), "office", SEEDS[0])) if gap > 60] == [
        1654.256,
        1695.572,
        2967.464,
        1264.151,
    ]


def test_the_first_token_keeps_its_distance_but_precedes_the_lanes_next_request() -> None:
    slow = session("ut")
    first, second = slow.steps
    slow = replace(
        slow, steps=(replace(first, at=0.0, first_token_at=30.0), replace(second, at=40.0, first_token_at=41.0))
    )
    assert [step.first_token_at for step in with_gaps(slow, "none").steps] == [30.0, 41.0]
    quick = replace(slow, steps=(slow.steps[0], replace(slow.steps[1], kind="user")))
    assert [(step.at, step.first_token_at) for step in with_gaps(quick, "none").steps] == [(0.0, 10.0), (10.0, 11.0)]


def test_the_original_is_untouched_and_an_empty_trace_stays_empty() -> None:
    trace = own("session")
    with_gaps(trace, "office")
    assert not trace.timed
    assert with_gaps(Trace("e", "", ()), "none").steps == ()
