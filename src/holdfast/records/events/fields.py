"""The vocabulary of event payloads: closed sets of words, and the kinds of text a field may hold.

Every text field of the catalogue is a `Name`, a `Digest`, a `Place` or a `Body`, or one of the closed sets.
A `Body` can carry words of a prompt and a `Place` a path of the user's disk: both stand only in events that
are always private. A bare `str` says nothing about what it may carry and is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, TypeVar

from msgspec import Meta, Struct

Sensitivity = Literal["private", "user_controlled", "pseudonymous", "aggregatable"]
SENSITIVITIES: tuple[Sensitivity, ...] = ("private", "user_controlled", "pseudonymous", "aggregatable")
"""From the most to the least protected."""

Actor = Literal["user", "agent", "system", "tool", "worker"]

PreflightAction = Literal["warned", "held", "released"]

LoadReason = Literal["always", "on_demand", "auto_suggested"]

Name = Annotated[str, Meta(max_length=256, extra={"kind": "name"})]
"""An identifier, a model, a tool, a block path: short, and never words of a prompt."""

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", extra={"kind": "digest"})]
"""A SHA-256 in hexadecimal."""

Place = Annotated[str, Meta(max_length=4096, extra={"kind": "place"})]
"""A path on the user's disk."""

Body = Annotated[str, Meta(extra={"kind": "body"})]
"""Text that may be part of a prompt: from a user, a model or a tool."""

Count = Annotated[int, Meta(ge=0)]
Used = tuple[Count, ...]
"""What was used besides the answers of turns: calls, then tokens as input, read, written and output. Empty: nothing."""


class Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The payload of one event type. The type stands in the envelope, not in the payload."""

    type: ClassVar[str]
    sensitivity: ClassVar[Sensitivity]

    @classmethod
    def allowed(cls) -> tuple[Sensitivity, ...]:
        """The sensitivities an envelope may give this event: its own, or a stricter one."""
        return SENSITIVITIES[: SENSITIVITIES.index(cls.sensitivity) + 1]


E = TypeVar("E", bound=Event)


def event(name: str, sensitivity: Sensitivity) -> Callable[[type[E]], type[E]]:
    """Give an event class its type and its sensitivity."""

    def named(cls: type[E]) -> type[E]:
        cls.type, cls.sensitivity = name, sensitivity
        return cls

    return named
