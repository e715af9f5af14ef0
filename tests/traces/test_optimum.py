"""The optimum: worked examples, proof against trying everything, and bounds on real sessions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches import chain
from holdfast.caches.values import Block, Mark
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.traces import Call, Plan, Shape, Trace, cost, optimal, optimum, outcomes, rolling, with_gaps
from tests.traces.exhaustive import Exhaustive, block, call, random_calls
from tests.traces.recordings import needs_recordings, own, recorded

OPUS = facts.model("claude-opus-4-6")
LOW = replace(OPUS, floor=0)
SYSTEM = block(1000, 1000)
ASK = block(1001, 100)


def grown(*tokens: int) -> list[Block]:
    return [SYSTEM, *(block(2000 + n, each) for n, each in enumerate(tokens))]


def best(calls: Sequence[Call], model: ModelFacts = LOW, *, pings: bool = False) -> Decimal:
    """The optimum, after its plan has been put to the rules."""
    found = optimal(calls, model, pings=pings)
    assert cost(calls, found.plan, model, found.pings) == found.cost
    for marks in found.plan:
        lifetimes = [mark.ttl for mark in marks]
        assert lifetimes == sorted(lifetimes)  # 1h before 5m
        assert len(marks) <= model.max_markers
        assert [mark.block for mark in marks] == sorted({mark.block for mark in marks})
    return found.cost


# Worked examples; the prefix has 1,000 tokens, a plain token costs 1


def test_no_calls_cost_nothing() -> None:
    assert optimal([], OPUS).cost == 0


def test_a_single_call_writes_nothing() -> None:
    found = optimal([call(0, grown())], LOW)
    assert found.cost == 1000
    assert found.plan == ((),)


def test_a_second_use_within_five_minutes_pays_the_write() -> None:
    assert best([call(0, grown()), call(300, grown())]) == 1250 + 100
    assert best([call(0, grown()), call(301, grown())]) == 2000


def test_an_hour_is_bought_for_two_later_uses_and_not_for_one() -> None:
    assert best([call(0, grown()), call(3000, grown())]) == 2000
    assert best([call(0, grown()), call(3000, grown()), call(6000, grown())]) == 2000 + 100 + 100


def test_a_growing_conversation_rolls() -> None:
    calls = [call(0, grown()), call(10, grown(100)), call(20, grown(100, 200))]
    # The last tail is read by nobody and stays plain.
    assert best(calls) == 1250 + (100 + 125) + (110 + 200)


def test_what_is_below_the_floor_cannot_be_cached() -> None:
    calls = [call(0, grown()), call(10, grown())]
    assert best(calls, replace(LOW, floor=1000)) == 1350
    assert best(calls, replace(LOW, floor=1001)) == 2000


def test_calls_that_overlap_cannot_read_each_other() -> None:
    together = [call(0, grown(), 30), call(10, grown(), 40), call(20, grown(), 50)]
    assert best(together) == 3000
    # One that comes after the first token makes one of them write.
    assert best([*together, call(30, grown())]) == 1250 + 2000 + 100


def test_an_entry_counts_from_the_first_token_of_the_call_that_writes_it() -> None:
    # Either of the first two could write, but only the first one's entry is readable when the third call comes.
    calls = [call(0, grown(), 60), call(1, grown(), 251), call(100, grown()), call(301, grown())]
    assert best(calls) == 1250 + 1000 + 100 + 100


def test_a_block_that_cannot_carry_a_marker_is_left_out() -> None:
    thought = block(3000, 500, markable=False)
    calls = [call(0, [SYSTEM, thought]), call(10, [SYSTEM, thought])]
    assert best(calls) == 1250 + 500 + 100 + 500


def test_an_hour_beyond_a_five_minute_entry_lives_five_minutes() -> None:
    """A10 with `ttl_raise = no`: the hour has to be bought from the first token on."""
    calls = [call(0, grown()), call(200, grown(1000)), call(2000, grown(1000)), call(4000, grown(1000))]
    assert best(calls) == 2000 + (100 + 2000) + 200 + 200
    plan: Plan = ((Mark(0, "5m"),), (Mark(0, "1h"), Mark(1, "1h")), (Mark(1, "1h"),), ())
    assert outcomes(calls, plan, LOW)[2].read == 0


def test_a_fork_is_served_by_the_part_it_shares() -> None:
    calls = [call(0, grown(500)), call(10, [SYSTEM, block(3001, 400)]), call(20, [SYSTEM, block(3002, 400)])]
    assert best(calls) == (1250 + 500) + (100 + 400) + (100 + 400)


def test_a_price_cliff_makes_the_whole_request_dearer() -> None:
    cliff = replace(LOW, cliff=facts.Cliff(1000, Decimal("2.5")))
    assert best([call(0, grown()), call(10, grown(100))], cliff) == 1250 + Decimal("2.5") * (100 + 100)


# Pings


def test_a_ping_at_the_last_moment_bridges_a_pause() -> None:
    calls = [call(0, grown()), call(900, grown())]
    found = optimal(calls, LOW, pings=True)
    assert found.cost == 1250 + 2 * 100 + 100
    assert [(ping.at, ping.tokens) for ping in found.pings] == [(300, 1000), (600, 1000)]
    assert best(calls, pings=True) == found.cost
    assert optimal(calls, LOW).cost == 2000


def test_pings_stop_where_they_cost_more_than_writing_again() -> None:
    # Reading a second time saves 0.65 of the prefix, so six pings pay and seven do not.
    assert len(optimal([call(0, grown()), call(300 * 7, grown())], LOW, pings=True).pings) == 6
    assert optimal([call(0, grown()), call(300 * 8, grown())], LOW, pings=True).pings == ()


def test_a_ping_on_the_long_entry_keeps_the_short_one() -> None:
    calls = [call(0, grown(500)), call(500, grown(500)), call(510, [SYSTEM, ASK])]
    assert best(calls, pings=True) == Decimal("1.25") * 1500 + 150 + 150 + (100 + 100)


def test_a_few_pings_on_an_hour_replace_many_on_five_minutes() -> None:
    cheap = replace(LOW, read=Decimal("0.025"))
    calls = [call(0, grown()), call(3600, grown()), call(7200, grown()), call(10_900, grown())]
    found = optimal(calls, cheap, pings=True)
    assert found.cost == 2000 + 4 * 25
    assert [ping.at for ping in found.pings] == [10_800]


def test_an_entry_that_is_not_readable_before_it_expires_cannot_be_kept() -> None:
    assert best([call(0, grown(), 400), call(500, grown())], pings=True) == 2000


# Against trying everything


def model_for(rng: random.Random) -> ModelFacts:
    return replace(
        OPUS,
        floor=rng.choice([0, 0, 38, 120]),
        max_markers=rng.choice([4, 2, 1]),
        read=rng.choice([Decimal("0.1"), Decimal("0.025")]),
    )


@pytest.mark.parametrize("batch", range(4))
def test_no_choice_of_markers_is_cheaper(batch: int) -> None:
    for seed in range(batch * 60, batch * 60 + 60):
        rng = random.Random(seed)
        model = model_for(rng)
        gaps = [1, 50, 200, 299, 300, 301, 600, 1500, 3600, 3601]
        calls = random_calls(rng, rng.randint(2, 4), rng.randint(2, 4), gaps, rng.choice([[1], [1, 60, 250, 400]]))
        assert best(calls, model) == Exhaustive(calls, model, pings=False).cost(), seed


@pytest.mark.parametrize("batch", range(4))
def test_no_choice_of_markers_and_pings_is_cheaper(batch: int) -> None:
    paid = 0
    for seed in range(batch * 100, batch * 100 + 100):
        rng = random.Random(seed)
        model = model_for(rng)
        gaps = [1, 50, 299, 300, 301, 600, 700, 900] if batch < 3 else [1, 250, 301, 3000, 3600, 3700, 7300]
        calls = random_calls(rng, rng.randint(2, 3), rng.randint(2, 3), gaps, rng.choice([[1], [1, 60, 250, 400]]))
        found = best(calls, model, pings=True)
        assert found == Exhaustive(calls, model, pings=True).cost(), seed
        paid += found < best(calls, model)
    assert paid > 10  # otherwise nothing was proved about pings


def test_pings_at_other_moments_are_no_cheaper() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        calls = random_calls(rng, 3, 3, [50, 299, 301, 600, 700], [1, 250])
        everything = Exhaustive(calls, LOW, pings=True, grid=[float(at) for at in range(0, 1500, 70)])
        assert best(calls, pings=True) == everything.cost(), seed


def test_missing_an_entry_on_purpose_is_no_cheaper() -> None:
    """The condition of exactness at its edge: a lookback so short that a marker can miss a live entry."""
    for seed in range(60):
        rng = random.Random(seed)
        model = replace(model_for(rng), lookback=rng.choice([1, 2]), max_markers=rng.choice([2, 4]))
        calls = random_calls(rng, rng.randint(2, 4), 5, [1, 250, 301, 600, 3600, 3700], [1, 60, 400])
        assert best(calls, model) == Exhaustive(calls, model, pings=False).cost(), seed


def test_without_a_marker_to_read_with_the_optimum_is_only_a_bound() -> None:
    """The other condition beyond its edge: one marker and a lookback of two, so that reading limits where to write."""
    model = replace(LOW, max_markers=1, lookback=2)
    path = grown(100, 100, 400)
    calls = [call(0, path[:1]), call(10, path), call(20, path), call(30, path)]
    everything = Exhaustive(calls, model, pings=False).cost()
    assert best(calls, model) > everything
    assert best(calls, replace(model, lookback=4)) == Exhaustive(calls, replace(model, lookback=4), pings=False).cost()
    assert best(calls, replace(model, max_markers=2)) < everything


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([1.0, 299.0, 301.0, 1200.0, 3601.0])), min_size=1, max_size=4
    ),
    st.lists(st.sampled_from([1, 40, 700]), min_size=4, max_size=4),
    st.booleans(),
)
def test_no_choice_is_cheaper_for_resets_at_any_depth(
    steps: list[tuple[int, float]], sizes: list[int], pings: bool
) -> None:
    path = [block(1, sizes[0])]
    calls = [call(0, path)]
    for number, (depth, gap) in enumerate(steps):
        path = [*path[: depth + 1], block(10 + number, sizes[1 + number % 3])][:3]
        calls.append(call(calls[-1].at + gap, path))
    calls = calls[:4]
    assert best(calls, pings=pings) == Exhaustive(calls, LOW, pings=pings).cost()


# Sessions of real size


def rebuilt(trace: Trace, lane: str = "claude-opus-4-6") -> list[Call]:
    """A lane's prompts from its sizes, at three characters a token: good enough to compare plans on equal terms."""
    calls: list[Call] = []
    system = [Block("system", "text", "", -1, b"system", 21_000)]
    path: list[Block] = []
    count = 0
    for step in trace.steps:
        if step.lane != lane:
            continue
        assert isinstance(step.content, Shape)
        assert step.at is not None
        assert step.first_token_at is not None
        if step.reset or not path:
            path = list(system)
        for each in step.content.added:
            count += 1
            markable = each.type != "thinking" and each.chars > 0
            digest = count.to_bytes(4)
            path.append(Block("messages", each.type, each.role, count, digest, max(1, each.chars // 3), markable))
        like = calls[-1].prompt if calls else None
        calls.append(Call(step.at, step.first_token_at, chain.build("", lane, path, like=like)))
    return calls


def bounds_hold(calls: list[Call], model: ModelFacts) -> None:
    plain, pinged = best(calls, model), best(calls, model, pings=True)
    assert pinged <= plain
    for plan in (rolling(calls, "5m"), rolling(calls, "1h"), ((),) * len(calls)):
        assert plain <= cost(calls, plan, model)
    # What the client did itself: the end of the system text and the last block, for the lifetime it was billed.
    for ttl in ("5m", "1h"):
        last = [max(i for i, each in enumerate(c.prompt.blocks) if each.markable) for c in calls]
        assert plain <= cost(calls, tuple(tuple(Mark(i, ttl) for i in sorted({0, end})) for end in last), model)
    # Every token is paid once and read whenever it comes again, at the least.
    assert plain >= sum(c.prompt.tokens for c in calls) * model.read


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5-5"])
@pytest.mark.parametrize("pattern", ["real", "none", "minutes", "office"])
def test_nothing_beats_the_optimum_on_our_own_session(pattern: str, model: str) -> None:
    bounds_hold(rebuilt(with_gaps(own("made-1"), pattern)), facts.model(model))


@needs_recordings
@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5-5", "claude-fable-5-1"])
@pytest.mark.parametrize("pattern", ["real", "office"])
@pytest.mark.parametrize("name", ["coding-1", "coding-2"])
def test_nothing_beats_the_optimum_on_recorded_sessions(name: str, pattern: str, model: str) -> None:
    bounds_hold(rebuilt(with_gaps(recorded(name), pattern)), facts.model(model))


# What it refuses


def test_calls_out_of_order_are_refused() -> None:
    with pytest.raises(HoldfastError, match="call 2 starts before call 1"):
        optimal([call(10, grown()), call(0, grown())], LOW)


@pytest.mark.parametrize("knob", [{"ttl_raise": "yes"}, {"upgrade_5m_by_1h": True}, {"refresh_whole_prefix": False}])
def test_other_rules_than_the_proved_ones_are_refused(knob: dict[str, object]) -> None:
    with pytest.raises(HoldfastError, match=r"optimum for anthropic:claude-opus-4-6 is not defined: set ttl_raise"):
        optimal([call(0, grown())], replace(LOW, knobs=replace(LOW.knobs, **knob)))


def test_too_many_open_courses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimum, "MOST_STATES", 1)
    calls = [call(0, grown()), call(10, grown(100)), call(2000, grown(100)), call(4000, grown(100))]
    with pytest.raises(HoldfastError, match="more than 1 open courses at call 1; give fewer conversations"):
        optimal(calls, LOW)
