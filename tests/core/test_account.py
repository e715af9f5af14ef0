"""Law 7 as accounting: one credit, savings that fund writes, reservations side by side."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Mark, Outcome
from holdfast.config.sections.cache import CacheSettings
from holdfast.core import planner
from holdfast.core.account import MOST, available, book, judge_markers, release, reserve
from holdfast.core.economics import costs
from holdfast.core.experience import Client
from holdfast.core.ledger import Ledger
from holdfast.core.planner import Tenant
from holdfast.lab import TimedCall
from holdfast.lab.playback import billed, replay
from holdfast.records import Usage
from tests.caches.prompts import SMALL, prompt
from tests.core.lanes import said, system, tool
from tests.lab.replay.timed_calls import calls, without_markers

CREDIT = 0.25
NOTHING = CacheSettings(probe_credit_usd=0.0)


def test_a_new_client_has_its_credit_and_nothing_more() -> None:
    assert available(Client(), CREDIT) == CREDIT


def test_the_credit_is_used_once() -> None:
    client = Client()
    book(client, alone=1.0, paid=1.0 + CREDIT)
    assert available(client, CREDIT) == pytest.approx(0)
    book(client, alone=1.0, paid=1.0)  # calls that cost the same do not bring it back
    assert available(client, CREDIT) == pytest.approx(0)


def test_what_is_saved_funds_later_writes() -> None:
    client = Client()
    book(client, alone=2.0, paid=1.0)
    assert available(client, CREDIT) == pytest.approx(1.25)


@pytest.mark.parametrize("saved", [MOST - 0.01, MOST, 1_000.0])
def test_savings_are_kept_up_to_so_many_dollars(saved: float) -> None:
    client = Client()
    book(client, alone=saved, paid=0.0)
    assert client.saved == min(saved, MOST)


def test_parallel_calls_cannot_overdraw_together() -> None:
    client = Client()
    first = reserve(client, 0.2)
    assert available(client, CREDIT) == pytest.approx(0.05)
    second = reserve(client, 0.05)
    assert available(client, CREDIT) == pytest.approx(0)
    release(client, first)
    assert available(client, CREDIT) == pytest.approx(0.2)
    release(client, second)
    assert available(client, CREDIT) == pytest.approx(CREDIT)


def test_a_plan_that_saves_reserves_nothing() -> None:
    client = Client()
    assert reserve(client, -1.0) == 0
    assert available(client, CREDIT) == CREDIT


def test_what_was_forgotten_meanwhile_is_not_released_twice() -> None:
    client = Client()
    release(client, 1.0)
    assert client.reserved == 0


def test_without_a_credit_a_client_never_costs_more_than_alone() -> None:
    client = Client()
    assert available(client, 0.0) == 0
    book(client, alone=1.0, paid=0.4)
    assert available(client, 0.0) == pytest.approx(0.6)  # but by what it has saved


def of_a_client_that_marks(lane: list[TimedCall], place: int) -> list[TimedCall]:
    return [replace(call, prompt=replace(call.prompt, marks=(Mark(place, "5m"),))) for call in lane]


def test_through_the_core_a_client_that_marks_is_advanced_nothing() -> None:
    """It marks tools and system text alone; its end would be worth a marker, which has to be paid for first."""
    lane = of_a_client_that_marks(calls(4), 1)
    sent = replay(lane, SMALL, CacheSettings(probe_credit_usd=100.0), client="cli")
    assert all(mark.block <= 1 for outcome in sent for mark in outcome.prompt.marks)
    assert billed(sent, SMALL) == billed(replay(lane, SMALL, CacheSettings(strategy="passthrough")), SMALL)


def one_shot(tenant: Tenant, number: int) -> Outcome:
    asked = prompt([system(f"host {number}"), said(2 * number)], model=SMALL)
    (outcome,) = replay([TimedCall(0.0, 2.0, asked)], SMALL, NOTHING, tenant=tenant, client="cli")
    return outcome


def test_through_the_core_a_client_without_markers_pays_what_automatic_caching_costs_whatever_its_size() -> None:
    """Without any credit; until so many of its conversations have ended with their first request that a write of the
    next one's will hardly be read."""
    tenant = Tenant()
    written = [sum(tokens for _, tokens in one_shot(tenant, number).writes) for number in range(20)]
    assert written == [6_000] * 12 + [5_000] * 4 + [0] * 4
    sent = replay(without_markers(calls(6)), SMALL, NOTHING, tenant=tenant, client="cli")
    assert [bool(outcome.read) for outcome in sent] == [False, False, True, True, True, True]


def test_through_the_core_what_came_twice_is_cached_at_the_third_time_whatever_came_before() -> None:
    """In the system text of conversations that have nothing else in common, after a dozen that shared nothing."""
    tenant = Tenant()
    for number in range(12):
        one_shot(tenant, number)
    found = []
    for number in range(4):
        asked = prompt([system("shared"), system(f"own {number}"), said(2 * number, name="asked")], model=SMALL)
        found += replay([TimedCall(0.0, 2.0, asked)], SMALL, NOTHING, tenant=tenant, client="cli")
    assert [outcome.prompt.marks[:1] for outcome in found[2:]] == [(Mark(0, "5m"),)] * 2


def test_through_the_core_what_a_cancelled_call_would_have_cost_is_not_counted() -> None:
    tenant, ledger, call = Tenant(), Ledger(client="c"), without_markers(calls(1))[0]
    asked = planner.PlanRequest(call="1", prompt=call.prompt, alone=call.prompt, model=SMALL)
    prepared = planner.prepare(tenant, ledger, asked, 0.0, CacheSettings())
    client = tenant.experience.client("c")
    assert ledger.automatic == client.automatic == prepared.booked.automatic > 0
    assert ledger.spent == client.spent == prepared.booked.spent > 0
    planner.abandon(tenant, ledger, prepared, 1.0)
    assert ledger.automatic == ledger.spent == client.automatic == client.spent == 0
    prepared = planner.prepare(tenant, ledger, asked, 2.0, CacheSettings())
    planner.first_token(tenant, prepared, 3.0)
    usage = Usage(input=2 * call.prompt.tokens)
    planner.settle(tenant, ledger, prepared, usage, 4.0, CacheSettings())
    assert ledger.spent == client.spent == pytest.approx(costs(SMALL, usage.prompt).of(usage))
    assert ledger.automatic == pytest.approx(2 * prepared.booked.automatic)


def test_through_the_core_a_head_of_tools_is_bounded_like_one_of_system_text() -> None:
    """It comes back after twelve minutes, in the tenant's first conversation."""
    blocks = [tool("bash", 20_000), said(0), said(1), said(2)]
    lane = [TimedCall(at, at + 2, prompt(blocks[:end], model=SMALL)) for at, end in ((0.0, 2), (720.0, 4))]
    sent = replay(lane, SMALL, CacheSettings(), client="cli")
    assert {ttl for outcome in sent for ttl, _ in outcome.writes} == {"5m"}


def test_through_the_core_no_short_entry_of_ours_stands_where_a_client_writes_long_ones() -> None:
    """The client's own, on the same tools and system text, would live no longer than ours."""
    tenant, blocks = Tenant(), [system("host", 20_000), said(0), said(2)]

    def sent(ttl: str, place: int, at: float) -> Outcome:
        asked = prompt(blocks, (place, ttl), model=SMALL)
        (outcome,) = replay([TimedCall(at, at + 2, asked)], SMALL, CacheSettings(), tenant=tenant, client="cli")
        return outcome

    assert [mark.block for mark in sent("5m", 2, 0.0).prompt.marks] == [0, 2]
    tenant.cold()
    assert sent("1h", 0, 1_000.0).writes == (("1h", 20_000),)
    tenant.cold()
    assert [mark.block for mark in sent("5m", 2, 2_000.0).prompt.marks] == [2]


def test_dropping_a_marker_is_paid_for_by_what_it_has_cost() -> None:
    """What a request writes has cost something once the next one has not read it, and is forgotten when it paid."""
    ledger, price = Ledger(), costs(SMALL, 0)
    write, read = price.write("5m") - price.input, price.input - price.read
    for wasted in (0.0, 1_000 * write, 2_000 * write):
        judge_markers(ledger, price, 1_000 * price.write("5m"), 1_000, 0)
        assert ledger.wasted == pytest.approx(wasted)
    judge_markers(ledger, price, 1_000 * price.read, 1_000, 1_000)
    assert ledger.wasted == pytest.approx(max(0.0, 3_000 * write - 1_000 * read))


def test_through_the_core_two_conversations_in_one_lane_are_not_unstable() -> None:
    """A request that goes on from an earlier one of the lane says nothing against what both begin with."""
    first = [system("one"), *(said(number, 3_000) for number in range(12))]
    second = [system("other"), *(said(number, 3_000, name="asked") for number in range(12))]
    lane = [
        TimedCall(60.0 * (2 * turn + which), 60.0 * (2 * turn + which) + 2, prompt(blocks[: 2 * turn + 2], model=SMALL))
        for turn in range(6)
        for which, blocks in enumerate((first, second))
    ]
    sent = replay(lane, SMALL, CacheSettings(), client="cli")
    automatic = [
        replace(call, prompt=replace(call.prompt, marks=(Mark(len(call.prompt.ends) - 1, "5m"),))) for call in lane
    ]
    paid = billed(replay(automatic, SMALL, CacheSettings(strategy="passthrough")), SMALL)
    assert billed(sent, SMALL) <= paid


def test_through_the_core_a_client_that_marks_risks_nothing_for_what_other_conversations_cost() -> None:
    """After many single requests whose markers were of no use the next conversation pays what it would alone."""
    tenant = Tenant()
    for number in range(40):
        lane = [TimedCall(0.0, 2.0, prompt([system(f"host {number}"), said(0)], (0, "5m"), (1, "5m"), model=SMALL))]
        replay(lane, SMALL, CacheSettings(), tenant=tenant, client="cli")
    lane = [replace(call, prompt=replace(call.prompt, marks=(Mark(1, "5m"),))) for call in calls(3)]
    alone = billed(replay(lane, SMALL, CacheSettings(strategy="passthrough")), SMALL)
    assert billed(replay(lane, SMALL, CacheSettings(), tenant=tenant, client="cli"), SMALL) <= alone


def test_through_the_core_a_marker_is_dropped_once_it_has_cost_what_is_risked() -> None:
    """A clock at the head: nothing that is written is ever read."""
    blocks = [[system(f"clock {turn}", 9_000), said(0)] for turn in range(12)]
    lane = [
        TimedCall(20.0 * turn, 20.0 * turn + 2, prompt(each, (1, "5m"), model=SMALL))
        for turn, each in enumerate(blocks)
    ]
    written = [bool(outcome.writes) for outcome in replay(lane, SMALL, CacheSettings(), client="cli")]
    assert written[:5] == [True] * 5
    assert not any(written[7:])


@pytest.mark.parametrize(("tokens", "subagent"), [(100, True), (100, False), (3_000, False)])
def test_through_the_core_single_requests_beside_conversations_do_not_stop_their_caching(
    tokens: int, subagent: bool
) -> None:
    """Titles and small questions that go on with nothing, in between conversations that are worth far more."""
    tenant = Tenant()
    for number in range(12):
        for shot in range(9):
            asked = prompt([said(2 * shot, tokens, name=f"shot {number}")], model=SMALL)
            prepared = planner.prepare(
                tenant,
                ledger := Ledger(client="cli"),
                planner.PlanRequest(call="", prompt=asked, alone=asked, model=SMALL, subagent=subagent),
                0.0,
                NOTHING,
            )
            planner.settle(tenant, ledger, prepared, prepared.outcome.usage(), 1.0, NOTHING)
        blocks = [system(f"host {number}", 20_000), *(said(turn) for turn in range(8))]
        lane = [
            TimedCall(20.0 * turn, 20.0 * turn + 2, prompt(blocks[: 2 * turn + 2], model=SMALL)) for turn in range(4)
        ]
        sent = replay(lane, SMALL, NOTHING, tenant=tenant, client="cli")
        assert [bool(outcome.read) for outcome in sent] == [False, True, True, True], number


def test_through_the_core_what_cannot_be_cached_says_nothing_of_what_can() -> None:
    """Many single requests below the model's floor, and then a conversation without tools and system text."""
    tenant = Tenant()
    for number in range(40):
        shot = prompt([said(2 * number, 100)], model=SMALL)
        replay([TimedCall(0.0, 2.0, shot)], SMALL, NOTHING, tenant=tenant, client="cli")
    blocks = [said(turn, 3_000, name="long") for turn in range(6)]
    lane = [TimedCall(20.0 * turn, 20.0 * turn + 2, prompt(blocks[: 2 * turn + 1], model=SMALL)) for turn in range(3)]
    sent = replay(lane, SMALL, NOTHING, tenant=tenant, client="cli")
    assert [bool(outcome.read) for outcome in sent] == [False, True, True]


def first_dropped(lost: float) -> int:
    """The turn at which a client with a clock at its head goes without its marker, in a lane that has cost so much more
    than it would have alone."""
    tenant, ledger = Tenant(), Ledger(client="cli")
    for turn in range(20):
        asked = prompt([system(f"clock {turn}", 9_000), said(0)], (1, "5m"), model=SMALL)
        ledger.saved = min(ledger.saved, -lost)
        sent = planner.PlanRequest(call=str(turn), prompt=asked, alone=asked, model=SMALL)
        prepared = planner.prepare(tenant, ledger, sent, 20.0 * turn, NOTHING)
        planner.settle(tenant, ledger, prepared, prepared.outcome.usage(), 20.0 * turn + 2, NOTHING)
        if not prepared.outcome.prompt.marks:
            return turn
    return 20


def test_through_the_core_what_dropping_lost_is_deducted_from_what_may_be_risked() -> None:
    gain = 10_000 * (costs(SMALL, 0).write("5m") - costs(SMALL, 0).input)
    assert first_dropped(0.0) < first_dropped(0.9 * gain) < 20
