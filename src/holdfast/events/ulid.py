"""ULIDs: 26 characters that sort by the moment they were made, and strictly so within one generator.

Knows no event. The clock and the randomness are parameters, so a replay can bring its own.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable

from ..errors import HoldfastError

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RANDOM_BITS = 80
_FETCHED = 1_000  # bytes, for a hundred
_LIMIT = 1 << 128
_PAIRS = tuple(high + low for high in ALPHABET for low in ALPHABET)
_SHIFTS = tuple(range(120, -1, -10))
_SHAPE = re.compile(f"[0-7][{ALPHABET}]{{25}}")


def system_milliseconds() -> int:
    return time.time_ns() // 1_000_000


class _Supply:
    """The system's randomness, fetched for many at once: every call into the system lets other threads in first."""

    def __init__(self) -> None:
        self._left = b""
        self._process = 0

    def __call__(self, count: int) -> bytes:
        if len(self._left) < count or self._process != os.getpid():  # a fork must not go on with the same
            self._left, self._process = os.urandom(_FETCHED), os.getpid()
        found, self._left = self._left[:count], self._left[count:]
        return found


class Ulids:
    """A thread-safe source of strictly increasing ULIDs.

    Within one millisecond, and when the clock goes back, the last value is counted up by one. When its random
    part is exhausted the count carries into the milliseconds: the order holds and the clock is overtaken by
    one millisecond. Beyond the largest ULID there is no next one: that is an error, never a repeat.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int] = system_milliseconds,
        entropy: Callable[[int], bytes] | None = None,
    ) -> None:
        self._clock = clock
        self._entropy = entropy or _Supply()
        self._last = -1
        self._begin = (-1, "")  # what the last one began with, as a number and as text: often the next does too
        self._lock = threading.Lock()

    def new(self) -> str:
        with self._lock:
            value = self._next()
            self._last = value
            high = value >> 20
            if high != self._begin[0]:
                self._begin = high, encode(value)[:22]
            return self._begin[1] + _PAIRS[value >> 10 & 1023] + _PAIRS[value & 1023]

    def _next(self) -> int:
        now = max(self._clock(), 0)
        if now <= self._last >> RANDOM_BITS:
            value = self._last + 1
        else:
            value = now << RANDOM_BITS | int.from_bytes(self._entropy(RANDOM_BITS // 8))
        if value >= _LIMIT:
            raise HoldfastError("no ULID is left after the year 10889; correct this machine's clock")
        return value


def encode(value: int) -> str:
    """The 26 characters of a 128-bit number."""
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def is_ulid(text: str) -> bool:
    return _SHAPE.fullmatch(text) is not None


def milliseconds(ulid: str) -> int:
    """The moment a ULID was made, in milliseconds since 1970 (UTC)."""
    if not is_ulid(ulid):
        raise HoldfastError(f"{ulid[:40]!r} is not a ULID; give its 26 characters as Holdfast wrote them")
    value = 0
    for character in ulid[:10]:
        value = value << 5 | ALPHABET.index(character)
    return value
