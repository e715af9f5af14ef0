"""No credential anywhere but on its way to the provider: secrets are planted in every place a request has for them,
everything is made to happen, and then all that is left behind is searched."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
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
from holdfast.serving import listen
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from holdfast.upstream.addresses import MASK, shown_address, shown_path
from tests.cli.commands import holdfast
from tests.cli.serve_program import ServeProgram
from tests.simulator.http_client import LONG, Client, Response

from .gate import Gated, Provider, configured, eventually, hear, spoken

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


PLANTED = {
    "base": "plantedbase0a1b2c3d",
    "word": "correcthorsebattery",
    "door": "planteddoor",
    "path": "sk-ant-api03-planted0000aaaa1111bbbb2222",
    "query": "AIzaplantedquery99",
    "header": "sk-plantedheader77",
    "password": "plantedpassword",
}
ANSWER = json.dumps({"type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 3}}).encode()
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
EVERYTHING = """
import logging, runpy, sys
logging.getLogger().setLevel(logging.DEBUG)
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, force=True)
sys.argv[0] = "holdfast"
runpy.run_module("holdfast", run_name="__main__")
"""
"""The program with every logger that it and its libraries have switched on."""

_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(OK) as made:
        yield made


def secret_base(provider: Provider) -> str:
    return f"{provider.address}/{PLANTED['word']}/k/{PLANTED['base']}/v1"


def post(address: str, headers: dict[str, str]) -> None:
    body = {"model": "claude-haiku-4-5", "max_tokens": 20, "messages": [{"role": "user", "content": "Hi."}]}
    given = {"content-type": "application/json", "anthropic-version": "2023-06-01", **headers}
    try:
        with _open(urllib.request.Request(address, json.dumps(body).encode(), given), timeout=30) as answer:
            answer.read()
    except urllib.error.HTTPError as refused:
        refused.close()


def clean_of_keys(text: str) -> None:
    for place, key in PLANTED.items():
        assert key not in text, place


def test_serve_verbose_prints_no_key(tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    with ServeProgram(tmp_path, secret_base(provider), "--verbose") as program:
        address = re.match(r"listening on (\S+)\n", program.out)
        key = {"x-api-key": PLANTED["header"]}
        post(f"{address[1]}/v1/messages?key={PLANTED['query']}", key)
        post(f"{address[1]}/k/{PLANTED['door']}/v1/messages", key)
        post(f"{address[1]}/v1/messages/{PLANTED['path']}", key)
        post(f"{address[1]}/nowhere/k/{PLANTED['door']}/v1/messages?key={PLANTED['query']}", key)
        post(f"{address[1]}/nowhere/{PLANTED['path']}", key)
        eventually(lambda: program.out.count("  POST ") == 5, 30)
        out = program.out + program.printed.with_suffix(".err").read_text()
    assert provider.received[0].line.split()[1].startswith(f"/{PLANTED['word']}/k/{PLANTED['base']}/v1/".encode())
    clean_of_keys(out)
    assert "200  POST anthropic …/messages" in out
    assert f"404  POST /nowhere/k/{MASK}/v1/messages" in out


def test_run_and_doctor_show_no_part_of_an_address_that_may_be_a_key(tmp_path: Path, provider: Provider) -> None:
    environ = {"ANTHROPIC_BASE_URL": secret_base(provider).removesuffix("/v1"), "HOLDFAST_GATEWAY_PORT": "0"}
    ran = holdfast("run", "--", sys.executable, "-c", "pass", cwd=tmp_path, **environ)
    assert "the gateway forwards to http://127.0.0.1:" in ran.stderr
    clean_of_keys(ran.stdout + ran.stderr)
    chosen = {
        "HOLDFAST_UPSTREAM_ANTHROPIC": secret_base(provider),
        "HOLDFAST_UPSTREAM_OPENAI": f"http://me:{PLANTED['password']}@127.0.0.1:9/v1?key={PLANTED['query']}",
    }
    looked = holdfast("doctor", cwd=tmp_path, **chosen)
    assert f"anthropic: {provider.address}/{MASK}/{MASK}/{MASK}/v1 can be reached" in looked.stdout
    clean_of_keys(looked.stdout + looked.stderr)


@pytest.mark.slow
def test_chat_says_no_key_with_every_logger_on(tmp_path: Path, provider: Provider) -> None:
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listener.close()  # nobody listens there
    addresses = (secret_base(provider), f"http://127.0.0.1:{port}/k/{PLANTED['base']}")
    for upstream in addresses:
        environ = {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "PYTHONASYNCIODEBUG": "1",
            "ANTHROPIC_API_KEY": PLANTED["header"],
            "HOLDFAST_UPSTREAM_ANTHROPIC": upstream,
            "HOLDFAST_AGENT_MODEL": "anthropic:claude-haiku-4-5",
        }
        done = subprocess.run(
            [sys.executable, "-c", EVERYTHING, "chat", "Hello."],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = done.stdout + done.stderr
        clean_of_keys(said)
        assert "DEBUG" in said


@pytest.mark.parametrize(
    ("path", "base", "expected"),
    [
        ("/v1/messages", "", "/v1/messages"),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "", "/v1beta/models/gemini-2.5-pro:generateContent"),
        ("/v1/messages", "/v1", "…/messages"),
        ("/k/abc/v1/messages", "/k/abc", "…/v1/messages"),
        ("/x/k/abc/v1", "", "/x/k/***/v1"),
        ("/v1/responses/resp_0123456789abcdef", "", "/v1/responses/***"),
        ("/v1/key//abc", "", "/v1/key//***"),
        ("/v1/%256bey/abc", "", "/v1/%256bey/***"),
        ("/v1/Key;v=1/abc", "", "/v1/***/***"),
        ("/v1/token=abc", "", "/v1/***"),
        ("/x/texta1b2c3d4e5f6a7b8", "", "/x/***"),
        (f"/x/{'abcd' * 10}", "", "/x/***"),
        ("/v1/models/claude-sonnet-4-5-20250929", "", "/v1/models/claude-sonnet-4-5-20250929"),
        ("/v1/models/gemini-2.5-pro:streamGenerateContent", "", "/v1/models/gemini-2.5-pro:streamGenerateContent"),
    ],
)
def test_paths_are_shown_without_keys(path: str, base: str, expected: str) -> None:
    assert shown_path(path, base) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com"),
        ("https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1"),
        ("https://me:pw@host:8443/a/v1?key=x", "https://***@host:8443/***/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("http://a:b]c@x", MASK),
    ],
)
def test_addresses_are_shown_without_what_may_be_a_key(address: str, expected: str) -> None:
    assert shown_address(address) == expected
