"""What is kept of opencode's sessions, whichever way they are stored."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import msgspec
from msgspec import Struct

from .records import BrokenSource

BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What is raised by JSON that is none, or not of the expected form."""


class StoredSession(Struct, frozen=True, kw_only=True):
    """`created` is in milliseconds; messages that are older were copied from another session."""

    id: str
    parent: str = ""
    agent: str = ""
    created: float = 0


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message, undecoded. `removed` ones were taken back by the user, after they had been paid for."""

    id: str
    session: str
    source: str
    created: float
    data: bytes
    removed: bool = False


class StepUsage(Struct, frozen=True, kw_only=True):
    """What a step of a message used, undecoded; in milliseconds, when its answer began and when it was over."""

    data: bytes
    began: float | None = None
    ended: float | None = None


class SessionStorage(Protocol):
    """A database or a directory, open until it is left."""

    def __enter__(self) -> SessionStorage: ...

    def __exit__(self, *error: object) -> None: ...

    def sessions(self) -> Iterator[StoredSession | BrokenSource]: ...

    def messages(self, session: StoredSession) -> Iterator[tuple[float, StoredMessage | BrokenSource]]:
        """A session's messages with their times, in order."""

    def steps(self, message: StoredMessage) -> Iterator[StepUsage]: ...

    def trimmed(self, session: StoredSession) -> Collection[float]:
        """When results of tools were left out of the session's requests from then on, in milliseconds: as far as the
        messages have been read."""
