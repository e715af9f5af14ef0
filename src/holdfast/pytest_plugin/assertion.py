"""`assert_prefix_stable` without pytest: what it is given, checked; what was found, raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Protocol

from .bodies import recorded
from .check import check
from .failure_text import failure, nothing_compared
from .findings import PrefixCheck, PrefixUnstable
from .worth import DEFAULT_RATE, rate_of


class SessionOptions(Protocol):
    """What the user says for all checks of a session."""

    rate: str | None
    model: str | None
    redact: bool

    def add(self, counts: Mapping[str, int]) -> None: ...


def assert_stable(
    requests: Iterable[object],
    wishes: SessionOptions | None,
    *,
    model: str | None,
    dialect: str | None,
    rate: str | float | Decimal | None,
    require_markers: bool,
    at_least: int,
    redact: bool | None,
    **options: Any,
) -> PrefixCheck:
    """Fail unless the requests' prefixes are stable."""
    __tracebackhide__ = True
    told = rate_of(rate if rate is not None else (wishes.rate if wishes is not None else None) or DEFAULT_RATE)
    if model is None and wishes is not None:
        model = wishes.model
    if redact is None:
        redact = wishes is not None and wishes.redact
    given = recorded(requests, dialect=dialect)
    refused = [one.error or f"status {one.status}" for one in given if one.refused]
    checked = check(given, model=model, redact=redact, **options)
    message = ""
    if checked.unstable or (require_markers and checked.unmarked):
        message = failure(checked, told, missing_markers=require_markers)
    elif checked.compared < at_least:
        message = nothing_compared(checked, refused, at_least)
    if wishes is not None:
        counts = {"failed": bool(message), "unmarked": bool(checked.unmarked)}
        wishes.add({"checks": 1, "requests": checked.requests, **counts})
    if message:
        raise PrefixUnstable(message, checked)
    return checked
