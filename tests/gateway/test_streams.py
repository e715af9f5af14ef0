"""Answers as they come, answers that break off, and clients that leave."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.serving import address_of, listen
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import Script
from holdfast.simulator.server import running as simulating
from tests.simulator.http_client import LONG, Client, marked, message

from .gate import SSE_HEAD, Provider, Received, chunk, connect, eventually, gated, hear, heard_from, listen_to, spoken

KEY = (("x-api-key", "sk-ant-dummy"), ("anthropic-version", "2023-06-01"))
BODY = b'{"model":"claude-sonnet-4-6","max_tokens":500,"stream":true,"messages":[{"role":"user","content":"hello"}]}'
ASKED = spoken(headers=KEY, body=BODY)
END = b"0\r\n\r\n"


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class TestAsItComes:
    def test_each_piece_is_passed_on_before_the_next_one_comes(self, tmp_path: Path) -> None:
        go = threading.Semaphore(0)

        def answer(connection: socket.socket, _: Received) -> None:
            connection.sendall(SSE_HEAD)
            for number in range(5):
                assert go.acquire(timeout=10)
                connection.sendall(chunk(b"event: %d\n\n" % number))
            assert go.acquire(timeout=10)
            connection.sendall(END)

        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate, connect(gate.address) as client:
            client.sendall(ASKED)
            heard = b""
            while not heard.endswith(b"\r\n\r\n"):  # the head comes before there is anything to follow it
                heard += client.recv(1)
            assert heard.startswith(b"HTTP/1.1 200 ")
            for number in range(5):
                go.release()
                piece = b""
                while b"event: %d\n\n" % number not in piece:
                    piece += client.recv(100)
            go.release()
            assert listen_to(client).data.endswith(END)

    @pytest.mark.slow
    def test_a_slow_reader_holds_the_provider_back(self, tmp_path: Path) -> None:
        """Nothing piles up here: what the client does not take, the provider cannot send."""
        sent = 0
        stuck = threading.Event()

        def answer(connection: socket.socket, _: Received) -> None:
            nonlocal sent
            connection.sendall(SSE_HEAD)
            connection.settimeout(1.0)
            piece = chunk(b"x" * 65_536)
            try:
                while sent < 2_000:
                    connection.sendall(piece)
                    sent += 1
            except TimeoutError:
                stuck.set()

        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate, connect(gate.address) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            client.sendall(ASKED)
            assert stuck.wait(20)
            assert sent < 1_000

    def test_a_whole_answer_ends_politely(self, tmp_path: Path) -> None:
        heard = heard_from(tmp_path, SSE_HEAD + chunk(b"data: 1\n\n") + END, ASKED)
        assert (heard.body, heard.reset, heard.data.endswith(END)) == (b"data: 1\n\n", False, True)


class TestBrokenOff:
    @pytest.mark.parametrize(
        "end",
        [reset, lambda connection: connection.shutdown(socket.SHUT_RDWR)],
        ids=["reset", "closed"],
    )
    @pytest.mark.parametrize("body", [b"", chunk(b"data: 1\n\n"), chunk(b"data: 1\n\n") + b"ff\r\nhalf of it"])
    def test_after_the_head_the_client_is_reset(
        self, tmp_path: Path, body: bytes, end: Callable[[socket.socket], None]
    ) -> None:
        def answer(connection: socket.socket, _: Received) -> None:
            connection.sendall(SSE_HEAD + body)
            threading.Event().wait(0.05)
            end(connection)

        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
            heard = hear(gate.address, ASKED)
            eventually(lambda: gate.calls)
        assert heard.status == 200
        assert heard.reset
        assert not heard.data.endswith(END)
        assert (b"data: 1" in heard.body) == (b"data: 1" in body)
        assert (b"half of it" in heard.data) == (b"half of it" in body)

    def test_what_came_with_the_break_is_passed_on(self, tmp_path: Path) -> None:
        """Data and reset arrive at once: the client still sees the data, as it would have."""

        def answer(connection: socket.socket, _: Received) -> None:
            connection.sendall(SSE_HEAD)
            threading.Event().wait(0.05)
            connection.sendall(chunk(b"data: last\n\n") * 20)
            connection.close()

        heard = heard_from(tmp_path, answer, ASKED)
        assert (heard.body.count(b"data: last"), heard.reset) == (20, True)

    @pytest.mark.slow
    def test_a_slow_reader_gets_what_had_come(self, tmp_path: Path) -> None:
        """All of it was on its way when the provider broke off: in its buffers, in ours, in the client's."""
        sent = 0
        stuck = threading.Event()

        def answer(connection: socket.socket, _: Received) -> None:
            nonlocal sent
            connection.sendall(SSE_HEAD)
            connection.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                piece = memoryview(b"fffffff\r\n" + b"x" * 30_000_000)
                while sent < len(piece):
                    sent += connection.send(piece[sent : sent + 100_000])
            connection.shutdown(socket.SHUT_WR)
            stuck.set()

        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate, connect(gate.address) as client:
            client.sendall(ASKED)
            assert stuck.wait(20)
            heard = listen_to(client)
        assert heard.reset
        assert heard.data.count(b"x") >= sent - len(b"fffffff\r\n") > 1_000_000

    @pytest.mark.parametrize("end", [reset, lambda connection: connection.shutdown(socket.SHUT_RDWR)])
    def test_before_the_head_it_is_a_502(self, tmp_path: Path, end: Callable[[socket.socket], None]) -> None:
        with Provider(lambda connection, _: end(connection)) as provider, gated(tmp_path, provider.address) as gate:
            heard = hear(gate.address, ASKED)
            asked = len(provider.received)
        assert (heard.status, heard.reset, asked) == (502, False, 1)
        assert b"closed the connection without an answer" in heard.body

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            (b"nonsense\r\n\r\n", b"not HTTP"),
            (b"SSH-2.0-x\r\n", b"not HTTP"),
            (b"HTTP/1.1 abc\r\n\r\n", b"not HTTP"),
            (b"HTTP/1.1 799 Odd\r\ncontent-length: 0\r\n\r\n", b"the status 799"),
        ],
    )
    def test_what_is_no_http_is_a_502(self, tmp_path: Path, said: bytes, why: bytes) -> None:
        heard = heard_from(tmp_path, said, ASKED)
        assert (heard.status, why in heard.body) == (502, True)

    def test_nobody_there(self, tmp_path: Path) -> None:
        with gated(tmp_path, "http://127.0.0.1:1") as gate:
            heard = hear(gate.address, ASKED)
        assert (heard.status, b"cannot be reached (Connection refused)" in heard.body) == (502, True)

    def test_no_such_host(self, tmp_path: Path) -> None:
        with gated(tmp_path, "http://nowhere.invalid") as gate:
            heard = hear(gate.address, ASKED)
        assert (heard.status, b"nowhere.invalid port 80) cannot be reached" in heard.body) == (502, True)

    def test_no_tls_there(self, tmp_path: Path) -> None:
        with listen("127.0.0.1", 0) as listener:

            def answer() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    connection.recv(65_536)

            thread = threading.Thread(target=answer)
            thread.start()
            with gated(tmp_path, address_of(listener).replace("http:", "https:")) as gate:
                heard = hear(gate.address, ASKED)
            thread.join()
        assert (heard.status, b"no secure connection" in heard.body) == (502, True)

    def test_a_provider_that_says_nothing(self, tmp_path: Path) -> None:
        def answer(connection: socket.socket, _: Received) -> None:
            connection.recv(1)

        heard = heard_from(tmp_path, answer, ASKED, gateway__limits__idle_s=0.2)
        assert (heard.status, b"did not answer within 0.2 seconds" in heard.body) == (504, True)

    def test_a_provider_that_falls_silent(self, tmp_path: Path) -> None:
        def answer(connection: socket.socket, _: Received) -> None:
            connection.sendall(SSE_HEAD + chunk(b"data: 1\n\n"))
            connection.recv(1)

        heard = heard_from(tmp_path, answer, ASKED, gateway__limits__idle_s=0.2)
        assert (heard.body, heard.reset) == (b"data: 1\n\n", True)


class TestDepartures:
    @pytest.mark.parametrize("leave", [reset, socket.socket.close])
    def test_a_client_that_leaves_ends_the_call(self, tmp_path: Path, leave: Callable[[socket.socket], None]) -> None:
        answered = threading.Event()

        def answer(connection: socket.socket, _: Received) -> None:
            connection.sendall(SSE_HEAD + chunk(b"data: 1\n\n"))
            answered.set()
            with contextlib.suppress(TimeoutError):
                while connection.recv(1):  # until the gateway leaves
                    pass

        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
            client = connect(gate.address)
            client.sendall(ASKED)
            assert answered.wait(10)
            assert client.recv(10)
            leave(client)
            assert provider.left.wait(10)
            eventually(lambda: gate.calls)
            assert gate.calls[0].left

    def test_before_there_is_an_answer(self, tmp_path: Path) -> None:
        with simulating(Simulator(script=Script(name="slow", first_token=600.0))) as upstream:
            with gated(tmp_path, upstream) as gate:
                client = Client(gate.address).connect(marked(stream=True))
                simulator = Client(upstream)
                eventually(lambda: simulator.get("/_sim/requests")["requests"])
                client.close()
                eventually(lambda: simulator.get("/_sim/requests")["requests"][0]["state"] == "abandoned")
                eventually(lambda: gate.calls)
                passage = gate.calls[0].passage
            assert passage.prepared.core.done

    def test_after_a_large_request(self, tmp_path: Path) -> None:
        """The server stops reading where much comes at once, and would not see the client go."""
        body = b'{"x":"' + b"x" * 90_000 + b'"}'

        def answer(connection: socket.socket, _: Received) -> None:
            connection.recv(1)

        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
            client = connect(gate.address)
            client.sendall(
                b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body[:1]
            )
            threading.Event().wait(0.05)
            client.sendall(body[1:])
            eventually(lambda: provider.received)
            client.close()
            assert provider.left.wait(10)
            eventually(lambda: gate.calls and gate.calls[0].left)

    def test_while_it_still_sends(self, tmp_path: Path) -> None:
        with Provider() as provider, gated(tmp_path, provider.address) as gate:
            client = connect(gate.address)
            client.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
            threading.Event().wait(0.05)
            client.close()
            eventually(lambda: gate.calls)
            assert (gate.calls[0].left, gate.calls[0].status, provider.received) == (True, 0, [])

    def test_while_a_large_request_is_prepared(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was prepared for a client that left is given up, not left pending."""
        begun, go = threading.Event(), threading.Event()
        with Provider() as provider, gated(tmp_path, provider.address) as gate:
            passages, begin = gate.gateway.passages, gate.gateway.passages.begin
            made = []

            def slowly(*arguments: object) -> object:
                begun.set()
                assert go.wait(10)
                made.append(begin(*arguments))  # type: ignore[arg-type]
                return made[-1]

            monkeypatch.setattr(passages, "begin", slowly)
            body = message(LONG * 8)
            client = Client(gate.address).connect(body)
            assert begun.wait(10)
            client.close()
            eventually(lambda: gate.calls)
            go.set()
            eventually(lambda: made and made[0].prepared is not None and made[0].prepared.core.done)
            assert provider.received == []
