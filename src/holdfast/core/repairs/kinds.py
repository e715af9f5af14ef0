"""What a repair is called and what is said of it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Name = Literal["tool-order", "key-order", "volatile-value", "memory-to-tail", "system-split"]
Mode = Literal["off", "suggest", "values", "on"]
MOVES: frozenset[str] = frozenset(("values", "on"))
"""Modes in which a value may be told elsewhere than where the client says it."""

ORDER: frozenset[str] = frozenset(("tool-order", "key-order"))
"""Repairs that change no content: they are made unless repairs are off."""

NAMES: frozenset[str] = ORDER | {"volatile-value", "memory-to-tail", "system-split"}


class Repair(Struct, frozen=True):
    """One repair of one request: what it is called, where, why, and the tokens that stay readable by it.

    One that is not `applied` is a suggestion. `exact` if it moves nothing but unambiguous values, so that
    `cache.repair = "values"` makes it.
    """

    name: Name
    path: str
    why: str
    saved_tokens: int = 0
    applied: bool = True
    exact: bool = False
