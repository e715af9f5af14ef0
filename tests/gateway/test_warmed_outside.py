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
from holdfast.facts import price
from holdfast.simulator import HttpRequest, VirtualClock
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.engine.driving import HEADERS
from tests.engine.passage.passing import START, Door
from tests.simulator.served import ANTHROPIC, Client

from .gate import eventually, gated

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
        assert store is not None
        store.flush()
        total = report.bill(store).total
        (tenant,) = {call.passage.lane.tenant for call in gate.calls if call.passage is not None}
        (client,) = gate.gateway.engine._state.tenant(tenant).experience.clients.values()
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
        assert passage.prepared is not None
        assert passage.prepared.verdict is not None
        saved += passage.prepared.verdict.saved
    really = paid(control, after=warm) - paid(door.simulator, after=warm)
    assert saved <= float(really) + 1e-6
