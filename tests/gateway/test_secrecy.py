"""No credential anywhere but on its way to the provider: secrets are planted in every place a request has for them,
everything is made to happen, and then all that is left behind is searched."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.cli.serve import introduction, line
from holdfast.engine import EngineCore
from holdfast.gateway.assembly import Gateway
from holdfast.gateway.request_reader import GatewayRequest
from holdfast.gateway.server import running
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.simulator.served import LONG, Client, Response

from .gate import Gated, configured, eventually, hear, spoken

SECRETS = {
    "x-api-key": "sk-ant-planted-1111",
    "authorization": "sk-planted-2222",
    "x-goog-api-key": "AIza-planted-3333",
    "query": "AIza-planted/4444+x",
    "cookie": "session-planted-5555",
    "proxy": "proxy-planted-6666",
    "admin": "admin-planted-7777",
    "door": "door-planted-8888",
    "basic": "user-planted:pass-9999",
}


def spellings(secret: str) -> Iterator[bytes]:
    yield secret.encode()
    yield quote(secret, safe="").encode()
    yield base64.b64encode(secret.encode()).rstrip(b"=")
    yield secret.encode().hex().encode()


def turn(number: int, system: str = LONG) -> dict[str, Any]:
    said: list[dict[str, Any]] = []
    for each in range(number):
        said += [{"role": "user", "content": f"question {each} {LONG}"}, {"role": "assistant", "content": "answer"}]
    said.append({"role": "user", "content": f"question {number}"})
    return {"model": "claude-opus-4-6", "max_tokens": 500, "system": system, "messages": said}


class Everything:
    """One run in which everything happens, with what was said to clients and printed."""

    def __init__(self, gate: Gated, upstream: str, calls: list[GatewayRequest]) -> None:
        self.gate, self.upstream, self.calls = gate, Client(upstream), calls
        self.key = (gate.config.home / "access-key").read_text().strip()
        self.said: list[bytes] = []
        self.client = Client(gate.address)

    def post(self, path: str, body: Any, headers: dict[str, str], *, door: bool = True) -> Response:
        planted = {"cookie": f"a={SECRETS['cookie']}", "proxy-authorization": f"Basic {SECRETS['proxy']}"}
        path = f"/k/{self.key}{path}" if door else path
        response = self.client.post(path, body, headers | planted)
        self.said.append(repr(response.headers).encode() + response.body)
        return response

    def ask(self, path: str, token: str) -> Response:
        response = self.client.send("GET", path, headers={"authorization": f"Bearer {token}"})
        self.said.append(repr(response.headers).encode() + response.body)
        return response

    def calls_of_every_kind(self) -> None:
        anthropic = {"x-api-key": SECRETS["x-api-key"], "anthropic-version": "2023-06-01"}
        bearer = {"authorization": f"Bearer {SECRETS['authorization']}"}
        for number in range(4):
            assert self.post("/v1/messages", turn(number), anthropic).status == 200
        assert self.post("/v1/messages", turn(4, "Now another system text. " + LONG), anthropic).status == 200
        chat = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "hello"}]}
        assert self.post("/v1/chat/completions", chat, bearer).status == 200
        assert self.post("/v1/responses", {"model": "gpt-5.5", "input": "hello"}, bearer).status == 200
        contents = {"contents": [{"role": "user", "parts": [{"text": LONG}]}]}
        model = "/v1beta/models/gemini-2.5-pro:generateContent"
        assert self.post(model, contents, {"x-goog-api-key": SECRETS["x-goog-api-key"]}).status == 200
        assert self.post(f"{model}?key={quote(SECRETS['query'], safe='')}", contents, {}).status == 200
        basic = base64.b64encode(SECRETS["basic"].encode()).decode()
        assert self.post("/v1/chat/completions", chat, {"authorization": f"Basic {basic}"}).status < 500

    def what_goes_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        anthropic = {
            "x-api-key": SECRETS["x-api-key"],
            "authorization": f"Bearer {SECRETS['authorization']}",
            "anthropic-version": "2023-06-01",
        }
        query = f"?key={quote(SECRETS['query'], safe='')}"
        for kind, options in (("status", {"status": 401}), ("status", {"status": 429}), ("sse_error", {})):
            self.upstream.fault(kind, options=options)
            self.post("/v1/messages", turn(5) | {"stream": True}, anthropic)
        self.upstream.fault("cut", options={"at": "mid"})
        body = json.dumps(turn(1)).encode()
        data = spoken("POST", f"/k/{self.key}/v1/messages{query}", tuple(anthropic.items()), body)
        self.said.append(hear(self.gate.address, data).data)
        for odd in (b"not JSON", b"\xff", b"{" * 3_000):
            self.post(f"/v1/messages{query}", odd, anthropic)
        self.post("/v1/messages", turn(1), anthropic | {"x-holdfast": "off"})
        self.post(f"/nowhere{query}", b"{}", anthropic)
        self.post(f"/openai/v1/files{query}", b"{}", anthropic)
        self.post(f"/v1/messages{query}", b"{}", anthropic | {"x-holdfast-key": SECRETS["door"]}, door=False)
        self.post(f"/k/{SECRETS['door']}/v1/messages", b"{}", anthropic, door=False)
        self.ask("/analytics/sessions", SECRETS["admin"])

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError(f"the header was {SECRETS['x-api-key']}, the query {query}")

        with monkeypatch.context() as patch:
            patch.setattr(EngineCore, "prepare", fail)
            assert self.post(f"/v1/messages{query}", turn(1), anthropic).status == 200

    def left_behind(self) -> dict[str, bytes]:
        """Everything that can be looked at afterwards, by where it is."""
        token = self.gate.token
        self.ask("/healthz", token)
        for path in ("cache_effectiveness", "breaks", "sessions"):
            assert self.ask(f"/analytics/{path}", token).status == 200
        store = self.gate.gateway.store
        assert store is not None
        for call in store.calls():
            assert self.ask(f"/calls/{call.id}", token).status == 200
        found = {f"answer {number}": said for number, said in enumerate(self.said)}
        found["lines"] = "\n".join(line(call) for call in self.calls).encode()
        found["introduction"] = introduction(self.gate.config, self.gate.address, needs_key=True).encode()
        return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    home = tmp_path_factory.mktemp("home")
    logged: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(self.format(record))

    handler, root = Kept(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    calls: list[GatewayRequest] = []
    try:
        with simulating(Simulator()) as upstream, pytest.MonkeyPatch.context() as patch:
            config = configured(home, upstream, gateway__preflight_usd=0.0001)
            gateway = Gateway(config, host="0.0.0.0", on_call=calls.append)
            with running(config, gateway=gateway) as address:
                everything = Everything(Gated(address, gateway, config, calls), upstream, calls)
                everything.calls_of_every_kind()
                everything.what_goes_wrong(patch)
                store = gateway.store
                assert store is not None
                eventually(lambda: store.breaks())
                left = everything.left_behind()
                left |= files(config.home)  # while it runs
            left |= {f"{name} afterwards": data for name, data in files(config.home).items()}
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    left["log"] = "\n".join(logged).encode()
    return left


def files(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", list(SECRETS))
def test_nothing_is_left_of_a_credential(found: dict[str, bytes], place: str) -> None:
    for spelling in spellings(SECRETS[place]):
        assert [where for where, data in found.items() if spelling in data] == []


def test_our_own_keys_stand_in_their_files_only(found: dict[str, bytes]) -> None:
    for name in ("access-key", "admin-token", "tenant-key"):
        key = found[name].strip()
        assert len(key) > 30
        assert [where for where, data in found.items() if key in data] == [name, f"{name} afterwards"]


def test_there_was_something_to_search(found: dict[str, bytes]) -> None:
    """The search is worth something only if all of it happened and was kept."""
    assert any(name.startswith("cache-breaks") for name in found)
    assert b"gateway.bypassed" in found["holdfast.db afterwards"]
    assert b"gateway.auth_failed" in found["holdfast.db afterwards"]
    assert b"prepare failed: RuntimeError" in found["log"]
    assert b"bypassed: error" in found["lines"]
    assert b"claude-opus-4-6" in found["holdfast.db afterwards"]
    assert len(found) > 30
