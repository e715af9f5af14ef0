"""The future a write is answered with: whoever waits for it gets it at once, and not when the writer feels like it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Answer(Future[T]):
    """Says that it is waited for, so that the writer does not let more writes gather first."""

    def __init__(self, hurry: Callable[[], None]) -> None:
        super().__init__()
        self._hurry = hurry
        # A write that was accepted is carried out: cancelling the wait for it must not undo it.
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> T:
        self._wanted()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wanted()
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[T]], Any]) -> None:
        self._wanted()
        super().add_done_callback(fn)

    def when_done(self, act: Callable[[Future[T]], Any]) -> None:
        """The same for one who is in no hurry."""
        super().add_done_callback(act)

    def _wanted(self) -> None:
        if not self.done():
            self._hurry()
