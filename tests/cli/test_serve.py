"""`holdfast serve`: what it prints, how it ends, and what it says to bad input."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.cli.serve import introduction
from holdfast.config import load
from holdfast.serving import listen
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.cli.commands import output, refused
from tests.cli.serve_program import ServeProgram
from tests.simulator.http_client import ANTHROPIC, Client, marked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ends by signals")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_and_ends_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with simulating(Simulator()) as upstream, ServeProgram(tmp_path, upstream, "--verbose") as program:
        address = program.address
        client = Client(address)
        assert client.get("/healthz")["status"] == "ok"
        response = client.post("/v1/messages?key=planted-secret", marked(), ANTHROPIC)
        assert (response.status, "x-holdfast-call" in response.headers) == (200, True)
        assert client.send("GET", "/v1/models", headers=ANTHROPIC).status == 200
        assert client.post("/chat/v7?key=planted-secret", {}, ANTHROPIC).status == 404
        (known,) = (program.home / "gateways").iterdir()
        assert (json.loads(known.read_text())["address"], known.stat().st_mode & 0o77) == (address, 0)
        for more, status in (({"origin": "https://evil.example"}, 403), ({"host": "evil.example"}, 403)):
            assert client.post("/v1/messages?key=planted-secret", marked(), ANTHROPIC | more).status == status
        token = (program.home / "admin-token").read_text().strip()
        assert client.post("/v1/messages", marked(), ANTHROPIC | {"cookie": f"a={token}"}).status == 403
        assert program.end(number) == (0, "")
    assert not known.exists()
    out = program.out
    assert f"export ANTHROPIC_BASE_URL={address}\n" in out
    assert f"export OPENAI_BASE_URL={address}/v1\n" in out
    assert f"export GOOGLE_GEMINI_BASE_URL={address}\n" in out
    assert str(program.home / "admin-token") in out
    told = next(line for line in out.splitlines() if "POST" in line)
    assert "200  POST anthropic /v1/messages  read 0  written " in told
    assert response.headers["x-holdfast-call"] in told
    assert "GET anthropic /v1/models" in out
    missed = next(line for line in out.splitlines() if "/chat/v7" in line)
    assert "404  POST /chat/v7  refused (path): POST /chat/v7 is not served; there are POST /v1/messages" in missed
    assert missed.endswith("; check the client's base address")
    assert "403  POST /v1/messages  refused (origin): " in out
    assert "403  POST /v1/messages  refused (host): " in out
    assert "403  POST /v1/messages  refused (own key): " in out
    for secret in ("planted-secret", ANTHROPIC["x-api-key"], (program.home / "admin-token").read_text().strip()):
        assert secret not in out


@pytest.mark.slow
def test_two_signals_end_it_at_once(tmp_path: Path) -> None:
    simulator = Simulator()
    with simulating(simulator) as upstream, ServeProgram(tmp_path, upstream) as program:
        Client(upstream).fault("stall", options={"seconds": 600, "at": "mid"})
        with Client(program.address).connect(marked(stream=True)) as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            program.process.send_signal(signal.SIGINT)
            threading.Event().wait(0.3)
            assert program.process.poll() is None
            assert program.end(signal.SIGINT) == (0, "")


def test_help() -> None:
    out = output("serve", "--help")
    assert "holdfast serve --port 0 --verbose" in out
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:8788 claude" in out


def test_a_port_in_use() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} on 127.0.0.1 is in use; choose another with `--port`" in refused(
            "serve", "--port", str(port)
        )


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--port", "99999"], 2, "99999 is not in the range"),
        (["--host", "nowhere.invalid", "--port", "0"], 1, "the host 'nowhere.invalid' is not known"),
        (["--what"], 2, "No such option"),
    ],
)
def test_bad_input(arguments: list[str], code: int, says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["serve", *arguments]) == code
    assert says in capfd.readouterr().err


def test_a_bad_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_UPSTREAM_OPENAI", "https://user:hunter2@api.example")
    err = refused("serve", "--port", "0")
    assert "upstream.openai has parts that an upstream cannot have" in err
    assert "hunter2" not in err


def test_where_the_access_key_is(tmp_path: Path) -> None:
    """On any other address the key is needed: its file is named, never the key."""
    config = load(workspace=None, home=tmp_path, environ={"HOME": str(tmp_path)})
    text = introduction(config, "http://192.0.2.1:8788", needs_key=True)
    assert "ANTHROPIC_BASE_URL=http://192.0.2.1:8788/k/KEY\n" in text
    assert f"KEY is in {tmp_path / 'access-key'}" in text
    assert "KEY" not in introduction(config, "http://127.0.0.1:8788", needs_key=False)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "Memory: given to no client (memory.inject).\n"),
        ("[memory]\ninject = true\n", "Memory: all clients are given entries of their own tenant (memory.inject).\n"),
        (
            '[memory]\ninject = true\ninject_as = "local"\ninject_tenants = ["a", "b"]\n',
            "Memory: clients of 2 tenants are given what `holdfast memory list` shows (memory.inject).\n",
        ),
        ("[agents.scout.memory]\ninject = true\n", "Memory: all clients that call themselves scout are given"),
    ],
)
def test_it_says_who_is_given_memory(tmp_path: Path, settings: str, said: str) -> None:
    (tmp_path / "holdfast.toml").write_text(settings)
    config = load(home=tmp_path, workspace=None, environ={})
    assert said in introduction(config, "http://127.0.0.1:8788", needs_key=False)


def test_without_a_store_nobody_is_said_to_be_given_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MEMORY_INJECT", "true")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "holdfast.db").write_bytes(b"no database at all " * 500)
    with ServeProgram(tmp_path, "http://127.0.0.1:9") as program:
        assert "Memory: given to no client, for nothing is stored.\n" in program.out


@pytest.mark.parametrize(("way", "done"), [("observe", "observed, not edited"), ("manage", "planned and edited like")])
def test_it_says_what_happens_to_subscriptions(tmp_path: Path, way: str, done: str) -> None:
    config = load(home=tmp_path, workspace=None, environ={"HOLDFAST_GATEWAY_SUBSCRIPTIONS": way})
    said = introduction(config, "http://127.0.0.1:8788", needs_key=False)
    assert f"  Subscriptions: requests of Claude and ChatGPT logins are {done}" in said
    assert "at list price" in said
