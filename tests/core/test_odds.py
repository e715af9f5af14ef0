"""Chances: a prior, refined by the tenant's other clients, the client and the lane, each with a bounded weight."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.config.sections.cache import CacheSettings
from holdfast.core import planner
from holdfast.core.experience import Client, Experience, Gaps
from holdfast.core.ledger import Ledger
from holdfast.core.plan import Kind
from holdfast.core.planner import Tenant
from holdfast.core.reuse_odds import PRIOR_NEXT, PRIOR_TOOLS, PRIOR_USER, Odds, odds
from tests.caches.prompts import SMALL
from tests.lab.replay.timed_calls import calls

PAUSES = Gaps(user=[0.0, 1_000.0, 0.0])
FAST = Gaps(user=[1_000.0, 0.0, 0.0])


def pause(lane: Gaps | None = None, client: Gaps | None = None, others: Gaps | None = None) -> float:
    """The chance of a pause before the next request, in a tenant where only users speak."""
    levels = [replace(gaps or Gaps(), after_user=[1e9, 0.0]) for gaps in (lane, client, others)]
    known = {"c": Client(gaps=levels[1]), "d": Client(gaps=levels[2])}
    found = odds(Ledger(client="c", gaps=levels[0]), Experience(clients=known), "user", 1_000)
    assert sum(found.next) == pytest.approx(1)
    return found.next[1]


def expected(*levels: tuple[float, float]) -> float:
    """The chance of a pause before a user turn after levels of (share, weight)."""
    share, weight = PRIOR_USER[1], 4.0
    for found, effect in levels:
        share, weight = (share * weight + found * effect) / (weight + effect), weight + effect
    return share


def user_share() -> float:
    share, weight = PRIOR_NEXT[0], 4.0
    for effect in (20.0, 40.0, 20.0):
        share, weight = (share * weight + effect) / (weight + effect), weight + effect
    return share


def mixed(user: float) -> float:
    return user_share() * user + (1 - user_share()) * PRIOR_TOOLS[1]


def test_before_anything_was_seen_the_prior_holds() -> None:
    found = odds(Ledger(), None, "user", 10_000)
    soon = PRIOR_NEXT[0]
    assert found.next == pytest.approx(
        tuple(soon * u + (1 - soon) * t for u, t in zip(PRIOR_USER, PRIOR_TOOLS, strict=False))
    )
    assert found.later == pytest.approx(found.next)
    assert found.ends == pytest.approx(1 / 40)
    assert found.growth == pytest.approx(200)
    assert found.shared == 0.5
    assert sum(found.next) == pytest.approx(1)


@pytest.mark.parametrize(
    ("level", "most"), [("others", 20.0), ("client", 40.0), ("lane", 20.0)], ids=["tenant", "client", "lane"]
)
def test_a_level_weighs_what_it_has_seen_up_to_its_bound(level: str, most: float) -> None:
    below = Gaps(user=[0.0, most - 1, 0.0])
    at = Gaps(user=[0.0, most, 0.0])
    beyond = Gaps(user=[0.0, most * 100, 0.0])
    assert pause(**{level: below}) == pytest.approx(mixed(expected((1.0, most - 1))))
    assert pause(**{level: at}) == pytest.approx(mixed(expected((1.0, most))))
    assert pause(**{level: beyond}) == pause(**{level: at}) > pause(**{level: below})


def test_a_lane_is_believed_against_its_client_and_the_client_against_the_tenant() -> None:
    everybody = mixed(expected((1.0, 20.0)))
    client = mixed(expected((1.0, 20.0), (0.0, 40.0)))
    lane = mixed(expected((1.0, 20.0), (0.0, 40.0), (1.0, 20.0)))
    assert pause(others=PAUSES) == pytest.approx(everybody)
    assert pause(others=PAUSES, client=FAST) == pytest.approx(client)
    assert pause(others=PAUSES, client=FAST, lane=PAUSES) == pytest.approx(lane)
    assert client < lane < everybody


def test_tool_loops_weigh_ten_times_as_much() -> None:
    ledger = Ledger(gaps=Gaps(tools=[0.0, 200.0, 0.0], after_tools=[0.0, 1e9]))
    more = Ledger(gaps=Gaps(tools=[0.0, 2_000.0, 0.0], after_tools=[0.0, 1e9]))
    assert odds(ledger, None, "tools", 1).next == pytest.approx(odds(more, None, "tools", 1).next)
    assert odds(ledger, None, "tools", 1).next[1] > 0.3


@pytest.mark.parametrize("kind", ["user", "tools"])
def test_what_follows_depends_on_what_the_request_follows(kind: Kind) -> None:
    gaps = Gaps(user=[0.0, 20.0, 0.0], after_user=[20.0, 0.0], after_tools=[0.0, 20.0])
    found = odds(Ledger(gaps=gaps), None, kind, 1)
    assert (found.next[1] > 0.5) is (kind == "user")


def lives(asked: list[float], followed: list[float], lane: int = 1) -> Odds:
    known = Client(asked=asked, followed=followed)
    return odds(Ledger(client="c", asked=lane), Experience(clients={"c": known}), "user", 1)


def test_before_anything_is_seen_a_lane_has_forty_requests() -> None:
    found = lives([0.0] * 5, [0.0] * 5)
    assert found.ends == pytest.approx(1 / 40)
    assert found.remaining == pytest.approx(40)


def test_whether_lanes_go_on_is_learned_for_each_age() -> None:
    """Many lanes of one request say nothing about those that have gone on."""
    asked, followed = [301.0, 20.0, 40.0, 80.0, 400.0], [10.0, 20.0, 40.0, 80.0, 390.0]
    first = lives(asked, followed, 1)
    assert first.ends > 0.9
    assert first.remaining < 5
    for made in (2, 5, 10, 30):
        assert lives(asked, followed, made).ends < 0.03
        assert lives(asked, followed, made).remaining > 25


def test_the_lane_at_hand_has_not_ended() -> None:
    assert lives([1.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 5).ends == pytest.approx(2 / 40 / 3)
    assert lives([2.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 5).ends == pytest.approx((2 / 40 + 1) / 4)


def test_a_client_of_single_requests_is_known_after_a_dozen() -> None:
    assert lives([11.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 5).ends < 1 - 0.25 / 1.15
    assert lives([13.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 5).ends > 1 - 0.25 / 1.15


def test_growth_and_shared_heads_are_learned() -> None:
    known = Client(heads=[8.0, 0.0])
    found = odds(Ledger(client="c", grown=50_000, growths=8), Experience(clients={"c": known}), "user", 10_000)
    assert found.growth == pytest.approx((50_000 + 400) / 10)
    assert found.shared == pytest.approx(0.9)


@pytest.mark.parametrize(("last", "share"), [(10.0, 0.16), (200.0, 0.253), (900.0, 0.37), (7_200.0, 0.48)])
def test_the_next_pause_follows_the_last_one_and_later_ones_do_not(last: float, share: float) -> None:
    usual, found = (odds(Ledger(pause=pause), None, "user", 1_000) for pause in (None, last))
    assert found.later == usual.later
    assert sum(found.next) == pytest.approx(1)
    longer, soon = sum(found.next[1:]), PRIOR_NEXT[0]
    assert longer == pytest.approx(soon * share + (1 - soon) * sum(PRIOR_TOOLS[1:]))


def test_through_the_core_who_was_quick_is_likely_to_be_quick_again() -> None:
    found = []
    for gap in (10.0, 1_000.0):
        tenant, ledger = Tenant(), Ledger()
        for number in range(2):
            asked = planner.PlanRequest(
                call=str(number), prompt=calls(2)[number].prompt, alone=calls(2)[number].prompt, model=SMALL
            )
            planner.prepare(tenant, ledger, asked, number * gap, CacheSettings())
        assert ledger.pause == gap
        found.append(odds(replace(ledger, gaps=Gaps()), None, "user", 1_000).next[0])
    assert found[0] > found[1]
