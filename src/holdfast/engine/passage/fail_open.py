"""Never in the way (law 8): a limit for the time of our own work, and failures that are logged and not raised."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import PurePath
from typing import ParamSpec, TypeVar

from msgspec import Struct

from holdfast.config.sections import LimitSettings

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

READING_MS = 0.0005
"""Milliseconds that are added for each byte of the prompt that was not in the request before. To read a megabyte for
the first time takes 60 to 150 of them, mostly for counting its tokens, and after a restart every conversation is read
for the first time. What goes past us for that is paid in full."""

Clock = Callable[[], float]


class Slow(Exception):
    """Our own work took too long."""


class Timers(Struct, frozen=True):
    """The clocks of a budget, in seconds."""

    processor: Clock = time.thread_time
    """Processor time of the working thread."""
    wall: Clock = time.monotonic
    """A clock that also runs while the thread waits."""


TIMERS = Timers()


class TimeBudget:
    """How much time our own work on one request may take, from now on, before the client's bytes go on without it.

    Only processor time of the thread at work is counted: a machine that is busy with something else is no reason to
    let a request go past us, and neither is what has to be loaded once. Waiting for the store has a limit of its own.
    """

    def __init__(self, timers: Timers = TIMERS) -> None:
        self._timer, self._wall = timers.processor, timers.wall
        self._begun, self._entered = self._timer(), self._wall()
        self.fresh = 0
        """Bytes of the prompt that had to be read."""

    @property
    def spent(self) -> float:
        """Seconds of processor time."""
        return self._timer() - self._begun

    def check(self, limits: LimitSettings) -> None:
        """Raise `Slow` if nothing more may be begun."""
        most = limits.stages_ms + READING_MS * self.fresh
        if self.spent * 1_000 > most or (self._wall() - self._entered) * 1_000 > most + limits.wait_ms:
            raise Slow

    def untimed(self, load: Callable[[], None]) -> None:
        """Load stored data without counting the time: once per process, and not for the request."""
        begun = self._timer()
        load()
        self._begun += self._timer() - begun


class quiet:  # noqa: N801 - used as a statement
    """Nothing of ours may reach the client's call any more."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        log(self._what, error)
        return True


def quietly(do: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
    """The same for one function; None where it failed."""
    try:
        return do(*arguments, **named)
    except Exception as error:  # noqa: BLE001
        log(getattr(do, "__name__", "a part"), error)
        return None


def log(what: str, error: Exception) -> None:
    _log.warning("%s failed: %s; the client's call goes on", what, place_of(error))


def place_of(error: BaseException) -> str:
    """The kind of an error and where it was, for the log. Not what it says: that may be the client's."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" ({PurePath(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})"
    return f"{type(error).__name__}{where}"
