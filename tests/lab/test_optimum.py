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
from holdfast.caches.prompts import Block, Mark
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.lab import MarkerPlan, Shape, TimedCall, Trace, cost, optimal, outcomes, rolling, with_gaps
from holdfast.lab.optimum import frontier, search
from tests.lab.exhaustive import Exhaustive, block, call, random_calls, repeated_calls, warmed
from tests.lab.recordings import needs_recordings, own, recorded

pytestmark = pytest.mark.slow

OPUS = facts.model("claude-opus-4-6")
LOW = replace(OPUS, floor=0)


def raising(model: ModelFacts) -> ModelFacts:
    """The same model if a 1h marker beyond a live 5m entry makes the whole prefix live an hour."""
    return replace(model, knobs=replace(model.knobs, ttl_raise="yes"))


RAISING = raising(LOW)
SYSTEM = block(1000, 1000)
ASK = block(1001, 100)


def grown(*tokens: int) -> list[Block]:
    return [SYSTEM, *(block(2000 + n, each) for n, each in enumerate(tokens))]


def best(calls: Sequence[TimedCall], model: ModelFacts = LOW, *, pings: bool = False) -> Decimal:
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
    plan: MarkerPlan = ((Mark(0, "5m"),), (Mark(0, "1h"), Mark(1, "1h")), (Mark(1, "1h"),), ())
    assert outcomes(calls, plan, LOW)[2].read == 0


def test_a_fork_is_served_by_the_part_it_shares() -> None:
    calls = [call(0, grown(500)), call(10, [SYSTEM, block(3001, 400)]), call(20, [SYSTEM, block(3002, 400)])]
    assert best(calls) == (1250 + 500) + (100 + 400) + (100 + 400)


def test_a_price_cliff_makes_the_whole_request_dearer() -> None:
    cliff = replace(LOW, cliff=facts.Cliff(1000, Decimal("2.5")))
    assert best([call(0, grown()), call(10, grown(100))], cliff) == 1250 + Decimal("2.5") * (100 + 100)


# Where an hour can be bought later (`ttl_raise = yes`)


def test_an_hour_is_bought_with_the_new_tokens_only() -> None:
    calls = [call(0, grown()), call(100, grown(50)), call(2000, grown(50))]
    assert best(calls, RAISING) == 1250 + (100 + 2 * 50) + 105
    assert best(calls) == 2000 + (100 + 50) + (100 + 50)


def test_the_first_block_beyond_an_entry_is_enough_to_raise_it() -> None:
    """No later call leaves there: only being next to the entry makes it a place."""
    path = grown(10, 500)
    calls = [call(0, path[:1]), call(100, path), call(2000, path)]
    assert optimal(calls, RAISING).plan[1] == (Mark(0, "1h"), Mark(1, "1h"))
    assert best(calls, RAISING) == 1250 + (100 + 20 + 500) + (101 + 500)


def test_an_entry_ends_early_to_be_raised_later() -> None:
    """The same prompt again and again: an entry at its end could never become one for an hour."""
    path = grown(10)
    calls = [call(0, path), call(100, path), call(2000, path)]
    assert best(calls, RAISING) == (1250 + 10) + (100 + 20) + 101
    assert Exhaustive(calls, RAISING, pings=False).cost() == 1481


def test_a_longer_entry_is_passed_over_to_raise_a_shorter_one() -> None:
    path = [block(1, 1300), block(2, 5), block(3, 300)]
    # What the second call writes is not readable for the third, so one of the first two has to write the tail.
    calls = [call(0, path), call(10, path, 130), call(20, path, 130), call(3500, path)]
    assert best(calls, RAISING) == Decimal("2006.25") + Decimal("160.5") + (130 + 10 + 300) + (Decimal("130.5") + 300)
    assert Exhaustive(calls, RAISING, pings=False).cost() == Decimal("3037.25")


def test_an_entry_too_many_can_be_in_the_way_of_raising() -> None:
    """After two calls an entry for [a, b] beside the one for [a] has cost nothing, but the third call would read it."""
    cheap = replace(RAISING, read=Decimal("0.025"))
    a, b, c = block(1, 40), block(2, 5), block(3, 40)
    calls = [call(0, [a, b, c]), call(1, [a, b, c], 121), call(2, [a, b]), call(602, [a, b, ASK])]
    write, raised = Decimal("1.25") * 85, 1 + 10
    assert best(calls, cheap) == write + Decimal("2.125") + raised + (Decimal("1.125") + 100)
    assert Exhaustive(calls, cheap, pings=False).cost() == best(calls, cheap)


def test_a_raised_entry_needs_fewer_pings() -> None:
    calls = [call(0, grown()), call(100, grown(10)), call(4000, grown(10))]
    found = optimal(calls, RAISING, pings=True)
    assert [(ping.at, ping.tokens) for ping in found.pings] == [(3700, 1010)]
    assert best(calls, RAISING, pings=True) == found.cost == 1250 + (100 + 20) + 101 + 101


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


def test_when_a_short_entry_is_due_a_ping_on_a_longer_one_serves_both() -> None:
    """One marker, and two calls that cannot see each other: the short entry expires a second before the long one."""
    one = replace(LOW, max_markers=1)
    short, long = [block(1, 400)], [block(1, 400), block(2, 1000)]
    calls = [call(0, short, 250), call(1, long, 251), call(500, long, 700), call(501, long), call(502, [*short, ASK])]
    found = optimal(calls, one, pings=True)
    assert [(ping.at, ping.tokens) for ping in found.pings] == [(300, 1400)]
    assert best(calls, one, pings=True) == 500 + 1750 + 140 + 140 + 140 + (40 + 100)


def test_an_entry_that_is_not_readable_before_it_expires_cannot_be_kept() -> None:
    assert best([call(0, grown(), 400), call(500, grown())], pings=True) == 2000


# Against trying everything

PAUSES = [301, 600, 1500, 3500, 3700]
BOTH = pytest.mark.parametrize("raises", [False, True], ids=["ttl_raise=no", "ttl_raise=yes"])


def model_for(rng: random.Random, *, raises: bool = False) -> ModelFacts:
    model = replace(
        OPUS,
        floor=rng.choice([0, 0, 38, 120]),
        max_markers=rng.choice([4, 2, 1]),
        read=rng.choice([Decimal("0.1"), Decimal("0.025")]),
    )
    return raising(model) if raises else model


def random_session(
    seed: int, *, raises: bool, most: int = 4, gaps: Sequence[int] = (1, 50, 200, 299, 300, 301, 600, 1500, 3600, 3601)
) -> tuple[random.Random, ModelFacts, list[TimedCall]]:
    """What these numbers make: a model and a few calls, which overlap or not."""
    rng = random.Random(seed)
    model = model_for(rng, raises=raises)
    calls = random_calls(rng, rng.randint(2, most), rng.randint(2, most), gaps, rng.choice([[1], [1, 60, 250, 400]]))
    return rng, model, calls


@pytest.mark.unmeasured
@BOTH
@pytest.mark.parametrize("batch", range(4))
def test_no_choice_of_markers_is_cheaper(batch: int, raises: bool) -> None:
    for seed in range(batch * 60, batch * 60 + 60):
        _, model, calls = random_session(seed, raises=raises)
        assert best(calls, model) == Exhaustive(calls, model, pings=False).cost(), seed


@pytest.mark.unmeasured
@BOTH
@pytest.mark.parametrize("batch", range(4))
def test_nor_is_one_where_others_have_left_entries_behind(batch: int, raises: bool) -> None:
    cheaper = 0
    for seed in range(batch * 60, batch * 60 + 60):
        rng, model, cold = random_session(seed, raises=raises)
        calls = warmed(rng, cold)
        found = best(calls, model)
        assert found == Exhaustive(calls, model, pings=False).cost(), seed
        cheaper += found < best(cold, model)
    assert cheaper > 20


@pytest.mark.unmeasured
@BOTH
@pytest.mark.parametrize("batch", range(4))
def test_no_choice_of_markers_and_pings_is_cheaper(batch: int, raises: bool) -> None:
    paid = 0
    for seed in range(batch * 100, batch * 100 + 100):
        gaps = [1, 50, 299, 300, 301, 600, 700, 900] if batch < 3 else [1, 250, 301, 3000, 3600, 3700, 7300]
        _, model, calls = random_session(seed, raises=raises, most=3, gaps=gaps)
        found = best(calls, model, pings=True)
        assert found == Exhaustive(calls, model, pings=True).cost(), seed
        paid += found < best(calls, model)
    assert paid > 10  # otherwise nothing was proved about pings


@pytest.mark.slow
@pytest.mark.parametrize("pings", [False, True])
def test_no_choice_is_cheaper_where_raising_pays(pings: bool) -> None:
    """The same few prompts over and over, with pauses: there is often something to raise, and often no block for it."""
    paid = 0
    for seed in range(50 if pings else 80):
        rng = random.Random(seed)
        model = replace(model_for(rng, raises=True), floor=rng.choice([0, 30]), max_markers=rng.choice([4, 3, 2, 1]))
        calls = repeated_calls(rng, 4, 3, [301, 600, 1500] if pings else PAUSES)
        found = best(calls, model, pings=pings)
        assert found == Exhaustive(calls, model, pings=pings).cost(), seed
        paid += found < best(calls, replace(model, knobs=LOW.knobs), pings=pings)
    assert paid >= 10  # otherwise nothing was proved about raising


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("pings", [False, True])
def test_no_choice_is_cheaper_on_longer_traces(pings: bool, raises: bool) -> None:
    for seed in range(1000, 1010):
        rng = random.Random(seed)
        model = replace(model_for(rng, raises=raises), floor=rng.choice([0, 30]))
        calls = repeated_calls(rng, 4 if pings else 5, 3 if pings else 4, PAUSES)
        assert best(calls, model, pings=pings) == Exhaustive(calls, model, pings=pings).cost(), seed


@BOTH
@pytest.mark.slow
def test_pings_at_other_moments_are_no_cheaper(raises: bool) -> None:
    model = raising(LOW) if raises else LOW
    for seed in range(24):
        rng = random.Random(seed)
        calls = random_calls(rng, 3, 3, [50, 299, 301, 600, 700], [1, 250])
        everything = Exhaustive(calls, model, pings=True, grid=[float(at) for at in range(0, 1500, 70)])
        assert best(calls, model, pings=True) == everything.cost(), seed


@pytest.mark.unmeasured
@BOTH
def test_missing_an_entry_on_purpose_is_no_cheaper(raises: bool) -> None:
    """The condition of exactness at its edge: a lookback so short that a marker can miss a live entry."""
    for seed in range(60):
        rng = random.Random(seed)
        model = replace(model_for(rng, raises=raises), lookback=rng.choice([1, 2]), max_markers=rng.choice([2, 4]))
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


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([1.0, 299.0, 301.0, 1200.0, 3601.0])), min_size=1, max_size=4
    ),
    st.lists(st.sampled_from([1, 40, 700]), min_size=4, max_size=4),
    st.booleans(),
    st.sampled_from([LOW, RAISING]),
)
def test_no_choice_is_cheaper_for_resets_at_any_depth(
    steps: list[tuple[int, float]], sizes: list[int], pings: bool, model: ModelFacts
) -> None:
    path = [block(1, sizes[0])]
    calls = [call(0, path)]
    for number, (depth, gap) in enumerate(steps):
        path = [*path[: depth + 1], block(10 + number, sizes[1 + number % 3])][:3]
        calls.append(call(calls[-1].at + gap, path))
    calls = calls[:4]
    assert best(calls, model, pings=pings) == Exhaustive(calls, model, pings=pings).cost()


# Sessions of real size


def rebuilt(trace: Trace, lane: str = "claude-opus-4-6") -> list[TimedCall]:
    """A lane's prompts from its sizes, at three characters a token: good enough to compare plans on equal terms."""
    calls: list[TimedCall] = []
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
        calls.append(TimedCall(step.at, step.first_token_at, chain.build(lane, path, like=like)))
    return calls


def bounds_hold(calls: list[TimedCall], model: ModelFacts) -> tuple[Decimal, Decimal]:
    """Gives the optimum without and with pings."""
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
    return plain, pinged


@pytest.mark.unmeasured
@BOTH
@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5-5"])
@pytest.mark.parametrize("pattern", ["real", "none", "minutes", "office"])
def test_nothing_beats_the_optimum_on_our_own_session(pattern: str, model: str, raises: bool) -> None:
    known = facts.model(model)
    bounds_hold(rebuilt(with_gaps(own("made-1"), pattern)), raising(known) if raises else known)


@needs_recordings
@pytest.mark.slow
@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5-5", "claude-fable-5-1"])
@pytest.mark.parametrize("pattern", ["real", "office"])
@pytest.mark.parametrize("name", ["coding-1", "coding-2"])
def test_nothing_beats_the_optimum_on_recorded_sessions(name: str, pattern: str, model: str) -> None:
    bounds_hold(rebuilt(with_gaps(recorded(name), pattern)), facts.model(model))


@needs_recordings
@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["real", "office"])
@pytest.mark.parametrize("name", ["coding-1", "coding-2"])
def test_being_able_to_raise_never_costs_more(name: str, pattern: str) -> None:
    calls = rebuilt(with_gaps(recorded(name), pattern))
    plain, pinged = bounds_hold(calls, raising(OPUS))
    assert plain <= best(calls, OPUS)
    assert pinged <= best(calls, OPUS, pings=True)


# What it refuses


def test_calls_out_of_order_are_refused() -> None:
    with pytest.raises(HoldfastError, match="call 2 starts before call 1"):
        optimal([call(10, grown()), call(0, grown())], LOW)


@pytest.mark.parametrize("knob", [{"upgrade_5m_by_1h": True}, {"refresh_whole_prefix": False}])
def test_other_rules_than_the_proved_ones_are_refused(knob: dict[str, object]) -> None:
    with pytest.raises(HoldfastError, match=r"optimum for anthropic:claude-opus-4-6 is not defined: set upgrade"):
        optimal([call(0, grown())], replace(LOW, knobs=replace(LOW.knobs, **knob)))


def test_too_many_open_courses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STATES", 1)
    calls = [call(0, grown()), call(10, grown(100)), call(2000, grown(100)), call(4000, grown(100))]
    with pytest.raises(HoldfastError, match="more than 1 open courses at call 1; give fewer conversations"):
        optimal(calls, LOW)


def test_a_search_that_takes_too_many_steps_is_refused() -> None:
    calls = [call(0, grown()), call(10, grown(100)), call(2000, grown(100)), call(4000, grown(100))]
    assert optimal(calls, LOW, max_steps=10_000) == optimal(calls, LOW)
    with pytest.raises(HoldfastError, match="the optimum of 4 calls takes too many steps; give fewer or calmer"):
        optimal(calls, LOW, max_steps=5)


def test_states_that_are_compared_are_steps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many open courses take more time to be compared than to be followed."""
    calls = [call(0, grown()), call(10, grown(100)), call(2000, grown(100)), call(4000, grown(100))]
    optimal(calls, LOW, max_steps=10_000)
    monkeypatch.setattr(frontier, "_COMPARED", 10_001)
    with pytest.raises(HoldfastError, match="the optimum of 4 calls takes too many steps"):
        optimal(calls, LOW, max_steps=10_000)


def test_with_many_courses_open_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where few stay open no course is looked at first; both ways lead to the same cost."""
    calls = [call(0, grown()), call(10, grown(100)), call(2000, grown(100)), call(4000, grown(100))]
    easy = optimal(calls, LOW).cost
    monkeypatch.setattr(search, "_EASY", 0)
    assert optimal(calls, LOW).cost == easy
