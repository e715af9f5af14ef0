"""A loop that is told to end and still stops what it started: programs of MCP servers do not end with us by themselves.

Ctrl-C, SIGTERM and SIGHUP count once. Whoever presses Ctrl-C again while servers are being stopped waits for seconds
at most; without that care their programs would be left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

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
