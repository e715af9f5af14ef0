"""What a session's tools say: events for the bus and the store, made so that none is ever refused.

A tool's words are a stranger's: texts that are not Unicode and names that are too long are mended here, because an
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

from .text_limits import mend

if TYPE_CHECKING:
    from holdfast.store import Store

logger = logging.getLogger(__name__)


class Teller:
    """Puts events of one session on the bus and, where there is a store, appends them for the tenant. Never raises.

    `heard` gets each of them first, in whatever thread it is told.
    """

    def __init__(
        self,
        bus: Bus | None,
        session: str,
        *,
        store: Store | None = None,
        tenant: str = "",
        now: Callable[[], int] = utc_microseconds,
        heard: Callable[[Envelope], None] | None = None,
    ) -> None:
        self._bus, self._store, self._tenant, self._now, self._heard = bus, store, tenant, now, heard
        self._session = mend(session)

    def __call__(self, payload: Event, *, turn: str | None = None, actor: Actor = "tool") -> None:
        if self._bus is None and self._store is None and self._heard is None:
            return
        try:
            envelope = self.envelope(payload, turn=turn, actor=actor)
            if self._heard is not None:
                self._heard(envelope)
            if self._store is not None:
                self._store.append_events(self._tenant, [envelope])
            if self._bus is not None:
                self._bus.publish(envelope)
        except Exception:
            logger.exception("event %s of a tool could not be told", getattr(payload, "type", "?"))

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
    found = inspect.type_info(event)
    assert isinstance(found, inspect.StructType)
    return tuple((field.name, text.max_length) for field in found.fields for text in _within(field.type))


def _within(kind: inspect.Type) -> list[inspect.StrType]:
    if isinstance(kind, inspect.Metadata):
        return _within(kind.type)
    if isinstance(kind, inspect.VarTupleType):
        return _within(kind.item_type)
    if isinstance(kind, inspect.UnionType):
        return [text for each in kind.types for text in _within(each)]
    return [kind] if isinstance(kind, inspect.StrType) else []
