"""When a request that failed is sent again, after how long, and when another model is asked instead.

Pure: a status, headers in lower case and a time in, a decision out. There is no randomness in a pause: one session has
one request at a time, and what is the same for everybody can be tested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

LONGEST = 60.0
"""Seconds that are waited at most before a request is sent again."""

_FIRST = 0.5
_AGAIN = frozenset((408, 409, 429))
_ELSEWHERE = frozenset((401, 402, 403, 404))
"""No key, no credit, no right, no such model: the same request fails again here, and not with another provider."""


def retryable(status: int | None, headers: Mapping[str, str] | None = None) -> bool:
    """Whether sending the same again may help; None or 0 is a connection that failed. The service's own word counts
    most."""
    said = (headers or {}).get("x-should-retry", "").strip().lower()
    if said in ("true", "false"):
        return said == "true"
    return not status or status in _AGAIN or 500 <= status <= 599


def falls_back(status: int | None) -> bool:
    """Whether the next model of the chain is asked when sending again has not helped. What is wrong with the request
    itself (400, 413, 422) is wrong everywhere."""
    return not status or status in _AGAIN or status in _ELSEWHERE or 500 <= status <= 599


def retry_after(headers: Mapping[str, str], attempt: int, *, now: float) -> float:
    """Seconds to wait before sending again: what the service says, else twice as long each time. `attempt` counts from
    0; `now` is what an HTTP date is compared with."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(max(milliseconds / 1000, 0.0), LONGEST)
    named = headers.get("retry-after")
    seconds = _number(named)
    if seconds is None and named:
        seconds = _until(named, now)
    if seconds is None:
        seconds = _FIRST * 2.0 ** min(attempt, 10)
    return min(max(seconds, 0.0), LONGEST)


def _number(text: str | None) -> float | None:
    try:
        found = float(text) if text else math.nan
    except ValueError:
        return None
    return None if math.isnan(found) else found


def _until(date: str, now: float) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    then = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    try:
        return then.timestamp() - now
    except (ValueError, OverflowError, OSError):
        return None
