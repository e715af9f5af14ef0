"""Every request body as it was sent, one JSON line each, so that anyone can price it again with a model of their own.

A body stands in its line byte for byte; only line breaks between its values, which JSON allows, become spaces. Times
rise through the whole file: a session begins a day after the one before it, when nothing that was cached is left.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec
from msgspec import Raw

from holdfast.errors import HoldfastError

from .playback import ReplayedCall
from .sessions import TimedRequest

DAY = 86_400.0
_LINES = bytes.maketrans(b"\r\n", b"  ")


class Dump:
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file: BinaryIO = path.open("wb")
        except OSError as error:
            raise HoldfastError(f"{path} cannot be written ({error.strerror or error}); name another file.") from error
        self._last: float | None = None
        self._shift: float | None = 0.0
        self._about: dict[str, object] = {}

    def __enter__(self) -> Dump:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()

    def begin(self, **about: object) -> None:
        """A session begins; `about` stands on each of its lines."""
        self._about = about
        self._shift = 0.0 if self._last is None else None

    def sent(self, turn: TimedRequest, prepared: ReplayedCall) -> None:
        """A request goes out, with what is foreseen for it."""
        if self._shift is None:  # the session's first request, a day or two after the last
            self._shift = ((self._last or 0.0) // DAY + 2) * DAY - turn.at
        self._last = turn.at + self._shift
        foreseen = prepared.core.outcome
        counts = {"input": foreseen.input, "read": foreseen.read, "write_5m": 0, "write_1h": 0}
        counts |= {f"write_{ttl}": tokens for ttl, tokens in foreseen.writes}
        line = {
            "at": round(self._last, 3),
            "first_token_at": round(turn.first_token_at + self._shift, 3),
            **self._about,
            "model": turn.prompt.model,
            "lane": turn.lane,
            "predicted": counts | {"output": turn.output},
            "body": Raw(prepared.raw.translate(_LINES)),
        }
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise HoldfastError(f"{self._path} cannot be written ({error.strerror or error}); make room.") from error
