"""What fails beside a client's call is written to the log and does not disturb the call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import PurePath
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

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


def quietly(do: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
    """The same for one function; None where it failed."""
    try:
        return do(*arguments, **named)
    except Exception as error:  # noqa: BLE001
        log(getattr(do, "__name__", "a part"), error)
        return None


def log(what: str, error: Exception) -> None:
    _log.warning("%s failed: %s; the client's call goes on", what, place_of(error))


def place_of(error: BaseException) -> str:
    """The kind of an error and where it was, for the log. Not what it says: that may be the client's."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" ({PurePath(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})"
    return f"{type(error).__name__}{where}"
