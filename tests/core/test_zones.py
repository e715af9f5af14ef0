"""Where the zones strategy puts its markers; how long they live is in tests/conformance/test_cache_page.py."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Mark
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.retention import Retention
from holdfast.core.strategies import STRATEGIES
from tests.core.lanes import places, said, situation, system, tool

SINGLE = CacheSettings(strategy="zones")
MANY = replace(SINGLE, placement="multi-zone")
HEAD = [tool("bash"), system("host")]
LONG = Retention(reads=3)


def blocks(plan):
    return [mark.block for mark in plan.marks]


def zones(messages, settings=MANY, head=HEAD, **more):
    return STRATEGIES["zones"](situation([*head, *messages], settings=settings, **more))


def talk(count, **sizes):
    return [said(number, sizes.get(f"m{number}", 1_000)) for number in range(count)]


class TestSingle:
    def test_system_second_to_last_user_message_tail(self):
        assert blocks(zones(talk(5), SINGLE)) == [1, 4, 6]

    def test_one_user_message_has_no_zone_before_it(self):
        assert blocks(zones(talk(1), SINGLE)) == [1, 2]

    def test_the_zone_ends_with_the_message(self):
        two = [said(0), said(1), said(2, name="one"), said(2, name="two"), said(3), said(4)]
        assert blocks(zones(two, SINGLE)) == [1, 5, 7]

    def test_without_system_text_the_last_tool_is_marked(self):
        assert blocks(zones(talk(3), SINGLE, head=[tool("a"), tool("b")])) == [1, 2, 4]

    def test_without_both_the_messages_are_left(self):
        assert blocks(zones(talk(3), SINGLE, head=[])) == [0, 2]


class TestMultiZone:
    def test_semi_stable_is_the_user_message_at_or_before_half_of_the_message_tokens(self):
        """Nine messages of 1,000: half is 4,500, the third message ends at 3,000."""
        assert blocks(zones(talk(9))) == [1, 4, 8, 10]

    @pytest.mark.parametrize(("first", "semi"), [(4_000, 2), (4_001, None)])
    def test_at_half_is_within(self, first, semi):
        """The first message is as large as all the others, or a token larger."""
        plan = zones(talk(5, m0=first))
        assert blocks(plan) == ([1, semi, 4, 6] if semi is not None else [1, 4, 6])

    def test_mid_is_half_way_from_there_to_the_recent_zone(self):
        """One marker less at the head makes room for it."""
        assert blocks(zones(talk(13), head=[])) == [4, 6, 10, 12]

    def test_mid_gives_way_when_there_are_too_many(self):
        plan = zones(talk(13))
        assert blocks(plan) == [1, 6, 12, 14]
        assert len(plan.dropped) == 1

    def test_then_the_recent_zone(self):
        plan = zones(talk(13), head=[system("host"), system("prefs")], pinned=(Mark(0, "1h"),))
        assert blocks(plan) == [0, 1, 6, 14]

    def test_the_compaction_summary_is_the_semi_stable_zone(self):
        assert blocks(zones(talk(9), summary=2)) == [1, 2, 8, 10]

    def test_a_summary_that_cannot_be_marked_is_none(self):
        assert blocks(zones(talk(9), summary=2, volatile=frozenset({2}))) == [1, 4, 8, 10]

    def test_a_summary_behind_the_recent_zone_is_no_older_zone(self):
        assert blocks(zones(talk(5), summary=6)) == [1, 4, 6]

    def test_few_messages_need_no_older_zones(self):
        assert blocks(zones(talk(3))) == [1, 2, 4]

    def test_older_zones_are_long_after_escalation_and_the_order_is_legal(self):
        assert places(zones(talk(9), retention=LONG)) == [(1, "1h"), (4, "1h"), (8, "5m"), (10, "5m")]


def test_zones_below_the_floor_are_left_out():
    head = [system("host", 100)]
    plan = zones(talk(5, m0=100, m1=100, m2=100, m3=100, m4=1_000), SINGLE, head=head)
    assert blocks(plan) == [5]
    assert len(plan.dropped) == 2
