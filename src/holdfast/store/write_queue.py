"""Writes on their way to the writer thread, and how those of one value become one.

They are put together by whoever takes them, many at once: a request that writes only adds to the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msgspec import Struct

from .write_future import Answer


class Joint(Protocol):
    """A write of one value, named by its key. It gives a result for each of the writes that it stands for, or None
    where nothing is to be told."""

    @property
    def key(self) -> tuple[str, ...]: ...

    def after(self, earlier: Any) -> Joint | None:
        """One write for both, made where the earlier one stands; None if they have to stay two."""
        ...

    def __call__(self, transaction: Any) -> list[Any] | None: ...


class Waiting(Struct):
    """A write in the queue, and who is answered. `joint` if it is one of a value; `apart` if it touches no row of such
    a one: what is made later may still follow an earlier one."""

    write: Callable[[Any], Any]
    rows: int
    answers: list[Answer[Any]]
    joint: Joint | None = None
    apart: bool = True
    result: Any = None
    error: Exception | None = None


def folded(queue: Iterable[Waiting]) -> list[Waiting]:
    """Of the writes of one value only the last, in the place of the first, where it can stand for it."""
    kept: list[Waiting] = []
    known: dict[tuple[str, ...], Waiting] = {}
    for waiting in queue:
        joint = waiting.joint
        if joint is None:
            if not waiting.apart:
                known.clear()
        else:
            key = joint.key
            earlier = known.get(key)
            both = None if earlier is None else joint.after(earlier.joint)
            if earlier is not None and both is not None:
                earlier.write = earlier.joint = both
                earlier.answers += waiting.answers
                continue
            known[key] = waiting
        kept.append(waiting)
    return kept
