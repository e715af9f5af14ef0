"""Connections at both ends: pooled ones that providers close, clients that stop sending, and those that never begin."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.serving.admission import Admission, peer_of
from holdfast.upstream import aiohttp_adapter
from holdfast.upstream.aiohttp_adapter import Reuse

from .gate import (
    OK,
    SSE_HEAD,
    Gated,
    Heard,
    Provider,
    Received,
    chunk,
    connect,
    eventually,
    gated,
    guarded,
    hear,
    listen_to,
    spoken,
)

BODY = b'{"model":"claude-sonnet-4-6","max_tokens":500,"messages":[{"role":"user","content":"hello"}]}'
KEY = (("x-api-key", "sk-dummy"), ("anthropic-version", "2023-06-01"))
ASKED = spoken(headers=KEY, body=BODY)
NOW = struct.pack("ii", 1, 0)


def drop(connection: socket.socket) -> None:
    """Close with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
    connection.close()


class Closing(Provider):
    """A provider that can close the connections it has answered on, and does so in the middle of a request's way:
    after the gateway has found the connection usable (`late`), or just before it looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, how: Callable[[socket.socket], None], *, late: bool) -> None:
        self._how = how
        self._answered: list[tuple[socket.socket, threading.Event]] = []
        self.closed = 0
        super().__init__(self._say)
        is_over = Reuse.is_over

        def looked(watched: Reuse) -> bool:
            """Called by the gateway's loop, which sees nothing of what happens meanwhile."""
            if not late:
                self.close_all()
            found = is_over(watched)
            if late:
                self.close_all()
            return found

        monkeypatch.setattr(Reuse, "is_over", looked)

    def _say(self, connection: socket.socket, _: Received) -> None:
        over = threading.Event()
        self._answered.append((connection, over))
        connection.sendall(OK)
        over.wait(5)  # it does not read: a connection that is being read would not be closed at once

    def __exit__(self, *_: object) -> None:
        self.close_all()
        super().__exit__()

    def close_all(self) -> None:
        while self._answered:
            connection, over = self._answered.pop()
            self._how(connection)
            self.closed += 1
            over.set()


class TestPooled:
    @pytest.mark.parametrize("late", [False, True])
    @pytest.mark.parametrize("size", [100, 3_000_000])
    def test_one_that_the_provider_closed_is_not_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool, size: int
    ) -> None:
        body = b"x" * size
        asked = spoken("POST", "/v1/files", KEY, body)
        with (
            Closing(monkeypatch, socket.socket.close, late=late) as provider,
            gated(tmp_path, provider.address) as gate,
        ):
            assert [hear(gate.address, asked).status for _ in range(4)] == [200] * 4
            assert provider.closed >= 2
            assert [each.body for each in provider.received] == [body] * 4

    def test_a_call_goes_once_more_as_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with (
            Closing(monkeypatch, socket.socket.close, late=True) as provider,
            gated(tmp_path, provider.address) as gate,
        ):
            assert [hear(gate.address, ASKED).status for _ in range(2)] == [200] * 2
            first, second = provider.received
            assert (first.body, first.headers) == (second.body, second.headers)
            eventually(lambda: len(gate.calls) == 2)
            assert [call.status for call in gate.calls] == [200, 200]

    @pytest.mark.parametrize("how", [socket.socket.close, drop])
    @pytest.mark.parametrize("part", [1, len(BODY)])
    def test_one_that_took_a_request_and_died_is_not_asked_again(
        self, tmp_path: Path, how: Callable[[socket.socket], None], part: int
    ) -> None:
        """It may have worked on it: also where it did not read all of it."""
        taken: list[bytes] = []

        def answer(connection: socket.socket, _: Received) -> None:
            connection.sendall(OK)
            taken.append(connection.recv(part))
            if taken[-1]:
                threading.Event().wait(0.1)  # long enough for its system to acknowledge it
                how(connection)

        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
            assert hear(gate.address, ASKED).status == 200
            heard = hear(gate.address, ASKED)
            assert (heard.status, b"closed the connection without an answer" in heard.body) == (502, True)
            assert len(provider.received) + len(taken) == 2  # the first whole, the second taken as it came

    def test_a_new_one_is_not_tried_again(self, tmp_path: Path) -> None:
        def answer(connection: socket.socket, _: Received) -> None:
            connection.shutdown(socket.SHUT_RDWR)

        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
            assert hear(gate.address, ASKED).status == 502
            assert len(provider.received) == 1

    def test_once_is_enough(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The second connection is new, and its end is the end."""
        with (
            Closing(monkeypatch, socket.socket.close, late=True) as provider,
            gated(tmp_path, provider.address) as gate,
        ):
            assert hear(gate.address, ASKED).status == 200
            say, asked = provider.answer, len(provider.received)
            monkeypatch.setattr(provider, "answer", lambda connection, _: connection.shutdown(socket.SHUT_RDWR))
            assert hear(gate.address, ASKED).status == 502
            assert len(provider.received) == asked + 1
            monkeypatch.setattr(provider, "answer", say)
            assert hear(gate.address, ASKED).status == 200

    def test_where_the_system_does_not_tell_it_is_not_repeated(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(aiohttp_adapter, "_TCP_INFO", None)
        with (
            Closing(monkeypatch, socket.socket.close, late=True) as provider,
            gated(tmp_path, provider.address) as gate,
        ):
            assert [hear(gate.address, ASKED).status for _ in range(2)] == [200, 502]
            assert len(provider.received) == 1


def stopped(gate: Gated, data: bytes) -> Heard:
    """What is heard by a client that sends this and then nothing more."""
    with connect(gate.address) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return listen_to(client)


class Slow:
    """An answer of three parts, each of which waits until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.begun = threading.Event()

    def __call__(self, connection: socket.socket, _: Received) -> None:
        self.begun.set()
        for part in (SSE_HEAD + chunk(b"data: 1\n\n"), chunk(b"data: 2\n\n"), chunk(b"")):
            assert self.go.acquire(timeout=20)
            connection.sendall(part)


class TestHalfClosed:
    @pytest.mark.parametrize(
        "data",
        [
            spoken(headers=KEY, body=BODY, close=False),
            spoken(headers=KEY, body=BODY),
            spoken("GET", "/v1/models", KEY, close=False),
            spoken("POST", "/v1/files", KEY, b"x" * 2_000_000, close=False),
            spoken(headers=KEY, body=BODY, close=False).replace(b"HTTP/1.1", b"HTTP/1.0"),
        ],
        ids=["kept alive", "closed", "GET", "large", "HTTP/1.0"],
    )
    def test_a_whole_request_is_answered(self, gate: Gated, provider: Provider, data: bytes) -> None:
        heard = stopped(gate, data)
        assert (heard.data[:15], heard.body, heard.reset) == (b"HTTP/1.1 200 OK", b"{}", False)
        assert len(provider.received) == 1

    @pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/nowhere", 404)])
    def test_by_us_too(self, gate: Gated, path: str, status: int) -> None:
        assert stopped(gate, spoken("GET", path, close=False)).status == status

    def test_several_are_answered(self, gate: Gated, provider: Provider) -> None:
        heard = stopped(gate, spoken(headers=KEY, body=BODY, close=False) * 3)
        assert (heard.data.count(b"HTTP/1.1 200 OK"), len(provider.received)) == (3, 3)

    @pytest.mark.parametrize("when", [0, 1, 2], ids=["before the answer", "within it", "before its end"])
    def test_at_any_time(self, tmp_path: Path, when: int) -> None:
        slow = Slow()
        with Provider(slow) as provider, gated(tmp_path, provider.address) as gate, connect(gate.address) as client:
            client.sendall(spoken(headers=KEY, body=BODY, close=False))
            assert slow.begun.wait(10)
            said = b""
            for part in range(3):
                if part == when:
                    client.shutdown(socket.SHUT_WR)
                    threading.Event().wait(0.1)  # the gateway hears of it before the answer goes on
                slow.go.release()
                while part < 2 and b"data: %d\n\n" % (part + 1) not in said:
                    said += client.recv(65_536)
            heard = listen_to(client, said)
            assert (heard.status, heard.body, heard.reset) == (200, b"data: 1\n\ndata: 2\n\n", False)
            eventually(lambda: gate.calls)
            assert not gate.calls[0].left

    @pytest.mark.parametrize("when", [0, 1], ids=["before the answer", "within it"])
    def test_who_then_leaves_ends_the_call(self, tmp_path: Path, when: int) -> None:
        slow = Slow()
        with Provider(slow) as provider, gated(tmp_path, provider.address) as gate:
            with connect(gate.address) as client:
                client.sendall(spoken(headers=KEY, body=BODY, close=False))
                assert slow.begun.wait(10)
                if when:
                    slow.go.release()
                    assert client.recv(65_536)
            eventually(lambda: gate.calls and gate.calls[0].left)
            slow.go.release(3)

    @pytest.mark.parametrize("part", [1, 40, len(ASKED) - 1])
    def test_half_a_request_is_none(self, gate: Gated, provider: Provider, part: int) -> None:
        assert stopped(gate, ASKED[:part]).data == b""
        assert provider.received == []


@contextlib.contextmanager
def silent(address: str, count: int, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    host, _, port = address.removeprefix("http://").partition(":")
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((host, int(port)), 20, (source, 0))) for _ in range(count)]


def is_closed(connection: socket.socket) -> bool:
    """Whether the other end has closed it."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


class TestSilent:
    @pytest.mark.parametrize("first", [b"", spoken("GET", "/healthz", close=False)])
    def test_they_are_closed_in_time(self, provider: Provider, tmp_path: Path, first: bytes) -> None:
        """Also one that has asked for nothing that needs to be let in. One whose request was served may be idle."""
        with gated(tmp_path, provider.address, gateway__limits__silent_s=0.1) as gate, connect(gate.address) as served:
            served.sendall(spoken(headers=KEY, body=BODY, close=False))
            assert served.recv(65_536).startswith(b"HTTP/1.1 200 OK")
            assert hear(gate.address, first).data[:15] == (b"HTTP/1.1 200 OK" if first else b"")
            served.sendall(ASKED)
            assert listen_to(served).status == 200

    def test_the_oldest_goes_for_a_new_one(self, provider: Provider, tmp_path: Path) -> None:
        with (
            gated(tmp_path, provider.address, gateway__limits__waiting_per_peer=3) as gate,
            silent(gate.address, 3) as (oldest, *others),
            silent(gate.address, 1, "127.0.0.2") as (neighbour,),
        ):
            assert hear(gate.address, ASKED).status == 200
            eventually(lambda: is_closed(oldest))
            for each in (*others, neighbour):  # they have lost nothing
                each.sendall(ASKED)
                each.settimeout(20)
                assert listen_to(each).status == 200

    def test_they_take_no_place_of_those_who_are_served(self, provider: Provider, tmp_path: Path) -> None:
        limits = {"gateway__limits__connections": 2, "gateway__limits__waiting_per_peer": 20}
        with (
            gated(tmp_path, provider.address, **limits) as gate,
            silent(gate.address, 30),
            connect(gate.address) as client,
        ):
            for _ in range(3):
                client.sendall(spoken(headers=KEY, body=BODY, close=False))
                assert client.recv(65_536).startswith(b"HTTP/1.1 200 OK")

    def test_who_was_served_and_left_takes_none(self, provider: Provider, tmp_path: Path) -> None:
        with gated(tmp_path, provider.address, gateway__limits__connections=1) as gate:
            for _ in range(3):
                eventually(lambda: hear(gate.address, ASKED).status == 200)

    def test_who_has_no_key_takes_no_place(self, provider: Provider, tmp_path: Path) -> None:
        with (
            guarded(tmp_path, provider.address, gateway__limits__connections=3) as gate,
            silent(gate.address, 3) as strangers,
        ):
            key = (gate.config.home / "access-key").read_text().strip()
            for each in strangers:
                each.sendall(spoken(headers=KEY, body=BODY, close=False))
                heard = listen_to(each)  # and its connection ends
                assert (heard.status, heard.reset) == (401, False)
            asked = spoken("POST", f"/k/{key}/v1/messages", KEY, BODY)
            with silent(gate.address, 10), connect(gate.address) as client:
                client.sendall(asked)
                assert listen_to(client).status == 200
            with silent(gate.address, 3) as unfinished:
                for each in unfinished:  # their refusal waits for the rest of what they send
                    each.sendall(spoken(headers=KEY, body=BODY, close=False)[:-1])
                assert hear(gate.address, spoken("GET", "/healthz")).status == 200
                assert hear(gate.address, asked).status == 200


class Waiting:
    """A connection as the counting sees it."""

    def __init__(self, *, idle: bool = True) -> None:
        self.idle, self.closed = idle, False

    def abort(self) -> None:
        self.closed = True


class TestAdmission:
    def test_all_together_wait_in_a_bounded_room(self) -> None:
        admission = Admission(most=3, waiting_per_peer=2, silent_s=1)
        those = [Waiting() for _ in range(5)]
        for number, each in enumerate(those):
            admission.arrived(each, f"192.0.2.{number}")
        assert [each.closed for each in those] == [True, True, False, False, False]

    def test_who_is_being_answered_goes_last(self) -> None:
        admission = Admission(most=9, waiting_per_peer=2, silent_s=1)
        busy, idle, late, later = Waiting(idle=False), Waiting(), Waiting(), Waiting(idle=False)
        for each in (busy, idle, late):
            admission.arrived(each, "192.0.2.1")
        assert (busy.closed, idle.closed) == (False, True)
        late.idle = False
        admission.arrived(later, "192.0.2.1")
        assert (busy.closed, late.closed) == (True, False)

    def test_who_leaves_makes_room(self) -> None:
        admission = Admission(most=1, waiting_per_peer=1, silent_s=1)
        first, second = Waiting(), Waiting()
        admission.arrived(first, "192.0.2.1")
        assert admission.admit(first)
        assert admission.admit(first)
        admission.arrived(second, "192.0.2.1")
        assert not first.closed
        assert not admission.admit(second)
        admission.left(first)
        assert admission.admit(second)
        assert admission.has(second)
        admission.left(second)
        admission.left(second)

    @pytest.mark.parametrize(
        ("address", "peer"),
        [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80::/64"),
            ("", ""),
        ],
    )
    def test_whom_an_address_belongs_to(self, address: str, peer: str) -> None:
        assert peer_of(address) == peer
