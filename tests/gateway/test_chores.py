"""What is done beside the calls, with the caller's own credential, and never awaited by one."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from holdfast import __version__
from holdfast.gateway import chores as gateway_chores
from holdfast.gateway.chores import IDLE_S
from holdfast.upstream import Address, HttpClient, UpstreamError
from tests.simulator.http_client import Client

from .chore_gates import Driven, driven
from .gate import OK, Provider, eventually, gated

pytestmark = pytest.mark.slow


class TestContents:
    @pytest.mark.parametrize(
        ("query", "headers"),
        [("", None), ("?key=dummy", {}), ("?alt=json&key=dummy&x=1", {})],
        ids=["header", "q", "q2"],
    )
    def test_made_beside_and_then_named(self, tmp_path: Path, query: str, headers: dict[str, str] | None) -> None:
        key = query and "?key=dummy"
        with driven(tmp_path, cache__gemini__enabled=True) as gate:
            for turns in range(1, 5):
                assert gate.gemini(turns, query, headers).status == 200
                gate.clock.advance(30)
            assert len(gate.objects(key, headers)) == 1
            for turns in range(5, 15):
                assert gate.gemini(turns, query, headers).status == 200
                assert gate.last()["usage"]["read"] > 4_096
            gate.clock.advance(1_900)  # it was used, and half of its life is over
            gate.round()
            gate.clock.advance(1_900)
            assert gate.objects(key, headers)  # it would have run out

    def test_deleted_where_a_larger_one_takes_its_place(self, tmp_path: Path) -> None:
        with driven(tmp_path, cache__gemini__enabled=True) as gate:
            seen: set[str] = set()
            turns = 0
            while len(seen) < 2:
                turns += 1
                assert turns < 120
                assert gate.gemini(turns).status == 200
                gate.clock.advance(20)
                seen.update(gate.objects())
            gate.gemini(turns + 1)
            gate.round()
            assert len(gate.objects()) == 1

    def test_at_most_max_active(self, tmp_path: Path) -> None:
        limit = {"cache__gemini__max_active": 2, "cache__gemini__refresh_at": 0.2}
        with driven(tmp_path, cache__gemini__enabled=True, **limit) as gate:
            for number in range(4):
                for turns in range(1, 5):
                    assert gate.gemini(turns, session=f"s{number}").status == 200
                    gate.clock.advance(20)
                assert len(gate.objects()) == min(number + 1, 2)
                gate.clock.advance(900)

    def test_a_vanished_one_is_not_noticed(self, tmp_path: Path) -> None:
        with driven(tmp_path, cache__gemini__enabled=True) as gate:
            for turns in range(1, 5):
                gate.gemini(turns)
                gate.clock.advance(30)
            (name,) = gate.objects()
            gate.simulator.send("DELETE", f"/v1beta/{name}", headers={"x-goog-api-key": "dummy"})
            response = gate.gemini(5)
            assert (response.status, gate.last()["status"]) == (200, 200)
            refused = [each["status"] for each in gate.simulator.get("/_sim/requests?limit=50")["requests"]]
            assert refused.count(403) == 1

    def test_another_refusal_passes_as_it_is(self, tmp_path: Path) -> None:
        with driven(tmp_path, cache__gemini__enabled=True) as gate:
            for turns in range(1, 5):
                gate.gemini(turns)
                gate.clock.advance(30)
            gate.simulator.fault("status", options={"status": 503, "message": "busy", "retry_after": 2})
            response = gate.gemini(5)
            assert (response.status, response.json["error"]["message"]) == (503, "busy")
            assert response.headers["retry-after"] == "2"

    def test_off_by_default(self, tmp_path: Path) -> None:
        with driven(tmp_path) as gate:
            for turns in range(1, 5):
                gate.gemini(turns)
                gate.clock.advance(30)
            gate.round()
            assert gate.objects() == []

    def test_a_failure_is_brought_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What could not be made is tried again after the length of a life, not taken to be under way for ever."""
        send, tried = HttpClient.send, []

        async def fail(client: HttpClient, upstream: Address, method: str, target: str, *rest: Any) -> Any:
            if target.endswith("cachedContents"):
                tried.append(target)
                raise UpstreamError("unreachable")
            return await send(client, upstream, method, target, *rest)

        with driven(tmp_path, cache__gemini__enabled=True, cache__gemini__ttl_s=600) as gate:
            monkeypatch.setattr(HttpClient, "send", fail)
            for turns in range(1, 5):
                assert gate.gemini(turns).status == 200
                gate.clock.advance(30)
            monkeypatch.undo()
            assert (gate.objects(), len(tried)) == ([], 1)
            for turns in range(5, 30):
                gate.clock.advance(30)
                gate.gemini(turns)
            assert gate.objects()

    def test_a_refused_call_asks_for_nothing(self, tmp_path: Path) -> None:
        with driven(tmp_path, cache__gemini__enabled=True) as gate:
            for turns in range(1, 5):
                gate.simulator.fault("status", options={"status": 401}, match={"path": ":generateContent"})
                assert gate.gemini(turns).status == 401
                gate.clock.advance(30)
            assert gate.objects() == []


class TestPings:
    FLAGS = {"cache__keepalive__enabled": True, "cache__strategy": "rolling"}  # noqa: RUF012
    PAUSE = 420

    def visits(self, gate: Driven, turns: int = 14) -> list[Any]:
        told = []
        for number in range(1, turns + 1):
            told.append(gate.anthropic(number))
            eventually(lambda number=number: len(gate.gate.calls) == number)
            for _ in range(self.PAUSE // 20):
                gate.clock.advance(20)
                gate.round()
        return told

    @pytest.mark.slow
    def test_a_lane_is_kept_alive(self, tmp_path: Path) -> None:
        with driven(tmp_path, **self.FLAGS) as gate:
            told = self.visits(gate)
            found = gate.simulator.get("/_sim/requests?limit=100")["requests"]
            store = gate.gate.gateway.store
            assert store is not None
            eventually(lambda: "ping" in {call.kind for call in store.calls()})
        assert told[8]["cache_read_input_tokens"] == 0  # too few pauses had been seen
        assert told[-1]["cache_read_input_tokens"] > 512
        assert len(found) > 14

    @pytest.mark.slow
    def test_a_ping_that_fails_keeps_nothing(self, tmp_path: Path) -> None:
        with driven(tmp_path, **self.FLAGS) as gate:
            self.visits(gate, 13)
            gate.anthropic(14)
            gate.simulator.fault("status", times=0, options={"status": 529})
            for _ in range(15):
                gate.clock.advance(20)
                gate.round()
            store = gate.gate.gateway.store
            assert store is not None
            eventually(lambda: ("ping", "failed") in {(call.kind, call.status) for call in store.calls()})

    def test_who_pays_and_nothing_of_the_client(self, tmp_path: Path) -> None:
        with driven(tmp_path, **self.FLAGS) as gate:
            gate.anthropic(1)
            eventually(lambda: gate.gate.calls)
            (entry,) = gate.chores.lanes.values()
            assert sorted(entry.headers) == [
                (b"accept-encoding", b"identity"),
                (b"anthropic-version", b"2023-06-01"),
                (b"user-agent", f"holdfast/{__version__}".encode()),
                (b"x-api-key", b"sk-ant-dummy"),
            ]
            gate.clock.advance(IDLE_S + 1)
            gate.round()
            assert not gate.chores.lanes

    def test_nothing_is_kept_where_nothing_will_be_done(self, tmp_path: Path) -> None:
        with driven(tmp_path) as gate:
            gate.anthropic(1)
            eventually(lambda: gate.gate.calls)
            assert not gate.chores.lanes

    def test_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gateway_chores, "MOST_LANES", 3)
        with Provider(OK) as provider, gated(tmp_path, provider.address, **self.FLAGS) as gate:
            client = Client(gate.address)
            body = {"model": "claude-sonnet-5-5", "max_tokens": 64, "messages": [{"role": "user", "content": "x"}]}
            for number in range(6):
                headers = {"x-api-key": "k", "x-holdfast-session": f"s{number}"}
                assert client.post("/v1/messages", json.dumps(body).encode(), headers).status == 200
            eventually(lambda: len(gate.calls) == 6)
            assert [entry.lane.session for entry in gate.gateway.chores.lanes.values()] == ["s3", "s4", "s5"]


class TestRetention:
    def test_old_rows_go(self, tmp_path: Path) -> None:
        with driven(tmp_path, store__retention=1) as gate:
            store = gate.gate.gateway.store
            gate.anthropic(1)
            eventually(lambda: [call.status for call in store.calls()] == ["settled"])
            gate.round()
            assert store.calls()
            gate.clock.advance(3 * 86_400)
            gate.round()
            assert store.calls() == []


def test_a_chore_that_fails_is_no_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with driven(tmp_path) as gate:

        async def fail() -> None:
            raise RuntimeError("sk-ant-dummy")

        async def begin() -> None:
            gate.chores.begin(fail())

        with caplog.at_level(logging.WARNING):
            asyncio.run_coroutine_threadsafe(begin(), gate.chores.loop).result(10)
            eventually(lambda: "a chore failed: RuntimeError" in caplog.text)
        assert "sk-ant-dummy" not in caplog.text


def test_a_round_that_fails_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gateway_chores, "TICK_S", 0.01)
    with gated(tmp_path, "http://127.0.0.1:1") as gate:
        rounds = []

        def fail(*_: object, **__: object) -> None:
            rounds.append(1)
            raise RuntimeError("sk-ant-dummy")

        monkeypatch.setattr(gate.gateway.engine, "pings", fail)
        eventually(lambda: len(rounds) >= 2)
        eventually(lambda: "chores failed: RuntimeError" in caplog.text)
    assert "sk-ant-dummy" not in caplog.text
