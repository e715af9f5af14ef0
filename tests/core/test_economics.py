"""The break-even rules against their worked figures, with the multipliers of real models."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast import facts
from holdfast.core import economics
from holdfast.core.economics import Multipliers

D = Decimal
TENTH = facts.model("anthropic:claude-opus-4-6")
TWENTIETH = facts.model("anthropic:claude-opus-5-5")
FORTIETH = facts.model("anthropic:claude-fable-5-1")
R, SHORT, LONG = TENTH.read, TENTH.write("5m"), TENTH.write("1h")


def percent(share: Decimal | None) -> str:
    assert share is not None
    return f"{share:.1%}"


class TestRule1:
    def test_two_uses_for_the_short_lifetime_three_for_the_long_one(self) -> None:
        assert 1 < economics.uses_to_cache(R, SHORT) < 2
        assert 2 < economics.uses_to_cache(R, LONG) < 3

    @pytest.mark.parametrize("w", [SHORT, LONG])
    def test_at_the_break_even_both_cost_the_same(self, w: Decimal) -> None:
        uses = float(economics.uses_to_cache(R, w))
        assert float(w) + (uses - 1) * float(R) == pytest.approx(uses)


class TestRule2:
    def test_the_worked_figures(self) -> None:
        assert percent(economics.chance_to_cache(R, SHORT)) == "21.7%"
        assert percent(economics.chance_to_cache(R, LONG)) == "52.6%"

    def test_at_the_break_even_both_cost_the_same(self) -> None:
        p = economics.chance_to_cache(0.1, 1.25)
        assert p * 0.1 + (1 - p) * 1.25 == pytest.approx(1)


class TestRule3:
    def test_one_gap_in_thirty_at_five_percent_growth(self) -> None:
        share = economics.pauses_for_long(R, SHORT, LONG, growth=D("0.05"), beyond=D(0))
        assert 30 < 1 / share < 31

    def test_growth_and_longer_gaps_both_raise_it(self) -> None:
        share = economics.pauses_for_long(R, SHORT, LONG, growth=D("0.05"), beyond=D("0.05"))
        assert share == economics.pauses_for_long(R, SHORT, LONG, growth=D("0.1"), beyond=D(0))
        assert share == D("0.75") * D("0.1") / D("1.15")


class TestRule4:
    def test_the_worked_chances(self) -> None:
        found = [percent(economics.chance_to_ping(m.read, m.write("5m"))) for m in (TENTH, TWENTIETH, FORTIETH)]
        assert found == ["8.7%", "4.2%", "2.0%"]

    def test_what_a_ping_must_say_counts_with_the_read(self) -> None:
        plain = economics.chance_to_ping(R, SHORT)
        assert plain is not None
        assert economics.chance_to_ping(R, SHORT, R) == plain
        assert economics.chance_to_ping(R, SHORT, 3 * R) == pytest.approx(3 * plain)

    def test_where_a_write_costs_no_more_than_a_read_nothing_is_kept(self) -> None:
        assert economics.chance_to_ping(D(1), D(1)) is None

    def test_the_worked_numbers_of_pings(self) -> None:
        limits = [
            economics.pings_before_long(m.read, m.write("5m"), m.write("1h")) for m in (TENTH, TWENTIETH, FORTIETH)
        ]
        assert [int(limit) for limit in limits] == [7, 15, 30]


class TestRule5:
    def test_what_an_edit_costs_and_when_it_has_paid(self) -> None:
        assert economics.edit_cost(D(10_000), R, SHORT) == 11_500
        requests = economics.requests_to_edit(D(10_000), D(5_000), R, SHORT)
        assert requests == 23
        assert economics.edit_cost(D(10_000), R, SHORT) == requests * R * 5_000

    def test_an_edit_that_removes_nothing_never_pays(self) -> None:
        assert economics.requests_to_edit(D(10_000), D(0), R, SHORT) is None
        assert economics.requests_to_edit(10_000.0, -5.0, 0.1, 1.25) is None


class TestRule6:
    @pytest.mark.parametrize(("prefix", "floor", "calls"), [(1_500, 2_048, 2), (2_000, 2_048, 2), (2_000, 4_096, 3)])
    def test_close_below_the_floor_it_pays_after_two_or_three_calls(self, prefix: int, floor: int, calls: int) -> None:
        needed = economics.calls_to_pad(D(prefix), D(floor), R, SHORT)
        assert needed is not None
        assert calls - 1 < needed < calls

    def test_at_the_break_even_both_cost_the_same(self) -> None:
        needed = economics.calls_to_pad(2_000.0, 4_096.0, 0.1, 1.25)
        assert needed is not None
        assert 1.25 * 4_096 + (needed - 1) * 0.1 * 4_096 == pytest.approx(needed * 2_000)

    def test_it_never_pays_at_or_below_the_price_of_reading_the_padding(self) -> None:
        assert economics.calls_to_pad(D(265), D(5_500), R, SHORT) is None
        assert economics.calls_to_pad(D(550), D(5_500), R, SHORT) is None
        assert economics.calls_to_pad(D(551), D(5_500), R, SHORT) is not None


class TestRule7:
    def test_cold_side_by_side_costs_a_quarter_more_than_no_caching(self) -> None:
        assert economics.cold_fan_out(D(8), SHORT) == 8 * D("1.25")

    def test_one_ahead_costs_one_write_and_reads(self) -> None:
        assert economics.warmed_fan_out(D(8), R, SHORT) == D("1.95")
        assert economics.warmed_fan_out(D(1), R, SHORT) == SHORT


class TestRule8:
    def held(self, **changes: Decimal) -> Decimal | None:
        rates = facts.rates("gemini:gemini-2.5-flash")
        assert rates is not None
        assert rates.storage_hour is not None
        given = {"covered": D(0), "tokens": D(10_000), "implicit": D(0)} | changes
        return economics.uses_to_hold(rates.input, rates.read, rates.storage_hour, **given)

    def test_an_hour_of_storage_needs_five_uses(self) -> None:
        found = self.held()
        assert found is not None
        assert found == D("1.30") / D("0.27")
        assert 4 < found < 5

    def test_what_would_be_read_anyway_is_no_gain(self) -> None:
        plain, implicit = self.held(), self.held(implicit=D("0.6"))
        assert plain is not None
        assert implicit is not None
        assert float(implicit) == pytest.approx(float(plain) / 0.4)
        assert self.held(implicit=D(1)) is None

    def test_a_larger_object_is_paid_whole_and_gains_by_what_is_new(self) -> None:
        found = self.held(covered=D(8_000))
        assert found == (D("0.30") * 10_000 + 2_000) / (D("0.27") * 2_000)
        assert self.held(covered=D(10_000)) is None


class TestSessionCost:
    """Rule 5.6 for conversations that grow."""

    def test_without_growth_it_is_the_rule_as_written(self) -> None:
        needed = economics.calls_to_pad(2_000.0, 4_300.0, 0.1, 1.25)
        assert needed is not None

        def costs(prefix: float, calls: float) -> float:
            return economics.session_cost(prefix, 4_096.0, Multipliers(0.1, 1.25, 1.25), calls=calls, growth=0.0)

        assert costs(2_000.0, needed) == pytest.approx(costs(4_300.0, needed))
        assert costs(4_300.0, needed + 0.1) < costs(2_000.0, needed + 0.1)
        assert costs(4_300.0, needed - 0.1) > costs(2_000.0, needed - 0.1)

    @pytest.mark.parametrize("prefix", [500.0, 2_400.0, 4_095.0, 4_300.0])
    @pytest.mark.parametrize("growth", [40.0, 420.0, 5_000.0])
    @pytest.mark.parametrize("opening", [0.0, 300.0, 6_000.0])
    def test_it_is_what_requests_cost_one_by_one(self, prefix: float, growth: float, opening: float) -> None:
        floor, r, w, head, calls = 4_096.0, 0.1, 1.25, 2.0, 20.0
        stays, chance, total, cached = 1 - 1 / calls, 1.0, 0.0, 0.0
        for number in range(1, 2_000):
            prompt = prefix + opening + growth * number
            if cached:
                paid = r * cached + w * (prompt - cached)
            elif prefix >= floor:
                paid = head * prefix + w * (prompt - prefix)
            else:
                paid = w * prompt if prompt >= floor else prompt
            cached = prompt if cached or prompt >= floor else 0.0
            total, chance = total + chance * paid, chance * stays
        price = Multipliers(r, w, head)
        expected = economics.session_cost(prefix, floor, price, calls=calls, growth=growth, opening=opening)
        assert total == pytest.approx(expected, rel=1e-6)
