"""What is remembered of lanes beside what is stored: it makes things quicker or more exact, and may be lost."""

from __future__ import annotations

import threading
from collections import OrderedDict

from msgspec import Struct

from holdfast.engine import Lane

from .injecting_state import Given

MOST = 2_000


class Known(Struct):
    """A lane that was here lately. `messages` are the digests of the message blocks that its client sent last, `given`
    is what went with them; `late` the same where the store did not keep up: then it may hold what was never sent.
    `without`: its last request had no memory; `refresh`: its last request did not fit."""

    messages: bytes | None = None
    given: Given | None = None
    late: Given | None = None
    without: bool = False
    refresh: bool = False


class Lanes:
    """The lanes, the least recently used of which are forgotten. Safe for threads."""

    def __init__(self, most: int = MOST) -> None:
        self._lanes: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self._lock, self._most = threading.Lock(), most

    def of(self, lane: Lane) -> Known:
        name = (lane.tenant, lane.id)
        with self._lock:
            known = self._lanes.setdefault(name, Known())
            self._lanes.move_to_end(name)
            if len(self._lanes) > self._most:
                self._lanes.popitem(last=False)
            return known
