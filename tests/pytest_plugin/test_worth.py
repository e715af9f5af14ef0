"""What a break costs: the same as a provider bills for it, and in a year at a rate in words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from holdfast import facts
from holdfast.errors import HoldfastError
from holdfast.pytest_plugin import PrefixUnstable, assert_prefix_stable
from holdfast.pytest_plugin.bodies import recorded
from holdfast.pytest_plugin.check import check
from holdfast.pytest_plugin.findings import Rate, rate_of, yearly
from holdfast.simulator import HttpRequest, Simulator, VirtualClock

from .sessions import MANUAL, turn

SAID = [f"{word} and more of it. " * 12 for word in ("one", "two", "three", "four", "five", "six", "seven")]
MARKED = {"type": "ephemeral"}


def session(*systems: str, markers: bool = True) -> list[dict[str, Any]]:
    """A conversation of as many requests as there are system texts."""
    return [
        turn(*SAID[: 2 * n + 1], system=[{"type": "text", "text": text, "cache_control": MARKED}], markers=markers)
        for n, text in enumerate(systems)
    ]


def billed(requests: list[dict[str, Any]]) -> Decimal:
    """What the simulated provider charges for requests that are sent one after the other."""
    clock, total = VirtualClock(), Decimal(0)
    simulator = Simulator(clock=clock)
    for request in requests:
        exchange = simulator.bill(HttpRequest("POST", "/v1/messages", body=msgspec.json.encode(request)))
        exchange.first_token()
        exchange.finish()
        clock.advance(10)
        assert exchange.record.usage is not None
        cost = facts.price(exchange.record.usage, "claude-opus-5-5").cost
        assert cost is not None
        total += cost
    return total


def costs(requests: list[dict[str, Any]]) -> list[Decimal | None]:
    return [one.cost.dollars for one in check(recorded(requests)).unstable]


@pytest.mark.parametrize("markers", [True, False], ids=["to-the-end", "on-the-system-text"])
def test_a_clock_costs_what_the_provider_bills_for_it(markers: bool) -> None:
    """The difference between a session with a clock and the same one with a clock that stands still."""
    still = session(*[f"{MANUAL}Now: 12:00:00"] * 4, markers=markers)
    moving = session(*[f"{MANUAL}Now: 12:00:0{n}" for n in range(4)], markers=markers)
    found = costs(moving)
    assert len(found) == 3
    assert sum(filter(None, found)) == billed(moving) - billed(still) > 0


def test_a_reminder_at_the_end_costs_more_than_itself() -> None:
    """The marker stood on it, so that what was written up to it cannot be read any more."""

    def reminded(*said: str) -> dict[str, Any]:
        body = turn(*said, markers=False)
        note = {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>", "cache_control": MARKED}
        body["messages"][-1]["content"].append(note)
        return body

    (found,) = check(recorded([reminded(SAID[0]), reminded(*SAID[:3])])).unstable
    assert found.cure.name == "moved_reminder"
    assert found.cost.tokens > 1_300
    once = billed([reminded(SAID[0]), reminded(*SAID[:3])])
    kept = turn(*SAID[:3])
    kept["messages"][0] = reminded(SAID[0])["messages"][0]
    assert found.cost.dollars is not None
    # The second request of the stable session has the first reminder besides: a few tokens read.
    assert found.cost.dollars == pytest.approx(once - billed([reminded(SAID[0]), kept]), rel=Decimal("0.1"))


def test_rates_in_words() -> None:
    assert rate_of("1,000 requests/day") == rate_of(1000) == rate_of("1000") == Rate(Decimal(1000), "requests", "day")
    assert rate_of("200 sessions per hour") == Rate(Decimal(200), "sessions", "hour")
    assert rate_of("50/week") == Rate(Decimal(50), "requests", "week")
    assert rate_of("1.5k requests a minute") == Rate(Decimal(1500), "requests", "minute")
    assert [str(rate_of(text)) for text in ("1 session/day", "2.50 runs/hour", "12_000/month")] == [
        "1 session a day",
        "2.5 sessions an hour",
        "12,000 requests a month",
    ]
    for wrong in ("often", "", "-1/day", "10 fish/day", "10/fortnight", True):
        with pytest.raises(HoldfastError, match=r"is not understood; write it like `1,000 requests/day`\."):
            rate_of(wrong)


def test_the_cost_of_a_year() -> None:
    """Requests a day share the cost of a sequence; sessions a day are the whole sequence each."""
    requests = session(f"{MANUAL}Now: 12:00:00", f"{MANUAL}Now: 12:00:01")
    found = check(recorded(requests)).unstable
    (once,) = costs(requests)
    assert once is not None
    assert yearly(found, 2, rate_of("1,000 requests/day")) == once * 500 * 365
    assert yearly(found, 2, rate_of("1,000 sessions/day")) == once * 1000 * 365
    assert yearly(found, 2, rate_of("1 session/month")) == once * 12
    with pytest.raises(PrefixUnstable, match="At 40 sessions an hour that is"):
        assert_prefix_stable(requests, rate="40 sessions/hour")


def test_what_is_billed_again_is_no_more_than_what_is_sent() -> None:
    """After a compaction most of what was cached is not sent any more."""
    words = [f"{number} " * 200 for number in range(9)]
    system = [{"type": "text", "text": MANUAL, "cache_control": MARKED}]
    requests = [turn(*words, system=system), turn("So far: 0 to 8.", "Yes.", "On.", system=system)]
    (found,) = check(recorded(requests), lane="main").unstable
    assert found.cure.name == "compaction"
    assert found.cost.tokens < 20


def test_a_model_chosen_for_its_prices_does_not_hide_a_switch() -> None:
    requests = [turn("a", model="one"), turn("a", "b", "c", model="one"), turn("a", "b", "c", "d", "e", model="two")]
    checked = check(recorded(requests), model="claude-opus-5-5")
    (found,) = checked.unstable
    assert (found.request, found.cause, found.cost.model) == (3, "model_changed", "claude-opus-5-5")
    assert found.cost.dollars


def test_why_nothing_is_lost_today() -> None:
    """The reason is told, and what it would cost otherwise; a prefix that was left by an earlier request is read."""

    def why(*requests: dict[str, Any]) -> list[tuple[bool, str]]:
        return [(one.cost.today, one.cost.why) for one in check(recorded(requests)).unstable]

    hello = {"type": "text", "text": "Hi.", "cache_control": MARKED}
    before, after = ([hello, {"type": "text", "text": MANUAL + end}] for end in ("Now: 12:00:01", "Now: 12:00:02"))
    below = "all cache markers stand below the 512 tokens that claude-opus-5-5 needs"
    marked = [turn("a", system=before, markers=False), turn("a", "b", "c", system=after, markers=False)]
    assert why(*marked) == [(False, below)]
    small = [turn("a", system="Now: 12:00:01"), turn("a", "b", "c", system="Now: 12:00:02")]
    assert why(*small) == [(False, "claude-opus-5-5 caches nothing below 512 tokens and this prompt has 9")]
    plain = [turn(text, system=MANUAL + text, markers=False) for text in ("12:00:01", "12:00:02")]
    assert why(*plain) == [(False, "no cache marker stands on tools or system text")]
    old, new = ({"tool_choice": {"type": kind}} for kind in ("auto", "any"))
    again = [turn("a", **old), turn("a", "b", "c", **old), turn("a", "b", "c", "d", "e", **new)]
    assert why(*again, turn("a", "b", "c", "d", "e", "f", "g", **old)) == [(True, ""), (True, "")]


def test_a_model_gone_back_to_has_what_it_had_cached() -> None:
    models = ("claude-opus-5-5", "claude-sonnet-5-5")
    found = check(
        recorded([turn(*"abcdefg"[: 2 * n + 1], model=models[n % 2]) for n in range(4)]),
    ).unstable
    costs = [(one.request, one.cause, one.cost.tokens) for one in found]
    first = costs[0][2]
    assert [each[:2] for each in costs] == [(n, "model_changed") for n in (2, 3, 4)]
    assert first > 1_000
    assert all(tokens < 10 for _, _, tokens in costs[1:])  # what the other model was told in between
