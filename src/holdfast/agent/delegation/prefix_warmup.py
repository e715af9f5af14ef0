"""Who goes first. Sub-agents that start side by side would each pay for writing the same prefix; what the first one
writes can be read once its answer has begun, so the others wait for that, a few seconds at most."""

from __future__ import annotations

import asyncio

from holdfast.caches import rules
from holdfast.engine import PreparedCall

_WARM = 0.9
"""Share of the common prefix that counts as all of it: implicit caches read in steps."""


def fills(prepared: PreparedCall) -> bool:
    """Return whether this first request of a sub-agent makes others like it cheaper: it writes, or leaves cached, what
    they would read. If it reads all of that itself, no one has to wait."""
    outcome, model = prepared.core.outcome, prepared.core.request.model
    ends = outcome.prompt.ends
    if model.caching == "none" or len(ends) < 2:
        return False
    common = ends[-2]  # its own task is the last block
    if outcome.new:
        return any(entry.tokens <= common for entry in outcome.new)
    return rules(model).by_token and common >= model.floor and outcome.read < _WARM * common


class PrefixWarmup:
    """The wait of those who start together for the first one's first token."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._open = seconds <= 0
        self._ahead: str | None = None
        self._waiting = 0
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def over(self) -> bool:
        """Return whether no sub-agent waits here, or will have to."""
        return self._open or (self._ahead is None and not self._waiting)

    async def wait(self, who: str) -> None:
        """Until it is somebody's turn. The first to come goes ahead at once; if that one fails before its first token,
        the next one does."""
        self._waiting += 1
        try:
            while not self._open:
                if self._ahead is None:
                    self._ahead = who
                    if self._timer is None:  # one for all who go ahead: the others wait no longer than this
                        self._timer = asyncio.get_running_loop().call_later(self._seconds, self.release)
                    return
                await self._changed.wait()
        finally:
            self._waiting -= 1

    def planned(self, who: str, prepared: PreparedCall) -> None:
        """The request of the one ahead is decided: where it finds everything, the others find it too."""
        if who == self._ahead and not fills(prepared):
            self.release()

    def finished(self, who: str) -> None:
        """A sub-agent is done, or has failed."""
        if who == self._ahead and not self._open:
            self._ahead = None
            self._wake()
            if not self._waiting:
                self._stop_timer()

    def release(self) -> None:
        """All may go."""
        self._open = True
        self._stop_timer()
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
