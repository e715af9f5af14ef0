"""Where the simulator's time comes from: the machine, or whoever drives it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

from holdfast.errors import HoldfastError

LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
"""Answers carry dates, and the calendar ends with this year."""


class Clock(Protocol):
    """Seconds since the epoch."""

    def now(self) -> float: ...


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        return time.time()


class VirtualClock:
    """Time that stands still until it is moved: a day of gaps passes in a millisecond."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> float:
        if not seconds >= 0:
            raise HoldfastError(f"the clock cannot be moved by {seconds} seconds; time only goes forward.")
        if self._now + seconds > LATEST:
            raise HoldfastError(f"the clock cannot be moved by {seconds} seconds; it ends with the year 9998.")
        self._now += seconds
        return self._now

    def set(self, now: float) -> float:
        return self.advance(now - self._now)
