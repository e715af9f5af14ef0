"""The future a write is answered with: whoever waits for it gets it at once, and not when the writer feels like it.

Several are made for every request and almost nobody waits for one, so those of one writer share what is waited on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_RUNNING, _FINISHED = "RUNNING", "FINISHED"  # as concurrent.futures has them


class Answer(Future[T]):
    """Says that it is waited for, so that the writer does not let more writes gather first.

    A write that was accepted is carried out: cancelling the wait for it must not undo it. So it is running at once.
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
        self._wanted()
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

    def _wanted(self) -> None:
        if self._state != _FINISHED:
            self._hurry()


def give(condition: threading.Condition, results: Sequence[tuple[Answer[Any], Any]]) -> None:
    """Answer all of these at once, as `set_result` answers one."""
    with condition:
        for answer, result in results:
            answer._result, answer._state = result, _FINISHED
            for waiter in answer._waiters:
                waiter.add_result(answer)
        condition.notify_all()
    for answer, _ in results:
        if answer._done_callbacks:
            answer._invoke_callbacks()  # type: ignore[attr-defined]
