"""Standard input and output for the SDK's stdio server, but without blocking the exit of the process.

The SDK reads and writes in threads that it joins, so Ctrl-C would hang until the client sends something. The threads
here are daemons. While the streams are open, descriptor 1 is redirected to standard error, so that prints cannot
corrupt the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from queue import SimpleQueue
from typing import Any, TypeVar

from holdfast.errors import HoldfastError
from holdfast.tools import mend

_CHUNK = 65_536


class Wire:
    """Both directions. Lines end when standard input does, or when nobody reads standard output any more."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            self._in, self._out = os.dup(0), _diverted()
        except OSError as problem:
            raise HoldfastError(
                "standard input or output is closed; this command is started by an MCP client, see --help"
            ) from problem
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        for work in (self._read, self._write):
            threading.Thread(target=work, name=f"mcp{work.__name__}", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            yield _whole(line.decode("utf-8", "replace"))

    async def write(self, text: str) -> None:
        written = self._loop.create_future()
        self._waiting.put((text.encode("utf-8", "replace"), written))
        await written

    async def flush(self) -> None:
        """Nothing is held back."""

    def _read(self) -> None:
        begun: list[bytes] = []  # of a line; one of 100 MB must not be copied at every piece
        try:
            while chunk := os.read(self._in, _CHUNK):
                *ends, rest = chunk.split(b"\n")
                for end in ends:
                    self._soon(self._lines.put_nowait, b"".join([*begun, end]))
                    begun.clear()
                begun.append(rest)
        except OSError:
            """Closed, which ends it too."""
        self._soon(self._lines.put_nowait, None)

    def _write(self) -> None:
        while True:
            left, written = self._waiting.get()
            try:
                while left:
                    left = left[os.write(self._out, left) :]
            except OSError:
                self._soon(self._lines.put_nowait, None)
            self._soon(_done, written)

    def _soon(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            """The loop is closed: nobody waits."""


def _whole(text: str) -> str:
    """A message that the SDK can read: with half a character in it, it would drop the message, and never answer."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    try:
        return mend(json.dumps(json.loads(text), ensure_ascii=False))
    except (ValueError, RecursionError):
        return text


def _done(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_result(None)


def _diverted() -> int:
    """Standard output under another number; what is printed goes to standard error, or nowhere."""
    out = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return out


T = TypeVar("T")


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """`asyncio.run`; a signal cancels the work, and is raised when that has come to its end."""
    ended: list[int] = []
    try:
        return asyncio.run(_told(work, ended))
    except asyncio.CancelledError:
        if not ended:
            raise
    if ended[0] == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + ended[0])


async def _told(work: Callable[[], Coroutine[Any, Any, T]], ended: list[int]) -> T:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def end(number: int) -> None:
        if not ended:
            ended.append(number)
            task.cancel()

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as nohup does
            with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows, or a thread
                loop.add_signal_handler(number, end, number)
    return await work()
