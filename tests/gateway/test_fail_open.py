"""Never in the way: whatever of ours fails or is slow, the client's own bytes go to the provider."""

from __future__ import annotations

import gc
import json
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import EngineCore
from holdfast.errors import HoldfastError
from holdfast.gateway.assembly import Gateway
from holdfast.gateway.chores import Chores
from holdfast.gateway.server import serve
from holdfast.serving import listen
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.simulator.http_client import Client

from .gate import HELLO, HELLO_BODY, HELLO_HEADERS, Gated, Provider, configured, eventually, gated, hear, spoken


def bypass(heard: Any) -> str | None:
    return dict(heard.headers()).get("x-holdfast-bypassed")


def test_without_a_fault_the_body_is_planned(gate: Gated, provider: Provider) -> None:
    assert bypass(hear(gate.address, HELLO)) is None
    assert provider.received[0].body != HELLO_BODY
    assert b"cache_control" in provider.received[0].body


@pytest.mark.parametrize("stage", ["parse", "read", "prepare"])
def test_an_engine_that_fails(gate: Gated, provider: Provider, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("sk-ant-dummy must not be told")

    monkeypatch.setattr(EngineCore, stage, fail)
    heard = hear(gate.address, HELLO)
    assert (heard.status, bypass(heard), provider.received[0].body) == (200, "error", HELLO_BODY)
    assert b"must not be told" not in heard.data


def test_an_engine_that_is_slow(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = EngineCore.parse

    def slowly(*arguments: Any, **options: Any) -> Any:
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        return parse(*arguments, **options)

    monkeypatch.setattr(EngineCore, "parse", slowly)
    with gated(tmp_path, provider.address, gateway__limits__stages_ms=50) as gate:
        heard = hear(gate.address, HELLO)
    assert (heard.status, bypass(heard), provider.received[0].body) == (200, "slow", HELLO_BODY)


@pytest.mark.parametrize("part", ["begin", "tenant"])
@pytest.mark.parametrize("size", [0, 200_000])
def test_a_gateway_that_fails(
    gate: Gated, provider: Provider, part: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    owner = gate.gateway.passages if part == "begin" else gate.gateway.identities
    monkeypatch.setattr(owner, part, fail)
    body = HELLO_BODY + b" " * size
    heard = hear(gate.address, spoken(headers=HELLO_HEADERS, body=body))
    assert (heard.status, provider.received[0].body) == (200, body)


@pytest.mark.parametrize("part", ["answer", "feed", "finish", "response_headers"])
def test_what_fails_afterwards_is_not_noticed(
    gate: Gated, provider: Provider, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(f"holdfast.engine.passage.passage.Passage.{part}", fail)
    for _ in range(2):
        heard = hear(gate.address, HELLO)
        assert (heard.status, heard.body, heard.reset) == (200, b"{}", False)
    eventually(lambda: len(gate.calls) == 2)


@pytest.mark.parametrize(("broken", "status", "reset"), [("to_send", 500, False), ("to_pass_on", 500, False)])
def test_a_fault_of_the_gateway_itself(
    gate: Gated,
    broken: str,
    status: int,
    reset: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("sk-ant-dummy")

    monkeypatch.setattr(f"holdfast.gateway.pipeline.{broken}", fail)
    heard = hear(gate.address, HELLO)
    assert (heard.status, heard.reset) == (status, reset)
    assert json.loads(heard.body)["error"]["type"] == "api_error"
    assert "a request failed: RuntimeError (test_fail_open.py:" in caplog.text
    assert "sk-ant-dummy" not in caplog.text + heard.data.decode()


@pytest.mark.parametrize(("head", "status", "reset"), [("with its body", 500, False), ("first", 200, True)])
def test_a_fault_after_the_head_is_no_end(
    gate: Gated, head: str, status: int, reset: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("aiohttp.StreamReader.at_eof", fail)
    monkeypatch.setattr("holdfast.upstream.Response.has_come", lambda _: head == "with its body")
    heard = hear(gate.address, HELLO)
    assert (heard.status, heard.reset) == (status, reset)


def test_the_header_that_says_so(gate: Gated, provider: Provider) -> None:
    heard = hear(gate.address, spoken(headers=(*HELLO_HEADERS, ("x-holdfast", "off")), body=HELLO_BODY))
    assert (bypass(heard), provider.received[0].body) == ("off", HELLO_BODY)


def test_what_went_past_us_is_stored(gate: Gated) -> None:
    hear(gate.address, spoken(headers=(*HELLO_HEADERS, ("x-holdfast", "off")), body=HELLO_BODY))
    store = gate.gateway.store
    eventually(lambda: [call.kind for call in store.calls()] == ["bypassed"])
    (call,) = store.calls()
    eventually(lambda: "gateway.bypassed" in [e.type for e in store.events(call.tenant, call.session)])


def test_a_store_that_cannot_be_opened(provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "holdfast.db").write_bytes(b"this is no database" * 100)
    with gated(tmp_path, provider.address) as gate:
        assert hear(gate.address, HELLO).status == 200
        assert b"cache_control" in provider.received[0].body
        health = Client(gate.address).get("/healthz")
        assert (health["status"], health["store"]) == ("degraded", "down")
    assert "going on in memory" in caplog.text


def test_a_home_that_cannot_be_written(provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "holdfast").write_text("a file where the directory should be")
    with gated(tmp_path, provider.address) as gate:
        assert hear(gate.address, HELLO).status == 200
    assert "tenant-key cannot be used" in caplog.text


@pytest.mark.slow
def test_a_store_that_is_locked_by_another(tmp_path: Path) -> None:
    with simulating(Simulator()) as upstream, gated(tmp_path, upstream) as gate:
        assert hear(gate.address, HELLO).status == 200
        store = gate.store
        eventually(lambda: store.calls())
        other = sqlite3.connect(gate.config.home / "holdfast.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        try:
            for _ in range(3):
                assert hear(gate.address, HELLO).status == 200
        finally:
            other.execute("ROLLBACK")
            other.close()
        assert hear(gate.address, HELLO).status == 200


class TestPreflight:
    def test_hold(self, provider: Provider, tmp_path: Path) -> None:
        with gated(tmp_path, provider.address, gateway__preflight="hold", gateway__preflight_usd=0.0001) as gate:
            heard = hear(gate.address, HELLO)
            assert (heard.status, provider.received) == (428, [])
            headers = dict(heard.headers())
            assert headers["x-should-retry"] == "false"
            error = json.loads(heard.body)
            assert error["type"] == "error"
            assert "x-holdfast-preflight: send" in error["error"]["message"]
            again = spoken(headers=(*HELLO_HEADERS, ("x-holdfast-preflight", "send")), body=HELLO_BODY)
            assert hear(gate.address, again).status == 200
            assert b"x-holdfast-preflight" not in provider.received[0].names
            store = gate.store
            eventually(lambda: [call.status for call in store.calls()][:1] == ["failed"])

    def test_warn(self, provider: Provider, tmp_path: Path) -> None:
        with gated(tmp_path, provider.address, gateway__preflight_usd=0.0001) as gate:
            heard = hear(gate.address, HELLO)
        assert heard.status == 200
        assert "above the limit of $0.0001" in dict(heard.headers())["x-holdfast-warning"]

    def test_headers_can_be_left_out(self, provider: Provider, tmp_path: Path) -> None:
        with gated(tmp_path, provider.address, gateway__headers=False) as gate:
            heard = hear(gate.address, HELLO)
        assert not [name for name, _ in heard.headers() if name.startswith("x-holdfast")]


class TestStart:
    """One that cannot start says so; whoever is sent to it would wait."""

    @pytest.fixture(autouse=True)
    def broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("sk-ant-dummy")

        monkeypatch.setattr(Chores, "start", fail)

    def test_in_this_process(self, tmp_path: Path) -> None:
        with (
            pytest.raises(HoldfastError, match=r"the gateway did not start: RuntimeError \(test_fail_open.py:\d+\);"),
            gated(tmp_path, "http://127.0.0.1:1"),
        ):
            pytest.fail("it is said to run")

    def test_by_the_command(self, tmp_path: Path) -> None:
        config, threshold, ready = configured(tmp_path, "http://127.0.0.1:1"), gc.get_threshold(), threading.Event()
        try:
            with listen("127.0.0.1", 0) as listener, pytest.raises(HoldfastError, match="the gateway did not start"):
                serve(config, Gateway(config), listener, ready.set)
        finally:
            gc.unfreeze()
            gc.set_threshold(*threshold)
        assert not ready.is_set()
