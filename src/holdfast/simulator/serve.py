"""A server around the application: its socket, its end, and connections that can be reset.

Only what needs a real server is here; what is sent and when is decided in `plans` and `app`.
"""

from __future__ import annotations

import contextlib
import errno
import re
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.errors import HoldfastError

from .app import ABORT, Interrupted, build
from .core import Simulator
from .journal import Record
from .model import respond_to

BACKLOG = 2048
_HEAD = 65_536  # bytes in which the headers of a request are looked for
PATIENCE = 1.0
"""Seconds after a signal in which a script may still come to its end."""

_NO_LINGER = struct.pack("ii", 1, 0)
_h2c = re.compile(rb"(?i)([A-Z]+ [^\r\n]* HTTP/1\.1\r\n(?:[^\r\n]+\r\n)*?)upgrade(:[ \t]*h2c[ \t]*\r\n)").match


class Protocol(HttpToolsProtocol):
    """HTTP with one more thing a request can ask for: that its connection is reset."""

    def data_received(self, data: bytes) -> None:
        """An offer to go on in HTTP/2, which Java's client makes on every first request, is overlooked, as it may be;
        the parser would take it for accepted and lose the body."""
        if b"h2c" in data[:_HEAD] and (found := _h2c(data, 0, _HEAD)) is not None:
            data = b"".join((found[1], b"x-upgrade", found[2], data[found.end() :]))
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"abort": self.abort}}

    def abort(self) -> None:
        """Close with a reset: without lingering, or the kernel would say goodbye politely (FIN)."""
        found = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the peer was faster
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()


_HAS_TIMER = hasattr(signal, "setitimer")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGALRM,) if _HAS_TIMER else ()))


class Server(uvicorn.Server):
    """uvicorn that ends at once: what is under way is cut off, and a signal is a request to end, not an accident.

    A script that never returns holds up everything, the end too: after a while, or at a second signal, it is
    interrupted where it is.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._end) for number in _SIGNALS}
        try:
            yield
        finally:
            if _HAS_TIMER:
                signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.should_exit and _thinking(frame):
            raise Interrupted
        self.should_exit = True
        if _HAS_TIMER:  # again and again: a script may be asked between the signal and the end
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await super().shutdown(sockets)


def _thinking(frame: FrameType | None) -> bool:
    """Whether a script is just asked for a reply, which may take for ever."""
    while frame is not None and frame.f_code is not respond_to.__code__:
        frame = frame.f_back
    return frame is not None


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a name"
        raise HoldfastError(f"the host {host!r} is not known ({reason}); choose another with `--host`.") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise HoldfastError(
                f"port {port} on {host} is in use; choose another with `--port`, or `--port 0` for a free one."
            ) from error
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise HoldfastError(
            f"cannot listen on {host} port {port} ({reason}); choose others with `--host` and `--port`."
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """The address to give to clients."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}"


def server(simulator: Simulator, on_request: Callable[[Record], None] | None = None) -> Server:
    config = uvicorn.Config(
        build(simulator, on_request),
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        timeout_keep_alive=75,
        server_header=False,
    )
    return Server(config)


def serve(
    simulator: Simulator,
    listener: socket.socket,
    on_request: Callable[[Record], None] | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal ends it. `on_ready` is called when one would do so; clients can connect already."""
    instance = server(simulator, on_request)
    with instance.capture_signals():
        on_ready()
        instance.run([listener])


@contextlib.contextmanager
def running(simulator: Simulator, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """A server in a thread of this process, for tests and examples; yields its address."""
    listener = listen(host, port)
    address = address_of(listener)
    instance = server(simulator)
    thread = threading.Thread(target=instance.run, args=([listener],), name="holdfast-simulator")
    thread.start()
    try:
        yield address
    finally:
        instance.should_exit = True
        thread.join()
        listener.close()
