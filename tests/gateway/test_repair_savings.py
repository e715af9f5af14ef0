"""What repairs would have saved: the figure of a gateway that only suggests them against a gateway that makes them."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import report
from holdfast.engine.repairs import savings as engine_savings
from holdfast.engine.repairs.savings import Shadow
from holdfast.engine.worker import Worker
from holdfast.records import Usage
from holdfast.report import RepairSavings
from holdfast.report.repair_estimates import LEAST, repair_savings
from holdfast.simulator.server import running as simulating
from tests.gateway.repair_sessions import (
    HOST,
    LOGIN,
    ask,
    clock,
    clock_and_memory_once,
    memory,
    memory_behind_a_clock,
    nothing,
    opened,
    settled,
)

from .gate import RecordingSimulator, gated

TIMEOUT = 20


def paid(home: Path, system: Any, level: str, *, marked: bool = False) -> tuple[Decimal, RepairSavings | None]:
    """What a session cost at this level, and what is said of repairs."""
    with opened(home, cache__repair=level) as gate:
        ask(gate, system, marked=marked)
        store = settled(gate)
        cost = report.bill(store).total.cost
        assert cost is not None
        return cost, repair_savings(store, level)


@pytest.mark.parametrize("marked", [False, True], ids=["unmarked", "marked"])
@pytest.mark.parametrize(("system", "command"), [(clock, "holdfast repair values"), (memory, "holdfast repair on")])
def test_the_figure_is_what_repairs_save(tmp_path: Path, system: Any, command: str, marked: bool) -> None:
    suggested, said = paid(tmp_path / "suggest", system, "suggest", marked=marked)
    repaired, quiet = paid(tmp_path / "on", system, "on", marked=marked)
    assert float(said.saves) == pytest.approx(float(suggested - repaired), rel=0.05)
    assert said.cost == suggested
    assert said.command == command
    assert quiet is None


def test_a_client_without_such_a_fault_hears_nothing(tmp_path: Path) -> None:
    _, said = paid(tmp_path, nothing, "suggest")
    assert said is None


def test_below_a_twentieth_nothing_is_said(tmp_path: Path) -> None:
    with opened(tmp_path) as gate:
        ask(gate, clock, turns=3, session="faulty")
        store = settled(gate)
        saves, exact, _ = store.repair_savings()
        assert saves > 0
        assert saves == exact
        cost = report.bill(store).total.cost
        assert cost is not None
        assert report.worth_saying(saves, exact, saves / LEAST, "suggest") is not None
        assert report.worth_saying(saves, exact, saves / LEAST + 1, "suggest") is None
        assert repair_savings(store, "suggest") is not None
        ask(gate, lambda _: HOST * 60, turns=1, session="large")
        settled(gate)
        assert repair_savings(store, "suggest") is None


def test_sessions_and_calls_are_told_apart(tmp_path: Path) -> None:
    with opened(tmp_path) as gate:
        ask(gate, clock, turns=4, session="faulty")
        ask(gate, nothing, turns=4, session="sound")
        store = settled(gate)
        sessions = {each.session: each.tenant for each in store.active_sessions()}
        found = {name: repair_savings(store, "suggest", session=name) for name in sessions}
        assert sorted(said is not None for said in found.values()) == [False, True]
        whole = repair_savings(store, "suggest")
        calls = [call.id for call in store.calls()]
        assert repair_savings(store, "suggest", calls=calls) == whole


def test_what_is_sent_stays_the_clients(tmp_path: Path) -> None:
    """The figure changes no byte: the same requests go out as without it."""
    sent: list[list[bytes]] = []
    for name in ("with", "without"):
        witness = RecordingSimulator()
        with simulating(witness) as upstream, gated(tmp_path / name, upstream) as gate:
            if name == "without":
                gate.gateway.engine.repair_savings.play = lambda *_: None  # type: ignore[method-assign]
            ask(gate, clock, turns=5)
        sent.append(witness.bodies)
    assert sent[0] == sent[1]


def test_a_figure_that_fails_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(Shadow, "would_cost", broken)
    cost, said = paid(tmp_path, clock, "suggest")
    assert said is None
    assert cost > 0


@pytest.mark.parametrize("level", ["off", "values"])
def test_who_has_chosen_hears_nothing(tmp_path: Path, level: str) -> None:
    assert paid(tmp_path, clock, level)[1] is None


def test_values_are_not_enough_where_memory_goes_on_to_change(tmp_path: Path) -> None:
    _, said = paid(tmp_path, memory_behind_a_clock, "suggest")
    assert said.command == "holdfast repair on"


def test_values_are_enough_where_memory_changed_once(tmp_path: Path) -> None:
    """Each request is judged by what is suggested for it, not by what was suggested for one before it."""
    with opened(tmp_path) as gate:
        ask(gate, clock_and_memory_once, turns=40)
        store = settled(gate)
        saves, exact, _ = store.repair_savings()
        said = repair_savings(store, "suggest")
        assert saves > exact > 0
        assert said.command == "holdfast repair values"


def test_other_requests_do_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    would_cost = Shadow.would_cost

    def slow(*given: Any) -> Usage:
        begun.set()
        assert go_on.wait(TIMEOUT)
        return would_cost(*given)

    monkeypatch.setattr(Shadow, "would_cost", slow)
    with opened(tmp_path) as gate:
        try:
            ask(gate, clock, turns=2)
            assert begun.wait(TIMEOUT)
            ask(gate, clock, turns=3)  # the same lane
            ask(gate, clock, turns=2, session="faulty too")
            ask(gate, nothing, turns=2, session="sound")
            assert gate.gateway.engine.repairs_save.saves == 0
        finally:
            go_on.set()
        store = settled(gate)
        assert gate.gateway.engine.repairs_save.saves == store.repair_savings()[0] > 0
        store.check(whole=True)  # rows were written again: sums count them once


def test_a_lane_that_is_behind_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "do", lambda *_: False)
    with opened(tmp_path) as gate:
        ask(gate, clock, turns=3)
        assert repair_savings(settled(gate), "suggest") is None
        monkeypatch.undo()
        ask(gate, lambda turn: clock(turn + 10), turns=5)
        assert repair_savings(settled(gate), "suggest") is not None


def test_large_bodies_are_not_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_savings, "LARGEST", 20_000)
    _, said = paid(tmp_path, clock, "suggest")
    assert said is None


def test_the_share_is_of_what_was_paid_with_suggestions(tmp_path: Path) -> None:
    """Neither what was made at another level counts nor what a subscription pays."""
    _, alone = paid(tmp_path, clock, "suggest")
    assert alone is not None
    with opened(tmp_path, cache__repair="values") as gate:
        ask(gate, clock, session="repaired")
        settled(gate)
    with opened(tmp_path, gateway__subscriptions="manage") as gate:
        ask(gate, clock, session="subscription", headers=LOGIN)
        ask(gate, nothing, session="another", headers=LOGIN)
        store = settled(gate)
        bill = report.bill(store).total
        said = repair_savings(store, "suggest")
        assert bill.list_price
        assert (said.saves, said.cost) == (alone.saves, alone.cost)
