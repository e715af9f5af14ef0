"""The envelope every event travels in, and its JSON form.

The payload decides the type; the envelope adds who, when, where and how sensitive it is.
"""

from __future__ import annotations

import time
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from typing import get_args

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder, Encoder

from holdfast.errors import HoldfastError

from .catalogue import CATALOGUE
from .fields import Actor, Event, Sensitivity
from .ulid import is_ulid

NO_SESSION = "system"
"""The session of what belongs to none: a failed login, a gap of the bus."""


def utc_microseconds() -> int:
    return time.time_ns() // 1_000


class Envelope(Struct, frozen=True, kw_only=True, gc=False):
    """One event that happened. `at` is UTC microseconds since 1970; `id` is a ULID."""

    id: str
    at: int
    session: str
    turn: str | None = None
    parent: str | None = None
    actor: Actor
    payload: Event
    sensitivity: Sensitivity

    def __post_init__(self) -> None:
        # A laxer label than the type's own would let prompt text out of the private class.
        if self.sensitivity != self.payload.sensitivity and self.sensitivity not in self.payload.allowed():
            raise HoldfastError(
                f"event {self.payload.type} cannot be {self.sensitivity}; use {' or '.join(self.payload.allowed())}"
            )

    @property
    def type(self) -> str:
        return self.payload.type

    @classmethod
    def of(
        cls,
        payload: Event,
        *,
        id: str,
        at: int,
        session: str,
        actor: Actor,
        turn: str | None = None,
        parent: str | None = None,
    ) -> Envelope:
        """A checked envelope, with the sensitivity of its event type.

        Checking here, where the mistake is made, keeps a session's log readable later.
        """
        if not isinstance(payload, Event):
            raise HoldfastError(f"{type(payload).__name__} is no event; make one of holdfast.records.events.CATALOGUE")
        try:
            if not _plain(id, at, session, turn, parent, actor):
                head = {"id": id, "at": at, "session": session, "turn": turn, "parent": parent, "actor": actor}
                msgspec.convert(head, _Head)
            msgspec.convert(msgspec.to_builtins(payload, builtin_types=(bytes, Decimal)), payload.__class__)
        except msgspec.ValidationError as error:
            raise HoldfastError(f"event {payload.type} is not valid: {error}; correct the value") from error
        return cls(
            id=id,
            at=at,
            session=session,
            turn=turn,
            parent=parent,
            actor=actor,
            payload=payload,
            sensitivity=payload.sensitivity,
        )


def _plain(id: object, at: object, session: object, turn: object, parent: object, actor: object) -> bool:
    """Return whether a head is valid in a quick check. Any other is checked again for the error message."""
    texts = type(id) is str and type(session) is str and (turn is None or type(turn) is str) and parent is None
    return texts and type(at) is int and actor in _ACTORS


_ACTORS = frozenset(get_args(Actor))


class _Head(Struct, frozen=True, kw_only=True):
    id: str
    at: int
    session: str
    turn: str | None = None
    parent: str | None = None
    actor: Actor


class _Wire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    at: int
    session: str
    turn: str | None = None
    parent: str | None = None
    type: str
    actor: Actor
    sensitivity: Sensitivity
    payload: Raw


_encoder = Encoder()
_wire_decoder = Decoder(_Wire)


@cache
def _payload_decoder(type: str) -> Decoder[Event]:
    """Made when the first event of its type is read: together they take as long as a tenth of the engine's import."""
    return Decoder(CATALOGUE[type])


def encode_payload(payload: Event) -> bytes:
    """The payload alone as JSON, without its type."""
    try:
        return _encoder.encode(payload)
    except UnicodeEncodeError as error:
        raise HoldfastError(
            f"event {payload.type} holds text that is not valid Unicode ({error.reason}); "
            "replace lone surrogates before recording it"
        ) from error


def decode_payload(type: str, data: bytes | Raw) -> Event:
    decoder = _payload_decoder(type) if type in CATALOGUE else None
    if decoder is None:
        near = get_close_matches(type, CATALOGUE, n=1)
        hint = f"did you mean {near[0]}?" if near else "this version of Holdfast has no such event"
        raise HoldfastError(f"unknown event type {type[:80]!r}; {hint}")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HoldfastError(
            f"the payload of event {type} is not valid: {error}; correct it or leave the event out"
        ) from error


def encode(envelope: Envelope) -> bytes:
    return _encoder.encode(
        _Wire(
            id=envelope.id,
            at=envelope.at,
            session=envelope.session,
            turn=envelope.turn,
            parent=envelope.parent,
            type=envelope.type,
            actor=envelope.actor,
            sensitivity=envelope.sensitivity,
            payload=Raw(encode_payload(envelope.payload)),
        )
    )


def decode(data: bytes) -> Envelope:
    try:
        wire = _wire_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HoldfastError(f"an event envelope is not valid: {error}; correct it or leave the event out") from error
    if not is_ulid(wire.id):
        raise HoldfastError(f"an event envelope has the id {wire.id[:40]!r}; give a ULID of 26 characters")
    return Envelope(
        id=wire.id,
        at=wire.at,
        session=wire.session,
        turn=wire.turn,
        parent=wire.parent,
        actor=wire.actor,
        payload=decode_payload(wire.type, wire.payload),
        sensitivity=wire.sensitivity,
    )
