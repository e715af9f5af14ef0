"""A store that may fail, and the versions of values that several processes write.

What cannot be read counts as missing, what cannot be written is lost, and nothing raises. While the store is down the
engine goes on with what it has in memory and makes nothing that must be durable before it is sent (law 4). After a read
that failed the store is not read for a while: a locked file must not hold up every request. One warning is logged when
the store goes down and one when it is back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from holdfast.errors import HoldfastError
from holdfast.store import Operation, Store, VersionConflictError, Writes

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D")

PAUSE = 5.0
"""Seconds without reading after a read that failed."""


class FallibleStore(Writes):
    """The writes of a store, and `read` for its questions."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.others = store.others
        self._unread_until = 0.0
        self._late_until = 0.0
        self._unreadable = False
        self._unwritable = False
        self._warned = False

    def late(self, problem: Exception) -> None:
        """Something was waited for in vain: for a while nothing is asked of it that must be waited for."""
        self._late_until = monotonic() + PAUSE
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
        unreadable = self._unreadable and monotonic() < self._unread_until
        if monotonic() < self._late_until:
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
        if self._unreadable and monotonic() < self._unread_until:
            return default
        try:
            answer = question(*values, **named)
        except HoldfastError as error:
            self._unreadable, self._unread_until = True, monotonic() + PAUSE
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


class Version:
    """The version of a stored value that we have, with our pending writes of it: seldom more than two.

    `unread` if it is unknown whether one is stored: ours was made independently and must not replace it."""

    __slots__ = ("_under_way", "known", "stale", "unread")

    def __init__(self, known: int = 0, *, unread: bool = False) -> None:
        self.known, self.unread = known, unread
        self.stale = False
        self._under_way: list[tuple[Future[int], int]] = []

    def writing(self, future: Future[int]) -> Future[int]:
        """A write that takes this version to the next."""
        self._under_way.append((future, self.known))
        self.known += 1
        return future

    def is_stale(self, ask: Callable[[], int | None] | None = None) -> bool:
        """Return whether another process wrote it. `ask` returns the stored version, after our own finished writes were
        counted; None means unknown, and ours continues. Without `ask` only conflicts of our own writes show it."""
        under_way = self._under_way
        while under_way and under_way[0][0].done():
            future, before = under_way.pop(0)
            error = future.exception()
            if error is not None and not isinstance(error, VersionConflictError):
                self.known -= 1  # nothing was written
                under_way[:] = [(later, expected - 1) for later, expected in under_way]
            elif error is not None or future.result() != before + 1:
                self.stale = True
        if ask is None:
            return self.stale
        stored = ask()
        if stored is None:
            return False
        return self.stale or stored > self.known or (stored != self.known and not self._under_way)
