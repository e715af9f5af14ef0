"""Gateways whose clients are given memory, and what they ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.engine.identity.identities import LOCAL
from holdfast.memory.knowledge import Knowledge
from holdfast.simulator.server import running as simulating
from tests.simulator.http_client import ANTHROPIC, LONG, Client, Response

from .gate import Gated, RecordingSimulator, gated

QUESTION = "Where does the pointer come from?"


DECISION = "The pointer comes from the arena."


ON = {"memory__inject": True, "memory__inject_as": "local"}


@contextmanager
def remembering(home: Path, **flags: Any) -> Iterator[tuple[Gated, RecordingSimulator]]:
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream, gated(home, upstream, **{**ON, **flags}) as gate:
        learn(gate)
        yield gate, simulator


def learn(gate: Gated, tenant: str = LOCAL, project: str | None = None) -> Knowledge:
    knowledge = Knowledge(gate.store, tenant, project=project)
    knowledge.add("Small commits", "Each commit does one thing.", category="preference")
    knowledge.add("Pointers", DECISION)
    return knowledge


def ask(gate: Gated, *said: str, path: str = "/v1/messages", **headers: str) -> Response:
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(said)]
    body = {"model": "claude-opus-5-5", "max_tokens": 500, "system": LONG, "messages": messages}
    found = Client(gate.address).post(path, body, ANTHROPIC | {"x-holdfast-session": "s", **headers})
    assert found.status == 200, found.body
    return found
