"""What the documents say of a session as a whole, measured where users see it: through the gateway, by its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.simulator.served import ANTHROPIC, LONG, Client

from .gate import Gated, eventually, gated

TURNS = 8


def turn(number: int) -> dict[str, Any]:
    said: list[dict[str, str]] = []
    for each in range(number):
        said += [{"role": "user", "content": f"question {each}"}, {"role": "assistant", "content": f"answer {each}"}]
    said.append({"role": "user", "content": f"question {number}"})
    return {"model": "claude-opus-4-6", "max_tokens": 500, "system": LONG, "messages": said}


def effectiveness(gate: Gated, query: str = "") -> dict[str, Any]:
    headers = {"authorization": f"Bearer {gate.token}"}
    found: dict[str, Any] = (
        Client(gate.address).send("GET", f"/analytics/cache_effectiveness{query}", headers=headers).json
    )
    return found


def session(gate: Gated, churn: bool = False) -> None:
    client = Client(gate.address)
    for number in range(TURNS):
        body = turn(number)
        if churn:
            body["system"] = f"It is {number} o'clock. " + LONG
            body["cache_control"] = {"type": "ephemeral"}
        assert client.post("/v1/messages", body, ANTHROPIC | {"x-holdfast-session": "s"}).status == 200
    store = gate.gateway.store
    assert store is not None
    eventually(lambda: sum(call.status == "settled" for call in store.calls()) == TURNS)


def test_a_session_of_several_turns_hits_and_writes_its_prefix_once(tmp_path: Path) -> None:
    """A84, A85, A86: with the document's markers the hit rate is above zero, and at most one token in N is written."""
    with simulating(Simulator()) as upstream, gated(tmp_path, upstream, cache__strategy="two-point") as gate:
        nothing = effectiveness(gate)["total"]
        assert (nothing["call_count"], nothing["hit_rate"], nothing["cache_write_share"]) == (0, None, None)
        session(gate)
        total = effectiveness(gate)["total"]
    assert total["call_count"] == TURNS
    whole = total["uncached_tokens"] + total["cached_tokens"] + total["creation_tokens"]
    assert total["hit_rate"] == pytest.approx(total["cached_tokens"] / whole)
    assert total["cache_write_share"] == pytest.approx(total["creation_tokens"] / whole)
    assert total["hit_rate"] > 0
    assert 0 < total["cache_write_share"] <= 1 / TURNS


def test_by_default_nothing_is_written_twice(tmp_path: Path) -> None:
    """A85, A86: the conversation is marked too, and every token of it is written once at most."""
    simulator = Simulator()
    with simulating(simulator) as upstream, gated(tmp_path, upstream) as gate:
        session(gate)
        total = effectiveness(gate)["total"]
    last = simulator.requests()[-1]["usage"]
    assert total["hit_rate"] > 0
    assert 0 < total["creation_tokens"] <= last["input"] + last["read"] + sum(last["written"].values())


def test_a_prefix_that_churns_shows(tmp_path: Path) -> None:
    """A86 the other way round: with a clock at the head of the system text more than that is written."""
    flags = {"cache__strategy": "passthrough", "cache__repair": "off"}
    with simulating(Simulator()) as upstream, gated(tmp_path, upstream, **flags) as gate:
        session(gate, churn=True)
        total = effectiveness(gate)["total"]
    assert total["cache_write_share"] > 1 / TURNS
