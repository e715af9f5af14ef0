"""The events of a session's tools, emitted to the bus and the store so that none is ever refused.

A tool's words are a stranger's: texts that are not Unicode and names that are too long are repaired here, because an
event must not be the reason why a call fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from holdfast.records.events import IDS, Actor, Bus, Envelope, Event, utc_microseconds
from holdfast.store import operations as op

from .text_limits import mend

if TYPE_CHECKING:
    from holdfast.store import Store

logger = logging.getLogger(__name__)


class ToolJournal:
    """Emits the events of one session: to a listener, the store and the bus, in this order. Never raises.

    `listener` is called in the thread that emits. `now` is the time of events in microseconds.
    """

    def __init__(
        self,
        bus: Bus | None,
        session: str,
        *,
        store: Store | None = None,
        tenant: str = "",
        now: Callable[[], int] = utc_microseconds,
        listener: Callable[[Envelope], None] | None = None,
    ) -> None:
        self.bus, self.session = bus, session
        self._store, self._tenant, self._now, self._listener = store, tenant, now, listener
        self._session = mend(session)

    def emit(self, payload: Event, *, turn: str | None = None, actor: Actor = "tool") -> None:
        if self.bus is None and self._store is None and self._listener is None:
            return
        try:
            envelope = self.envelope(payload, turn=turn, actor=actor)
            if self._listener is not None:
                self._listener(envelope)
            if self._store is not None:
                self._store.write(op.AppendEvents.of(self._tenant, [envelope]))
            if self.bus is not None:
                self.bus.publish(envelope)
        except Exception:
            logger.exception("event %s of a tool could not be emitted", getattr(payload, "type", "?"))

    def envelope(self, payload: Event, *, turn: str | None = None, actor: Actor = "tool") -> Envelope:
        """An event of this session that happens now."""
        return Envelope.of(
            mended(payload),
            id=IDS.new(),
            at=self._now(),
            session=self._session,
            turn=None if turn is None else mend(turn),
            actor=actor,
        )


def mended(payload: Event) -> Event:
    """The event with texts that its type takes."""
    changes: dict[str, Any] = {}
    for field, limit in _texts(type(payload)):
        value = getattr(payload, field)
        if isinstance(value, str):
            better: Any = _fit(value, limit)
        elif isinstance(value, tuple):
            better = tuple(_fit(item, limit) if isinstance(item, str) else item for item in value)
        else:
            continue
        if better != value:
            changes[field] = better
    return msgspec.structs.replace(payload, **changes) if changes else payload


def _fit(text: str, limit: int | None) -> str:
    text = mend(text)
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"


@cache
def _texts(event: type[Event]) -> tuple[tuple[str, int | None], ...]:
    """The fields of an event that hold text, and how much of it."""
    info = inspect.type_info(event)
    assert isinstance(info, inspect.StructType)
    return tuple((field.name, text.max_length) for field in info.fields for text in _within(field.type))


def _within(kind: inspect.Type) -> list[inspect.StrType]:
    if isinstance(kind, inspect.Metadata):
        return _within(kind.type)
    if isinstance(kind, inspect.VarTupleType):
        return _within(kind.item_type)
    if isinstance(kind, inspect.UnionType):
        return [text for each in kind.types for text in _within(each)]
    return [kind] if isinstance(kind, inspect.StrType) else []
