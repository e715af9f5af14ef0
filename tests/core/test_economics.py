"""The break-even rules against their worked figures, with the multipliers of real models."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast import facts
from holdfast.core import economics
from holdfast.core.economics import Multipliers
from tests.core.rules import calls_to_pad

D = Decimal
TENTH = facts.model("anthropic:claude-opus-4-6")
TWENTIETH = facts.model("anthropic:claude-opus-5-5")
FORTIETH = facts.model("anthropic:claude-fable-5-1")
R, SHORT, LONG = TENTH.read, TENTH.write("5m"), TENTH.write("1h")


def percent(share: Decimal | None) -> str:
    assert share is not None
    return f"{share:.1%}"


class TestRule2:
    def test_the_worked_figures(self) -> None:
        assert percent(economics.chance_to_cache(R, SHORT)) == "21.7%"
        assert percent(economics.chance_to_cache(R, LONG)) == "52.6%"

    def test_at_the_break_even_both_cost_the_same(self) -> None:
        p = economics.chance_to_cache(0.1, 1.25)
        assert p * 0.1 + (1 - p) * 1.25 == pytest.approx(1)


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


class TestRule8:
    def held(self, **changes: Decimal) -> Decimal | None:
        rates = facts.rates("gemini:gemini-2.5-flash")
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
        needed = calls_to_pad(2_000.0, 4_300.0, 0.1, 1.25)

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
