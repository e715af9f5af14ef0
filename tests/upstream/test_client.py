"""The HTTP client out: heads to the byte, and what a server that behaves badly comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import holdfast
from holdfast.upstream import Address, HttpClient, Response, UpstreamError, fetch, parse_address
from holdfast.upstream.aiohttp_adapter import head_of
from tests.gateway.gate import OK, Provider


def at(address: str) -> Address:
    return parse_address("anthropic", address)


def asking(work: Callable[[HttpClient], Awaitable[Any]], *, idle_s: float = 10.0) -> Any:
    """What `work` returns with a client."""

    async def run() -> Any:
        client = HttpClient(connect_s=10.0, idle_s=idle_s)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


class TestHead:
    def test_odd_bytes(self) -> None:
        raw = [(b"x-utf", "é".encode()), (b"x-latin", b"\xe9"), (b"x-empty", b"")]
        head = b"GET /v1/models HTTP/1.1\r\nx-utf: \xc3\xa9\r\nx-latin: \xe9\r\nx-empty: \r\n\r\n"
        assert head_of("GET", b"/v1/models", raw, 0) == head

    @pytest.mark.parametrize("odd", [b"a\r\nx: y", b"a\nb", b"a\rb", b"\0", b"\x7f", b"\x1b"])
    def test_a_header_is_a_line(self, odd: bytes) -> None:
        assert b"tab\there\r\n" in head_of("GET", b"/", [(b"x", b"tab\there")], 0)
        for headers, target in (([(b"x", odd)], b"/"), ([(odd, b"x")], b"/"), ([], odd)):
            with pytest.raises(ValueError, match="control character"):
                head_of("GET", target, headers, 0)

    def test_the_length_of_a_body(self) -> None:
        assert head_of("GET", b"/", (), 0).endswith(b"HTTP/1.1\r\n\r\n")
        assert head_of("GET", b"/", (), 3).endswith(b"\r\nContent-Length: 3\r\n\r\n")
        assert head_of("DELETE", b"/", (), 0).endswith(b"\r\nContent-Length: 0\r\n\r\n")

    def test_it_leaves_as_it_was_written(self) -> None:
        """Nothing is added but the host and the length."""
        headers = [(b"X-Api-Key", b"k"), (b"x-odd", b"1"), (b"X-ODD", b"2")]
        with Provider(OK) as provider:
            asking(lambda client: client.send(at(provider.address), "POST", "/v1/messages?a=%20b", headers, b"{}"))
            (received,) = provider.received
        assert received.line == b"POST /v1/messages?a=%20b HTTP/1.1"
        host = provider.address.removeprefix("http://").encode()
        assert received.headers == [(b"Host", host), *headers, (b"Content-Length", b"2")]


class TestAnswers:
    async def read(self, client: HttpClient, address: str) -> tuple[int, bytes, str]:
        """The status and body of an answer, as far as it came, and why it ended early."""
        response, body = await client.send(at(address), "GET", "/", ()), b""
        try:
            while chunk := await response.read_any():
                body += chunk
        except UpstreamError as error:
            return response.status, body + await response.rest(), error.kind
        finally:
            response.close()
        return response.status, body, ""

    @pytest.mark.parametrize(
        ("raw", "kind"),
        [
            (b"", "closed"),
            (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "not_http"),
            (b"HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n", "invalid"),
        ],
    )
    def test_none(self, raw: bytes, kind: str) -> None:
        def answer(connection: Any, _: object) -> None:
            connection.sendall(raw)
            connection.close()

        with Provider(answer) as provider, pytest.raises(UpstreamError) as caught:
            asking(lambda client: self.read(client, provider.address))
        assert caught.value.kind == kind

    def test_nobody_listens(self) -> None:
        with Provider(OK) as provider:
            pass
        with pytest.raises(UpstreamError, match="unreachable: Connection refused"):
            asking(lambda client: self.read(client, provider.address))

    def test_one_that_is_silent(self) -> None:
        with Provider(lambda connection, _: None) as provider, pytest.raises(UpstreamError, match="read_timeout"):
            asking(lambda client: self.read(client, provider.address), idle_s=0.1)

    def test_what_came_before_it_broke_off_can_be_read(self) -> None:
        def answer(connection: Any, _: object) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun")
            connection.close()

        with Provider(answer) as provider:
            assert asking(lambda client: self.read(client, provider.address)) == (200, b"begun", "closed")

    @pytest.mark.parametrize(
        "content",
        [
            {},
            {"_buffer": None, "_buffer_offset": 0},
            {"_buffer": [1, 2], "_buffer_offset": 0},
            {"_buffer": [b"a"], "_buffer_offset": "x"},
            {"_buffer": (b"a",), "_buffer_offset": 0},
        ],
    )
    def test_a_library_that_keeps_it_elsewhere_is_no_error(self, content: dict[str, Any]) -> None:
        message: Any = SimpleNamespace(code=200, headers={}, raw_headers=())
        stream: Any = SimpleNamespace(at_eof=bool, on_eof=id, **content)
        connection: Any = None
        assert asyncio.run(Response(message, stream, connection, None).rest()) == b""


def test_connections_are_used_again() -> None:
    async def twice(client: HttpClient) -> None:
        for _ in range(2):
            response = await client.send(at(provider.address), "GET", "/", ())
            assert await response.read(10) == b"{}"

    peers = []

    def answer(connection: Any, _: object) -> None:
        peers.append(connection.getpeername())
        connection.sendall(OK)

    with Provider(answer) as provider:
        asking(twice)
    assert [peers[0]] * 2 == peers


def test_one_answer_without_a_loop() -> None:
    with Provider(OK) as provider:
        to = at(f"{provider.address}/base")
        assert fetch(to, "GET", "/x", [(b"x-a", b"1")], b"", seconds=10, most=10) == (200, b"{}")
        with pytest.raises(UpstreamError, match="more than 1 bytes"):
            fetch(to, "GET", "/x", (), b"", seconds=10, most=1)
        assert [request.header(b"connection") for request in provider.received] == [b"close"] * 2


@pytest.mark.parametrize(
    ("base", "path", "sent"),
    [("", "/v1/messages", "/v1/messages"), ("/v1/", "/v1/models", "/v1/models"), ("/a", "/v1/x", "/a/v1/x")],
)
def test_paths_stand_behind_the_address(base: str, path: str, sent: str) -> None:
    assert at(f"http://host{base}").path(path) == sent
    assert at(f"http://host{base}").target(path, {"alt": "sse"}) == f"{sent}?alt=sse"


def test_nobody_else_has_a_client() -> None:
    """But for what is not asked by us: the SDKs' own clients, and the transport that the MCP SDK wants."""
    source = Path(holdfast.__file__).parent
    own = ("import aiohttp", "from aiohttp", "http.client", "urllib.request", "urllib.error")
    users = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if any(each in path.read_text("utf-8") for each in own)
    }
    assert users == {"upstream/aiohttp_adapter.py", "upstream/client.py"}
