"""One file per dialect: bytes to canonical values and back, with every untouched byte kept as the client sent it.

Knows how providers spell things and nothing of lanes or storage; imports `canonical`, `facts` and, for what a prompt is
to a cache, `caches`.
"""

from . import cache_parameters
from .body import BlockSpan, Body, Marker, Splice, Ttl, Unreadable
from .dialects import DIALECTS, Dialect, dialect_of
from .parse import WireError
from .stream import Report, Tap

__all__ = [
    "DIALECTS",
    "BlockSpan",
    "Body",
    "Dialect",
    "Marker",
    "Report",
    "Splice",
    "Tap",
    "Ttl",
    "Unreadable",
    "WireError",
    "cache_parameters",
    "dialect_of",
]
