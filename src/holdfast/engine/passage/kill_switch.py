"""The kill switch: while it is off, requests are relayed as they came and nothing of ours looks at them.

Off from the start where `HOLDFAST_OFF` is set; a gateway turns it with SIGUSR2. What was sent meanwhile is not known to
the lanes: the next request of each carries the reset `bypassed`. When that was is kept with what is stored, so that it
holds for the process after this one too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping

from holdfast.store import Store
from holdfast.store import operations as op

from .fail_open import quiet

VARIABLE = "HOLDFAST_OFF"

_NOT_SET = ("", "0", "false", "no", "off")
_FROM, _UNTIL = "relayed_from", "relayed_until"


def is_set(environ: Mapping[str, str]) -> bool:
    """Return whether the environment switches Holdfast off."""
    return environ.get(VARIABLE, "").strip().lower() not in _NOT_SET


class Switch:
    """`off` may change at any time, by a signal too. `until` is when requests were last relayed; 0: never."""

    def __init__(self, *, off: bool = False) -> None:
        self.off = off
        self.until = 0.0
        self._noted = False
        self._store: Store | None = None

    @classmethod
    def from_environment(cls) -> Switch:
        return cls(off=is_set(os.environ))

    def toggle(self) -> None:
        """Safe in a signal handler: nothing is written here."""
        if self.off:
            self.until = time.time()
        self.off = not self.off

    @contextlib.contextmanager
    def on_signal(self) -> Iterator[None]:
        """SIGUSR2 turns it, where the system has that signal and this is the main thread."""
        number = getattr(signal, "SIGUSR2", None)
        if number is None or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(number, lambda _number, _frame: self.toggle())
        try:
            yield
        finally:
            signal.signal(number, before)

    def remember(self, store: Store | None) -> None:
        """Take up what the process before has left: one that ended while it was off was off until now."""
        self._store = store
        with quiet("the switch"):
            marks = {} if store is None else store.marks()
            begun, ended = marks.get(_FROM, 0), marks.get(_UNTIL, 0)
            self._noted = begun > ended
            self.until = time.time() if self._noted else ended / 1_000_000
        self.note()

    def note(self) -> bool:
        """Keep what has changed since it was last noted; whether something has."""
        off = self.off
        if off == self._noted:
            return False
        self._noted = off
        if self._store is not None:
            with quiet("the switch"):
                self._store.write(op.PutMark(_FROM if off else _UNTIL, round(time.time() * 1_000_000)))
        return True

    def close(self) -> None:
        """This process relays nothing any more."""
        if self.off:
            self.toggle()
        self.note()
