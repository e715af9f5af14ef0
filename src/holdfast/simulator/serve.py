"""A server around the application: its socket, its end, and connections that can be reset.

Only what needs a real server is here; what is sent and when is decided in `plans` and `app`.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.errors import HoldfastError

from .app import ABORT, build
from .core import Simulator
from .journal import Record

BACKLOG = 2048
_NO_LINGER = struct.pack("ii", 1, 0)


class Protocol(HttpToolsProtocol):
    """HTTP with one more thing a request can ask for: that its connection is reset."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"abort": self.abort}}

    def abort(self) -> None:
        """Close with a reset: without lingering, or the kernel would say goodbye politely (FIN)."""
        found = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the peer was faster
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()


class Server(uvicorn.Server):
    """uvicorn that ends at once: what is under way is cut off, and a signal is a request to end, not an accident."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise HoldfastError(
            f"the host {host!r} is not known ({error.strerror}); choose another with `--host`."
        ) from error
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
        raise HoldfastError(
            f"cannot listen on {host} port {port} ({error}); choose others with `--host` and `--port`."
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


def serve(simulator: Simulator, listener: socket.socket, on_request: Callable[[Record], None] | None = None) -> None:
    """Serve until a signal ends it."""
    server(simulator, on_request).run([listener])


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
