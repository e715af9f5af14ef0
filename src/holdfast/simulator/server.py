"""A server around the application: its start and its end.

Only what needs a real server is here; what is sent and when is decided in `steps` and `app`.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from holdfast.serving import Protocol, address_of, listen

from .app import Interrupted, build
from .journal import Record
from .model import respond_to
from .provider import Simulator

__all__ = ["SimulatorServer", "address_of", "listen", "running", "serve", "server"]

SCRIPT_TIMEOUT_S = 1.0
"""Seconds after a signal in which a script may still come to its end."""

_HAS_TIMER = hasattr(signal, "setitimer")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGALRM,) if _HAS_TIMER else ()))


class SimulatorServer(uvicorn.Server):
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
            signal.setitimer(signal.ITIMER_REAL, SCRIPT_TIMEOUT_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        await super().shutdown(sockets)


def _thinking(frame: FrameType | None) -> bool:
    """Return whether a script is computing a reply, which may take for ever."""
    while frame is not None and frame.f_code is not respond_to.__code__:
        frame = frame.f_back
    return frame is not None


def server(simulator: Simulator, on_request: Callable[[Record], None] | None = None) -> SimulatorServer:
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
    return SimulatorServer(config)


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
    try:
        thread.start()
        yield address
    finally:
        instance.should_exit = True
        if thread.ident is not None:
            thread.join()
        listener.close()
