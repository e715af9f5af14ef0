"""What a lane has sent: digests and statistics, edits by reference, no text.

A thousand turns fit into half a megabyte. Stored as a versioned value; a ledger of another version is ignored, because
every lane can begin anew.
"""

from __future__ import annotations

import logging

import msgspec
from msgspec import Struct, field

from .edits import EditRef
from .experience import Gaps
from .keepalive import Pings
from .plan import Kind, Sent
from .repairs.state import RepairState
from .retention import Retention

VERSION = 1
logger = logging.getLogger(__name__)


class Position(Struct):
    """A place of the prompt whose content has changed at least once while it was resent."""

    seen: float = 0.0
    changed: float = 0.0


class Ledger(Struct, kw_only=True):
    """A lane's memory. `positions` has only places that changed, by section and number (`system:1`).

    `asked` counts requests that were no resends, `compared` those that were compared with the one before; `grown` is
    what `growths` of them added. `pause` is how long the user took last, in seconds.
    `saved`, `spent` and `automatic` are of it what they are of its client (`Client`); `wasted` are the dollars that the
    client's own markers cost more than none since they last paid, and `premium` those of its last writes, which may be
    read yet.
    `reset` is the reason its next request is allowed to depart from the last one for (law 5).
    """

    version: int = VERSION
    client: str = ""
    started: float = 0.0
    requests: int = 0
    settled: int = 0
    last: Sent | None = None
    kind: Kind = "user"
    gaps: Gaps = field(default_factory=Gaps)
    pause: float | None = None
    asked: int = 0
    compared: int = 0
    grown: float = 0.0
    growths: int = 0
    saved: float = 0.0
    wasted: float = 0.0
    premium: float = 0.0
    automatic: float = 0.0
    spent: float = 0.0
    positions: dict[str, Position] = field(default_factory=dict)
    retention: Retention = Retention()
    edits: dict[bytes, EditRef] = field(default_factory=dict)
    repairs: RepairState = field(default_factory=RepairState)
    pings: Pings = Pings()
    reset: str | None = None


def encode(ledger: Ledger) -> bytes:
    return msgspec.msgpack.encode(ledger)


def decode(data: bytes) -> Ledger | None:
    """The ledger, or None for one of another version."""
    try:
        ledger = msgspec.msgpack.decode(data, type=Ledger)
    except msgspec.DecodeError as error:
        logger.warning("a lane begins anew: its ledger cannot be read (%s)", error)
        return None
    return ledger if ledger.version == VERSION else None
