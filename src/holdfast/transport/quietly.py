"""What fails beside a client's call is written to the log and does not disturb the call."""

from __future__ import annotations

import logging
from pathlib import PurePath

_log = logging.getLogger(__name__)


class quiet:  # noqa: N801 - used as a statement
    """Nothing of ours may reach the client's call any more."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        log(self._what, error)
        return True


def log(what: str, error: Exception) -> None:
    """The kind of the error and where it was, not what it says: that may be the client's."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" ({PurePath(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})"
    _log.warning("%s failed: %s%s; the client's call goes on", what, type(error).__name__, where)
