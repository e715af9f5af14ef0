"""Output of a running command on its way to whoever watches: from the thread that reads it into the event loop.

Bounded: a watcher that is slower than the command misses some of it, and is told so. Never reaches the model.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import threading
from collections.abc import Callable

from holdfast.facts import open_end

from .safe_text import clean

MOST_WAITING = 1 << 16
logger = logging.getLogger(__name__)


class Stream:
    """Called with bytes in any thread; hands text to `watcher` in the loop that made it, as `masked` leaves it."""

    def __init__(self, watcher: Callable[[str], None], masked: Callable[[str], str]) -> None:
        self._watcher, self._masked = watcher, masked
        self._held = ""
        self._loop = asyncio.get_running_loop()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._missed = 0
        self._called = self._closed = False

    def __call__(self, data: bytes) -> None:
        with self._lock:
            if self._closed:
                return
            room = MOST_WAITING - len(self._waiting)
            self._waiting += data[:room]
            self._missed += max(0, len(data) - room)
            if self._called:
                return
            self._called = True
        try:
            self._loop.call_soon_threadsafe(self._flush)
        except RuntimeError:  # the loop is closed: nobody watches any more
            self._closed = True

    def close(self) -> None:
        """Hand on what is left. In the loop's thread."""
        if not self._closed:
            self._flush(last=True)
            self._closed = True

    def _flush(self, *, last: bool = False) -> None:
        with self._lock:
            data, self._waiting = bytes(self._waiting), bytearray()
            missed, self._missed = self._missed, 0
            self._called = False
        said = self._held + clean(self._decoder.decode(data))
        whole = len(said) if last or missed else open_end(said)
        said, self._held = self._masked(said[:whole]), said[whole:]
        if missed:
            said += f"\n[{missed} bytes not shown]\n"
        if said and not self._closed:
            try:
                self._watcher(said)
            except Exception:
                logger.exception("output of a command could not be shown")
                self._closed = True
