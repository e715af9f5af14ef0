"""What is remembered of lanes beside what is stored: it makes things quicker or more exact, and may be lost."""

from __future__ import annotations

import threading
from collections import OrderedDict

from msgspec import Struct

from holdfast.engine import Lane

from .injection_state import Given

MOST = 2_000


class Recent(Struct):
    """A lane that was here lately. `messages` are the digests of the message blocks that its client sent last, `after`
    what they went on from, `given` what went with them; `late` the same where the store did not keep up: then it may
    hold what was never sent. `changed` is the call after which its context block became another one: until the provider
    takes a later one. `refresh`: its last request did not fit. A mark that is lost with the process is set again when
    the next request does not fit either."""

    messages: bytes | None = None
    after: str = ""
    given: Given | None = None
    late: Given | None = None
    changed: str | None = None
    refresh: bool = False


class Lanes:
    """The lanes, the least recently used of which are forgotten. Safe for threads."""

    def __init__(self, most: int = MOST) -> None:
        self._lanes: OrderedDict[tuple[str, str], Recent] = OrderedDict()
        self._lock, self._most = threading.Lock(), most

    def of(self, lane: Lane) -> Recent:
        name = (lane.tenant, lane.id)
        with self._lock:
            recent = self._lanes.setdefault(name, Recent())
            self._lanes.move_to_end(name)
            if len(self._lanes) > self._most:
                self._lanes.popitem(last=False)
            return recent

    def find(self, lane: Lane) -> Recent | None:
        """The lane if it was here lately; none is pushed out for it."""
        with self._lock:
            return self._lanes.get((lane.tenant, lane.id))
