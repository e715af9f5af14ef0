"""The interface between a passage and a provider of memory, which the passage does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from holdfast.config import Settings
from holdfast.core.repairs import MOVES
from holdfast.engine import EngineCore, Lane
from holdfast.wire import Body, Reading

from ..identity import Care
from .fail_open import log

MEMORY = "memory"
"""The name of the stage."""

BYPASSED = "bypassed"
"""The reset of a request that goes without what its lane was given."""


class Reminder(Struct, frozen=True, kw_only=True):
    """A request that may be given memory. `read` reads the client's body; `project` is what it names as its own,
    `directory` where its client was started; `off` says that it wants none, `from_page` that a web page sent it;
    `timeout` are the seconds there are for it."""

    body: Body
    lane: Lane
    read: Callable[[], Reading]
    now: float
    timeout: float
    project: str = ""
    directory: str = ""
    off: bool = False
    from_page: bool = False


def _do_nothing() -> None:
    """Do nothing."""


class Remembered(Struct, frozen=True, kw_only=True):
    """A request with memory in it, as if the client had sent it. `pinned` and `volatile` are blocks by path, as in
    `EngineCore.prepare`; `reset` is the reason for a new prefix, if memory is the reason. `says` goes to the client;
    `went` is called when this request is sent. `reading` is the body's, if it was read."""

    body: Body
    reading: Reading | None = None
    pinned: Mapping[str, str] = {}
    volatile: tuple[str, ...] = ()
    reset: str | None = None
    says: str = ""
    went: Callable[[], None] = _do_nothing


class Remembering(Protocol):
    """Gives memory to clients that know nothing of it. May wait for the store: not for an event loop."""

    def concerns(self, tenant: str) -> bool:
        """Whether requests of this tenant may be given any, or may have been."""
        ...

    def remember(self, reminder: Reminder) -> Remembered | None:
        """The request with memory; None where it goes as it came. May raise: then it goes as it came, too."""
        ...

    def refused(self, lane: Lane, status: int, text: str) -> None:
        """The provider refused a request with memory, with these words."""
        ...


def care_of(settings: Settings, *, memory: bool) -> Care:
    """Return what later requests of a lane contain besides their own; `memory` if memory is available."""
    if memory and settings.memory.inject:
        return "memory"
    return "repairs" if settings.cache.repair in MOVES else "none"


def remembered(remembering: Remembering, reminder: Reminder, engine: EngineCore) -> Remembered | None:
    """The request with memory in it. Whatever fails here, the client's own goes on and is planned as ever (law 8);
    where its lane may have been given memory before, it departs from that."""
    try:
        return remembering.remember(reminder)
    except Exception as error:  # noqa: BLE001
        log(MEMORY, error)
    departs = engine.ledger(reminder.lane, now=reminder.now).last is not None
    return Remembered(body=reminder.body, reset=BYPASSED) if departs else None
