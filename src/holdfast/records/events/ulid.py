"""ULIDs: 26 characters that sort by the moment they were made, and strictly so within one generator.

Knows no event. The clock and the randomness are parameters, so a replay can bring its own.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable

from holdfast.errors import HoldfastError

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RANDOM_BITS = 80
_FETCHED = 1_000  # bytes, for a hundred
_LIMIT = 1 << 128
_PAIRS = tuple(high + low for high in ALPHABET for low in ALPHABET)
_THIRTY, _SIXTY = (1 << 30) - 1, (1 << 60) - 1
_SHAPE = re.compile(f"[0-7][{ALPHABET}]{{25}}")


def system_milliseconds() -> int:
    return time.time_ns() // 1_000_000


class _Supply:
    """The system's randomness, fetched for many at once: every call into the system lets other threads in first."""

    forks = 0
    """How many lie behind this process."""

    def __init__(self) -> None:
        self._bytes = b""
        self._used = 0
        self._forks = 0

    @classmethod
    def forked(cls) -> None:
        cls.forks += 1

    def __call__(self, count: int) -> bytes:
        start, end = self._used, self._used + count
        if end > len(self._bytes) or self._forks != self.forks:  # a fork must not go on with the same
            self._bytes, self._forks = os.urandom(_FETCHED), self.forks
            start, end = 0, count
        self._used = end
        return self._bytes[start:end]


os.register_at_fork(after_in_child=_Supply.forked)


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
        self._lock = threading.Lock()

    def new(self) -> str:
        return texts(self.take(1), 1)[0]

    def take(self, count: int) -> int:
        """So many, one after the other, as numbers: the first of them."""
        with self._lock:
            now, last = self._clock(), self._last
            if last >= 0 and now <= last >> RANDOM_BITS:
                value = last + 1
            else:
                value = (now if now > 0 else 0) << RANDOM_BITS | int.from_bytes(self._entropy(RANDOM_BITS // 8))
            if value + count > _LIMIT:
                raise HoldfastError("no ULID is left after the year 10889; correct this machine's clock")
            self._last = value + count - 1
            return value


IDS = Ulids()
"""The source of this process. Events of one session come from several parts of the program and are ordered by their
ids: only what has one source is in the order in which it happened."""


def encode(value: int) -> str:
    """The 26 characters of a 128-bit number."""
    pairs, high, low = _PAIRS, value >> 60, value & _SIXTY  # small numbers are quick to take apart
    first, second, third, fourth = high >> 30, high & _THIRTY, low >> 30, low & _THIRTY
    return (
        f"{pairs[first >> 30]}{pairs[first >> 20 & 1023]}{pairs[first >> 10 & 1023]}{pairs[first & 1023]}"
        f"{pairs[second >> 20]}{pairs[second >> 10 & 1023]}{pairs[second & 1023]}"
        f"{pairs[third >> 20]}{pairs[third >> 10 & 1023]}{pairs[third & 1023]}"
        f"{pairs[fourth >> 20]}{pairs[fourth >> 10 & 1023]}{pairs[fourth & 1023]}"
    )


def texts(first: int, count: int) -> list[str]:
    """So many numbers from this one on, each as its 26 characters."""
    made = [encode(first)]
    begin, high = made[0][:22], first >> 20
    for value in range(first + 1, first + count):  # mostly they differ in their ends alone
        same = value >> 20 == high
        made.append(begin + _PAIRS[value >> 10 & 1023] + _PAIRS[value & 1023] if same else encode(value))
    return made


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
