"""Keep-alive: rule 5.4 on observed returns, budget and breaker, and what each ping has brought."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches import CacheControls
from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.chain import build
from holdfast.caches.prompts import Block, Mark, Prompt
from holdfast.config.sections.cache import KeepaliveSettings
from holdfast.core.keepalive import (
    EVIDENCE,
    MARGIN,
    IdleLane,
    Ping,
    Pings,
    Returns,
    Spending,
    answered,
    decide,
    failed,
    returned,
    sent,
)
from holdfast.facts import ModelFacts, Rates

OPUS = facts.model("anthropic:claude-opus-4-6")
ON = KeepaliveSettings(enabled=True, budget_usd=100)
START = 86_400.0 * 20_000
TOKENS = 100_000


def rates(model: ModelFacts = OPUS) -> Rates:
    found = facts.rates(model.ref)
    assert found is not None
    return found


def seen(*gaps: tuple[float, int], never: int = 0) -> Returns:
    found = Returns()
    for gap, times in gaps:
        for _ in range(times):
            found.add(gap)
    for _ in range(never):
        found.ended()
    return found


def idle(**changes: Any) -> IdleLane:
    base = IdleLane(since=START, tokens=TOKENS, ttl="5m", seconds=300, expires=START + 300)
    return replace(base, **changes)


OFTEN = seen((60, 50), (400, 10), never=10)


def ask(
    returns: Returns = OFTEN,
    lane: IdleLane | None = None,
    pings: Pings | None = None,
    spending: Spending | None = None,
    settings: KeepaliveSettings = ON,
    model: ModelFacts = OPUS,
    at: float = 0.0,
) -> Ping | str:
    return decide(lane or idle(), returns, pings or Pings(), spending or Spending(), model, settings, START + at)


class TestReturns:
    def test_shares_of_the_pauses_that_lasted_as_long(self) -> None:
        found = seen((20, 6), (400, 3), (4_000, 1), never=2)
        assert found.longer(0) == 12
        assert found.longer(100) == 6
        assert found.chance(100, 100, 1_000) == 0.5
        assert found.chance(100, 1_000, 10_000) == pytest.approx(1 / 6)
        assert found.chance(1_000, 1_000, 2_000) == 0

    def test_a_pause_that_never_ended_is_no_return(self) -> None:
        assert seen((400, 5)).chance(100, 100, 1_000) == 1
        assert seen((400, 5), never=15).chance(100, 100, 1_000) == 0.25

    def test_within_a_bin_by_the_logarithm(self) -> None:
        """A bin is half a doubling, here from 300 to 424 seconds."""
        found = seen((400, 8))
        assert found.longer(300.1) == pytest.approx(8, abs=0.01)
        assert found.longer(300 * 2**0.25) == pytest.approx(4)
        assert found.longer(424.2) == pytest.approx(0, abs=0.02)

    @pytest.mark.parametrize("gap", [0.0, 0.1, 9.9, 10.0, 10.1, 299, 300, 301, 3_600, 200_000, 10**9])
    def test_every_gap_is_counted_once(self, gap: float) -> None:
        found = seen((gap, 3))
        assert found.longer(-1) == 3
        assert sum(found.gaps) == 3

    def test_gaps_beyond_the_scale_last_longer_than_is_asked_about(self) -> None:
        found = seen((500_000, 3))
        assert found.longer(900_000) == 3
        assert found.chance(200_000, 200_000, 900_000) == 0

    def test_longer_never_grows(self) -> None:
        found = seen(*((1.3**n, n) for n in range(45)), never=3)
        counts = [found.longer(1.1**n) for n in range(140)]
        assert counts == sorted(counts, reverse=True)
        assert found.chance(5, 5, 10**6) <= 1

    def test_nothing_seen_promises_nothing(self) -> None:
        assert Returns().chance(300, 300, 600) == 0

    def test_it_can_be_kept_and_read_back(self) -> None:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(OFTEN), type=Returns) == OFTEN


class TestRule:
    def test_a_ping_comes_just_before_the_end_and_costs_a_read(self) -> None:
        assert ask() == Ping(START + 300 - MARGIN, TOKENS, Decimal("0.05"))
        assert ask(at=290) == Ping(START + 290, TOKENS, Decimal("0.05"))

    @pytest.mark.parametrize(
        ("name", "never", "pays"),
        [
            ("claude-opus-4-6", 100, True),  # 10 of 110 return, 8.7% are needed
            ("claude-opus-4-6", 110, False),
            ("claude-opus-5-5", 225, True),  # 10 of 235, 4.2%
            ("claude-opus-5-5", 235, False),
            ("claude-fable-5-1", 470, True),  # 10 of 480, 2.0%
            ("claude-fable-5-1", 490, False),
        ],
    )
    def test_both_sides_of_the_break_even(self, name: str, never: int, pays: bool) -> None:
        found = ask(seen((400, 10), never=never), model=facts.model(f"anthropic:{name}"))
        assert isinstance(found, Ping) is pays

    def test_returns_before_the_end_need_no_ping(self) -> None:
        found = ask(seen((290, 50), (5_000, 10)))
        assert isinstance(found, str)
        assert "rule 5.4" in found

    def test_returns_after_the_next_interval_do_not_count(self) -> None:
        assert isinstance(ask(seen((1_000, 50))), str)

    def test_the_longer_the_pause_the_fewer_return(self) -> None:
        returns = seen((400, 20), (800, 2), never=30)
        assert isinstance(ask(returns), Ping)
        assert isinstance(ask(returns, idle(expires=START + 585), at=500), str)

    def test_without_evidence_no_ping(self) -> None:
        few = seen((400, int(EVIDENCE) - 1))
        assert ask(few) == "too few pauses of this length have been seen"
        few.ended()
        assert isinstance(ask(few), Ping)

    def test_an_answer_that_cannot_be_avoided_is_part_of_the_cost(self) -> None:
        gpt = facts.model("openai:gpt-6.1-sol")
        lane = idle(ttl="30m", seconds=1_800, expires=START + 1_800, output=16)
        returns = seen((2_500, 10), never=10)
        found = ask(returns, lane, model=gpt)
        assert isinstance(found, Ping)
        assert found.cost == TOKENS * rates(gpt).read + 16 * rates(gpt).output
        assert ask(returns, replace(lane, output=0), model=gpt) == "openai:gpt-6.1-sol cannot be asked for no answer"
        assert isinstance(ask(returns, replace(lane, tokens=1_024, output=5_000), model=gpt), str)

    @pytest.mark.parametrize(
        ("name", "most"), [("claude-opus-4-6", 7), ("claude-opus-5-5", 15), ("claude-fable-5-1", 30)]
    )
    def test_after_so_many_pings_the_hour_is_cheaper(self, name: str, most: int) -> None:
        model = facts.model(f"anthropic:{name}")
        assert isinstance(ask(pings=Pings(sent=most - 1), model=model), Ping)
        assert isinstance(ask(pings=Pings(sent=most), model=model), str)

    def test_the_longest_lifetime_has_no_such_limit(self) -> None:
        lane = idle(ttl="1h", seconds=3_600, expires=START + 3_600)
        assert isinstance(ask(seen((5_000, 20)), lane, Pings(sent=50)), Ping)


class TestLimits:
    def test_off_is_the_default(self) -> None:
        assert ask(settings=KeepaliveSettings()) == "keep-alive is off"

    def test_an_entry_that_ran_out_cannot_be_kept(self) -> None:
        assert isinstance(ask(at=300), Ping)
        assert ask(at=300.1) == "the entry has run out"

    def test_below_the_floor_there_is_no_entry(self) -> None:
        assert ask(lane=idle(tokens=4_095)) == "there is no entry to keep"
        assert isinstance(ask(lane=idle(tokens=4_096)), Ping)

    def test_the_budget_of_a_day(self) -> None:
        settings = replace(ON, budget_usd=0.12)
        day = int(START // 86_400)
        assert isinstance(ask(settings=settings, spending=Spending(day, Decimal("0.07"))), Ping)
        assert ask(settings=settings, spending=Spending(day, Decimal("0.0701"))) == "today's budget of $0.12 is used up"
        assert isinstance(ask(settings=settings, spending=Spending(day - 1, Decimal(5))), Ping)

    def test_without_a_price_no_ping(self) -> None:
        assert ask(model=replace(OPUS, name="claude-of-no-price")) == "no price is known for this model"

    def test_the_breaker(self) -> None:
        assert isinstance(ask(pings=Pings(sent=2, row=2)), Ping)
        assert ask(pings=Pings(sent=3, row=3)) == "3 pings in a row had no return"
        assert isinstance(ask(pings=Pings(sent=3, row=3), settings=replace(ON, breaker=4)), Ping)


class TestAccount:
    def pinged(self, times: int = 1) -> tuple[Pings, Spending, IdleLane]:
        pings, spending, lane = Pings(), Spending(), idle()
        for _ in range(times):
            ping = ask(lane=lane, pings=pings, spending=spending, returns=seen(*((100.0 * n, 9) for n in range(1, 30))))
            assert isinstance(ping, Ping), ping
            pings, spending = sent(pings, spending, ping, lane)
            covers = ping.at + lane.seconds
            pings, spending = answered(pings, spending, ping, lane, ping.cost, covers)
            lane = replace(lane, expires=covers)
        return pings, spending, lane

    def test_each_ping_is_counted_and_extends_the_entry(self) -> None:
        pings, spending, lane = self.pinged(2)
        assert (pings.sent, pings.row, pings.spent) == (2, 2, Decimal("0.10"))
        assert spending.on(START) == Decimal("0.10")
        assert lane.expires == START + 285 + 285 + 300

    def out(self) -> tuple[Pings, Spending, Ping]:
        ping = ask()
        assert isinstance(ping, Ping)
        return *sent(Pings(), Spending(), ping, idle()), ping

    def test_on_its_way_it_counts_for_breaker_and_budget_and_nobody_sends_another(self) -> None:
        pings, spending, _ = self.out()
        assert (pings.sent, pings.row, spending.on(START)) == (1, 1, Decimal("0.05"))
        assert (pings.uncovered, pings.covers) == (None, 0)
        assert ask(pings=pings, at=290) == "a ping is on its way"
        assert isinstance(ask(pings=pings, lane=idle(expires=START + 301), at=290), Ping)

    def test_its_answer_says_what_it_cost_and_covers(self) -> None:
        pings, spending, ping = self.out()
        pings, spending = answered(pings, spending, ping, idle(), Decimal("0.07"), START + 585)
        assert (pings.spent, spending.on(START)) == (Decimal("0.07"), Decimal("0.07"))
        assert (pings.uncovered, pings.covers, pings.out) == (START + 300, START + 585, 0)

    def test_one_that_kept_nothing_covers_nothing(self) -> None:
        pings, spending, ping = self.out()
        pings, spending = answered(pings, spending, ping, idle(), Decimal("0.6"), None)
        assert (pings.uncovered, pings.spent, spending.on(START)) == (None, Decimal("0.6"), Decimal("0.6"))
        assert pings.row == 1

    def test_a_failed_one_costs_nothing_but_stays_without_a_return(self) -> None:
        pings, spending, ping = self.out()
        pings, spending = failed(pings, spending, ping, idle())
        assert pings == Pings(row=1)
        assert spending.on(START) == 0
        assert isinstance(ask(pings=pings, spending=spending, at=290), Ping)

    def test_what_turns_up_after_midnight_changes_nothing_of_the_next_day(self) -> None:
        day = int(START // 86_400)
        today = Spending(day + 1, Decimal("0.2"))
        assert today.corrected(Decimal("-0.05"), START) == today
        assert today.corrected(Decimal("-0.05"), START + 86_400).usd == Decimal("0.15")

    def test_a_return_in_time_saves_the_rewrite(self) -> None:
        pings, _, lane = self.pinged()
        after = returned(pings, lane, TOKENS, rates(), START + 500)
        assert (after.row, after.returned, after.saved) == (0, 1, Decimal("0.575"))

    @pytest.mark.parametrize(("at", "brought"), [(299, 0), (300, 0), (301, 1), (585, 1), (586, 0)])
    def test_only_between_the_end_without_and_the_end_with_it(self, at: float, brought: int) -> None:
        pings, _, lane = self.pinged()
        after = returned(pings, lane, TOKENS, rates(), START + at)
        assert (after.returned, after.row, after.uncovered) == (brought, 1 - brought, None)

    def test_a_request_that_read_nothing_is_no_return(self) -> None:
        pings, _, lane = self.pinged()
        assert returned(pings, lane, 0, rates(), START + 400).returned == 0

    def test_only_what_was_read_is_saved(self) -> None:
        pings, _, lane = self.pinged()
        assert returned(pings, lane, TOKENS // 2, rates(), START + 400).saved == Decimal("0.2875")

    def test_a_pause_without_pings_changes_nothing(self) -> None:
        assert returned(Pings(), idle(), TOKENS, rates(), START + 100) == Pings()

    def test_it_stops_by_itself_when_nobody_returns(self) -> None:
        pings, spending, lane = self.pinged(3)
        found = ask(lane=lane, pings=pings, spending=spending, at=900)
        assert found == "3 pings in a row had no return"
        late = returned(pings, lane, 0, rates(), START + 50_000)
        assert isinstance(ask(pings=late), str)
        assert isinstance(ask(pings=returned(pings, lane, TOKENS, rates(), START + 900)), Ping)

    def test_the_account_is_what_the_cache_bills(self) -> None:
        """Played against the rules: with pings the return is a read, without it is a write."""
        block = Block("system", "text", "", 0, b"d" * 16, TOKENS)
        prompt: Prompt = build(OPUS.ref, [block], CacheControls(marks=[Mark(0, "5m")]))
        bills = {}
        for pings_sent in (0, 1):
            cache = AnthropicCache(OPUS)
            cache.first_token(cache.begin(prompt, START), START)
            for number in range(pings_sent):
                ping = cache.begin(prompt, START + 285 * (number + 1))
                assert ping.read == TOKENS
            bills[pings_sent] = cache.begin(prompt, START + 500)
        pings, _, lane = self.pinged()
        after = returned(pings, lane, bills[1].read, rates(), START + 500)
        costs = [facts.price(bills[n].usage(), OPUS.ref).cost or Decimal(0) for n in (0, 1)]
        assert after.saved == costs[0] - costs[1]
