"""Turns that went past us, and those that law 7 left without markers, are listed with what they cost more."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import report
from holdfast.cli import breaks, sessions
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.cli.looking import piped, use
from tests.simulator.served import ANTHROPIC, Client

from .gate import Gated, eventually, gated
from .test_warmed_outside import LONG, body, paid

PATH = "/v1/messages"


def ask(gate: Gated, turn: int, marks: frozenset[str] = frozenset(), **more: str) -> None:
    before = len(gate.calls)
    assert Client(gate.address).post(PATH, body(turn, marks), ANTHROPIC | more).status == 200
    eventually(lambda: len(gate.calls) > before)


def listed(gate: Gated, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What `breaks` lists, and what `sessions` says of the session."""
    store = gate.gateway.store
    assert store is not None
    store.flush()
    use(gate.config.home / "holdfast.db", monkeypatch)
    (session,) = json.loads(piped(sessions.command, "--json"))["sessions"]
    assert "MISSED" in piped(sessions.command)
    total = report.bill(store).total
    assert (total.missed, str(total.missed_cost)) == (session["missed"], session["missed_cost"])
    return json.loads(piped(breaks.command, "--json"))["breaks"], session


def direct(marks: frozenset[str], turns: int) -> Decimal:
    """What so many turns cost without a gateway."""
    simulator = Simulator()
    with simulating(simulator) as address:
        for turn in range(turns):
            assert Client(address).post(PATH, body(turn, marks)).status == 200
    return paid(simulator)


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("not today")


def test_turns_that_were_left_unmarked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After many single requests a conversation's first one is not written. The price of that is what marking every
    last block would have saved."""
    simulator = Simulator()
    with simulating(simulator) as address, gated(tmp_path, address) as gate:
        for number in range(25):
            shot = body(0, frozenset()) | {"tools": [], "system": f"Only {number}. {LONG}"}
            before = len(gate.calls)
            assert Client(gate.address).post(PATH, shot, ANTHROPIC | {"x-holdfast-session": f"{number}"}).status == 200
            eventually(lambda before=before: len(gate.calls) > before)
        shots = len(simulator.journal.records())
        for turn in range(2):
            ask(gate, turn, **{"x-holdfast-session": "last"})
        store = gate.gateway.store
        assert store is not None
        store.flush()
        use(gate.config.home / "holdfast.db", monkeypatch)
        found = json.loads(piped(breaks.command, "--json"))["breaks"]
        total = report.bill(store).total
        two = paid(simulator, shots)
    assert [each["reason"] for each in found] == ["unmarked"]
    more = sum(Decimal(each["dollars"]) for each in found)
    assert abs(more - (two - direct(frozenset({"tail"}), 2))) < Decimal("0.0001")
    assert (total.missed, total.missed_cost) == (1, more)


@pytest.mark.parametrize("restarted", [False, True])
def test_turns_that_went_past_us(restarted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their price is what was not read of what the lane had cached, also where only the store knows of that."""
    simulator = Simulator()
    with simulating(simulator) as address:
        with gated(tmp_path, address) as gate:
            ask(gate, 0)
            ask(gate, 1)
            if not restarted:
                monkeypatch.setattr(gate.gateway.engine, "prepare", fails)
                ask(gate, 2)
                found, session = listed(gate, monkeypatch)
        if restarted:
            with gated(tmp_path, address) as gate:
                monkeypatch.setattr(gate.gateway.engine, "prepare", fails)
                ask(gate, 2)
                found, session = listed(gate, monkeypatch)
    before, last = (each.usage for each in simulator.journal.records()[-2:])
    assert before is not None
    assert last is not None
    ((reason, tokens, dollars),) = [(each["reason"], each["tokens"], each["dollars"]) for each in found]
    assert (reason, tokens) == ("bypassed", before.prompt)
    assert Decimal(dollars) == before.prompt * (Decimal(5) - Decimal("0.5")) / 1_000_000
    assert (session["missed"], session["missed_cost"]) == (1, dollars)


def test_one_that_lost_nothing_is_listed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless its client wanted it to go past us."""
    tail = frozenset({"tail"})
    with simulating(Simulator()) as address, gated(tmp_path, address) as gate:
        ask(gate, 0, tail)
        ask(gate, 1, tail, **{"x-holdfast": "off"})
        monkeypatch.setattr(gate.gateway.engine, "prepare", fails)
        ask(gate, 2, tail)
        found, _ = listed(gate, monkeypatch)
        store = gate.gateway.store
        assert store is not None
        assert report.bill(store).total.kinds == {"bypassed": 2}
    assert [(each["reason"], each["tokens"], Decimal(each["dollars"])) for each in found] == [("bypassed", 0, 0)]
