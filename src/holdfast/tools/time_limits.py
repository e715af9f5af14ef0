"""Runs somebody else's work with a timeout: it is cancelled, and left behind if it does not end.

A function that blocks gets a thread of its own that does not keep the program from ending. Knows nothing of tools.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import threading
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

logger = logging.getLogger(__name__)

GRACE_S = 2.0
"""How long cancelled work is waited for."""

left_behind: set[asyncio.Task[Any]] = set()
"""Tasks that did not end: the loop holds them weakly, and half-done work must not vanish in the middle."""


class WorkTimeout(Exception):
    """The work took too long. `left` if it did not end when it was cancelled, and may still be going on."""

    def __init__(self, left: bool) -> None:
        super().__init__("the work took too long")
        self.left = left


class WorkAborted(Exception):
    """The work cancelled itself, or raised what is meant for the program: neither may end more than the work."""


async def run_bounded(
    work: Callable[[], Awaitable[T]],
    *,
    timeout: float | None = None,
    grace: float = GRACE_S,
    stopping: Callable[[], None] = lambda: None,
) -> T:
    """The result of the work. `stopping` is called before it is cancelled, at the timeout (`WorkTimeout`) or from
    outside."""
    task = asyncio.create_task(_contained(work))
    task.add_done_callback(retrieve_exception)
    try:
        await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        stopping()
        await _end(task, grace)
        raise
    if not task.done():
        stopping()
        raise WorkTimeout(left=await _end(task, grace))
    if task.cancelled():
        raise WorkAborted("it cancelled itself")
    return task.result()


async def _contained(work: Callable[[], Awaitable[T]]) -> T:
    try:
        return await work()
    except SystemExit as error:  # as a function made for the command line does; it would end the whole program
        raise WorkAborted(f"it tried to end the program (exit {error.code})") from error


async def _end(task: asyncio.Task[Any], grace: float) -> bool:
    """Cancels a task and waits a little; whether it is left behind."""
    task.cancel()
    try:
        await wait_until_done(task, grace)
    finally:
        if not task.done():
            left_behind.add(task)
            task.add_done_callback(left_behind.discard)
            logger.warning("a call did not end when it was told to, and is left behind")
    return not task.done()


async def wait_until_done(task: asyncio.Task[Any], timeout: float = math.inf) -> None:
    """Waits for a cancelled task. A cancellation meanwhile does not shorten that: who gave up half way would leave the
    task behind."""
    clock = asyncio.get_running_loop().time
    until = clock() + timeout
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (rest := until - clock()) > 0:
        try:
            await asyncio.wait({task}, timeout=rest if rest < math.inf else None)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Marks the exception of a task as retrieved, so that asyncio does not report one that nobody waits for."""
    if not task.cancelled():
        task.exception()


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a function that blocks. Cancelled, it still waits: while the function goes on, so do its effects.
    Cancelled again, as by a loop that is closing, it does not."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    context = contextvars.copy_context()
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(context.run(function, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001  handed to the one who waits
            errors.append(error)
        try:
            loop.call_soon_threadsafe(_resolve, done)
        except RuntimeError:  # the loop is closed: nobody waits any more
            logger.debug("a function ended after its event loop")

    threading.Thread(target=work, name=f"holdfast-{getattr(function, '__name__', 'call')}", daemon=True).start()
    await _through(done)
    if errors:
        raise _harmless(errors[0])
    return results[0]


async def _through(done: asyncio.Future[None]) -> None:
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.shield(done)
        raise


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _harmless(error: BaseException) -> BaseException:
    """An exception of a thread as one that can be raised here: it was not meant to end the program or a task."""
    if isinstance(error, (SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration)):
        died = WorkAborted(f"it raised {type(error).__name__}")
        died.__cause__ = error
        return died
    return error
