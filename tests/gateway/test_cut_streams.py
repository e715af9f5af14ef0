"""Answers that are cut: what the provider has billed by then is on every bill, marked as estimated."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from holdfast import report
from holdfast.cli import bill, sessions, show
from holdfast.cli.bill import sentences
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import Script, ScriptRule, ScriptStep
from holdfast.simulator.server import running as simulating
from tests.cli.commands import piped, use
from tests.simulator.http_client import ANTHROPIC, GEMINI, OPENAI, Client

from .fuzzing_process import Served
from .gate import UPSTREAMS, connect, eventually, gated, hear, spoken

LONG = "The loader reads every record of the file and checks each of its fields. " * 500
WORDS = "This is what the loader does with every record of the file, told slowly and once more. " * 8
SCRIPT = Script(name="words", rules=(ScriptRule(ScriptStep(say=WORDS)),))
SAID = [{"role": "user", "content": "And then?"}]
CALLS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "anthropic": (
        "/v1/messages",
        ANTHROPIC,
        {
            "model": "claude-sonnet-4-6",
            "max_tokens": 900,
            "stream": True,
            "system": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}],
            "messages": SAID,
        },
    ),
    "openai_chat": (
        "/v1/chat/completions",
        OPENAI,
        {"model": "gpt-5.5", "stream": True, "messages": [{"role": "system", "content": LONG}, *SAID]},
    ),
    "openai_responses": (
        "/v1/responses",
        OPENAI,
        {"model": "gpt-5.5", "stream": True, "instructions": LONG, "input": SAID},
    ),
    "gemini": (
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        GEMINI,
        {
            "systemInstruction": {"parts": [{"text": LONG}]},
            "contents": [{"role": "user", "parts": [{"text": "And then?"}]}],
        },
    ),
}


def asked(dialect: str) -> bytes:
    path, headers, body = CALLS[dialect]
    return spoken("POST", path, tuple(headers.items()), json.dumps(body).encode())


class World(NamedTuple):
    simulator: Simulator
    address: str
    root: Path

    def command(self, *words: str) -> Any:
        """What a command says of the store, as JSON."""
        environ = {"HOLDFAST_HOME": str(self.root / "holdfast"), "HOME": str(self.root), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words, "--json"], env=environ, capture_output=True, text=True, cwd="/"
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def billed(self) -> dict[str, Any]:
        """What the provider billed for the last request."""
        record = self.simulator.requests()[-1]
        assert record["usage"] is not None, record
        return dict(record["usage"])

    @property
    def abandoned(self) -> bool:
        return bool(self.simulator.requests()[-1]["state"] == "abandoned")

    def warm(self) -> None:
        """Somebody else has Anthropic's system text cached: what is read is not what is foreseen."""
        hear(self.address, asked("anthropic"))

    def rows(self) -> list[dict[str, Any]]:
        database = sqlite3.connect(f"file:{self.root / 'holdfast' / 'holdfast.db'}?mode=ro", uri=True)
        try:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute("SELECT * FROM calls")]
        finally:
            database.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    simulator = Simulator(script=SCRIPT)
    with simulating(simulator) as address:
        yield World(simulator, address, tmp_path)


def stalled(world: World, address: str, dialect: str) -> socket.socket:
    """A client whose answer stands still in the middle."""
    Client(world.address).fault("stall", options={"seconds": 60})
    client = connect(address)
    client.sendall(asked(dialect))
    heard = b""
    while heard.count(b"loader") < 3:
        piece = client.recv(4_096)
        assert piece, heard
        heard += piece
    return client


def close_to(estimate: int, billed: int) -> bool:
    return abs(estimate - billed) <= 0.15 * billed


def same_prompt(used: dict[str, Any], billed: dict[str, Any]) -> bool:
    """Whether the prompt is booked to the token as the provider billed it."""
    counts = used["input"], used["read"], dict(used["writes"])
    return counts == (billed["input"], billed["read"], billed["written"])


@pytest.mark.parametrize("how", ["left", "cut", "close"])
@pytest.mark.parametrize("dialect", CALLS)
def test_what_was_billed_is_booked(world: World, dialect: str, how: str) -> None:
    """The client leaves, the provider resets the connection, or it ends the stream as if that were all of it."""
    world.warm()
    with gated(world.root, world.address) as gate:
        if how == "left":
            stalled(world, gate.address, dialect).close()
        else:
            Client(world.address).fault(how)
            hear(gate.address, asked(dialect))
        eventually(lambda: gate.calls)
        eventually(lambda: world.abandoned)
        store = gate.gateway.store
        store.flush()
        (session,) = report.sessions(store).sessions
        (call,) = json.loads(msgspec.json.encode(report.session(store, session.id or "").calls))
        total = report.bill(store).total
    assert same_prompt(call["usage"], world.billed)
    assert close_to(call["usage"]["output"], world.billed["output"]), (call["usage"], world.billed)
    assert (call["estimated"], call["status"]) == (True, "abandoned" if how == "left" else "failed")
    assert session.cost == total.cost == Decimal(call["usage"]["cost"])
    assert (total.estimated, total.unanswered) == (1, 0)
    if dialect == "anthropic":  # what it read was told at its beginning, and is judged: somebody else had written it
        assert call["explained"] is False
        assert total.saved is not None
        assert total.saved <= 0


@pytest.mark.parametrize("dialect", CALLS)
def test_one_that_goes_past_us_is_billed_too(world: World, dialect: str) -> None:
    path, headers, body = CALLS[dialect]
    off = spoken("POST", path, (*headers.items(), ("x-holdfast", "off")), json.dumps(body).encode())
    with gated(world.root, world.address) as gate:
        Client(world.address).fault("cut")
        hear(gate.address, off)
        eventually(lambda: gate.calls)
        eventually(lambda: world.abandoned)
        store = gate.gateway.store
        store.flush()
        (call,) = store.calls()
        total = report.bill(store).total
    assert (call.kind, call.status) == ("bypassed", "failed")
    assert call.usage.prompt == sum((world.billed["input"], world.billed["read"], *world.billed["written"].values()))
    assert close_to(call.usage.output, world.billed["output"])
    assert (total.estimated, total.cost) == (1, call.usage.cost)


def test_one_that_goes_past_us_is_known_from_its_first_token_on(world: World) -> None:
    path, headers, body = CALLS["anthropic"]
    Client(world.address).fault("stall", options={"seconds": 60})
    with gated(world.root, world.address) as gate, connect(gate.address) as client:
        off = (*headers.items(), ("x-holdfast", "off"))
        client.sendall(spoken("POST", path, off, json.dumps(body).encode()))
        store = gate.gateway.store
        eventually(lambda: [call.usage is None for call in store.calls_by_status("pending")] == [False])
        (call,) = store.calls_by_status("pending")
        assert dict(call.usage.writes) == world.billed["written"]


def test_every_table_marks_what_is_estimated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with gated(world.root, world.address) as gate:
        Client(world.address).fault("cut")
        hear(gate.address, asked("anthropic"))
        eventually(lambda: gate.calls)
        store = gate.gateway.store
        store.flush()
        (call,) = store.calls()
        use(gate.config.home / "holdfast.db", monkeypatch)
        for command, words in (
            (bill.command, ("--by", "model")),
            (sessions.command, ()),
            (show.command, ()),
            (show.command, (call.session,)),
        ):
            rows = [line for line in piped(command, *words).splitlines() if "$" in line and not line.endswith(".")]
            assert rows
            assert all("~$" in line for line in rows), rows
        assert "(in part estimated)" in piped(show.command, call.id)


@pytest.mark.parametrize("how", ["left", "refused"])
def test_what_was_not_answered_is_not_booked(world: World, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal costs nothing. Of a request that was given up before its answer began nobody knows: at most what was
    predicted."""
    with gated(world.root, world.address) as gate:
        if how == "refused":
            Client(world.address).fault("status", options={"status": 529})
            hear(gate.address, asked("anthropic"))
        else:
            Client(world.address).fault("stall", options={"seconds": 60, "at": "early"})
            client = connect(gate.address)
            client.sendall(asked("anthropic"))
            assert b" 200 " in client.recv(100)  # its head, and no word of it
            client.close()
        eventually(lambda: gate.calls)
        store = gate.gateway.store
        store.flush()
        (call,) = store.calls()
        total = report.bill(store).total
        use(gate.config.home / "holdfast.db", monkeypatch)
        alone = piped(show.command, call.id)
    assert (call.usage, total.cost, total.unanswered, total.estimated) == (None, None, 1, 0)
    assert ("; at most $" in alone) is (how == "left")
    said = " ".join(sentences(total))
    if how == "refused":
        assert total.possible is None
        assert "nothing was billed" in said
    else:
        assert total.possible is not None
        assert total.possible > Decimal("0.02")
        assert "nothing is known to have been billed" in said
        assert f"at most ${total.possible:.4f}" in said


@pytest.mark.slow
def test_what_was_billed_is_known_after_a_kill(world: World) -> None:
    """Of a gateway that is killed in the middle of streams, in every dialect."""
    environ = {f"HOLDFAST_UPSTREAM_{name}": world.address for name in UPSTREAMS}
    environ["HOLDFAST_GATEWAY_LIMITS_STAGES_MS"] = "20000"
    world.warm()
    gateway = Served(world.root, environ)
    clients = [stalled(world, gateway.address, dialect) for dialect in CALLS]
    eventually(lambda: [row["input"] is None for row in world.rows()] == [False] * 4)
    gateway.kill()
    eventually(lambda: all(each["state"] == "abandoned" for each in world.simulator.requests()[1:]))
    before = world.command("bill")["total"]
    gateway = Served(world.root, environ)
    assert gateway.stop() == 0
    rows, total = world.rows(), world.command("bill")["total"]
    assert [row["status"] for row in rows] == ["unknown"] * 4
    assert rows[0]["read"] > 7_000  # as Anthropic told, and nobody had foreseen
    assert (total["cost"], total["estimated"]) == (before["cost"], 4)
    calls = [world.command("show", row["id"]) for row in rows]
    for call, record in zip(calls, world.simulator.requests()[1:], strict=True):
        assert same_prompt(call["usage"], record["usage"])  # what was said was not counted yet
        assert (call["estimated"], call["error"]) == (True, "the process that carried it ended")
    explained = world.command("explain", str(world.root / "holdfast" / "holdfast.db"))
    assert Decimal(str(explained["totals"]["cost_usd"])) == Decimal(total["cost"])
    for client in clients:
        client.close()
