"""The provider of the gateway's benchmark: one small HTTP protocol without a framework, as cheap as Python allows.

`POST` with a content-length is answered as Anthropic does, `"stream":true` by 200 events a millisecond apart. Usage
follows the markers that arrive: a lane (header `x-bench-lane`) reads what its last request covered, a new one the
head that its credential has sent before. Cost is all that counts here; the rules proper are the simulator's.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import cast

EVENTS = 200
PACE = 0.001  # seconds between events; event loops know no finer time
BYTES_PER_TOKEN = 4
BUFFER = 1 << 18
MOST_LANES = 50_000

_MARK = b'"cache_control"'
_MARK_BYTES = 37  # of a marker, which the text without it does not have

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\nrequest-id: req_bench\r\n%b\r\n\r\n"
_CHUNKED = _HEAD % (b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked")
_DELTA = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"at %.6f, kelp"}}\n\n'
)
"""Says when it was sent, so that the load can tell how long it was under way: one clock for all processes."""

_ANSWER = (
    b'{"id":"msg_bench","type":"message","role":"assistant","model":"claude-opus-4-6","content":[{"type":"text","text":"'
    + b"kelp and rock " * 30
    + b'"}],"stop_reason":"end_turn","stop_sequence":null,"usage":%b}'
)
_REFUSED = b"HTTP/1.1 411 Length Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Memory:
    """What lanes and heads have covered, in tokens."""

    def __init__(self) -> None:
        self._lanes: dict[bytes, int] = {}
        self._heads: set[tuple[bytes, int]] = set()

    def usage(self, head: bytes, body: bytes | bytearray) -> bytes:
        total = len(body)
        marks: list[int] = []
        at = body.find(_MARK)
        while at >= 0:
            marks.append((at - len(marks) * _MARK_BYTES) // BYTES_PER_TOKEN)
            at = body.find(_MARK, at + len(_MARK))
        tokens = (total - len(marks) * _MARK_BYTES) // BYTES_PER_TOKEN
        lane = _header(head, b"x-bench-lane: ")
        covered = marks[-1] if marks else 0
        read = self._lanes.get(lane, 0)
        if marks and not read:
            shared = (_header(head, b"x-api-key: "), marks[0])
            read = marks[0] if shared in self._heads else 0
            self._heads.add(shared)
        read = min(read, covered)
        if len(self._lanes) >= MOST_LANES:
            self._lanes.clear()
        self._lanes[lane] = covered
        return (
            b'{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,'
            b'"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":0},"output_tokens":%d}'
            % (tokens - covered, covered - read, read, covered - read, EVENTS)
        )


def _header(head: bytes, name: bytes) -> bytes:
    """The value of a header; names are compared without case only where they are not found as they stand here."""
    at = head.find(name)
    if at < 0:
        at = head.lower().find(name)
    return b"" if at < 0 else head[at + len(name) : head.find(b"\r\n", at)]


class Upstream(asyncio.BufferedProtocol):
    """One connection: bytes are gathered in one buffer until the request is whole."""

    def __init__(self, memory: Memory, loop: asyncio.AbstractEventLoop) -> None:
        self._memory, self._loop = memory, loop
        self._buffer = bytearray(BUFFER)
        self._filled = self._whole = self._body = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if not self._whole and not self._sized():
            return
        if self._filled >= self._whole:
            head = bytes(self._buffer[: self._body])
            body = self._buffer[self._body : self._whole]
            self._filled = self._whole = 0
            self._answer(head, body)

    def _sized(self) -> bool:
        """Whether the head is there; then the buffer is large enough for the whole request."""
        end = self._buffer.find(b"\r\n\r\n", 0, self._filled)
        if end < 0:
            return False
        head = bytes(self._buffer[:end]) + b"\r\n"
        length = _header(head, b"content-length: ")
        if not length.isdigit():
            if self._transport is not None and head.startswith(b"POST"):
                self._transport.write(_REFUSED)
                self._transport.close()
                return False
            length = b"0"
        self._body = end + 4
        self._whole = self._body + int(length)
        if self._whole >= len(self._buffer):
            grown = bytearray(self._whole + BUFFER)
            grown[: self._filled] = self._buffer[: self._filled]
            self._buffer = grown
        return True

    def _answer(self, head: bytes, body: bytearray) -> None:
        assert self._transport is not None
        usage = self._memory.usage(head, body)
        start = body.find(b'"stream":')
        if start >= 0 and body[start + 9 : start + 14].lstrip().startswith(b"true"):
            self._transport.write(_CHUNKED + _chunk(_opening(usage)))
            self._loop.call_later(PACE, self._go_on, EVENTS - 5, usage)
            return
        answer = _ANSWER % usage
        self._transport.write(_HEAD % (b"application/json", b"content-length: %d" % len(answer)) + answer)

    def _go_on(self, left: int, usage: bytes) -> None:
        if self._transport is None:
            return
        if left:
            self._transport.write(_chunk(_DELTA % time.perf_counter()))
            self._loop.call_later(PACE, self._go_on, left - 1, usage)
        else:
            self._transport.write(_chunk(_ending(usage)) + b"0\r\n\r\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _opening(usage: bytes) -> bytes:
    message = (
        b'{"type":"message_start","message":{"id":"msg_bench","type":"message","role":"assistant",'
        b'"model":"claude-opus-4-6","content":[],"stop_reason":null,"stop_sequence":null,"usage":%b}}'
    )
    block = b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
    return b"event: message_start\ndata: %b\n\nevent: content_block_start\ndata: %b\n\n" % (message % usage, block)


def _ending(usage: bytes) -> bytes:
    delta = b'{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":%b}' % usage
    return (
        b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        b"event: message_delta\ndata: %b\n\n"
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n' % delta
    )


async def serve() -> None:
    loop, memory = asyncio.get_running_loop(), Memory()
    server = await loop.create_server(lambda: Upstream(memory, loop), "127.0.0.1", 0, backlog=1024)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    server.close()


def main() -> int:
    import uvloop

    uvloop.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
