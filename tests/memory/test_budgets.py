"""How many tokens memory may take: shares of the usable window, in steps, with a floor for context memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.sections.agent import MemorySettings
from holdfast.memory.selection import STEP, budgets, stepped, usable_window

LIMITS = st.integers(0, 3_000_000)
SHARES = st.floats(0, 1, allow_nan=False)


def test_the_window_is_what_an_answer_leaves_of_it_and_at_least_half() -> None:
    assert usable_window(200_000, 64_000) == 136_000
    assert usable_window(8_192, 8_192) == 4_096
    assert usable_window(0, 5) == 0


def test_two_and_five_hundredths_of_a_large_window() -> None:
    made = budgets(MemorySettings(), context_limit=200_000, output_limit=64_000)
    assert made.usable == 131_072
    assert made.stable == 2_560  # 2% are 2,621
    assert made.context(0) == 6_400  # 5% are 6,553
    assert made.context(made.stable) == 6_400


def test_small_windows_have_a_budget_that_holds_something() -> None:
    small = budgets(MemorySettings(), context_limit=8_192, output_limit=4_096)
    assert (small.stable, small.context(0), small.context(small.stable)) == (256, 256, 256)
    tiny = budgets(MemorySettings(), context_limit=2_048, output_limit=1_024)
    assert (tiny.stable, tiny.context(tiny.stable)) == (128, 128)
    assert budgets(MemorySettings(), context_limit=0, output_limit=0).stable == 0


def test_a_share_of_zero_is_nothing_of_that_kind() -> None:
    none = budgets(MemorySettings(stable_budget=0.0), context_limit=200_000, output_limit=64_000)
    assert none.stable == 0
    assert none.context(0) == 6_400
    bare = budgets(MemorySettings(context_budget=0.0), context_limit=200_000, output_limit=64_000)
    assert bare.stable == 2_560
    assert bare.context(0) == 0


def test_e24_context_memory_has_half_of_the_whole_however_much_the_preferences_take() -> None:
    settings = MemorySettings(stable_budget=0.06, context_budget=0.04)
    made = budgets(settings, context_limit=131_072, output_limit=0)
    share, half = 5_120, 6_400  # 4% are 5,242; half of 10% is 6,553
    assert made.context(0) == half > share
    assert made.context(made.stable) == half
    assert made.context(1_000_000) == half


def test_beyond_the_floor_the_preferences_take_from_the_whole() -> None:
    settings = MemorySettings(stable_budget=0.02, context_budget=0.05, context_floor=0.1)
    made = budgets(settings, context_limit=131_072, output_limit=0)
    assert made.context(2_000) == 6_400
    assert made.context(5_000) == 3_840  # of 9,175 in all, 5,120 are gone
    assert made.context(20_000) == 768  # a tenth is 917


@given(LIMITS)
def test_steps_are_never_above_the_number_and_at_most_a_fifth_below(tokens: int) -> None:
    assert tokens * 0.8 <= stepped(tokens) <= tokens
    assert stepped(stepped(tokens)) == stepped(tokens)


@given(LIMITS, st.integers(0, 200_000), SHARES, SHARES, SHARES, st.integers(0, 100_000))
def test_limits_of_the_same_step_have_the_same_budgets(
    limit: int, output: int, stable: float, context: float, floor: float, used: int
) -> None:
    settings = MemorySettings(stable_budget=stable, context_budget=context, context_floor=floor)
    made = budgets(settings, context_limit=limit, output_limit=output)
    again = budgets(settings, context_limit=made.usable, output_limit=0)
    assert again == made
    assert again.context(used) == made.context(used)
    assert made.context(-(-used // STEP) * STEP) == made.context(used)


@given(st.integers(4_000, 3_000_000))
def test_a_limit_that_moves_by_a_hundredth_moves_the_budget_by_one_step_at_most(limit: int) -> None:
    steps = {
        budgets(MemorySettings(), context_limit=limit + limit * part // 1_000, output_limit=0) for part in range(11)
    }
    assert len(steps) <= 2


@given(LIMITS, st.integers(0, 200_000), st.integers(0, 50_000))
def test_budgets_are_whole_steps_or_the_small_least(limit: int, output: int, used: int) -> None:
    made = budgets(MemorySettings(), context_limit=limit, output_limit=output)
    for budget in (made.stable, made.context(used)):
        assert budget % STEP == 0 or budget == made.usable // 8 < STEP
        assert 0 <= budget <= max(STEP, made.usable)
