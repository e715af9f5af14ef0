"""Operations on their way to the writer thread, and the futures that they are answered with.

Operations of one value are combined by whoever takes them, many at once: a request that writes only adds to the queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from msgspec import Struct

from ..operations import Operation

T = TypeVar("T")

_RUNNING, _FINISHED = "RUNNING", "FINISHED"  # as concurrent.futures has them


class WriteFuture(Future[T]):
    """A future that informs the writer when it is waited for, so that it does not gather more writes first.

    Few of them are waited for, so those of one writer share the condition to wait on. An accepted operation is carried
    out: cancelling the wait for it must not undo it. So it is running at once.
    """

    # The beginning of each, until something else is set on it.
    _state = _RUNNING
    _result: Any = None
    _exception: BaseException | None = None

    def __init__(self, condition: threading.Condition, hurry: Callable[[], None]) -> None:
        # What Future's own does, with a shared condition: one of its own for each costs more than all the rest.
        self._condition = condition
        self._waiters: list[Any] = []
        self._done_callbacks: list[Callable[[Future[T]], Any]] = []
        self._hurry = hurry

    def done(self) -> bool:
        return self._state == _FINISHED

    def result(self, timeout: float | None = None) -> T:
        if self._state == _FINISHED and self._exception is None:
            return self._result  # type: ignore[no-any-return]
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if self._state == _FINISHED:
            return self._exception
        self._wait(timeout)
        return self._exception if self._state == _FINISHED else super().exception(0)

    def add_done_callback(self, fn: Callable[[Future[T]], Any]) -> None:
        if self._state != _FINISHED:
            self._hurry()
        super().add_done_callback(fn)

    def when_done(self, act: Callable[[Future[T]], Any]) -> None:
        """The same for one who is in no hurry."""
        super().add_done_callback(act)

    def _wait(self, timeout: float | None) -> None:
        """Others are woken with us: only our own end counts."""
        if self._state != _FINISHED:
            self._hurry()
            with self._condition:
                self._condition.wait_for(self.done, timeout)


def resolve(condition: threading.Condition, results: Sequence[tuple[WriteFuture[Any], Any]]) -> None:
    """Set all of these results at once, as `set_result` sets one."""
    with condition:
        for future, result in results:
            future._result, future._state = result, _FINISHED
            for waiter in future._waiters:
                waiter.add_result(future)
        condition.notify_all()
    for future, _ in results:
        if future._done_callbacks:
            future._invoke_callbacks()  # type: ignore[attr-defined]


class Waiting(Struct):
    """An operation in the queue, and the futures it is answered with."""

    operation: Operation[Any]
    rows: int
    futures: list[WriteFuture[Any]]
    result: Any = None
    error: Exception | None = None


def combined(queue: Iterable[Waiting]) -> list[Waiting]:
    """Of the operations of one value only one, in the place of the first, where it can stand for all."""
    left: list[Waiting] = []
    by_key: dict[tuple[str, ...], Waiting] = {}
    for waiting in queue:
        operation = waiting.operation
        key = operation.key
        if key is None:
            if not operation.independent:
                by_key.clear()
        else:
            earlier = by_key.get(key)
            both = None if earlier is None else operation.combine(earlier.operation)
            if earlier is not None and both is not None:
                earlier.operation = both
                earlier.futures += waiting.futures
                continue
            by_key[key] = waiting
        left.append(waiting)
    return left
