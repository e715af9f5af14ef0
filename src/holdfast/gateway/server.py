"""The server around the gateway: its start, and an end that lets open streams finish.

A first signal stops accepting and waits for what is under way, a second ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import gc
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from holdfast.config import Config
from holdfast.errors import HoldfastError
from holdfast.serving import Admission, Protocol, address_of, listen

from .assembly import Gateway
from .discovery import announced
from .request_reader import GatewayRequest

KEEP_ALIVE_S = 120
_LOOK_S = 0.02
_RESET_S = 2.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ARENA_MAX = -8  # of mallopt


class GatewayServer(uvicorn.Server):
    """uvicorn for which a signal is a request to end, not an accident.

    `on_ready` is called when it answers. Open streams may finish for `stop_timeout` seconds; those that do not are then
    reset, as a broken answer is.
    """

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], stop_timeout: float, on_tick: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self._on_ready, self._stop_timeout, self._on_tick = on_ready, stop_timeout, on_tick

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        with contextlib.suppress(SystemExit):  # who started it sees that it has not
            await super().startup(sockets)
        if self.started:
            self._on_ready()
        else:
            self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.end) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in (*self.servers, *(sockets or ())):
            each.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        ends = time.monotonic() + self._stop_timeout
        while (state.tasks or state.connections) and not self.force_exit and time.monotonic() < ends:
            await asyncio.sleep(_LOOK_S)
        for task in state.tasks:
            task.cancel()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=_RESET_S)
        for connection in list(state.connections):
            connection.transport.abort()
        await self.lifespan.shutdown()

    async def on_tick(self, counter: int) -> bool:
        self._on_tick()
        return await super().on_tick(counter)

    def end(self, number: int = 0, frame: FrameType | None = None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def server(
    gateway: Gateway,
    config: Config,
    on_ready: Callable[[], None] = lambda: None,
    on_switch: Callable[[bool], None] = lambda _off: None,
    on_tick: Callable[[], None] = lambda: None,
) -> GatewayServer:
    def look() -> None:
        on_tick()
        if gateway.switch.note():
            on_switch(gateway.switch.off)

    limits = config.settings.gateway.limits
    admission = Admission(most=limits.connections, waiting_per_peer=limits.waiting_per_peer, silent_s=limits.silent_s)
    settings = uvicorn.Config(
        gateway.app,
        http=functools.partial(Protocol, admission=admission),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        server_header=False,
        date_header=False,
        proxy_headers=False,
    )
    return GatewayServer(settings, on_ready, limits.shutdown_s, look)


def serve(
    config: Config,
    gateway: Gateway,
    listener: socket.socket,
    on_ready: Callable[[], None],
    on_switch: Callable[[bool], None] = lambda _off: None,
    on_tick: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal ends it, then close the gateway. `on_switch` is told when it was switched off or on;
    `on_tick` is called several times a second."""
    instance = server(gateway, config, on_ready, on_switch, on_tick)
    _one_arena()
    gc.collect()
    gc.freeze()  # what is loaded by now stays: looking through it again and again would take a tenth of our time
    gc.set_threshold(10_000, 20, 50)
    try:
        with instance.capture_signals(), announced(config, address_of(listener)):
            instance.run([listener])
        _check(instance, gateway)
    finally:
        gateway.close()


def _check(instance: GatewayServer, gateway: Gateway) -> None:
    """A server that could not start ends without a word, and what its clients send would wait for ever."""
    if not instance.started:
        why = gateway.app.trouble or "its server failed"
        raise HoldfastError(f"the gateway did not start: {why}; that is a fault in Holdfast, clients work without it.")


def _one_arena() -> None:
    """glibc gives every thread a heap of its own, and what was free in one stays with it; the threads here take turns
    anyhow. Saved 8 MB of 250."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


@contextlib.contextmanager
def running(
    config: Config,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    gateway: Gateway | None = None,
    on_call: Callable[[GatewayRequest], None] | None = None,
) -> Iterator[str]:
    """A gateway in a thread of this process, for tests and for `holdfast run`; yields its address."""
    listener = listen(host, port)
    chosen = gateway or Gateway(config, host=host, on_call=on_call)
    ready = threading.Event()
    instance = server(chosen, config, ready.set)
    thread = threading.Thread(target=_run, args=(instance, listener, ready), name="holdfast-gateway")
    try:  # who is interrupted while it starts must not wait for it for ever
        thread.start()
        ready.wait()
        _check(instance, chosen)
        with announced(config, address_of(listener)):
            yield address_of(listener)
    finally:
        instance.end()
        if thread.ident is not None:
            thread.join()
        listener.close()
        chosen.close()


def _run(instance: GatewayServer, listener: socket.socket, ready: threading.Event) -> None:
    try:
        instance.run([listener])
    finally:
        ready.set()
