"""What our servers share: sockets, and connections that are reset, watched, and not led into another protocol."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvicorn

from holdfast.errors import HoldfastError
from holdfast.serving import (
    Protocol,
    address_of,
    arrived_of,
    connection_of,
    ends_with_mark,
    is_loopback,
    listen,
    protocol,
    send_together,
)

pytestmark = pytest.mark.slow

Application = Callable[[Any, Any, Any], Awaitable[None]]


@contextlib.contextmanager
def served(app: Application, **options: Any) -> Iterator[tuple[str, int]]:
    config = uvicorn.Config(
        app, http=Protocol, ws="none", lifespan="off", log_config=None, log_level="critical", **options
    )
    instance = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=instance.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()[:2]
        finally:
            instance.should_exit = True
            thread.join()


async def body_of(receive: Any) -> bytes:
    found, more = b"", True
    while more:
        message = await receive()
        found, more = found + message.get("body", b""), message.get("more_body", False)
    return found


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body and the names of the headers, which are read last."""
    said = await body_of(receive) + b"|" + b",".join(name for name, _ in scope["headers"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


def talk(address: tuple[str, int], *pieces: bytes) -> bytes:
    said = b""
    with socket.create_connection(address, timeout=10) as connection:
        for piece in pieces:
            connection.sendall(piece)
            threading.Event().wait(0.02 if len(pieces) > 1 else 0)
        while piece := connection.recv(65_536):
            said += piece
    return said


class TestOffers:
    @pytest.mark.parametrize("name", ["Upgrade", "upgrade", "UPGRADE"])
    @pytest.mark.parametrize("offer", ["h2c", "TLS/1.0", " foo"])
    def test_are_overlooked(self, name: str, offer: str) -> None:
        head = (
            f"POST / HTTP/1.1\r\nhost: x\r\nConnection: Upgrade, close\r\n{name}: {offer}\r\ncontent-length: 4\r\n\r\n"
        )
        with served(echo) as address:
            said = talk(address, head.encode() + b"body")
        assert b"\r\n\r\nbody|" in said

    def test_a_body_that_looks_like_one_is_left_alone(self) -> None:
        inner = b"POST / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
        head = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(inner)
        with served(echo) as address:
            said = talk(address, head, inner)  # in two pieces: the second begins as a request would
        assert b"\r\n\r\n" + inner + b"|" in said


class TestConnections:
    def test_a_reset_comes_after_what_was_sent(self) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x" * 200_000, "more_body": True})
            await connection_of(scope).reset()

        said = b""
        with served(app) as address, socket.create_connection(address, timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            try:
                while piece := connection.recv(65_536):
                    said += piece
                pytest.fail("it ended politely")
            except ConnectionResetError:
                assert said.count(b"x") >= 200_000

    @pytest.mark.parametrize("answered", [False, True])
    def test_a_client_that_leaves_is_told_of(self, answered: bool) -> None:
        began, left = threading.Event(), threading.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await body_of(receive)
            task = asyncio.current_task()
            connection_of(scope).on_leave = task.cancel
            if answered:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            began.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                left.set()

        with served(app) as address:
            with socket.create_connection(address, timeout=10) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                assert began.wait(10)
            assert left.wait(10)

    def test_another_server_has_none(self) -> None:
        with pytest.raises(RuntimeError, match="cannot reset a connection"):
            connection_of({"type": "http"})


class TestHeads:
    @pytest.mark.parametrize("size", [200_000, 300_000])
    def test_without_end(self, size: int) -> None:
        lines = b"".join(b"x-%d: %b\r\n" % (number, b"y" * 1_000) for number in range(size // 1_000))
        with served(echo) as address:
            said = talk(address, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n" + lines + b"\r\n")
        assert said.startswith(b"HTTP/1.1 200 " if size < 262_144 else b"HTTP/1.1 400 ")

    def test_one_after_the_other_count_alone(self) -> None:
        asked = b"GET / HTTP/1.1\r\nhost: x\r\nx-long: %b\r\n" % (b"y" * 60_000)
        with served(echo) as address:
            said = talk(address, *[asked + b"\r\n"] * 5, asked + b"connection: close\r\n\r\n")
        assert said.count(b"HTTP/1.1 200 ") == 6

    @pytest.mark.parametrize("half", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost:"])
    def test_that_do_not_come(self, half: bytes) -> None:
        with served(echo, timeout_keep_alive=0) as address:
            assert talk(address, half) == b""  # it is closed

    @pytest.mark.slow
    @pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"])
    @pytest.mark.parametrize(("half", "bit"), [(b"GET / HTTP/1.1\r\nx: ", b"y"), (b"\r\n", b"\r\n")])
    def test_that_come_bit_by_bit(self, first: bytes, half: bytes, bit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(protocol, "HEAD_S", 0.1)
        with served(echo, timeout_keep_alive=1) as address, socket.create_connection(address) as client:
            client.sendall(first + half)
            client.settimeout(0.02)
            said, closed = b"", False
            for _ in range(400):
                with contextlib.suppress(TimeoutError, ConnectionError):
                    said += (piece := client.recv(65_536))
                    closed = not piece
                if closed:
                    break
                with contextlib.suppress(ConnectionError):
                    client.sendall(bit)
        assert closed  # though every bit came in time
        assert said.count(b"HTTP/1.1 ") == said.count(b"HTTP/1.1 200 ") == bool(first)

    def test_that_wait_behind_an_answer_do_not_end_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(protocol, "HEAD_S", 0.05)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await asyncio.sleep(0.2)
            await send({"type": "http.response.body", "body": b"all of it"})

        with served(app) as address:
            said = talk(address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HT")
        assert said.endswith(b"all of it\r\n0\r\n\r\n")  # and then it is closed

    @pytest.mark.parametrize("apart", [False, True])
    def test_what_comes_after_a_body_is_no_part_of_one(self, apart: bool) -> None:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        rest = b"4\r\nbody\r\n0\r\nx-trail: 1\r\nx-api-key: k\r\n\r\n"
        with served(echo) as address:
            said = talk(address, *((head, rest) if apart else (head + rest,)))
        assert said.endswith(b"\r\n\r\nbody|host,transfer-encoding,connection")

    @pytest.mark.parametrize(
        ("target", "marked"), [(b"/a?", True), (b"/a", False), (b"/a?b", False), (b"/a?b?", False), (b"/?", True)]
    )
    def test_a_question_mark_without_a_question(self, target: bytes, marked: bool) -> None:
        found: list[bool] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            found.append(ends_with_mark(scope))
            await echo(scope, receive, send)

        with served(app) as address:
            talk(address, b"GET " + target + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert found == [marked]


class TestListening:
    def test_a_port_in_use(self) -> None:
        with listen("127.0.0.1", 0) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(HoldfastError, match=f"port {port} on 127.0.0.1 is in use"):
                listen("127.0.0.1", port)

    @pytest.mark.parametrize(
        ("host", "loopback"),
        [
            ("127.0.0.1", True),
            ("127.8.8.8", True),
            ("::1", True),
            ("localhost", True),
            ("LOCALHOST", True),
            ("0.0.0.0", False),
            ("::", False),
            ("192.0.2.1", False),
            ("localhost.evil.test", False),
            ("", False),
        ],
    )
    def test_loopback(self, host: str, loopback: bool) -> None:
        assert is_loopback(host) is loopback

    def test_the_address_is_for_clients(self) -> None:
        with listen("0.0.0.0", 0) as everywhere:
            assert address_of(everywhere).startswith("http://127.0.0.1:")


# A body that has come, and a response in one write


async def at_once(scope: Any, receive: Any, send: Any) -> None:
    """Takes the body that has come with its head, and what it has to say is said in one write."""
    arrived = arrived_of(scope)
    said = arrived.take() if arrived.whole else b"not yet"
    head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]}
    await send_together(send, head, {"type": "http.response.body", "body": said})


def test_a_body_that_came_with_its_head() -> None:
    with served(at_once) as address, socket.create_connection(address, timeout=10) as client:
        for body in (b"one", b"", b"three" * 100):
            client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            assert client.recv(65_536).endswith(b"\r\n\r\n" + body)  # head and body are not two packets


def test_a_body_that_is_still_to_come() -> None:
    head = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\n"
    with served(at_once) as address:
        assert talk(address, head, b"abc").endswith(b"\r\n\r\nnot yet")
        assert talk(address, head + b"abc").endswith(b"\r\n\r\nabc")  # and it closes when all is written


def test_what_fails_in_the_middle_of_one_write() -> None:
    """What was said before is out."""

    async def too_much(scope: Any, receive: Any, send: Any) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]}
        with contextlib.suppress(RuntimeError):
            await send_together(send, head, {"type": "http.response.body", "body": b"two"})
        await send({"type": "http.response.body", "body": b"1"})

    with served(too_much) as address:
        said = talk(address, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (said[:15], said[-5:]) == (b"HTTP/1.1 200 OK", b"\r\n\r\n1")
