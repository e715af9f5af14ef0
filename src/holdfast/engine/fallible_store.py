"""A store that may fail: what cannot be read counts as not there, what cannot be written is lost, and nothing raises.

While it is down the engine goes on with what it has in memory and makes nothing that must not be sent before it is
durable (law 4). A store that could not be read is left alone for a while: a locked file must not hold up every request.
One warning is logged when it goes down and one when it is back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from holdfast.errors import HoldfastError
from holdfast.store import Operation, Store, Writes

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")

PAUSE = 5.0
"""Seconds without reading after a read that failed."""


class FallibleStore(Writes):
    """The writes of a store, and `read` for its questions."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = monotonic) -> None:
        self.store, self._clock = store, clock
        self.others = store.others
        self._unread_until = 0.0
        self._late_until = 0.0
        self._unreadable = False
        self._unwritable = False
        self._warned = False

    def late(self, problem: Exception) -> None:
        """Something was waited for in vain: for a while nothing is asked of it that must be waited for."""
        self._late_until = self._clock() + PAUSE
        self._warn(problem)

    @property
    def down(self) -> bool:
        """Whether it cannot be read or written just now, as far as is known."""
        problem = self.store.trouble()
        if problem is None and not (self._unwritable or self._unreadable or self._late_until or self._warned):
            return False
        if problem is None and self._unwritable:  # it could be written again: then it can be read too
            self._unreadable = False
        self._unwritable = problem is not None
        unreadable = self._unreadable and self._clock() < self._unread_until
        if self._clock() < self._late_until:
            return True
        if problem is None and not self._unreadable:
            if self._warned:
                self._warned = False
                logger.warning("the store can be used again")
            return False
        if not self._warned and problem is not None:
            self._warn(problem)
        return unreadable or problem is not None

    def read(self, default: D, question: Callable[P, T], *values: P.args, **named: P.kwargs) -> T | D:
        """What a question of `store` gives, or `default` while it cannot be read."""
        if self._unreadable and self._clock() < self._unread_until:
            return default
        try:
            answer = question(*values, **named)
        except HoldfastError as error:
            self._unreadable, self._unread_until = True, self._clock() + PAUSE
            self._warn(error)
            return default
        self._unreadable = False
        return answer

    def write(self, operation: Operation[T]) -> Future[T]:
        try:
            return self.store.write(operation)
        except HoldfastError as error:
            self._warn(error)
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def post(self, operation: Operation[T]) -> None:
        try:
            self.store.post(operation)
        except HoldfastError as error:
            self._warn(error)

    def _warn(self, problem: Exception) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("%s. Until then nothing is kept and no new edits are made.", str(problem).rstrip("."))
