"""Plans beside the client's own markers."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Mark
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.plan import Plan
from holdfast.core.strategies import STRATEGIES, combined, passthrough, rolling
from holdfast.core.strategies.places import checked
from tests.core.lanes import SOL, places, said, situation, system, tool

TALK = [tool("bash"), system("host"), *(said(number) for number in range(7))]
TAIL = len(TALK) - 1


def under(how, *marks, plan=rolling, losses=(), **more):
    asked = situation(TALK, *marks, settings=CacheSettings(client_markers=how), **more)
    return combined(plan(asked), asked, losses=losses)


def fixed(*marks):
    return lambda asked: Plan(strategy="fixed", marks=tuple(Mark(block, ttl) for block, ttl in marks))


@pytest.mark.parametrize("how", ["respect", "improve", "manage"])
def test_passthrough_is_left_alone(how):
    assert places(under(how, (3, "5m"), plan=passthrough)) == [(3, "5m")]


def test_manage_is_ours_only():
    assert places(under("manage", (3, "5m"))) == [(0, "5m"), (1, "5m"), (TAIL, "5m")]


@pytest.mark.parametrize("how", ["respect", "improve"])
def test_the_clients_are_kept_and_ours_use_what_is_free(how):
    assert places(under(how, (3, "5m"))) == [(0, "5m"), (1, "5m"), (3, "5m"), (TAIL, "5m")]


@pytest.mark.parametrize(
    ("clients", "ours"),
    [
        ([3], [0, 1, TAIL]),
        ([3, 4], [1, TAIL]),
        ([3, 4, 5], [TAIL]),
        ([3, 4, 5, 6], []),
        ([2, 3, 4, 5, 6], []),  # the client's own fault stays its own
    ],
)
def test_short_of_slots_the_tail_comes_first_then_system_then_tools(clients, ours):
    plan = under("respect", *((block, "5m") for block in clients))
    assert [block for block, _ in places(plan)] == sorted([*clients, *ours])
    assert len(plan.dropped) == 3 - len(ours)


def test_middle_zones_give_way_first():
    zones = CacheSettings(strategy="zones", placement="multi-zone", client_markers="respect")
    asked = situation(TALK, (0, "5m"), settings=zones)
    assert len(STRATEGIES["zones"](asked).marks) == 4
    assert [block for block, _ in places(combined(STRATEGIES["zones"](asked), asked))] == [0, 1, 4, TAIL]


def test_a_marker_on_the_same_block_stays_the_clients():
    assert (TAIL, "1h") in places(under("respect", (TAIL, "1h")))


def test_a_proved_loss_is_dropped_under_improve_and_not_set_again():
    plan = under("improve", (TAIL, "5m"), (3, "5m"), losses={"messages:-1"})
    assert places(plan) == [(0, "5m"), (1, "5m"), (3, "5m")]
    assert any("has proved a loss" in why for why in plan.dropped)


def test_a_proved_loss_stays_under_respect():
    assert (TAIL, "5m") in places(under("respect", (TAIL, "5m"), losses={"messages:-1"}))


class TestLifetimes:
    def test_ours_before_a_long_one_of_the_clients_is_raised(self):
        assert places(under("respect", (3, "1h"))) == [(0, "1h"), (1, "1h"), (3, "1h"), (TAIL, "5m")]

    def test_ours_after_a_short_one_of_the_clients_is_lowered(self):
        plan = under("respect", (0, "5m"), plan=fixed((1, "1h"), (TAIL, "1h")))
        assert places(plan) == [(0, "5m"), (1, "5m"), (TAIL, "5m")]

    def test_where_the_clients_are_in_the_wrong_order_ours_does_not_stand_between(self):
        plan = under("respect", (1, "5m"), (5, "1h"), plan=fixed((3, "5m")))
        assert places(plan) == [(1, "5m"), (5, "1h")]
        assert len(plan.dropped) == 1

    def test_the_clients_are_never_changed_and_the_plan_is_legal(self):
        """All ways in which a client can mark three places, under every plan of three markers."""
        ttls = (None, "5m", "1h")
        for client in itertools.product(ttls, repeat=3):
            marks = [(block, ttl) for block, ttl in zip((0, 3, 7), client, strict=True) if ttl]
            legal = [ttl for _, ttl in marks] == sorted((ttl for _, ttl in marks))  # "1h" sorts before "5m"
            for ours in (("5m", "5m", "5m"), ("1h", "5m", "5m"), ("1h", "1h", "5m"), ("1h", "1h", "1h")):
                asked = situation(TALK, *marks, settings=CacheSettings(client_markers="respect"))
                plan = combined(fixed(*zip((1, 4, 8), ours, strict=True))(asked), asked)
                assert set(marks) <= set(places(plan))
                if legal:
                    found = [ttl for _, ttl in places(plan)]
                    assert found == sorted(found)
                assert checked(plan, asked, strict=True) == plan


def test_openai_has_three_places_beside_its_own():
    chat = [system("host", 2_000, role="developer"), *(said(number) for number in range(7))]
    for clients, ours in ([(1, 3), True], [(1, 3, 5), False]):
        asked = situation(chat, *((block, "30m") for block in clients), facts=SOL)
        plan = combined(rolling(asked), asked)
        assert ((0, "30m") in places(plan)) is ours
        assert len(plan.marks) == 3


def test_the_kill_switch_takes_none_of_the_clients():
    off = CacheSettings(strategy="zones", retention="none", client_markers="respect")
    asked = situation(TALK, (3, "5m"), settings=off)
    assert places(combined(STRATEGIES["zones"](asked), asked)) == [(3, "5m")]
    managed = replace(asked, settings=replace(off, client_markers="manage"))
    assert places(combined(STRATEGIES["zones"](managed), managed)) == []
