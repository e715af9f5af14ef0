"""What a conversation is told of the knowledge store: once at its start, and then only what has changed.

A delta is an event before it is sent and an entry of the window afterwards; the context block is an event too. What the
conversation knows is read from its state, so that a resumed session is told nothing twice.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.events import Event
from holdfast.events.agent import MemoryContextChanged
from holdfast.events.tools import MemorySurfaced
from holdfast.facts import estimate
from holdfast.memory.surfacing import Surfacing
from holdfast.memory.values import Context as Block
from holdfast.memory.values import Delta, Stable

from .window.entries import Context, UserMessage
from .window.flushing import says_nothing
from .window.state import standing

if TYPE_CHECKING:
    from .session import Session

START, RESET, REFRESH = "session_start", "reset", "refresh"


def surfacing(session: Session) -> Surfacing | None:
    """What chooses for this conversation; None where there is no store. A sub-agent is told its task and nothing beside
    it."""
    if session.knowledge is None or session.parent is not None:
        return None
    return Surfacing(
        session.knowledge,
        session.settings.memory,
        audience="agent",
        context_limit=session.facts.context_limit,
        output_limit=session.output_limit,
    )


def stable(session: Session) -> Stable:
    """The stable block that a new conversation begins with."""
    chooser = surfacing(session)
    return Stable() if chooser is None else chooser.stable(now=session.clock())


def begun(found: Stable) -> tuple[Event, ...]:
    """That the entries of the stable block stand in it."""
    if not found.entries:
        return ()
    ids, hashes = zip(*found.entries, strict=True)
    return (MemorySurfaced(entries=ids, hashes=hashes, tokens=estimate(found.text), place="stable", why=START),)


async def look(session: Session, turn: str | None = None) -> None:
    """Look for what the conversation has to be told, when the user has said something: what is told stands in front of
    that. A store that cannot be read keeps nobody from going on."""
    chooser, said = surfacing(session), _said(session)
    if chooser is None or said is None:
        return
    try:
        await asyncio.to_thread(_look, session, chooser, said, turn)
    except (HoldfastError, sqlite3.Error) as problem:
        session.host.problem("memory was not looked at", problem)


async def refresh(session: Session, turn: str | None = None) -> None:
    """An emergency: the conversation was too long. The context block is chosen anew; the stable one stays."""
    chooser, state = surfacing(session), session.state
    if chooser is None or not state.context:
        return
    before = Block(text=state.context, entries=state.context_entries)
    try:
        found = await asyncio.to_thread(
            chooser.changed_context, before, _said(session) or _last(session), stable=_stable(session), refresh=True
        )
    except (HoldfastError, sqlite3.Error) as problem:
        session.host.problem("memory was not looked at", problem)
        return
    if found is not None:
        _context(session, found, REFRESH, turn)


def note_shown(session: Session, events: Sequence[Event]) -> None:
    """So that `holdfast memory why` can say when an entry was shown. Nothing depends on it, and it stops nothing."""
    for found in events:
        if session.knowledge is None or not isinstance(found, MemorySurfaced) or found.why == "written":
            continue
        pairs = tuple(pair for pair in zip(found.entries, found.hashes, strict=False) if pair[1])
        lane, place, why = session.lane.id, found.place, found.why
        try:
            if pairs:
                session.knowledge.note_shown(pairs, session=session.id, lane=lane, place=place, why=why)
        except (HoldfastError, sqlite3.Error) as problem:
            session.host.problem("it was not noted that memory was shown", problem)


def _look(session: Session, chooser: Surfacing, said: str, turn: str | None) -> None:
    first, memory = not session.state.spoken, session.settings.memory
    query = said if first or memory.retrieve == "every_turn" else None
    if memory.placement == "blocks":
        _look_at_block(session, chooser, query, turn, first=first)
        return
    state = session.state
    told = {each.entry: each.hash for each in state.surfaced}
    if query is not None:
        chooser.knowledge.learn()
    lost = _lost(session) if state.deltas < memory.delta_max else []
    if lost and _tell_again(session, chooser, lost, told, turn):
        return
    found = chooser.delta(told, query, first=first, given=state.deltas)
    if found is not None:
        _tell(session, found, turn)


def _look_at_block(session: Session, chooser: Surfacing, query: str | None, turn: str | None, *, first: bool) -> None:
    state, stable = session.state, _stable(session)
    if first and not state.context:
        found: Block | None = chooser.context(query or "", stable=stable)
    else:
        before = Block(text=state.context, entries=state.context_entries)
        found = chooser.changed_context(before, query, stable=stable)
    if found is not None and found.text != state.context:
        _context(session, found, START if first else "changed" if query is None else "every_turn", turn)


def _lost(session: Session) -> list[str]:
    """What was told in the conversation and stands nowhere in it any more."""
    state, says = session.state, standing(session.state)
    return [each.entry for each in state.surfaced if each.place == "delta" and each.hash and each.entry not in says]


def _tell_again(session: Session, chooser: Surfacing, lost: list[str], told: dict[str, str], turn: str | None) -> bool:
    found = chooser.again(lost, told)
    if found is not None:
        _tell(session, found, turn)
    known = () if found is None else tuple(id_ for id_, _ in found.entries)
    gone = tuple(id_ for id_ in lost if id_ not in known)
    if gone:  # it found no room: nothing says it any more, and nothing has to
        session.log(
            MemorySurfaced(entries=gone, hashes=("",) * len(gone), tokens=0, place="delta", why=RESET), turn=turn
        )
    return found is not None


def _tell(session: Session, found: Delta, turn: str | None) -> None:
    ids, hashes = zip(*found.entries, strict=True)
    session.log(
        MemorySurfaced(entries=ids, hashes=hashes, tokens=found.tokens, place="delta", why=found.why, text=found.text),
        turn=turn,
    )


def _context(session: Session, found: Block, why: str, turn: str | None) -> None:
    ids = tuple(id_ for id_, _ in found.entries)
    hashes = tuple(said for _, said in found.entries)
    surfaced = MemorySurfaced(entries=ids, hashes=hashes, tokens=estimate(found.text), place="context", why=why)
    changed = MemoryContextChanged(text=found.text, entries=ids, hashes=hashes, why=why)
    session.log(changed, *((surfaced,) if ids else ()), turn=turn)


def _stable(session: Session) -> Stable:
    composed = session.state.composed
    pairs = tuple((each.entry, each.hash) for each in session.state.surfaced if each.place == "stable")
    return Stable(text="" if composed is None else composed.preferences, entries=pairs)


def _said(session: Session) -> str | None:
    """What the user has said that was not sent yet."""
    said = [item for item in session.state.queue if isinstance(item, UserMessage) and not says_nothing(item)]
    waiting = [item.text for item in said]
    return "\n\n".join(waiting) if waiting else None


def _last(session: Session) -> str:
    """What the user said last."""
    for entry in reversed(session.state.window.entries):
        for item in reversed(entry.items) if isinstance(entry, Context) else ():
            if isinstance(item, UserMessage):
                return item.text
    return ""
