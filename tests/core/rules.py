"""Rule 5.6 as it is written, to compare with what the code makes of it."""

from __future__ import annotations


def calls_to_pad(prefix: float, padded: float, r: float, w: float) -> float:
    """Calls after which padding a prefix to this size pays, if reading the padded one costs less than the plain one."""
    return (w - r) * padded / (prefix - r * padded)
