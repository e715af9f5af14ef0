"""What two processes learned, as one."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from holdfast.core import experience
from holdfast.core.experience import Client, Experience, RouteExperience, merged
from holdfast.core.gemini_contents import AgentContents
from holdfast.core.keepalive import Spending
from holdfast.facts import Calibration


def copied(found: Experience) -> Experience:
    return experience.decode(experience.encode(found))


def began() -> Experience:
    found = Experience()
    client = found.client("a")
    client.saved, client.lanes = 1.5, 3
    client.gaps.user[0] = 7
    found.route("m").reads = 4
    found.spending = Spending(10, Decimal("0.25"))
    found.owed["x"] = Decimal(2)
    return found


def test_what_nobody_changed_stays() -> None:
    base = began()
    assert merged(copied(base), copied(base), base) == base


def test_counts_and_dollars_are_added_up() -> None:
    base, mine, stored = began(), began(), began()
    mine.client("a").saved += 0.5
    mine.client("a").gaps.user[0] += 2
    mine.client("a").returns.add(100)
    mine.client("b").lanes = 1
    mine.route("m").reads += 1
    mine.route("m").probed += 100
    stored.client("a").saved -= 1
    stored.client("a").gaps.user[0] += 1
    stored.client("a").returns.add(100)
    stored.client("c").lanes = 1
    stored.route("m").reads += 2
    stored.route("n").reads = 1
    found = merged(stored, mine, base)
    assert found.clients["a"].saved == 1.0
    assert found.clients["a"].gaps.user[0] == 10
    assert sum(found.clients["a"].returns.gaps) == 2
    assert (found.clients["b"], found.clients["c"]) == (Client(lanes=1), Client(lanes=1))
    assert found.routes == {"m": RouteExperience(reads=7, probed=100.0), "n": RouteExperience(reads=1)}


def test_what_is_reserved_is_the_process_s_own() -> None:
    base, mine, stored = began(), began(), began()
    mine.client("a").reserved, stored.client("a").reserved = 0.25, 3.0
    assert merged(stored, mine, base).clients["a"].reserved == 0.25


def test_a_proof_stands_whoever_has_it() -> None:
    proved = replace(began(), routes={"m": RouteExperience(raises="yes", reads=4)})
    assert merged(proved, began(), began()).routes["m"].raises == "yes"
    assert merged(began(), proved, began()).routes["m"].raises == "yes"


def test_spending_counts_for_the_day() -> None:
    base, mine, stored = began(), began(), began()
    mine.spending = Spending(10, Decimal("0.75"))
    stored.spending = Spending(10, Decimal("0.35"))
    assert merged(stored, mine, base).spending == Spending(10, Decimal("0.85"))
    stored.spending = Spending(11, Decimal("0.05"))
    assert merged(stored, mine, base).spending == Spending(11, Decimal("0.05"))
    mine.spending = Spending(11, Decimal("0.15"))
    assert merged(stored, mine, base).spending == Spending(11, Decimal("0.20"))


def test_what_was_charged_by_one_is_owed_no_more() -> None:
    base, mine, stored = began(), began(), began()
    del mine.owed["x"]
    stored.owed["x"] += 1
    assert merged(stored, mine, base).owed == {"x": Decimal(1)}


def test_of_the_rest_what_was_changed_here_stands() -> None:
    base, mine, stored = began(), began(), began()
    stored.calibration = Calibration().observe("m", 100, 120)
    stored.objects["a"] = AgentContents(refused={"l": 1.0})
    assert merged(stored, mine, base).calibration == stored.calibration
    assert merged(stored, mine, base).objects == stored.objects
    mine.calibration = Calibration().observe("m", 100, 90)
    mine.objects["a"] = AgentContents(refused={"l": 2.0})
    assert merged(stored, mine, base).calibration == mine.calibration
    assert merged(stored, mine, base).objects == mine.objects
