"""Values that several processes write: which version is ours."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from holdfast.store import VersionConflictError


class Version:
    """Which version of a stored value we have, with our writes of it that are under way: seldom more than two.

    `unread` says that nobody knows whether there is one: ours began beside it and must not be taken for a later one."""

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
        """Whether somebody else wrote it. The version that is there is asked for after our own writes have been seen:
        one that is done is in it. None says that nobody knows: then ours goes on. Without a question nobody else can
        have written since the last one, beyond what our own writes have met."""
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
