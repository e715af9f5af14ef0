"""MCP servers over HTTP on 127.0.0.1, in a thread: started, stopped and started again at the same port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import uvicorn

App = Callable[[Any, Any, Any], Awaitable[None]]


class Serving:
    """An application at `url` until it is stopped. `requests` are the methods and paths that came."""

    def __init__(self, app: Callable[[], App], port: int = 0, *, path: str = "/mcp") -> None:
        self._make, self.port, self._path = app, port, path

    def start(self) -> None:
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(self._make(), log_level="critical", timeout_graceful_shutdown=0, ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.005)

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self._path}"

    def __enter__(self) -> Serving:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self.stop()
