"""What happened: a closed catalogue of typed events and a bus that never blocks who publishes.

Knows nothing of storage, wire formats or configuration.
"""

from .base import Event
from .bus import Bus, Subscription
from .catalogue import CATALOGUE
from .envelope import NO_SESSION, Envelope, decode, decode_payload, encode, encode_payload, utc_microseconds
from .fields import Actor, BreakCause, LoadReason, ResetReason, Sensitivity
from .ulid import IDS, Ulids, is_ulid, milliseconds

__all__ = [
    "CATALOGUE",
    "IDS",
    "NO_SESSION",
    "Actor",
    "BreakCause",
    "Bus",
    "Envelope",
    "Event",
    "LoadReason",
    "ResetReason",
    "Sensitivity",
    "Subscription",
    "Ulids",
    "decode",
    "decode_payload",
    "encode",
    "encode_payload",
    "is_ulid",
    "milliseconds",
    "utc_microseconds",
]
