"""The way to a provider: proxies of the environment, and headers that pass."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from holdfast.gateway.headers import named, to_pass_on, to_send
from holdfast.gateway.relay import proxy_for
from holdfast.gateway.routes import Address

from .gate import OK, Provider, Received, gated, hear, spoken

FAR = Address("anthropic", "https", "api.example.test", 443, "")
PROXIES = {"https": "http://proxy.test:3128", "http": "http://plain.test:3128"}


class TestProxies:
    def test_by_scheme(self) -> None:
        assert proxy_for(FAR, PROXIES) == "http://proxy.test:3128"
        assert proxy_for(Address("openai", "http", "h.test", 80, ""), PROXIES) == "http://plain.test:3128"
        assert proxy_for(FAR, {}) is None

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
    def test_this_machine_is_asked_directly(self, host: str) -> None:
        assert proxy_for(Address("anthropic", "http", host, 80, ""), PROXIES) is None

    def test_what_the_environment_leaves_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("no_proxy", "example.test")
        assert proxy_for(FAR, PROXIES) is None

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


class TestHeaders:
    def test_odd_bytes(self) -> None:
        """A character for a byte: so they are written."""
        raw = [(b"x-utf", "é".encode()), (b"x-latin", b"\xe9"), (b"x-empty", b"")]
        assert list(to_send(raw, named(raw), verbatim=True).items()) == [
            ("x-utf", "Ã©"),
            ("x-latin", "é"),
            ("x-empty", ""),
        ]

    def test_an_encoding_goes_with_its_bytes(self) -> None:
        raw = [(b"content-encoding", b"gzip"), (b"content-type", b"application/json")]
        assert "content-encoding" in to_send(raw, named(raw), verbatim=True)
        assert "content-encoding" not in to_send(raw, named(raw), verbatim=False)

    def test_what_a_connection_names(self) -> None:
        raw = [(b"Connection", b"x-One"), (b"connection", b"x-two, close"), (b"X-One", b"1"), (b"x-Two", b"2")]
        assert to_pass_on([*raw, (b"X-Three", b"3"), (b"Trailer", b"x")]) == [(b"x-three", b"3")]
