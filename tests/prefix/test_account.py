"""Law 7 as accounting: one credit, savings that fund writes, reservations side by side."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.caches.values import Mark, Outcome
from holdfast.config.sections.cache import Cache
from holdfast.prefix.account import MOST, available, book, judge_markers, release, reserve
from holdfast.prefix.core import Tenant
from holdfast.prefix.costs import costs
from holdfast.prefix.experience import Client
from holdfast.prefix.ledger import Ledger
from holdfast.traces import Call
from holdfast.traces.lab.playing import billed, replay
from tests.caches.prompts import prompt
from tests.prefix.lanes import said, system
from tests.traces.lab.test_playing import SMALL, calls, without_markers

CREDIT = 0.25
NOTHING = Cache(probe_credit_usd=0.0)


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


def of_a_client_that_marks(lane: list[Call], place: int) -> list[Call]:
    return [replace(call, prompt=replace(call.prompt, marks=(Mark(place, "5m"),))) for call in lane]


def test_through_the_core_a_client_that_marks_is_advanced_nothing() -> None:
    """It marks tools and system text alone; its end would be worth a marker, which has to be paid for first."""
    lane = of_a_client_that_marks(calls(4), 1)
    sent = replay(lane, SMALL, Cache(probe_credit_usd=100.0), client="cli")
    assert all(mark.block <= 1 for outcome in sent for mark in outcome.prompt.marks)
    assert billed(sent, SMALL) == billed(replay(lane, SMALL, Cache(strategy="passthrough")), SMALL)


def one_shot(tenant: Tenant, number: int) -> Outcome:
    asked = prompt([system(f"host {number}"), said(2 * number)], model=SMALL)
    (outcome,) = replay([Call(0.0, 2.0, asked)], SMALL, NOTHING, tenant=tenant, client="cli")
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
        found += replay([Call(0.0, 2.0, asked)], SMALL, NOTHING, tenant=tenant, client="cli")
    assert [outcome.prompt.marks[:1] for outcome in found[2:]] == [(Mark(0, "5m"),)] * 2


def test_dropping_a_marker_is_paid_for_by_what_it_has_cost() -> None:
    """What a request writes has cost something once the next one has not read it, and is forgotten when it paid."""
    ledger, price = Ledger(), costs(SMALL, 0)
    write, read = price.write("5m") - price.input, price.input - price.read
    for wasted in (0.0, 1_000 * write, 2_000 * write):
        judge_markers(ledger, price, 1_000 * price.write("5m"), 1_000, 0)
        assert ledger.wasted == pytest.approx(wasted)
    judge_markers(ledger, price, 1_000 * price.read, 1_000, 1_000)
    assert ledger.wasted == pytest.approx(max(0.0, 3_000 * write - 1_000 * read))
