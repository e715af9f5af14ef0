"""A cache that somebody else has warmed: what the client alone would have read there is not counted as saved."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import report
from holdfast.cli import breaks, sessions
from holdfast.facts import price
from holdfast.simulator import HttpRequest, VirtualClock
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.cli.commands import piped, use
from tests.engine.driver import HEADERS
from tests.engine.passage.door import START, Door
from tests.simulator.http_client import ANTHROPIC, Client

from .gate import Gated, eventually, gated

MODEL = "claude-opus-4-6"
LONG = "The loader reads every record of the file and checks each of its fields. " * 500
MARK = {"cache_control": {"type": "ephemeral"}}


def body(turn: int, marks: frozenset[str]) -> dict[str, Any]:
    """A turn of a conversation; `marks` are the places where its client has a marker."""
    messages: list[dict[str, Any]] = []
    for number in range(turn + 1):
        asked: dict[str, Any] = {"type": "text", "text": f"What of record {number}? " * 60}
        if (number == turn - 1 and "before" in marks) or (number == turn and "tail" in marks):
            asked |= MARK
        messages.append({"role": "user", "content": [asked]})
        if number < turn:
            said = {"type": "text", "text": f"It is good, {number}. " * 40}
            messages.append({"role": "assistant", "content": [said]})
    tool = {"name": "read", "description": "Reads a record. " * 500, "input_schema": {"type": "object"}}
    system = {"type": "text", "text": LONG} | (MARK if "system" in marks else {})
    return {
        "model": MODEL,
        "max_tokens": 50,
        "tools": [tool | (MARK if "tools" in marks else {})],
        "system": [system],
        "messages": messages,
    }


def paid(simulator: Simulator, after: int = 0) -> Decimal:
    """What the provider has billed for all requests but the first ones."""
    costs = [price(each.usage, MODEL).cost for each in simulator.journal.records()[after:] if each.usage is not None]
    return sum((cost for cost in costs if cost is not None), Decimal(0))


@pytest.mark.parametrize("marks", [{"system"}, {"tail"}, {"tools", "system", "tail"}], ids=["system", "tail", "all"])
def test_what_a_warm_cache_gave_anyway_is_not_saved(tmp_path: Path, marks: set[str]) -> None:
    simulator, other, places = Simulator(), Simulator(), frozenset(marks)
    with simulating(simulator) as address, simulating(other) as elsewhere, gated(tmp_path, address) as gate:
        for direct in (Client(address), Client(elsewhere)):
            for turn in range(3):
                assert direct.post("/v1/messages", body(turn, places)).status == 200
        for turn in range(3):
            assert Client(elsewhere).post("/v1/messages", body(turn, places)).status == 200
            assert Client(gate.address).post("/v1/messages", body(turn, places), ANTHROPIC).status == 200
            eventually(lambda turn=turn: len(gate.calls) > turn)  # type: ignore[misc]
        store = gate.gateway.store
        store.flush()
        total = report.bill(store).total
        (tenant,) = {call.passage.lane.tenant for call in gate.calls if call.passage is not None}
        (client,) = gate.gateway.engine.state.tenant(tenant).experience.clients.values()
    really = paid(other, after=3) - paid(simulator, after=3)
    assert total.cost == paid(simulator, after=3)
    assert total.saved is not None
    assert abs(total.saved - really) < Decimal("0.000001"), (total.saved, really)
    assert abs(Decimal(client.saved) - really) < Decimal("0.000001")  # what bets are paid from


PLACES = st.frozensets(st.sampled_from(["tools", "system", "before", "tail"]), min_size=1)


@settings(max_examples=40, deadline=None)
@given(marks=PLACES, theirs=PLACES, warm=st.integers(0, 3), pause=st.sampled_from([1, 60, 290, 400]))
def test_no_more_is_shown_as_saved_than_was(
    marks: frozenset[str], theirs: frozenset[str], warm: int, pause: float
) -> None:
    """Whoever warmed it, wherever their markers were, and however long ago."""
    door, clock = Door(), VirtualClock(START)
    control = Simulator(clock=clock)

    def direct(simulator: Simulator, turn: int, places: frozenset[str]) -> None:
        call = HttpRequest("POST", "/v1/messages", HEADERS, {}, json.dumps(body(turn, places)).encode())
        assert simulator.answer(call).status == 200

    def wait(seconds: float) -> None:
        door.clock.advance(seconds)
        clock.advance(seconds)

    for turn in range(warm):
        direct(door.simulator, turn, theirs)
        direct(control, turn, theirs)
        wait(5)
    wait(pause)
    saved = 0.0
    for turn in range(4):
        direct(control, turn, marks)
        passage = door.begin(json.dumps(body(turn, marks)).encode())
        door.carry(passage)  # two seconds
        clock.advance(2)
        wait(8)
        saved += passage.prepared.verdict.saved
    really = paid(control, after=warm) - paid(door.simulator, after=warm)
    assert saved <= float(really) + 1e-6


PATH = "/v1/messages"


def ask(gate: Gated, turn: int, marks: frozenset[str] = frozenset(), **more: str) -> None:
    before = len(gate.calls)
    assert Client(gate.address).post(PATH, body(turn, marks), ANTHROPIC | more).status == 200
    eventually(lambda: len(gate.calls) > before)


def listed(gate: Gated, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What `breaks` lists, and what `sessions` says of the session."""
    store = gate.gateway.store
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
        store = gate.store
        assert report.bill(store).total.kinds == {"bypassed": 2}
    assert [(each["reason"], each["tokens"], Decimal(each["dollars"])) for each in found] == [("bypassed", 0, 0)]
