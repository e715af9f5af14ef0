"""Seed cache-page: the zones strategy, statement by statement, against the provider's cache rules."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Mark
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.gemini_contents import identity
from holdfast.core.ledger import Ledger, decode, encode
from holdfast.core.plan import SettledCall
from holdfast.core.retention import Retention, observe
from holdfast.core.strategies import STRATEGIES
from holdfast.facts import model
from tests.caches.prompts import OPUS
from tests.core.lanes import Lane, places, said, situation, system, tool

ZONES = CacheSettings(strategy="zones")
TALK = [tool("bash"), system("host"), *(said(number) for number in range(9))]
ESCALATED = Retention(turns=4, reads=3)


def zones(**more):
    return STRATEGIES["zones"](situation(TALK, **{"settings": ZONES, **more}))


# Row 1 and "Adaptive retention"


def test_c1_entries_become_long_after_three_turns_of_confirmed_reads():
    lane = Lane()
    turns = lane.turns(6)
    assert [turn.outcome.read > 0 for turn in turns] == [False, True, True, True, True, True]
    assert [turn.older for turn in turns] == ["5m", "5m", "5m", "5m", "1h", "1h"]


@pytest.mark.parametrize(("after", "first_long"), [(1, 2), (2, 3), (4, 5)])
def test_c1_the_number_of_reads_is_a_setting(after, first_long):
    turns = Lane(replace(ZONES, escalate_after_reads=after)).turns(7)
    assert [turn.older for turn in turns] == ["5m"] * first_long + ["1h"] * (7 - first_long)


def test_c1_turns_without_reads_confirm_nothing():
    """Every turn comes after the entries have died."""
    assert {turn.older for turn in Lane().turns(8, gap=400)} == {"5m"}


def test_c26_a_cold_session_writes_short():
    assert set(Lane().turn().written) == {"5m"}


def test_c27_reads_are_recorded_after_every_turn_and_survive_a_restart():
    lane = Lane()
    lane.turns(3)
    assert lane.state.turns == 3
    assert lane.state.reads == 2
    kept = decode(encode(Ledger(retention=lane.state)))
    assert kept.retention == lane.state


# Row 2


@pytest.mark.parametrize(("first_write", "second"), [(20_000, "5m"), (20_001, "1h")])
def test_c2_a_first_write_above_20k_is_long_on_turn_2(first_write, second):
    lane = Lane(head=first_write - 2_000)  # beside it two tools and one message
    first = lane.turn()
    assert sum(first.written.values()) == first_write
    assert (first.older, lane.turn().older) == ("5m", second)


def test_c2_the_limit_is_a_setting():
    assert Lane(replace(ZONES, escalate_first_write_tokens=6_999)).turns(2)[1].older == "1h"
    assert Lane(replace(ZONES, escalate_first_write_tokens=7_000)).turns(2)[1].older == "5m"


def test_c2_only_the_first_turn_counts():
    lane = Lane()
    lane.turn()
    lane.head = 30_000
    assert sum(lane.turn(clock="another").written.values()) > 20_000
    assert lane.turn(clock="another").older == "5m"


# Row 3


def test_c3_five_flat_turns_force_short():
    """The first write was large, so entries are long from turn 2 on; then a clock at the head loses everything."""
    lane = Lane(head=30_000)
    lane.turns(2)
    turns = [lane.turn(clock=str(second)) for second in range(6)]
    assert [turn.older for turn in turns] == ["1h"] * 5 + ["5m"]
    (older,) = turns[4].changes
    assert (older.zone, older.before, older.after) == ("older", "long", "short")
    assert "5 turns in a row" in older.why


@pytest.mark.parametrize(("flat", "after"), [(4, "1h"), (5, "5m")])
def test_c3_a_read_above_the_baseline_starts_the_count_again(flat, after):
    lane = Lane(head=30_000)
    lane.turns(2)
    for second in range(flat):
        lane.turn(clock=str(second))
    assert lane.turn(clock=str(flat - 1)).older == after  # the same text as before: read again
    assert lane.state.flat == 0


@pytest.mark.parametrize(("more", "unstable"), [(0, True), (1, False)])
def test_c3_reads_of_exactly_the_baseline_are_flat(more, unstable):
    """Tools and system text are read, the messages are others every time; one token more is a read of messages."""
    lane = Lane(replace(ZONES, unstable_after_turns=3), head=30_000)
    lane.turn()
    for attempt in range(3):
        assert lane.turn(talk=f"rewritten {attempt}").outcome.read == 31_000
    assert lane.state.unstable
    turn = SettledCall(
        at=0, kind="user", gap=1, read=31_000 + more, written=9, input=0, expected=40_000, baseline=31_000
    )
    assert observe(Retention(flat=2), turn, lane.settings, OPUS).unstable is unstable


def test_c3_the_number_of_turns_is_a_setting():
    lane = Lane(replace(ZONES, unstable_after_turns=2), head=30_000)
    lane.turns(2)
    assert [lane.turn(clock=str(second)).older for second in range(3)] == ["1h", "1h", "5m"]


def test_c3_it_recovers_when_a_turn_reads_above_the_baseline_and_counts_anew():
    lane = Lane(head=30_000)
    lane.turns(2)
    for second in range(6):
        lane.turn(clock=str(second))
    assert lane.state.unstable
    turns = [lane.turn(clock="5") for _ in range(5)]
    assert turns[0].outcome.read > 31_000
    assert not lane.state.unstable
    assert [turn.older for turn in turns] == ["5m", "5m", "5m", "5m", "1h"]


def test_c3_turns_that_had_nothing_to_read_are_no_evidence():
    lane = Lane(replace(ZONES, unstable_after_turns=1))
    lane.turn()
    assert not lane.state.unstable


# Rows 9 and 10


def test_c9_a_sub_agent_reads_long_entries_and_writes_none():
    parent = Lane(replace(ZONES, adaptive=False))
    parent.turn()
    child = Lane(ZONES, subagent=True)
    child.cache, child.now = parent.cache, 60.0
    first = child.turn()
    assert first.outcome.read > 0
    assert "1h" not in first.written


def test_c9_not_even_where_a_long_marker_is_pinned():
    asked = situation(TALK, settings=ZONES, subagent=True, pinned=(Mark(1, "1h"),))
    assert {mark.ttl for mark in STRATEGIES["zones"](asked).marks} == {"5m"}


def test_c10_the_recent_zone_stays_short_and_older_ones_become_long():
    before, after = zones(), zones(retention=ESCALATED)
    assert places(before) == [(1, "5m"), (8, "5m"), (10, "5m")]
    assert places(after) == [(1, "1h"), (8, "5m"), (10, "5m")]


def test_c10_older_message_zones_become_long_too():
    many = replace(ZONES, placement="multi-zone")
    assert places(zones(settings=many, retention=ESCALATED)) == [(1, "1h"), (4, "1h"), (8, "5m"), (10, "5m")]


def test_c11_markers_have_the_lifetimes_the_provider_knows():
    for turn in Lane(head=30_000).turns(4):
        assert set(turn.ttls) <= {"5m", "1h"}
        assert len(turn.ttls) <= 4


# "Sub-agents use static short retention"


def test_c28_a_sub_agent_is_short_whatever_it_reads():
    assert {turn.older for turn in Lane(head=30_000, subagent=True).turns(8)} == {"5m"}


@pytest.mark.parametrize(("value", "ttl"), [("short", "5m"), ("long", "1h")])
def test_c29_without_adaptation_the_lifetime_is_the_fixed_one(value, ttl):
    turns = Lane(replace(ZONES, adaptive=False, retention=value), head=30_000).turns(6)
    assert {ttl for turn in turns for ttl in turn.ttls} == {ttl}
    assert not any(turn.changes for turn in turns)


# Configuration


def test_c68_long_is_the_default_and_only_long_escalates():
    assert CacheSettings().retention == "long"
    assert {turn.older for turn in Lane(replace(ZONES, retention="short"), head=30_000).turns(6)} == {"5m"}


def test_c68_none_is_the_kill_switch():
    turns = Lane(replace(ZONES, retention="none")).turns(3)
    assert [turn.plan.marks for turn in turns] == [(), (), ()]
    assert all(not turn.outcome.writes for turn in turns)


def test_c69_adaptation_is_on_by_default():
    assert CacheSettings().adaptive


@pytest.mark.parametrize(
    ("placement", "provider", "markers"),
    [
        ("single", "anthropic", 3),
        ("single", "bedrock", 3),
        ("multi-zone", "anthropic", 4),
        ("auto", "anthropic", 3),
        ("auto", "bedrock", 4),
        ("auto", "vertex", 4),
    ],
)
def test_c70_placement(placement, provider, markers):
    facts = replace(model("anthropic:claude-sonnet-5-5"), provider=provider)
    assert len(zones(settings=replace(ZONES, placement=placement), facts=facts).marks) == markers


@pytest.mark.parametrize(
    ("overrides", "older"),
    [
        ({}, "1h"),
        ({"claude-opus": "short"}, "5m"),
        ({"claude": "none", "claude-opus": "long"}, "1h"),
        ({"claude-opus": "long", "claude-opus-4": "short"}, "5m"),
        ({"anthropic:claude": "short"}, "5m"),
        ({"claude": "long", "anthropic:claude-opus-4": "short"}, "5m"),
        ({"claude-opus-4.6": "short"}, "5m"),
        ({"claude-haiku": "none", "opus": "none"}, "1h"),
    ],
)
def test_c71_the_longest_prefix_of_the_models_name_wins(overrides, older):
    plan = zones(facts=OPUS, settings=replace(ZONES, retention_overrides=overrides), retention=ESCALATED)
    assert plan.marks[0].ttl == older


@pytest.mark.parametrize("name", ["bedrock:us.anthropic.claude-haiku-4-5", "openrouter:anthropic/claude-haiku-4.5"])
def test_c71_routes_to_the_model_count(name):
    settings = replace(ZONES, retention_overrides={"claude-haiku": "none"})
    assert zones(facts=model(name), settings=settings).marks == ()


def test_c72_the_recent_zone_becomes_long_on_a_slow_channel():
    """Three gaps above five minutes in a row, once the older zones are long."""
    lane = Lane(head=30_000)
    lane.turns(2)
    turns = lane.turns(5, gap=301)
    assert [turn.ttls[-1] for turn in turns] == ["5m", "5m", "5m", "1h", "1h"]
    (recent,) = turns[2].changes
    assert (recent.zone, recent.before, recent.after) == ("recent", "short", "long")


def test_c72_a_gap_of_five_minutes_is_not_slow():
    lane = Lane(head=30_000)
    assert {turn.ttls[-1] for turn in lane.turns(8, gap=300)} == {"5m"}


def test_c72_one_quick_turn_ends_it():
    lane = Lane(head=30_000)
    lane.turns(6, gap=600)
    quick = lane.turn(gap=10)
    assert quick.ttls[-1] == "1h"
    assert [(change.zone, change.after, change.why) for change in quick.changes] == [
        ("recent", "short", "turns come faster")
    ]
    assert lane.turn().ttls[-1] == "5m"


def test_c72_the_older_zones_have_to_be_long_already():
    assert zones(retention=Retention(slow=9)).marks[-1].ttl == "5m"
    assert zones(retention=replace(ESCALATED, slow=3)).marks[-1].ttl == "1h"
    assert zones(retention=replace(ESCALATED, slow=2)).marks[-1].ttl == "5m"


def test_c72_requests_inside_a_tool_loop_have_no_cadence():
    lane = Lane(head=30_000)
    lane.turns(4, gap=600)
    lane.turns(3, gap=5, kind="tools")
    assert lane.turn().ttls[-1] == "1h"


def test_c72_promotion_can_be_switched_off():
    settings = replace(ZONES, promote_recent_zone=False)
    assert zones(settings=settings, retention=replace(ESCALATED, slow=9)).marks[-1].ttl == "5m"


def test_c88_small_prompts_with_adaptation_off_and_short_never_pay_for_an_hour():
    turns = Lane(
        replace(ZONES, adaptive=False, retention="short"), facts=model("anthropic:claude-sonnet-5-5"), head=600
    )
    assert all("1h" not in turn.written for turn in turns.turns(10, gap=400))


# Cool-down after an eviction


def test_an_eviction_holds_entries_short_for_the_cool_down():
    lane = Lane(head=30_000)
    lane.turns(2)
    lost = lane.turn(evicted=True)
    assert (lost.older, lost.outcome.read) == ("1h", 0)
    assert [(change.zone, change.after) for change in lost.changes] == [("older", "short")]
    turns = lane.turns(CacheSettings().cooldown_turns + 1)
    assert [turn.older for turn in turns] == ["5m"] * CacheSettings().cooldown_turns + ["1h"]


def test_another_eviction_begins_the_cool_down_again():
    lane = Lane(head=30_000)
    lane.turns(2)
    lane.turn(evicted=True)
    lane.turns(CacheSettings().cooldown_turns - 1)
    lane.turn(evicted=True)
    assert {turn.older for turn in lane.turns(CacheSettings().cooldown_turns)} == {"5m"}


def test_after_an_eviction_the_escalation_counts_anew():
    """A large first write is forgotten: once the cool-down is over, reads have to confirm."""
    more = CacheSettings().cooldown_turns + 2
    lane = Lane(replace(ZONES, escalate_after_reads=more), head=30_000)
    lane.turns(2)
    lane.turn(evicted=True)
    assert [turn.older for turn in lane.turns(more + 1)] == ["5m"] * more + ["1h"]


def test_the_state_is_small_and_plain():
    assert len(msgspec.msgpack.encode(ESCALATED)) < 100


# Row 12


def test_c13_an_object_is_identified_by_the_sha256_of_what_it_holds():
    """Every part with its length in front, so that what ends one part cannot begin the next."""
    whole = b"16:gemini-2.5-flash" + b"5:rules" + b"-" + b"-" + b"3:one" + b"3:two"
    assert identity("gemini-2.5-flash", b"rules", None, None, (b"one", b"two")) == sha256(whole).hexdigest()
