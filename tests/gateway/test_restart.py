"""A gateway that was restarted goes on as if it had not been: nothing is read late, forgotten or bypassed."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import time
import urllib.request
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from benchmarks.restart_clients import Client
from holdfast.engine import EngineCore
from holdfast.gateway import assembly
from holdfast.gateway.server import GatewayServer
from holdfast.simulator import Simulator
from holdfast.simulator.server import running

from .fuzzing_process import Served
from .gate import eventually, gated, hear, spoken

PLAIN = Client("plain")
RESERIALISING = Client("re-serialising", named=True, tools_shuffled=True, keys_shuffled=True)
LARGE = 54
"""The number of the request from which the plain conversation has nearly a megabyte."""


class Said(dict[str, Any]):
    """An answer, and what the gateway says of it."""

    def __init__(self, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(json.loads(body))
        self.ours = headers

    @property
    def read(self) -> int:
        return int(self["usage"]["cache_read_input_tokens"])

    @property
    def written(self) -> int:
        return int(self["usage"]["cache_creation_input_tokens"])


def ask(gateway: Served, client: Client, number: int) -> Said:
    headers = {"x-api-key": f"sk-{client.name}", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    if client.named:
        headers["x-claude-code-session-id"] = client.name
    request = urllib.request.Request(f"{gateway.address}/v1/messages", client.body(number), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        return Said(answer.read(), dict(answer.headers.items()))


def settled(home: Path) -> int:
    """How many calls are on the disk."""
    with contextlib.closing(sqlite3.connect(f"file:{home / 'holdfast' / 'holdfast.db'}?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT count(*) FROM calls WHERE status = 'settled'").fetchone()[0])


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_conversations_read_their_cache_after_a_restart(tmp_path: Path, ending: signal.Signals) -> None:
    """One of a megabyte that nobody names, and one whose client orders its keys anew in every request."""
    with running(Simulator()) as upstream:
        environ = {"HOLDFAST_UPSTREAM_ANTHROPIC": upstream}
        gateway = Served(tmp_path, environ)
        small = [ask(gateway, RESERIALISING, number) for number in range(3)][-1]
        large = [ask(gateway, PLAIN, number) for number in (0, 1, 2, LARGE)][-1]
        assert len(PLAIN.body(LARGE)) > 800_000
        assert large.written > 200_000
        eventually(lambda: settled(tmp_path) == 7)  # only the last moments may be lost with a kill
        gateway.stop() if ending is signal.SIGTERM else gateway.kill()
        gateway = Served(tmp_path, environ)
        try:
            after_large, after_small = ask(gateway, PLAIN, LARGE + 1), ask(gateway, RESERIALISING, 3)
        finally:
            gateway.stop()
    for before, after in ((large, after_large), (small, after_small)):
        assert "x-holdfast-bypassed" not in after.ours
        assert "x-holdfast-reset" not in after.ours
        assert after.read == before.read + before.written
    assert "key-order" in after_small.ours["x-holdfast-repairs"]


def test_what_a_warm_lane_needs_is_loaded_before_its_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client("plain")
    headers = (("x-api-key", "k"), ("anthropic-version", "2023-06-01"), ("connection", "close"))
    with running(Simulator()) as upstream:
        with gated(tmp_path, upstream) as gate:
            assert hear(gate.address, spoken(headers=headers, body=client.body(1), close=False)).status == 200
        with gated(tmp_path, upstream) as gate:
            asked: list[str] = []
            for name in ("ledger", "pool", "calls", "edits", "lanes", "sessions", "active_sessions"):
                watched(gate.gateway.store, name, asked, monkeypatch)
            heard = hear(gate.address, spoken(headers=headers, body=client.body(2), close=False))
            assert (heard.status, asked) == (200, [])
            assert b"x-holdfast-bypassed" not in heard.head
            assert json.loads(heard.body)["usage"]["cache_read_input_tokens"] > 0


def test_what_is_loaded_on_first_use_is_there_before_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(assembly, "warm_up", lambda: done.append("warm"))
    monkeypatch.setattr(GatewayServer, "startup", partialmethod(_noted, GatewayServer.startup, done))
    with gated(tmp_path, "http://127.0.0.1:9"):
        assert done == ["warm", "listening"]


async def _noted(server: GatewayServer, startup: Any, done: list[str], *given: Any, **options: Any) -> None:
    done.append("listening")
    await startup(server, *given, **options)


def watched(store: Any, name: str, asked: list[str], patch: pytest.MonkeyPatch) -> None:
    """Write down when a question is put to the store."""
    answer = getattr(store, name)

    def asking(*arguments: Any, **options: Any) -> Any:
        asked.append(name)
        return answer(*arguments, **options)

    patch.setattr(store, name, asking)


def test_a_machine_that_is_busy_with_something_else_lets_nothing_pass_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only our own processor time counts: what a request waits in vain is not its fault."""
    parse = EngineCore.parse

    def waits(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.12)
        return parse(*arguments, **options)

    monkeypatch.setattr(EngineCore, "parse", waits)
    with running(Simulator()) as upstream, gated(tmp_path, upstream, gateway__limits__stages_ms=50) as gate:
        heard = hear(
            gate.address, spoken(headers=(("x-api-key", "k"), ("anthropic-version", "2023-06-01")), body=PLAIN.body(0))
        )
    assert heard.status == 200
    assert b"x-holdfast-bypassed" not in heard.head
