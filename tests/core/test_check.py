"""The final check: each rule on both sides, loud in tests and quiet in production."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.caches.prompts import Mark
from holdfast.core.plan import Plan
from holdfast.core.strategies.places import IllegalPlanError, checked
from holdfast.facts import model
from tests.caches.prompts import OPUS, SMALL
from tests.core.lanes import SOL, places, said, situation, system, tool

TALK = [tool("bash"), system("host"), *(said(number) for number in range(6)), said(6, kind="thinking", markable=False)]


def plan(*marks):
    return Plan(strategy="ours", marks=tuple(Mark(block, ttl) for block, ttl in marks))


def assert_legal(asked, *marks):
    given = plan(*marks)
    assert checked(given, asked, strict=True) is given
    assert checked(given, asked, strict=False) is given


def assert_dropped(asked, marks, left, word):
    with pytest.raises(IllegalPlanError, match=word):
        checked(plan(*marks), asked, strict=True)
    quiet = checked(plan(*marks), asked, strict=False)
    assert places(quiet) == left
    assert any(word in why for why in quiet.dropped)


def test_four_markers_are_all_there_may_be():
    four = [(1, "5m"), (2, "5m"), (3, "5m"), (7, "5m")]
    assert_legal(situation(TALK), *four)
    assert_dropped(situation(TALK), [(0, "5m"), *four], [(0, "5m"), (1, "5m"), (2, "5m"), (7, "5m")], "4 markers")


def test_the_clients_count_and_ours_go_first():
    asked = situation(TALK, (2, "5m"), (3, "5m"), (4, "5m"))
    three = [(2, "5m"), (3, "5m"), (4, "5m")]
    assert_legal(asked, *three, (7, "5m"))
    assert_dropped(asked, [(0, "5m"), *three, (7, "5m")], [*three, (7, "5m")], "4 markers")


def test_a_long_one_must_not_follow_a_short_one():
    assert_legal(situation(TALK), (1, "1h"), (3, "5m"))
    assert_dropped(situation(TALK), [(1, "5m"), (3, "1h")], [(3, "1h")], "1h at block 3 after 5m at block 1")


def test_the_order_is_that_of_the_body():
    """A web tool stands before the others in this body and after them in the prefix."""
    web = [tool("web", kind="web_search_20250305"), tool("bash"), system("host"), said(0)]
    asked = situation(web)
    assert asked.prompt.origin[:2] == (1, 0)
    assert_legal(asked, (0, "5m"), (1, "1h"))
    assert_dropped(asked, [(0, "1h"), (1, "5m")], [(1, "5m")], "1h at block 0 after 5m at block 1")


def test_only_markable_blocks():
    assert_dropped(situation(TALK), [(1, "5m"), (8, "5m")], [(1, "5m")], "thinking")


def test_never_a_volatile_block():
    assert_legal(situation(TALK, volatile=frozenset({2})), (1, "5m"))
    assert_dropped(situation(TALK, volatile=frozenset({1})), [(1, "5m"), (7, "5m")], [(7, "5m")], "volatile")


@pytest.mark.parametrize(("tokens", "kept"), [(511, False), (512, True)])
def test_below_the_floor_a_marker_is_dropped_without_an_alarm(tokens, kept):
    asked = situation([system("host", tokens), said(0)], facts=SMALL)
    for strict in (True, False):
        result = checked(plan((0, "5m"), (1, "5m")), asked, strict=strict)
        assert places(result) == ([(0, "5m"), (1, "5m")] if kept else [(1, "5m")])
        assert bool(result.dropped) is not kept


def test_a_marker_below_the_floor_takes_no_slot():
    asked = situation([system("host", 100), *(said(number) for number in range(4))])
    five = [(0, "5m"), (1, "5m"), (2, "5m"), (3, "5m"), (4, "5m")]
    assert places(checked(plan(*five), asked, strict=True)) == five[1:]


def test_known_lifetimes():
    assert_dropped(situation(TALK), [(1, "30m"), (7, "5m")], [(7, "5m")], "no TTL '30m'")
    assert_legal(situation([system("host", 2_000, role="developer"), said(0)], facts=SOL), (0, "30m"))


def test_one_marker_on_a_block():
    assert_dropped(situation(TALK), [(1, "5m"), (1, "5m")], [(1, "5m")], "already")
    assert_dropped(situation(TALK, (1, "1h")), [(1, "1h"), (1, "5m")], [(1, "1h")], "already")


@pytest.mark.parametrize("block", [-1, len(TALK)])
def test_blocks_that_exist(block):
    assert_legal(situation(TALK), (0, "5m"), (7, "5m"))
    assert_dropped(situation(TALK), [(block, "5m"), (7, "5m")], [(7, "5m")], "9 blocks")


def test_models_without_markers():
    assert_dropped(situation(TALK, facts=model("openai:gpt-5.5")), [(1, "in_memory")], [], "takes no markers")


@pytest.mark.parametrize(
    "clients",
    [
        [(0, "5m"), (1, "1h")],
        [(8, "5m")],
        [(1, "2h")],
        [(1, "5m"), (2, "5m"), (3, "5m"), (4, "5m"), (5, "5m")],
    ],
)
def test_the_clients_own_faults_are_left_alone(clients):
    asked = situation(TALK, *clients, volatile=frozenset({1}), facts=OPUS)
    assert_legal(asked, *clients)


def test_what_was_dropped_before_stays_told():
    given = Plan(strategy="ours", marks=(Mark(99, "5m"),), dropped=("earlier",))
    assert checked(given, situation(TALK), strict=False).dropped[0] == "earlier"


MARKS = st.lists(st.tuples(st.integers(-2, 12), st.sampled_from(["5m", "1h", "30m", "x"])), max_size=7)


@given(ours=MARKS, clients=st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["5m", "1h"])), max_size=3))
def test_whatever_is_planned_what_is_left_is_legal(ours, clients):
    """The quiet check leaves a plan that the loud one passes, keeps every marker of the client's, and drops nothing
    from a plan twice."""
    asked = situation(TALK, *clients, volatile=frozenset({4}))
    quiet = checked(plan(*clients, *ours), asked, strict=False)
    assert checked(quiet, asked, strict=True) is quiet
    assert not [mark for mark in asked.prompt.marks if mark not in quiet.marks]
    if not clients:
        ttls = [mark.ttl for mark in sorted(quiet.marks, key=lambda mark: mark.block)]
        assert ttls == sorted(ttls)  # "1h" sorts before "5m"
        assert len(ttls) <= 4
