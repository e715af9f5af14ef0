"""The kill switch: `HOLDFAST_OFF` or SIGUSR2 make a gateway a plain relay, and it takes up its lanes again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast import Engine
from holdfast.engine import EngineCore
from holdfast.engine.passage import Passages
from holdfast.simulator.server import running as simulating
from holdfast.store import open_existing
from tests.cli.serve_program import ServeProgram
from tests.simulator.http_client import ANTHROPIC, LONG, Client, Response

from .chore_gates import driven
from .gate import Provider, RecordingSimulator, configured, eventually, gated, hear, spoken

WORDS = ("hello", "and then?", "go on", "more", "again", "the end")


def body(turns: int) -> bytes:
    """A conversation of so many user turns, each answered; written so that any rewriting shows."""
    messages: list[dict[str, Any]] = []
    for number in range(turns):
        messages.append({"role": "user", "content": WORDS[number]})
        messages.append({"role": "assistant", "content": f"answer {number}"})
    asked = {"max_tokens": 50, "model": "claude-opus-4-6", "system": LONG, "messages": messages[:-1]}
    return json.dumps(asked, indent=1).encode()


def ask(client: Client, turns: int) -> Response:
    response = client.post("/v1/messages", body(turns), {**ANTHROPIC, "x-holdfast-session": "s"})
    assert response.status == 200
    return response


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")
def test_a_signal_in_the_middle_of_a_session(tmp_path: Path) -> None:
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream, ServeProgram(tmp_path, upstream, "--verbose") as program:
        client = Client(program.address)
        assert "x-holdfast-plan" in ask(client, 1).headers
        assert b"cache_control" in simulator.bodies[-1]
        assert client.get("/healthz")["mode"] == "on"
        program.process.send_signal(signal.SIGUSR2)
        eventually(lambda: "Holdfast is OFF" in program.out)
        assert client.get("/healthz")["mode"] == "off"
        relayed = [ask(client, turns) for turns in (2, 3)]
        assert [each.headers["x-holdfast-bypassed"] for each in relayed] == ["off", "off"]
        assert not any("x-holdfast-plan" in each.headers or "x-holdfast-call" in each.headers for each in relayed)
        assert simulator.bodies[-2:] == [body(2), body(3)]
        assert "relayed: off" in program.out
        program.process.send_signal(signal.SIGUSR2)
        eventually(lambda: "Holdfast is on" in program.out)
        back = ask(client, 4)
        assert (back.headers["x-holdfast-reset"], "x-holdfast-bypassed" in back.headers) == ("bypassed", False)
        assert b"cache_control" in simulator.bodies[-1]
        assert "x-holdfast-reset" not in ask(client, 5).headers
        assert program.end(signal.SIGTERM) == (0, "")
    store = open_existing(program.home / "holdfast.db")
    assert store is not None
    with store:
        assert [call.kind for call in store.calls()] == ["request"] * 3  # nothing is stored of what was relayed


def test_off_from_the_start_and_on_in_the_next_process(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(address: str, turns: int) -> dict[str, str]:
        heard = hear(address, spoken(headers=tuple({**ANTHROPIC, "x-holdfast-session": "s"}.items()), body=body(turns)))
        return dict(heard.headers())

    with gated(tmp_path, provider.address) as gate:
        said(gate.address, 1)
    monkeypatch.setenv("HOLDFAST_OFF", "1")
    with gated(tmp_path, provider.address) as gate:
        assert said(gate.address, 2)["x-holdfast-bypassed"] == "off"
        assert provider.received[-1].body == body(2)
        assert json.loads(hear(gate.address, spoken("GET", "/healthz")).body)["mode"] == "off"
        assert not any(name.startswith(b"x-holdfast") for name in provider.received[-1].names)
    monkeypatch.delenv("HOLDFAST_OFF")
    with gated(tmp_path, provider.address) as gate:
        assert said(gate.address, 3)["x-holdfast-reset"] == "bypassed"
    with gated(tmp_path, provider.address) as gate:
        assert "x-holdfast-reset" not in said(gate.address, 4)


def test_limits_and_keys_hold_while_it_is_off(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_OFF", "1")
    with gated(tmp_path, provider.address, gateway__limits__body_bytes=100) as gate:
        assert hear(gate.address, spoken(headers=tuple(ANTHROPIC.items()), body=body(1))).status == 413
        token = (("authorization", f"Bearer {gate.token}"), ("anthropic-version", "2023-06-01"))
        assert hear(gate.address, spoken(headers=token, body=b"{}")).status == 403
    assert not provider.received


def test_nothing_of_ours_runs_while_it_is_off(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_OFF", "1")

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the switch is off")

    with gated(tmp_path, provider.address) as gate:
        monkeypatch.setattr(Passages, "begin", fail)
        monkeypatch.setattr(type(gate.gateway.identities), "find", fail)
        heard = hear(gate.address, spoken(headers=tuple(ANTHROPIC.items()), body=b'{"no": "model'))
        assert (heard.status, provider.received[-1].body) == (200, b'{"no": "model')


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_values_that_leave_it_on(
    tmp_path: Path, provider: Provider, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_OFF", value)
    with gated(tmp_path, provider.address) as gate:
        assert not gate.gateway.switch.off


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_the_http_client_of_an_engine_obeys(
    provider: Provider, asynchronous: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_OFF", "1")
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    headers = {**ANTHROPIC, "x-holdfast-session": "s"}
    url = f"{provider.address}/v1/messages"
    engine = Engine(configured(tmp_path, provider.address).for_agent)
    if asynchronous:
        response = _asynchronously(engine, url, headers)
    else:
        with engine.http_client() as client:
            response = client.post(url, content=body(1), headers=headers)
    assert (response.status_code, response.headers["x-holdfast-bypassed"]) == (200, "off")
    assert provider.received[-1].body == body(1)
    assert not any(name.startswith(b"x-holdfast") for name in provider.received[-1].names)


def _asynchronously(engine: Engine, url: str, headers: dict[str, str]) -> httpx2.Response:
    import asyncio

    async def post() -> httpx2.Response:
        async with engine.async_http_client() as client:
            found: httpx2.Response = await client.post(url, content=body(1), headers=headers)
            return found

    return asyncio.run(post())


def test_run_leaves_its_client_alone(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "HOLDFAST_HOME": str(tmp_path / "home"),
        "HOLDFAST_OFF": "1",
        "ANTHROPIC_BASE_URL": "http://mine",
    }
    script = "import os; print(os.environ['ANTHROPIC_BASE_URL'], os.environ.get('OPENAI_BASE_URL'))"
    environ.pop("OPENAI_BASE_URL", None)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "run", "--", sys.executable, "-c", script],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "http://mine None"
    assert "HOLDFAST_OFF is set" in done.stderr
    assert "went past" not in done.stderr  # there was nothing to go past
    assert not (tmp_path / "home" / "holdfast.db").exists()


def test_no_chore_is_done_while_it_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def due(self: EngineCore, *_: object, **__: object) -> tuple[()]:
        asked.append("pings")
        return ()

    monkeypatch.setattr(EngineCore, "pings", due)
    with driven(tmp_path) as gate:
        gate.round()
        assert asked == ["pings"]
        gate.gate.gateway.switch.toggle()
        gate.round()
        assert asked == ["pings"]
        gate.gate.gateway.switch.toggle()
        gate.round()
        assert asked == ["pings"] * 2
