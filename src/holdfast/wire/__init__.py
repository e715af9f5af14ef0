"""One file per dialect: bytes to canonical values and back, with every untouched byte kept as the client sent it.

Knows how providers spell things and nothing of cache rules, lanes or storage; imports `canonical` and `facts`.
"""

from . import caching
from .body import BlockSpan, Body, Marker, Section, Splice, Ttl, Unreadable
from .dialects import DIALECTS, Dialect, dialect_of
from .parsing import WireError
from .stream import Report, Tap

__all__ = [
    "DIALECTS",
    "BlockSpan",
    "Body",
    "Dialect",
    "Marker",
    "Report",
    "Section",
    "Splice",
    "Tap",
    "Ttl",
    "Unreadable",
    "WireError",
    "caching",
    "dialect_of",
]
