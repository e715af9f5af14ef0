"""A plan that cannot be paid for becomes cheaper step by step, legal at every step, and ends as the client's own."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Block, Mark
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.economics import costs
from holdfast.core.experience import Client, Experience
from holdfast.core.plan import Plan
from holdfast.core.plan_variants import Budget, affordable
from holdfast.core.pool import Pool
from holdfast.core.situation import Situation
from holdfast.core.strategies.places import checked
from holdfast.facts import model
from tests.caches.prompts import SMALL
from tests.core.lanes import SOL, said, situation, system, tool

PRICE = costs(SMALL, 0)
BLOCKS = [tool("bash", 1_000), system("host", 7_000), *(said(number, 1_000) for number in range(8))]
"""Sixteen thousand tokens."""
EVERYTHING = 100.0


def plan(*marks: tuple[int, str], **more: object) -> Plan:
    return Plan(strategy="economic", marks=tuple(Mark(block, ttl) for block, ttl in marks), **more)  # type: ignore[arg-type]


def alone(asked: Situation) -> float:
    outcome = Pool(SMALL).decide(asked.prompt, 0)
    assert outcome is not None
    return PRICE.of(outcome)


def affords(asked: Situation, planned: Plan, limit: float) -> tuple[list[tuple[int, str]], Plan]:
    found, excess = affordable(planned, asked, Pool(SMALL), PRICE, Budget(alone(asked), limit))
    cost = PRICE.of(Pool(SMALL).decide(replace(asked.prompt, marks=found.marks), 0))  # type: ignore[arg-type]
    assert excess == pytest.approx(max(0.0, cost - alone(asked)))
    checked(found, asked, strict=True)  # legal at every step
    return [(mark.block, mark.ttl) for mark in found.marks], found


def steps(asked: Situation, planned: Plan) -> list[list[tuple[int, str]]]:
    """Every version that is chosen at some limit, the dearest first."""
    found: list[list[tuple[int, str]]] = []
    for mills in range(40_000, -1, -25):
        marks, _ = affords(asked, planned, mills / 1_000_000)
        if not found or found[-1] != marks:
            found.append(marks)
    return found


@pytest.mark.parametrize(("long_marks", "marks"), [(0.0, [(1, "5m"), (9, "5m")]), (1.0, [(9, "5m")])])
def test_nothing_short_is_put_in_the_way_of_a_client_that_marks_for_longer(
    long_marks: float, marks: list[tuple[int, str]]
) -> None:
    """The long lifetime for tools and system text cannot be paid for; a short one would cost nothing now."""
    known = Experience(clients={"other": Client(long_marks=long_marks)})
    asked = replace(situation(BLOCKS, (9, "5m")), experience=known)
    assert affords(asked, plan((1, "1h"), (9, "5m")), 0.0)[0] == marks


def test_what_can_be_paid_for_is_left_alone() -> None:
    asked, planned = situation(BLOCKS), plan((1, "1h"), (9, "1h"), probe=5.0)
    _marks, found = affords(asked, planned, EVERYTHING)
    assert found is planned
    excess = PRICE.of(Pool(SMALL).decide(replace(asked.prompt, marks=planned.marks), 0)) - alone(asked)  # type: ignore[arg-type]
    assert excess == pytest.approx(16_000 * 2e-6)
    assert affords(asked, planned, excess)[1] is planned
    assert affords(asked, planned, excess - 1e-9)[1] is not planned


def test_short_first_then_fewer_then_a_shorter_prefix_then_nothing() -> None:
    assert steps(situation(BLOCKS), plan((0, "1h"), (1, "1h"), (9, "1h"))) == [
        [(0, "1h"), (1, "1h"), (9, "1h")],
        [(0, "5m"), (1, "5m"), (9, "5m")],
        [(0, "5m"), (1, "5m")],
        [(0, "5m")],
        [],
    ]


def test_a_single_marker_goes_further_and_further_to_the_front() -> None:
    assert steps(situation(BLOCKS), plan((9, "5m"))) == [
        [(9, "5m")],
        [(5, "5m")],  # three quarters of sixteen thousand tokens
        [(1, "5m")],
        [(0, "5m")],
        [],
    ]


def test_what_was_given_up_is_told() -> None:
    _, found = affords(situation(BLOCKS), plan((9, "1h"), probe=5.0, dropped=("before",)), 0.0)
    assert found.dropped == ("before", "all of ours: savings do not pay for them (law 7)")
    assert found.probe == 0
    _, found = affords(situation(BLOCKS), plan((9, "1h"), probe=5.0), 0.01)
    assert found.dropped == ("short lifetimes only: savings do not pay for more yet (law 7)",)
    assert found.probe == 0


def test_the_client_s_own_markers_stay_to_the_end() -> None:
    asked = situation(BLOCKS, (1, "5m"))
    assert steps(asked, plan((1, "5m"), (9, "5m"))) == [
        [(1, "5m"), (9, "5m")],
        [(1, "5m"), (5, "5m")],
        [(0, "5m"), (1, "5m")],  # in front of theirs it costs nothing
    ]


def test_a_client_s_marker_that_was_dropped_comes_back_where_nothing_is_affordable() -> None:
    asked = situation(BLOCKS, (1, "5m"))
    found, excess = affordable(plan((9, "1h")), asked, Pool(SMALL), PRICE, Budget(0.0, -1.0))
    assert [(mark.block, mark.ttl) for mark in found.marks] == [(1, "5m")]
    assert excess == pytest.approx(alone(asked))  # even that costs more than nothing, and is reserved


@pytest.mark.parametrize(("covered", "chosen"), [(8_000, [(1, "5m")]), (8_001, [(9, "5m")])])
def test_what_the_client_alone_would_have_under_an_entry_counts_as_owed(
    covered: int, chosen: list[tuple[int, str]]
) -> None:
    """Without its marker at the end we may pay again for what the client would read."""
    asked = situation(BLOCKS, (9, "5m"))
    found, _ = affordable(plan((1, "5m")), asked, Pool(SMALL), PRICE, Budget(alone(asked), -0.02, covered=covered))
    assert found.marks == (Mark(9, "5m"),)  # nothing is cheap enough
    limit = 8_000 * (2.5e-6 + 2e-6) - alone(asked)
    found, _ = affordable(
        plan((1, "5m")), asked, Pool(SMALL), PRICE, Budget(alone(asked), limit + 1e-12, covered=covered)
    )
    assert [(mark.block, mark.ttl) for mark in found.marks] == chosen


def test_where_the_client_s_markers_are_managed_ours_in_their_place_becomes_short_too() -> None:
    asked = situation(BLOCKS, (9, "5m"), settings=CacheSettings(client_markers="manage"))
    found, _ = affordable(plan((9, "1h")), asked, Pool(SMALL), PRICE, Budget(alone(asked), 0.0))
    assert found.marks == (Mark(9, "5m"),)
    assert found.dropped == ("short lifetimes only: savings do not pay for more yet (law 7)",)


def test_pinned_markers_stay() -> None:
    asked = situation(BLOCKS, pinned=(Mark(1, "1h"),))
    found, _ = affordable(plan((1, "1h"), (9, "5m")), asked, Pool(SMALL), PRICE, Budget(0.0, -1.0))
    assert found.marks == (Mark(1, "1h"),)


def test_ours_is_never_short_in_front_of_a_long_one_of_the_client_s() -> None:
    """The provider refuses a longer lifetime behind a shorter one."""
    asked = situation(BLOCKS, (5, "1h"))
    found = steps(asked, plan((0, "1h"), (1, "1h"), (5, "1h"), (9, "1h")))
    assert found[0] == [(0, "1h"), (1, "1h"), (5, "1h"), (9, "1h")]
    assert found[1] == [(0, "1h"), (1, "1h"), (5, "1h"), (9, "5m")]
    assert all((5, "1h") in marks for marks in found)


def test_no_block_gets_a_second_marker() -> None:
    asked = situation(BLOCKS, (5, "1h"))
    found, _ = affordable(plan((5, "1h"), (9, "5m")), asked, Pool(SMALL), PRICE, Budget(alone(asked), 0.0019))
    checked(found, asked, strict=True)
    assert len({mark.block for mark in found.marks}) == len(found.marks)


@pytest.mark.parametrize("place", ["volatile", "unmarkable", "below"])
def test_the_shorter_prefix_ends_where_a_marker_may_stand(place: str) -> None:
    blocks: list[Block] = list(BLOCKS)
    volatile = frozenset({5}) if place == "volatile" else frozenset()
    if place == "unmarkable":
        blocks[5] = said(5, 1_000, kind="thinking", markable=False)
    facts = replace(SMALL, floor=12_001) if place == "below" else SMALL
    asked = situation(blocks, facts=facts, volatile=volatile)
    found, _ = affordable(plan((9, "5m")), asked, Pool(facts), PRICE, Budget(alone(asked), 0.00799))
    assert [mark.block for mark in found.marks] == ([] if place == "below" else [4])


def test_openai_s_mode_is_the_client_s_again() -> None:
    asked = situation(BLOCKS, facts=SOL, settings=CacheSettings(strategy="economic"))
    found, _ = affordable(plan((1, "30m"), mode="explicit"), asked, Pool(SOL), costs(SOL, 0), Budget(0.0, -1.0))
    assert (found.marks, found.mode) == ((), "")


def test_a_cache_that_only_sending_tells_of_is_not_reckoned() -> None:
    facts = model("openai:gpt-5.5")
    asked = situation(BLOCKS, facts=facts)
    planned = plan()
    assert affordable(planned, asked, Pool(facts), costs(facts, 0), Budget(0.0, -1.0)) == (planned, 0.0)
