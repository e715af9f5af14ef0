"""The order in which a set of tools was first sent."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from .state import RepairState

KEPT_SETS = 8
"""Sets of tools whose order a lane remembers: some clients switch between a few."""


def set_of(tools: Sequence[bytes]) -> bytes:
    return sha256(b"".join(sorted(tools))).digest()[:16]


def first_order(state: RepairState, tools: Sequence[bytes]) -> list[bytes]:
    """The order this set was first sent in.

    The client's order becomes the first one of a set that is new: a tool that was added or taken away has lost the
    prefix anyhow, and where the client put it is where it stays.
    """
    name = set_of(tools)
    order = state.orders.pop(name, None) or list(tools)
    state.orders[name] = order
    state.tools = name
    while len(state.orders) > KEPT_SETS:
        del state.orders[next(iter(state.orders))]
    return order
