"""Warnings logged once per process: what is read for every session, or every sub-agent, is not repeated."""

from __future__ import annotations

import logging
import threading

_MOST = 4096
"""Different warnings that are remembered; they may hold names from outside, which must not grow without end."""

_said: set[tuple[str, str]] = set()
_lock = threading.Lock()


def warn_once(logger: logging.Logger, message: str, *values: object) -> None:
    """Log a warning, unless this very one was logged before."""
    key = logger.name, message % values if values else message
    with _lock:
        if key in _said:
            return
        if len(_said) >= _MOST:
            _said.clear()
        _said.add(key)
    logger.warning(message, *values)


def forget() -> None:
    """Allow all warnings again, as in a new process."""
    with _lock:
        _said.clear()
