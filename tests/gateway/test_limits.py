"""What the gateway does not take on is refused in the client's dialect, with the limit and when to try again."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.simulator.http_client import ANTHROPIC, GEMINI, OPENAI

from .gate import OK, Heard, Provider, Received, connect, eventually, gated, hear, listen_to, spoken

BODY = b'{"model":"claude-sonnet-4-6","max_tokens":500,"messages":[{"role":"user","content":"hello"}]}'


def error(heard: Heard) -> str:
    found = json.loads(heard.body)["error"]["message"]
    assert isinstance(found, str)
    return found


class TestBodies:
    @pytest.mark.parametrize(
        ("path", "headers", "kind"),
        [
            ("/v1/messages", ANTHROPIC, ("type", "request_too_large")),
            ("/v1/chat/completions", OPENAI, ("code", "request_too_large")),
            ("/v1beta/models/gemini-2.5-pro:generateContent", GEMINI, ("code", 413)),
        ],
    )
    def test_too_large_as_declared(
        self, provider: Provider, tmp_path: Path, path: str, headers: dict[str, str], kind: tuple[str, object]
    ) -> None:
        with gated(tmp_path, provider.address, gateway__limits__body_bytes=1_000) as gate:
            heard = hear(gate.address, spoken("POST", path, tuple(headers.items()), b"x" * 1_001))
            assert (heard.status, provider.received) == (413, [])
            assert "larger than 1,000 bytes (gateway.limits.body_bytes)" in error(heard)
            assert json.loads(heard.body)["error"][kind[0]] == kind[1]
            assert hear(gate.address, spoken("POST", path, tuple(headers.items()), b"x" * 1_000)).status == 200

    def test_a_large_one_is_heard_out(self, provider: Provider, tmp_path: Path) -> None:
        """A client that is still sending would see a reset instead of the answer."""
        with gated(tmp_path, provider.address, gateway__limits__body_bytes=1_000) as gate:
            heard = hear(gate.address, spoken(headers=tuple(ANTHROPIC.items()), body=b"x" * 5_000_000))
        assert (heard.status, heard.reset) == (413, False)

    @pytest.mark.slow
    def test_too_large_as_it_comes(self, provider: Provider, tmp_path: Path) -> None:
        chunks = b"".join(b"%x\r\n%b\r\n" % (900, b"x" * 900) for _ in range(100)) + b"0\r\n\r\n"
        head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        with gated(tmp_path, provider.address, gateway__limits__body_bytes=1_000) as gate:
            heard = hear(gate.address, head + chunks)
        assert (heard.status, provider.received) == (413, [])

    def test_who_asks_first_need_not_send_it(self, provider: Provider, tmp_path: Path) -> None:
        head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\nexpect: 100-continue\r\n\r\n"
        with gated(tmp_path, provider.address, gateway__limits__body_bytes=1_000) as gate:
            heard = hear(gate.address, head)
        assert (heard.status, b"100 Continue" in heard.data) == (413, False)

    def test_a_body_that_does_not_come(self, provider: Provider, tmp_path: Path) -> None:
        head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\n{"
        with gated(tmp_path, provider.address, gateway__limits__idle_s=0.1) as gate:
            heard = hear(gate.address, head)
        assert (heard.status, "did not come within 0.1 seconds" in error(heard)) == (408, True)


class TestStreams:
    def test_of_one_tenant(self, tmp_path: Path) -> None:
        go = threading.Event()

        def answer(connection: socket.socket, _: Received) -> None:
            assert go.wait(20)
            connection.sendall(OK)

        def asked(key: str) -> bytes:
            return spoken(headers=(("x-api-key", key), ("anthropic-version", "1")), body=BODY)

        with (
            Provider(answer) as provider,
            gated(tmp_path, provider.address, gateway__limits__streams_per_tenant=2) as gate,
            ExitStack() as stack,
        ):
            waiting = [stack.enter_context(connect(gate.address)) for _ in range(3)]
            for connection, key in zip(waiting, ("one", "one", "two"), strict=True):
                connection.sendall(asked(key))
            eventually(lambda: len(provider.received) == 3)
            heard = hear(gate.address, asked("one"))
            assert (heard.status, dict(heard.headers())["retry-after"]) == (429, "1")
            assert "2 calls of this key are open already" in error(heard)
            go.set()
            assert [listen_to(connection).status for connection in waiting] == [200] * 3
            for _ in range(3):  # what is over does not count any more
                eventually(lambda: hear(gate.address, asked("one")).status == 200)


class TestConnections:
    def test_all_at_once(self, provider: Provider, tmp_path: Path) -> None:
        with (
            gated(tmp_path, provider.address, gateway__limits__connections=2) as gate,
            connect(gate.address) as first,
            connect(gate.address) as second,
        ):
            for connection in (first, second):  # they count from the moment they are there
                connection.sendall(spoken("GET", "/v1/models", close=False))
                assert connection.recv(1_000).startswith(b"HTTP/1.1 200 ")
            heard = hear(gate.address, spoken("POST", body=BODY))
            assert (heard.status, dict(heard.headers())["retry-after"]) == (503, "1")
            assert "2 connections are open already" in error(heard)
            first.close()
            eventually(lambda: hear(gate.address, spoken("GET", "/v1/models")).status == 200)


class TestUpgrades:
    @pytest.mark.parametrize("path", ["/v1/responses", "/v1/realtime"])
    def test_websockets_are_declined(self, provider: Provider, tmp_path: Path, path: str) -> None:
        headers = (("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13"))
        with gated(tmp_path, provider.address) as gate:
            heard = hear(gate.address, spoken("GET", path, headers, close=False))
        assert (heard.status, "send a POST request" in error(heard), provider.received) == (426, True, [])
