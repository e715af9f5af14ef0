"""Work that a request does not wait for: one thread, a bounded queue, everything done when it is flushed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

logger = logging.getLogger(__name__)

MOST = 64


class Worker:
    """The thread begins with the first piece of work. What does not fit into the queue is refused."""

    def __init__(self, name: str, *, most: int = MOST) -> None:
        self._name, self._room = name, threading.BoundedSemaphore(most)
        self._thread: ThreadPoolExecutor | None = None

    def do(self, work: Callable[[], object]) -> bool:
        """Queue it; False if there is no room."""
        if not self._room.acquire(blocking=False):
            return False
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self._thread.submit(self._run, work)
        return True

    def flush(self) -> None:
        """Until everything is done that was queued; the thread ends with it."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception:
            logger.exception("%s: a piece of work failed", self._name)
        finally:
            self._room.release()
