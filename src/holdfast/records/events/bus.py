"""The bus: hands every event to every subscriber and waits for none of them.

Each subscription has a bounded queue of its own. When it is full, events are dropped for that subscriber
alone, and a `bus.gap` with their number and their first and last id stands in their place. Knows nothing of
storage.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection

from msgspec import Struct

from holdfast.errors import HoldfastError

from .envelope import NO_SESSION, Envelope, utc_microseconds
from .sessions import BusGap
from .ulid import Ulids

logger = logging.getLogger(__name__)

Callback = Callable[[Envelope], None]
DEFAULT_LIMIT = 10_000
CLOSE_SECONDS = 30.0
"""How long closing waits for subscribers: one that hangs must not keep the program from ending."""


class _Gap(Struct):
    """A run of dropped events; its id is taken when it opens, so that ids stay in delivery order."""

    id: str
    at: int
    dropped: int
    first: str
    last: str

    def envelope(self) -> Envelope:
        payload = BusGap(dropped=self.dropped, first=self.first, last=self.last)
        return Envelope.of(payload, id=self.id, at=self.at, session=NO_SESSION, actor="system")


class Subscription:
    """One subscriber's queue, made by `Bus.subscribe`: drained by its owner or emptied by its own thread."""

    def __init__(
        self,
        bus: Bus,
        *,
        limit: int,
        types: frozenset[str] | None,
        name: str,
        callback: Callback | None,
    ) -> None:
        if limit < 1:
            raise HoldfastError(f"subscription {name} has a queue of {limit} events; give it at least one")
        self.name = name
        self.failures = 0
        self.last_failure: BaseException | None = None
        self.dropped = 0
        self._bus = bus
        self._limit = limit
        self._types = types
        self._queue: deque[Envelope | _Gap] = deque()
        self._waiting = 0
        self._closed = False
        self._ready = threading.Condition()
        self._callback = callback
        self._thread: threading.Thread | None = None
        if callback is not None:
            self._thread = threading.Thread(target=self._deliver, name=f"holdfast-bus-{name}", daemon=True)
            self._thread.start()

    def drain(self, limit: int | None = None) -> list[Envelope]:
        """Everything queued so far (at most `limit`), oldest first; empty when there is nothing."""
        if self._callback is not None:
            raise HoldfastError(f"subscription {self.name} delivers to its callback; subscribe without one to drain")
        events: list[Envelope] = []
        with self._ready:
            while self._queue and (limit is None or len(events) < limit):
                events.append(self._pop())
        return events

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Stop receiving; what is queued is still delivered (or can still be drained).

        A callback that has not consumed everything after `timeout` seconds is abandoned and an error is logged.
        """
        self._bus._forget(self)
        self._stop()
        if self._thread is None or self._thread is threading.current_thread():
            return
        self._thread.join(max(timeout, 0))
        if self._thread.is_alive():
            logger.error("event subscriber %s hangs; %d queued events are not delivered", self.name, self._waiting)

    def _stop(self) -> None:
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    def _offer(self, envelope: Envelope) -> bool:
        """Queue an event, or count it into the open gap; false once this subscription is closed."""
        if self._types is not None and envelope.type not in self._types:
            return True
        with self._ready:
            if self._closed:
                return False
            if self._waiting < self._limit:
                self._queue.append(envelope)
                self._waiting += 1
            else:
                self._drop(envelope)
            self._ready.notify()
        return True

    def _drop(self, envelope: Envelope) -> None:
        self.dropped += 1
        last = self._queue[-1]
        if isinstance(last, _Gap):
            last.dropped += 1
            last.last = envelope.id
            return
        logger.warning("event subscriber %s is behind: its queue of %d is full", self.name, self._limit)
        gap = _Gap(self._bus._ids.new(), self._bus._now(), dropped=1, first=envelope.id, last=envelope.id)
        self._queue.append(gap)

    def _pop(self) -> Envelope:
        item = self._queue.popleft()
        if isinstance(item, _Gap):
            return item.envelope()
        self._waiting -= 1
        return item

    def _deliver(self) -> None:
        callback = self._callback
        assert callback is not None
        while True:
            with self._ready:
                while not self._queue:
                    if self._closed:
                        return
                    self._ready.wait()
                envelope = self._pop()
            try:
                callback(envelope)
            except BaseException as error:
                # A subscriber is somebody else's code: whatever it raises, also SystemExit, the events go on.
                self.failures += 1
                self.last_failure = error
                logger.exception("event subscriber %s failed on %s %s", self.name, envelope.type, envelope.id)


class Bus:
    """`publish` returns at once, whatever its subscribers do; `close` delivers what is queued."""

    def __init__(self, *, ids: Ulids | None = None, now: Callable[[], int] = utc_microseconds) -> None:
        self._ids = ids or Ulids()
        self._now = now
        self._lock = threading.Lock()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._closed = False
        self.refused = 0

    @property
    def closed(self) -> bool:
        """Whether it takes no more events."""
        with self._lock:
            return self._closed

    def subscribe(
        self,
        callback: Callback | None = None,
        *,
        limit: int = DEFAULT_LIMIT,
        types: Collection[str] | None = None,
        name: str | None = None,
    ) -> Subscription:
        """With a callback: a thread of its own delivers to it. Without: the owner calls `drain()`."""
        name = name or str(getattr(callback, "__qualname__", "pull"))
        wanted = frozenset(types) if types is not None else None
        with self._lock:
            if self._closed:
                raise HoldfastError(f"the event bus is closed; subscribe {name} before closing it")
            subscription = Subscription(self, limit=limit, types=wanted, name=name, callback=callback)
            self._subscriptions += (subscription,)
        return subscription

    def publish(self, envelope: Envelope) -> None:
        if not isinstance(envelope, Envelope):
            raise HoldfastError("the event bus takes envelopes; put the event into one with Envelope.of")
        # The tuple is replaced, never changed, so it is read without the lock.
        refused = [not subscription._offer(envelope) for subscription in self._subscriptions]
        if self._closed and (any(refused) or not refused):
            with self._lock:
                self.refused += 1
            logger.warning("event %s %s was published after the bus closed", envelope.type, envelope.id)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Deliver what is queued, waiting at most `timeout` seconds for all subscribers together."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._closed = True
            # All at once: an event that comes now is refused and counted, not given to some of them only.
            subscriptions, self._subscriptions = self._subscriptions, ()
        for subscription in subscriptions:
            subscription._stop()
        for subscription in subscriptions:
            subscription.close(deadline - time.monotonic())

    def __enter__(self) -> Bus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forget(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)
