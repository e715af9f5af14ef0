"""The load of the gateway's benchmark: requests over raw sockets, timed from the first byte sent to the last received.

One after the other for latency, or many connections in one loop for throughput. No HTTP library: what a client costs
would stand in every figure.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

BUFFER = 1 << 18
TIMEOUT = 30.0  # seconds without a byte: then the server is broken and the benchmark ends
_ENGINE = b"x-holdfast-call"
_BYPASSED = b"x-holdfast-bypassed"
_SENT = b'"text":"at '


@dataclass(frozen=True)
class Address:
    """Where requests go, and whom the provider shall take them for."""

    port: int
    name: str

    def request(self, lane: str, body: bytes, *, key: str = "bench", session: bool = True) -> bytes:
        """A whole request; without `session` its conversation is known by its content only."""
        named = f"x-holdfast-session: {lane}\r\n" if session else ""
        head = (
            f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nuser-agent: bench/1.0\r\n"
            f"x-api-key: sk-{key}\r\nanthropic-version: 2023-06-01\r\n{named}x-bench-lane: {self.name}/{lane}\r\n"
            f"accept: */*\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass
class Tally:
    """What came back: seconds of each request, to its first byte and of each event, and how many the engine saw."""

    seconds: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    engine: int = 0
    bypassed: int = 0

    def add(self, seconds: float, head: bytes, first: float = 0.0) -> None:
        self.seconds.append(seconds)
        self.first.append(first)
        self.engine += _ENGINE in head
        self.bypassed += _BYPASSED in head

    def add_all(self, other: Tally) -> None:
        self.seconds += other.seconds
        self.first += other.first
        self.lags += other.lags
        self.engine += other.engine
        self.bypassed += other.bypassed

    @property
    def unplanned(self) -> int:
        """Requests that went past the engine."""
        return max(len(self.seconds) - self.engine, self.bypassed)


class Answer:
    """Counts the bytes of one response until it is whole."""

    __slots__ = ("_end", "_got", "_tail", "head")

    def __init__(self) -> None:
        self.head = b""
        self._got, self._end, self._tail = 0, -1, b""

    def feed(self, data: bytes) -> bool:
        """Whether the response is whole now."""
        if self.head:
            self._got += len(data)
            self._tail = (self._tail + data)[-5:] if len(data) < 5 else data[-5:]
        else:
            self._tail += data
            end = self._tail.find(b"\r\n\r\n")
            if end < 0:
                return False
            self.head, data = self._tail[:end].lower(), self._tail[end + 4 :]
            self._got, self._tail = len(data), data[-5:]
            if not self.head.startswith(b"http/1.1 200"):
                raise RuntimeError(f"unexpected answer: {(self.head + b' ' + data)[:600]!r}")
            at = self.head.find(b"content-length:")
            if at >= 0:
                self._end = int(self.head[at + 15 :].split(b"\r\n", 1)[0])
        return self._got >= self._end if self._end >= 0 else self._tail == b"0\r\n\r\n"


class Connection:
    """A connection that is kept alive, one request at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes, tally: Tally) -> None:
        answer, receive = Answer(), self.socket.recv
        begun = time.perf_counter()
        self.socket.sendall(request)
        data = receive(BUFFER)
        first = time.perf_counter() - begun
        ended = begun + first
        while data and not answer.feed(data):
            data = receive(BUFFER)
            ended = time.perf_counter()
            at = data.rfind(_SENT)
            if at >= 0:  # the newest event of those that came together
                tally.lags.append(ended - float(data[at + len(_SENT) : data.find(b",", at)]))
        if not data:
            raise RuntimeError("the server closed the connection in the middle of an answer")
        tally.add(ended - begun, answer.head, first)

    def close(self) -> None:
        self.socket.close()


class _Flow:
    """One connection of many: what is left to send, and the answer so far."""

    def __init__(self, port: int, number: int) -> None:
        self.socket = Connection(port).socket
        self.socket.setblocking(False)
        self.number = number
        self.out, self.answer, self.begun = memoryview(b""), Answer(), 0.0

    def start(self, request: bytes) -> None:
        self.out, self.answer, self.begun = memoryview(request), Answer(), time.perf_counter()

    def send(self) -> bool:
        """Whether all is sent."""
        try:
            while self.out:
                self.out = self.out[self.socket.send(self.out) :]
        except BlockingIOError:
            return False
        return True


class Crowd:
    """Several connections at once. `requests(n)` gives the next request of connection n, None when it has no more."""

    def __init__(self, port: int, connections: int, requests: Callable[[int], bytes | None]) -> None:
        self._port, self._connections, self._requests = port, connections, requests

    def run(self, seconds: float = 1e9) -> tuple[Tally, float]:
        """Ask for so long, or until nobody has more to ask; gives what came back and the seconds it took.

        Connections are new each time: servers close those that were idle meanwhile.
        """
        flows = [_Flow(self._port, number) for number in range(self._connections)]
        try:
            return self._run(flows, seconds)
        finally:
            for flow in flows:
                flow.socket.close()

    def _run(self, flows: list[_Flow], seconds: float) -> tuple[Tally, float]:
        tally, begun = Tally(), time.perf_counter()
        until = begun + seconds
        with selectors.DefaultSelector() as selector:
            active = sum(self._begin(selector, flow) for flow in flows)
            while active:
                ready = selector.select(TIMEOUT)
                if not ready:
                    raise RuntimeError(f"no answer for {TIMEOUT:.0f} s")
                for key, events in ready:
                    flow: _Flow = key.data
                    if events & selectors.EVENT_WRITE:
                        if flow.send():
                            selector.modify(flow.socket, selectors.EVENT_READ, flow)
                    elif self._received(flow, tally):
                        selector.unregister(flow.socket)
                        if time.perf_counter() >= until or not self._begin(selector, flow):
                            active -= 1
        return tally, time.perf_counter() - begun

    def _begin(self, selector: selectors.BaseSelector, flow: _Flow) -> bool:
        request = self._requests(flow.number)
        if request is None:
            return False
        flow.start(request)
        selector.register(flow.socket, selectors.EVENT_READ if flow.send() else selectors.EVENT_WRITE, flow)
        return True

    def _received(self, flow: _Flow, tally: Tally) -> bool:
        data = flow.socket.recv(BUFFER)
        if not data:
            raise RuntimeError("the server closed the connection in the middle of an answer")
        if not flow.answer.feed(data):
            return False
        tally.add(time.perf_counter() - flow.begun, flow.answer.head)
        return True


def quantile(values: list[float], share: float) -> float:
    """The value below which that share of them lies, nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
