"""Times as a prompt shows them: made of an event's time and the name of a zone, and of nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from holdfast.errors import HoldfastError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = timedelta(days=-719_000), timedelta(days=2_932_000)
"""What can be shown, for about ten thousand years: a clock that was wrong once must not make a session unreadable."""


def zone(name: str) -> tzinfo:
    """The zone of this name, for whoever sets it: one that nobody knows is an error."""
    known_zone = zone_of(name)
    if known_zone is None:
        raise HoldfastError(
            f"agent.timezone is {name[:80]!r}, which is no time zone here; use UTC or a name such as Europe/Berlin"
        )
    return known_zone


def zone_of(name: str) -> tzinfo | None:
    """The zone of this name; None for one that nobody knows."""
    if name == "UTC":  # the default needs no data of the machine
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no such zone, a path, a directory
        return None


def written(at: int, name: str) -> str:
    """A time in UTC microseconds, such as `2026-11-16 10:42:05 UTC` or `2026-11-16 11:42:05 UTC+01:00`.

    A zone that this machine does not know counts as UTC: a session from elsewhere has to stay readable. Offsets are
    shown and not abbreviations, which are ambiguous and change from one edition of the zone data to the next.
    """
    here = zone_of(name) or UTC
    moment = (_EPOCH + _shown(at)).astimezone(here)
    day = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    return f"{day} {moment.hour:02d}:{moment.minute:02d}:{moment.second:02d} UTC{_offset(moment, here)}"


def _shown(at: int) -> timedelta:
    try:
        return max(_FIRST, min(timedelta(microseconds=at), _LAST))
    except OverflowError:
        return _LAST if at > 0 else _FIRST


def _offset(moment: datetime, here: tzinfo) -> str:
    if here is UTC:
        return ""
    minutes = round((moment.utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"
