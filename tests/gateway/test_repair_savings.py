"""What repairs would have saved: the figure of a gateway that only suggests them against a gateway that makes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import observe
from holdfast.engine.repair_savings import Shadow
from holdfast.observe import RepairSavings
from holdfast.observe.repair_savings import LEAST, repair_savings
from holdfast.simulator import Simulator
from holdfast.simulator.serve import running as simulating
from tests.simulator.served import Client

from .gate import Gated, gated
from .test_repairs import Witness

HOST = "You look after a loader that reads every record of a file. " * 400
KEY = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
TURNS = 10


def clock(turn: int) -> str:
    return f"{HOST}\nIt is 2026-11-02T09:{turn:02}:00Z."


def memory(turn: int) -> str:
    return f"{HOST}\n\n# Memory\n" + "\n".join(f"- fact {number} of the loader" for number in range(turn + 1))


def nothing(turn: int) -> str:
    return HOST


def ask(gate: Gated, system: Any, turns: int = TURNS, session: str = "s", *, marked: bool = False) -> None:
    client, messages = Client(gate.address), []
    for turn in range(turns):
        text = {"type": "text", "text": system(turn)} | ({"cache_control": {"type": "ephemeral"}} if marked else {})
        messages.append({"role": "user", "content": f"What of record {turn}? " * 20})
        body = {"model": "claude-sonnet-4-6", "max_tokens": 40, "system": [text], "messages": messages}
        answer = client.post("/v1/messages", body, KEY | {"x-holdfast-session": session})
        assert answer.status == 200, answer
        messages.append({"role": "assistant", "content": f"Record {turn} is well."})


@contextlib.contextmanager
def opened(home: Path, **flags: Any) -> Iterator[Gated]:
    with simulating(Simulator()) as upstream, gated(home, upstream, **flags) as gate:
        yield gate


def paid(home: Path, system: Any, level: str, *, marked: bool = False) -> tuple[Decimal, RepairSavings | None]:
    """What a session cost at this level, and what is said of repairs."""
    with opened(home, cache__repair=level) as gate:
        ask(gate, system, marked=marked)
        store = gate.gateway.store
        assert store is not None
        store.flush()
        cost = observe.bill(store).total.cost
        assert cost is not None
        return cost, repair_savings(store, level)


@pytest.mark.parametrize("marked", [False, True], ids=["unmarked", "marked"])
@pytest.mark.parametrize(("system", "command"), [(clock, "holdfast repair values"), (memory, "holdfast repair on")])
def test_the_figure_is_what_repairs_save(tmp_path: Path, system: Any, command: str, marked: bool) -> None:
    suggested, said = paid(tmp_path / "suggest", system, "suggest", marked=marked)
    repaired, quiet = paid(tmp_path / "on", system, "on", marked=marked)
    assert said is not None
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
        store = gate.gateway.store
        assert store is not None
        store.flush()
        saves, exact = store.repair_savings()
        assert saves > 0
        assert saves == exact
        cost = observe.bill(store).total.cost
        assert cost is not None
        assert observe.worth_saying(saves, exact, saves / LEAST, "suggest") is not None
        assert observe.worth_saying(saves, exact, saves / LEAST + 1, "suggest") is None
        assert repair_savings(store, "suggest", cost=saves * 21) is None


def test_sessions_and_calls_are_told_apart(tmp_path: Path) -> None:
    with opened(tmp_path) as gate:
        ask(gate, clock, turns=4, session="faulty")
        ask(gate, nothing, turns=4, session="sound")
        store = gate.gateway.store
        assert store is not None
        store.flush()
        sessions = {each.session: each.tenant for each in store.active_sessions()}
        found = {name: repair_savings(store, "suggest", session=name) for name in sessions}
        assert sorted(said is not None for said in found.values()) == [False, True]
        whole = repair_savings(store, "suggest")
        calls = [id_ for (id_,) in store._read(lambda each: each.execute("SELECT id FROM calls").fetchall())]
        assert repair_savings(store, "suggest", calls=calls) == whole


def test_what_is_sent_stays_the_clients(tmp_path: Path) -> None:
    """The figure changes no byte: the same requests go out as without it."""
    sent: list[list[bytes]] = []
    for name in ("with", "without"):
        witness = Witness()
        with simulating(witness) as upstream, gated(tmp_path / name, upstream) as gate:
            if name == "without":
                gate.gateway.engine._repair_savings.judged = lambda *_: None  # type: ignore[method-assign]
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
