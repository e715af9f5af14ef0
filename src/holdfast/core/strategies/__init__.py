"""Strategies: who plans the markers of a request. Each is a pure function of a situation, one file each, those
with fixed places in `fixed`.

`places` knows where markers may stand, `clients` how a plan lives with the client's own markers. All plans pass
`places.checked` before they are sent.
"""

from __future__ import annotations

from ..situation import Strategy
from .clients import combined
from .economic import NAME, economic
from .fixed import passthrough, rolling, three_block, two_point
from .places import takes_markers
from .zones import zones

STRATEGIES: dict[str, Strategy] = {
    "passthrough": passthrough,
    "two-point": two_point,
    "rolling": rolling,
    "zones": zones,
    "three-block": three_block,
    "economic": economic,
}
"""By the names of `cache.strategy`."""

__all__ = [
    "NAME",
    "STRATEGIES",
    "Strategy",
    "combined",
    "economic",
    "passthrough",
    "rolling",
    "takes_markers",
    "three_block",
    "two_point",
    "zones",
]
