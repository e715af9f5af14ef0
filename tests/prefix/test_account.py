"""Law 7 as accounting: one credit, savings that fund writes, reservations side by side."""

from __future__ import annotations

import pytest

from holdfast.prefix.account import MOST, available, book, release, reserve
from holdfast.prefix.experience import Client

CREDIT = 0.25


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
