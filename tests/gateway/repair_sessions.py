"""Sessions in which a client rewrites its head, at a gateway that could repair that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.simulator import Simulator
from holdfast.simulator.server import running as simulating
from holdfast.store import Store
from tests.gateway.gate import Gated, eventually, gated
from tests.simulator.http_client import Client

HOST = "You look after a loader that reads every record of a file. " * 400
KEY = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
LOGIN = {"authorization": "Bearer sk-ant-oat01-abcdefghijklmnop", "anthropic-version": "2023-06-01"}
TURNS = 10


def clock(turn: int) -> str:
    return f"{HOST}\nCurrent time: 2026-11-02 09:{turn:02}:00"


def memory(turn: int) -> str:
    return f"{HOST}\n\n# Memory\n" + "\n".join(f"- fact {number} of the loader" for number in range(turn + 1))


def nothing(turn: int) -> str:
    return HOST


def ask(
    gate: Gated,
    system: Any,
    turns: int = TURNS,
    session: str = "s",
    *,
    marked: bool = False,
    headers: dict[str, str] = KEY,
) -> None:
    client, messages = Client(gate.address), []
    for turn in range(turns):
        text = {"type": "text", "text": system(turn)} | ({"cache_control": {"type": "ephemeral"}} if marked else {})
        messages.append({"role": "user", "content": f"What of record {turn}? " * 20})
        body = {"model": "claude-sonnet-4-6", "max_tokens": 40, "system": [text], "messages": messages}
        answer = client.post("/v1/messages", body, headers | {"x-holdfast-session": session})
        assert answer.status == 200, answer
        messages.append({"role": "assistant", "content": f"Record {turn} is well."})


@contextlib.contextmanager
def opened(home: Path, **flags: Any) -> Iterator[Gated]:
    with simulating(Simulator()) as upstream, gated(home, upstream, **flags) as gate:
        yield gate


def settled(gate: Gated) -> Store:
    """The store, when every call has its cost and has been played: an answer is there before it is accounted for."""
    store = gate.gateway.store

    def written() -> bool:
        store.flush()
        return all(call.usage is not None and call.usage.cost is not None for call in store.calls())

    eventually(written)
    gate.gateway.engine.repair_savings.flush()
    store.flush()
    return store


def clock_and_memory_once(turn: int) -> str:
    return f"{clock(turn)}\n\n# Memory\n- likes tea\n" + ("- likes milk\n" if turn > 3 else "")


def memory_behind_a_clock(turn: int) -> str:
    """A clock that stands still after a while, and a memory that grows from then on."""
    return f"{clock(min(turn, 3))}\n\n# Memory\n- likes tea" + "\n- likes milk" * max(0, turn - 3)
