"""The memory in a conversation: the knowledge store and USER.md and MEMORY.md, in full at its start and later only
changes.

A delta is an event before it is sent and an entry of the window afterwards; the context block is an event too. What the
conversation contains is derived from its state, so that a resumed session repeats nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from msgspec.structs import replace

from holdfast.config.sections import MemorySettings
from holdfast.facts import estimate
from holdfast.memory import (
    EMPTY,
    FILES,
    STORES,
    Delta,
    Knowledge,
    MemoryFiles,
    StableBlock,
    Surfacing,
    Vectors,
    digest,
    embedder,
    project_of,
)
from holdfast.memory import ContextBlock as Block
from holdfast.notices import warn_once
from holdfast.records.events import Event, MemoryEvicted, MemorySurfaced, MemoryUpdated, VolatileChanged
from holdfast.store import Store

from .window.entries import Entry, MemoryChanged, Timeline, TimelineItem, UserMessage
from .window.state import says_nothing, told_hashes

if TYPE_CHECKING:
    from .session import Session


class Memories:
    """Opens the knowledge of workspaces; all sessions share one embedding model."""

    def __init__(self, store: Store | None, tenant: str, workspace: Path, clock: Callable[[], float]) -> None:
        self._store, self._tenant, self._workspace, self._clock = store, tenant, workspace, clock
        self._vectors: dict[str, Vectors | None] = {}
        self._loading = threading.Lock()

    def of(self, memory: MemorySettings, project: str = "") -> Knowledge | None:
        """What is known here, where there is a store. Reads files: not for an event loop."""
        if self._store is None:
            return None
        named = project or memory.project or str(project_of(self._workspace))
        vectors = self._compared(self._store, memory)
        return Knowledge(self._store, self._tenant, project=named, clock=self._clock, vectors=vectors)

    def _compared(self, store: Store, memory: MemorySettings) -> Vectors | None:
        """Search by meaning, where a model is set and can be had."""
        place = memory.model_dir
        with self._loading:
            if place and place not in self._vectors:
                model = embedder(memory)
                if isinstance(model, str):
                    warn_once(_logger, "memory is searched by words alone: %s", model)
                self._vectors[place] = None if isinstance(model, str) else Vectors(store, self._tenant, model)
            return self._vectors.get(place)


START, RESET, REFRESH = "session_start", "reset", "refresh"

_UNREAD = "memory was not looked at"

_logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def surfacing(session: Session) -> Surfacing | None:
    """Return what chooses entries for this conversation; None without a store or for a sub-agent, which gets only its
    task."""
    if session.knowledge is None or session.parent is not None:
        return None
    return Surfacing(
        session.knowledge,
        session.settings.memory,
        audience="agent",
        context_limit=session.facts.context_limit,
        output_limit=session.output_limit,
    )


async def stable_block(session: Session) -> StableBlock:
    """Build the stable block for a new conversation."""
    chooser = surfacing(session)
    if chooser is None:
        return StableBlock()
    fallback = "a session begins without its memory"
    return await asyncio.to_thread(_guarded, fallback, chooser.stable, now=session.clock()) or StableBlock()


def stable_events(stable: StableBlock) -> tuple[Event, ...]:
    """Return the event for the entries of the stable block, without the text, which the composed session holds."""
    return (replace(_surfaced("stable", stable, START), text=""),) if stable.entries else ()


async def surface(session: Session, turn: str | None = None) -> None:
    """Log the memory entries to put in front of a new message of the user. Does nothing without such a message or
    without a store."""
    chooser, message = surfacing(session), _last_user_text(session)
    if chooser is None or message is None:
        return
    events = await asyncio.to_thread(_guarded, _UNREAD, _choose, session, chooser, message)
    if events:  # not in the thread, which goes on where the turn is cancelled
        session.log(*events, turn=turn)


async def refresh(session: Session, turn: str | None = None) -> None:
    """Choose the context block anew after a request was too long; the stable block stays."""
    chooser, state = surfacing(session), session.state
    if chooser is None or not state.context:
        return
    before = Block(text=state.context, entries=state.context_entries)
    message, stable = _last_user_text(session) or _last(session), _stable(session)
    block = await asyncio.to_thread(
        _guarded, _UNREAD, chooser.changed_context, before, message, stable=stable, refresh=True
    )
    if block is not None:
        session.log(_surfaced("context", block, REFRESH), turn=turn)


def note_shown(session: Session, events: Sequence[Event]) -> None:
    """Store when entries were shown, for `holdfast memory why`. A failure has no consequences."""
    for event in events:
        if session.knowledge is None or not isinstance(event, MemorySurfaced) or event.why == "written":
            continue
        if pairs := tuple(zip(event.entries, event.hashes, strict=False)):
            _guarded(
                "it was not noted that memory was shown",
                session.knowledge.note_shown,
                pairs,
                session=session.lane.session,
                lane=session.lane.id,
                place=event.place,
                why=event.why,
            )


def _guarded(fallback: str, work: Callable[P, T], *args: P.args, **kwargs_: P.kwargs) -> T | None:
    """Run `work`; if it fails, log `fallback` and return None, so that memory never stops a turn."""
    try:
        return work(*args, **kwargs_)
    except Exception as problem:  # noqa: BLE001  the store, the files of a model, a fault of ours: a turn is worth more
        warn_once(_logger, "%s: %s", fallback, problem)
        return None


def _choose(session: Session, chooser: Surfacing, message: str) -> tuple[Event, ...]:
    """Return the events for the entries to show; changes nothing."""
    state, memory = session.state, session.settings.memory
    first = not state.spoken
    query = message if first or memory.retrieve == "every_turn" else None
    if query is not None:
        chooser.knowledge.learn()
    if memory.placement == "blocks":
        return _choose_block(session, chooser, query, first=first)
    shown = {each.entry: each.hash for each in state.surfaced}
    lost = _lost_entries(session) if state.deltas < memory.delta_max else []
    delta = chooser.again(lost, shown) if lost else None
    if delta is None:
        delta = chooser.delta(shown, query, first=first, deltas=state.deltas)
    return (*_evictions(lost, delta), *(() if delta is None else (_surfaced("delta", delta, delta.why),)))


def _choose_block(session: Session, chooser: Surfacing, query: str | None, *, first: bool) -> tuple[Event, ...]:
    state, stable = session.state, _stable(session)
    if first and not state.context:
        block: Block | None = chooser.context(query or "", stable=stable)
    else:
        before = Block(text=state.context, entries=state.context_entries)
        block = chooser.changed_context(before, query, stable=stable)
    if block is None or block.text == state.context:
        return ()
    return (_surfaced("context", block, START if first else "changed" if query is None else "every_turn"),)


def _lost_entries(session: Session) -> list[str]:
    """Return the ids of entries that a delta showed and the conversation no longer contains."""
    state, says = session.state, told_hashes(session.state)
    return [each.entry for each in state.surfaced if each.place == "delta" and each.hash and each.entry not in says]


def _evictions(lost: Sequence[str], delta: Delta | None) -> tuple[Event, ...]:
    """Return an eviction event for the lost entries that the delta had no room for."""
    shown = {} if delta is None else dict(delta.entries)
    lost_entries = tuple(each for each in lost if each not in shown)
    return (MemoryEvicted(entries=lost_entries, why=RESET),) if lost_entries else ()


def _surfaced(place: str, source: StableBlock | Block | Delta, why: str) -> MemorySurfaced:
    return MemorySurfaced(
        entries=tuple(id_ for id_, _ in source.entries),
        hashes=tuple(hash_ for _, hash_ in source.entries),
        tokens=estimate(source.text) if source.text else 0,
        place=place,
        why=why,
        text=source.text,
    )


def _stable(session: Session) -> StableBlock:
    composed = session.state.composed
    return StableBlock(text="" if composed is None else composed.preferences)


def _last_user_text(session: Session) -> str | None:
    """Return the user's messages that are queued and not sent yet, None if there are none."""
    messages = [item for item in session.state.queue if isinstance(item, UserMessage) and not says_nothing(item)]
    waiting = [item.text for item in messages]
    return "\n\n".join(waiting) if waiting else None


def _last(session: Session) -> str:
    """Return the user's last message in the window, or an empty text."""
    for entry in reversed(session.state.window.entries):
        for item in reversed(entry.items) if isinstance(entry, Timeline) else ():
            if isinstance(item, UserMessage):
                return item.text
    return ""


USER_HEADING = "# USER.md: what is known of the user"
MEMORY_HEADING = "# MEMORY.md: notes about the project"


def volatile_text(user: str, memory: str) -> str:
    """The volatile system text (`agent.volatile = "system"`); nothing where both files are empty."""
    parts = ((USER_HEADING, user), (MEMORY_HEADING, memory))
    return "\n\n".join(f"{heading}\n\n{text}" for heading, text in parts if text.strip())


def volatile_now(files: MemoryFiles) -> str:
    """Return the volatile system text for the current content of the files."""
    return volatile_text(files.read("user"), files.read("memory"))


def files_told(entries: Iterable[Entry], queue: Iterable[TimelineItem] = ()) -> dict[str, str]:
    """Return the digest of each memory file's last text in a conversation, by store: from the entries of its window and
    from its queue only."""
    items = [item for entry in entries if isinstance(entry, Timeline) for item in entry.items]
    waiting = sorted(queue, key=lambda item: (item.at, item.seq))
    return {
        item.store: digest("" if item.text == EMPTY else item.text)
        for item in (*items, *waiting)
        if isinstance(item, MemoryChanged)
    }


def update_files(session: Session, turn: str | None) -> None:
    """Log changes of USER.md and MEMORY.md, whoever made them. A sub-agent gets no memory files."""
    if session.parent is not None:
        return
    if session.settings.agent.volatile == "system":
        text = volatile_now(session.memory)
        if text != session.state.volatile:
            session.log(VolatileChanged(text=text), turn=turn)
        return
    if session.state.volatile:  # the setting was another one
        session.log(VolatileChanged(text=""), turn=turn)
    for event in file_changes(files_told(session.state.window.entries, session.state.queue), session.memory):
        session.log(event, turn=turn)


def file_changes(digests: Mapping[str, str | None], files: MemoryFiles) -> tuple[MemoryUpdated, ...]:
    """Return an event for each memory file whose text differs from the conversation's digest (`digests`, by store)."""
    changes = []
    for file in FILES:
        store, text = STORES[file], files.read(file)
        before, now = digests.get(store), digest(text)
        if now == before or (before is None and not text):
            continue
        operation = "read" if before is None else "edit"
        changes.append(MemoryUpdated(store=store, operation=operation, digest=now, text=text or EMPTY))
    return tuple(changes)
