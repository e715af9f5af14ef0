"""What repairs would have saved of one call."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct


class Saving(Struct, frozen=True):
    """What repairs would have saved of one call, in dollars; below zero where it would have cost more, 0 where nothing
    is suggested. `exact` if nothing but unambiguous values is moved for it, so that `cache.repair = "values"` is
    enough."""

    dollars: Decimal
    exact: bool
