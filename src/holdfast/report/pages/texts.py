"""Figures as people read them on a page. Nothing depends on the place or the time of day: same values, same words."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal

from holdfast.wording import UNKNOWN

from ..explainer.prices import DATED

NONE = "–"
_EXACT = Decimal("1e15")  # beyond it, cents are no news and no longer exact
_LAST = 253_402_300_799.0  # the end of the year 9999


def clip(text: str, most: int) -> str:
    """Cut a text to `most` characters, keeping its beginning and end, where names differ."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"


def count(number: int) -> str:
    return f"{number:,}"


def times(number: int) -> str:
    """`once`, `7 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def short(number: float) -> str:
    """`950`, `12.4k`, `3.1M`: of tokens, where the exact figure stands elsewhere."""
    size = abs(number)
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= unit * 0.9995:
            return f"{number / unit:.3g}{name}" if size < unit * 999.5 else f"{number / unit:,.0f}{name}"
    return f"{number:.3g}" if size < 999.5 else f"{number:,.0f}"


def size(number: int) -> str:
    """Bytes: `950 B`, `1.4 MB`."""
    text = short(number)
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def dollars(value: Decimal | None) -> str:
    """Cents from a dollar on, hundredths of a cent below; never 0 for what is not known."""
    if value is None or not value.is_finite():
        return UNKNOWN
    size = abs(value)
    if size and size < Decimal("0.00005"):
        return "<$0.0001"
    if size >= _EXACT:
        return f"${size:.3e}"
    places = Decimal("0.01") if size >= 1 or not size else Decimal("0.0001")
    return f"{'−' if value < 0 else ''}${size.quantize(places, ROUND_HALF_UP):,}"


def share(value: float | None) -> str:
    return NONE if value is None or not math.isfinite(value) else f"{value:.1%}"


def portion(part: Decimal, whole: Decimal | None) -> str:
    """`24%` of a whole; empty where there is none."""
    if not whole or not whole.is_finite() or not part.is_finite():
        return ""
    value = float(part / whole)
    return "<1%" if 0 < value < 0.01 else f"{value:.0%}"


def ratio(value: float | None) -> str:
    return NONE if value is None or not math.isfinite(value) else f"{value:,.3f}×"


def span(seconds: float | None) -> str:
    """`4.2 s`, `4 min 20 s`, `3 h 5 min`, `12 d 4 h`."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    sign, seconds = ("−" if seconds < 0 else ""), abs(seconds)
    if seconds < 59.95:
        return f"{sign}{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for unit, small, name, other in ((86400, 3600, "d", "h"), (3600, 60, "h", "min"), (60, 1, "min", "s")):
        if whole >= unit:
            rest = whole % unit // small
            return f"{sign}{whole // unit:,} {name}" + (f" {rest} {other}" if rest else "")
    return f"{sign}{whole} s"


def dated(at: float | None) -> datetime | None:
    if at is None or not math.isfinite(at) or not DATED <= at <= _LAST:
        return None
    return datetime.fromtimestamp(at, UTC)


def moment(at: float | None) -> str:
    """A date and time in UTC, or the seconds of the log's own clock."""
    date = dated(at)
    if date is not None:
        return f"{date:%Y-%m-%d %H:%M:%S}"
    return NONE if at is None or not math.isfinite(at) else f"{span(at)} in"


def day(at: float | None) -> str:
    date = dated(at)
    return moment(at) if date is None else f"{date:%Y-%m-%d %H:%M}"
