"""What readers of logs give: one provider request at a time, or a line that could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from holdfast.records import Usage

from .traces import Kind, ShapeBlock


class LoggedBreak(Struct, frozen=True, kw_only=True):
    """A break as the log itself tells it: the gateway's store has looked at the bytes when they went out."""

    cause: str | None
    reset: str | None
    tokens: int
    dollars: Decimal | None = None
    path: str | None = None
    offset: int | None = None
    cure: str | None = None
    advice: str | None = None
    setting: str | None = None


class LoggedRequest(Struct, frozen=True, kw_only=True):
    """One provider request of a log.

    `source` is the file and line to show to users. `agent` names a sub-agent or side chain of the session, empty for
    its main conversation; a lane is session, agent and model. `at` is when the request was sent: seconds since 1970 if
    the log has dates, else seconds on the log's own clock. `usage` is what was billed. `reset` is the log's reason for
    a prefix that is not continued (`compaction`, `history_trimmed`…). `body` are the bytes of the request if the log
    has them, in `dialect`. `added` is what the conversation gained since the model's previous request, in sizes without
    text, as far as the log shows it; `kind` is whether a user turn or a tool loop continues, if a log has only that.
    `subscription` if the log shows that one paid; `cut` if a part of the usage is an estimate, because the answer was
    cut off. `tier` is the service tier in the log, empty without one. `judged` if the writer of the log has looked for
    breaks: `told` are all of them. `author` is the owner of the session, if a log is of several. `repairs` is what
    repairs would have saved, in dollars, if known, `repairs_exact` if moving unambiguous values is enough for that.
    """

    session: str
    source: str
    model: str = ""
    client: str = ""
    agent: str = ""
    at: float | None = None
    first_token_at: float | None = None
    usage: Usage | None = None
    reset: str | None = None
    body: bytes | None = None
    dialect: str = ""
    told: LoggedBreak | None = None
    added: tuple[ShapeBlock, ...] = ()
    kind: Kind | None = None
    subscription: bool = False
    cut: bool = False
    judged: bool = False
    tier: str = ""
    author: str = ""
    repairs: Decimal | None = None
    repairs_exact: bool = False


class BrokenSource(Struct, frozen=True):
    """A line, or a whole file, that could not be read, and why."""

    source: str
    why: str


Record = LoggedRequest | BrokenSource

Advance = Callable[[int], None]
"""Told how many more bytes of the input have been read."""

Reader = Callable[[Path, Advance], Iterator[Record]]


class Source(Struct, frozen=True, kw_only=True):
    """A file or directory (or database) of logs that was found, its format and size in bytes."""

    path: Path
    format: str
    size: int
    client: str = ""
