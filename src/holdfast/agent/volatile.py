"""What an agent's memory says now, for both places where it may stand: behind the stable system text, or as news.

What a conversation has been told is read from its own entries, so that nothing is told twice, an edit by hand is
noticed, and what a compaction took away is told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from holdfast.memory import EMPTY, FILES, STORES, MemoryFiles, digest
from holdfast.records.events import MemoryUpdated, VolatileChanged

from .window.entries import Context, Entry, MemoryChanged, TimelineItem

if TYPE_CHECKING:
    from .session import Session

USER_HEADING = "# USER.md: what is known of the user"
MEMORY_HEADING = "# MEMORY.md: notes about the project"


def volatile_text(user: str, memory: str) -> str:
    """The volatile system text (`agent.volatile = "system"`); nothing where both files are empty."""
    parts = ((USER_HEADING, user), (MEMORY_HEADING, memory))
    return "\n\n".join(f"{heading}\n\n{text}" for heading, text in parts if text.strip())


def current(files: MemoryFiles) -> str:
    """The volatile system text as the files are now."""
    return volatile_text(files.read("user"), files.read("memory"))


def told(entries: Iterable[Entry], queue: Iterable[TimelineItem] = ()) -> dict[str, str]:
    """The digest of what a conversation was last told of each file, or is about to be: what stands in its entries and
    waits in its queue counts, nothing else."""
    items = [item for entry in entries if isinstance(entry, Context) for item in entry.items]
    waiting = sorted(queue, key=lambda item: (item.at, item.seq))
    return {
        item.store: digest("" if item.text == EMPTY else item.text)
        for item in (*items, *waiting)
        if isinstance(item, MemoryChanged)
    }


def look(session: Session, turn: str | None) -> None:
    """USER.md and MEMORY.md may have changed by our tools or by somebody's hand. A sub-agent is told its task and
    nothing beside it."""
    if session.parent is not None:
        return
    if session.settings.agent.volatile == "system":
        text = current(session.memory)
        if text != session.state.volatile:
            session.log(VolatileChanged(text=text), turn=turn)
        return
    if session.state.volatile:  # the setting was another one
        session.log(VolatileChanged(text=""), turn=turn)
    for event in news(told(session.state.window.entries, session.state.queue), session.memory):
        session.log(event, turn=turn)


def news(known: Mapping[str, str | None], files: MemoryFiles) -> tuple[MemoryUpdated, ...]:
    """What has to be told, because a file says something else than a conversation knows (`known`, by store)."""
    found = []
    for file in FILES:
        store, text = STORES[file], files.read(file)
        before, now = known.get(store), digest(text)
        if now == before or (before is None and not text):
            continue
        operation = "read" if before is None else "edit"
        found.append(MemoryUpdated(store=store, operation=operation, digest=now, text=text or EMPTY))
    return tuple(found)
