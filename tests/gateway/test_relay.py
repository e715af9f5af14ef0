"""The way to a provider: proxies of the environment, and headers that pass."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.passage.client_request import by_name
from holdfast.gateway.headers import to_pass_on, to_send
from holdfast.serving import address_of, listen

from .gate import OK, Heard, Provider, Received, gated, hear, read_request, spoken


class TestProxies:
    def test_through_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The proxy is asked for the whole address, and sees no key in it."""

        def answer(connection: socket.socket, _: Received) -> None:
            connection.sendall(OK)

        with Provider(answer) as proxy:
            monkeypatch.setenv("http_proxy", proxy.address)
            with gated(tmp_path, "http://provider.test:8080/base") as gate:
                heard = hear(gate.address, spoken("GET", "/v1/models?a=%20b", (("x-api-key", "k"),)))
            assert heard.status == 200
            (found,) = proxy.received
        assert found.line == b"GET http://provider.test:8080/base/v1/models?a=%20b HTTP/1.1"
        assert found.header(b"host") == b"provider.test:8080"

    def test_one_that_wants_to_know_who_asks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Provider() as proxy:
            monkeypatch.setenv("http_proxy", proxy.address.replace("http://", "http://user:secret@"))
            with gated(tmp_path, "http://provider.test:8080") as gate:
                for _ in range(2):  # the second by the same connection
                    assert hear(gate.address, spoken("GET", "/v1/models", (("x-api-key", "k"),))).status == 200
            assert [found.header(b"proxy-authorization") for found in proxy.received] == [b"Basic dXNlcjpzZWNyZXQ="] * 2


class TestUploads:
    """Requests larger than what the system takes at once."""

    BODY = b'{"data":"%b"}' % (b"x" * 16_000_000)
    ASKED = spoken(path="/v1/messages/count_tokens", headers=(("x-api-key", "k"),), body=BODY)

    def test_a_provider_that_is_slow_to_read(self, tmp_path: Path) -> None:
        """Its time to answer begins when it has everything."""
        with asked(tmp_path, gateway__limits__idle_s=0.5) as (listener, ask), listener.accept()[0] as connection:
            connection.settimeout(10)
            threading.Event().wait(0.8)
            with connection.makefile("rb") as arriving:
                while arriving.readline() != b"\r\n":
                    pass
                assert arriving.read(len(self.BODY)) == self.BODY
            connection.sendall(OK)
            assert ask().status == 200

    def test_an_answer_before_the_end_of_the_request(self, tmp_path: Path) -> None:
        """It arrives; what would follow on that connection could not be told from the rest of the request."""
        with asked(tmp_path) as (listener, ask), listener.accept()[0] as connection:
            assert connection.recv(1_000).startswith(b"POST /v1/messages/count_tokens")
            connection.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}")
            heard = ask(spoken("GET", "/v1/models", (("x-api-key", "k"),)))
            assert (heard.status, heard.body) == (413, b"{}")
            with listener.accept()[0] as other:
                assert read_request(other).line.startswith(b"GET /v1/models")
                other.sendall(OK)
                assert ask().status == 200


@contextlib.contextmanager
def asked(home: Path, **flags: Any) -> Iterator[tuple[socket.socket, Callable[..., Heard]]]:
    """A large request to a provider that is a listening socket. The function gives its answer, and asks anew."""
    with (
        listen("127.0.0.1", 0) as listener,
        gated(home, address_of(listener), **flags) as gate,
        ThreadPoolExecutor(1) as beside,
    ):
        listener.settimeout(10)
        waiting = [beside.submit(hear, gate.address, TestUploads.ASKED)]

        def heard(following: bytes = b"") -> Heard:
            found = waiting.pop().result(20)
            if following:
                waiting.append(beside.submit(hear, gate.address, following))
            return found

        yield listener, heard


class TestHeaders:
    def test_odd_bytes(self) -> None:
        raw = [(b"x-utf", "é".encode()), (b"x-latin", b"\xe9"), (b"x-empty", b"")]
        assert to_send(raw, by_name(raw), verbatim=True) == raw

    def test_an_encoding_goes_with_its_bytes(self) -> None:
        raw = [(b"content-encoding", b"gzip"), (b"content-type", b"application/json")]
        assert to_send(raw, by_name(raw), verbatim=True) == raw
        assert to_send(raw, by_name(raw), verbatim=False) == raw[1:]

    def test_what_a_connection_names(self) -> None:
        raw = [(b"Connection", b"x-One"), (b"connection", b"x-two, close"), (b"X-One", b"1"), (b"x-Two", b"2")]
        assert to_pass_on([*raw, (b"X-Three", b"3"), (b"Trailer", b"x")]) == [(b"x-three", b"3")]
