"""Claude Code's transcripts: `SESSION.jsonl`, with sub-agents in it, beside it or in `SESSION/subagents`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw

from .claude_transcript import Transcript
from .dedup import RecentHashes
from .lines import gathered, lines, objects
from .records import Advance, Reader, Record

_NOTES = {"queue-operation", "file-history-snapshot", "last-prompt", "mode", "permission-mode", "summary", "ai-title"}
"""Lines of which some stand before the conversation."""


def is_mine(path: Path, start: bytes) -> bool:
    if b"parentUuid" not in start and b"sessionId" not in start:
        return False
    for members in objects(start):
        if "parentUuid" in members and "isSidechain" in members:
            return True
        if "sessionId" in members and _text(members.get("type")) in _NOTES:
            return True
    return False


def owner(path: Path, start: bytes) -> str | None:
    """The session after whose file a sub-agent's file belongs."""
    if not path.name.startswith("agent-"):
        return None
    return next((name for members in objects(start) if (name := _text(members.get("sessionId")))), None)


def began(path: Path, start: bytes) -> str:
    """When the conversation's first line was written. What a file notes before it says when the file was made."""
    times = (_text(members.get("timestamp")) for members in objects(start) if "parentUuid" in members)
    return next((time for time in times if time), "")


def _text(raw: Raw | None) -> str:
    try:
        value = None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return value if isinstance(value, str) else ""


def read(path: Path, advance: Advance) -> Iterator[Record]:
    """The requests of one transcript."""
    return reading()(path, advance)


def reading() -> Reader:
    """A reader for many transcripts. Resuming or forking a session copies lines into another file under another
    session's name, with their ids and times: such a request is given where it is met first."""
    given = RecentHashes()

    def read(path: Path, advance: Advance) -> Iterator[Record]:
        return gathered(Transcript(path, given), lines(path, advance))

    return read
