"""How much time our own work on a request may take before the client's bytes go on without it (law 8).

Only processor time of the thread at work is counted: a machine that is busy with something else is no reason to let a
request go past us, and neither is what has to be loaded once. How long the store is waited for has a limit of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.config.sections import Limits

READING_MS = 0.0005
"""Milliseconds that are added for each byte of the prompt that was not in the request before. To read a megabyte for
the first time takes 60 to 150 of them, mostly for counting its tokens, and after a restart every conversation is read
for the first time. What goes past us for that is paid in full."""

Clock = Callable[[], float]


class Slow(Exception):
    """Our own work took too long."""


class Budget:
    """The time of one request, from now on. `timer` is the processor time of this thread in seconds, `wall` any clock
    that goes on while it waits."""

    def __init__(self, timer: Clock = time.thread_time, wall: Clock = time.monotonic) -> None:
        self._timer, self._wall = timer, wall
        self._begun, self._entered = timer(), wall()
        self.fresh = 0
        """Bytes of the prompt that had to be read."""

    @property
    def spent(self) -> float:
        """Seconds of processor time."""
        return self._timer() - self._begun

    def check(self, limits: Limits) -> None:
        """Raise `Slow` if nothing more may be begun."""
        most = limits.stages_ms + READING_MS * self.fresh
        if self.spent * 1_000 > most or (self._wall() - self._entered) * 1_000 > most + limits.wait_ms:
            raise Slow

    def untimed(self, load: Callable[[], None]) -> None:
        """Load what is stored: once in a process, and no work on the request."""
        begun = self._timer()
        load()
        self._begun += self._timer() - begun
