"""What a repair is called and what is said of it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Name = Literal["tool-order", "key-order", "volatile-value", "memory-to-tail", "system-split"]
Mode = Literal["off", "suggest", "on"]

ORDER: frozenset[str] = frozenset(("tool-order", "key-order"))
"""Repairs that change no content: they are made unless repairs are off."""

NAMES: frozenset[str] = ORDER | {"volatile-value", "memory-to-tail", "system-split"}


class Repair(Struct, frozen=True):
    """One repair of one request: what it is called, where, why, and the tokens that stay readable by it.

    One that is not `applied` is a suggestion.
    """

    name: Name
    path: str
    why: str
    saved_tokens: int = 0
    applied: bool = True
