"""What is done to a session when it is opened again: its surroundings are looked at, what will never report is left
behind, and a fork takes over the past of another."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records.events import (
    IDS,
    AttemptFailed,
    CompactionCompleted,
    CompactionFailed,
    DelegateAsked,
    DelegateCompleted,
    DelegateFailed,
    Envelope,
    Event,
    ProcessExited,
    SessionRefreshed,
    SessionSalvaged,
    SessionStarted,
    SurroundingsChanged,
    TurnAnswered,
)
from holdfast.tools import directory_of

from . import tools_array
from .log import Log, forked_from
from .log_content import Damage, LogContent
from .surroundings import changed
from .window.entries import SessionContext, to_json
from .window.state import Projection

if TYPE_CHECKING:
    from .session import Session
    from .sessions import Sessions

_logger = logging.getLogger(__name__)

PAID = (
    TurnAnswered,
    AttemptFailed,
    CompactionCompleted,
    CompactionFailed,
    DelegateCompleted,
    DelegateFailed,
    DelegateAsked,
)
"""Events with a cost."""

INTERRUPTED = "It was interrupted when the program ended."
ELSEWHERE = "It works for the session that this one was forked from."


async def look_around(session: Session, read: Callable[[], str]) -> None:
    """Apply `agent.on_load`: read the surroundings again if nothing is cached; otherwise continue the conversation as
    sent and add what has changed. `read` returns the current surroundings."""
    mode, first = session.settings.agent.on_load, session.state.window.entries[0]
    if mode == "replay" or not isinstance(first, SessionContext):
        return
    around = await asyncio.to_thread(read)
    cold = not session.engine.fence(session.lane, now=session.clock())
    if mode == "refresh" or cold:
        if around != first.text:
            first = SessionContext(at=session.now_us(), text=around)
            session.log(SessionRefreshed(entry=to_json(first)))
        tools_array.record(session, session.box.at_reset(None))
    news = changed(session.state.known_surroundings or first.text, around)
    if news is not None:
        session.log(SurroundingsChanged(text=news, around=around))


def offloads(host: Sessions, state: Projection) -> tuple[Path, ...]:
    """Where results lie that the sessions before this one have put aside: it goes on from them."""
    directories: list[Path] = []
    before = state.forked_from
    while before is not None and len(directories) < 64:
        directories.append(directory_of(host.home, before, host.tenant))
        before = forked_from(host.directory, before)
    return tuple(path for path in directories if path.is_dir())


def salvage(log: Log) -> tuple[SessionSalvaged, ...]:
    """Cut a damaged log before the damage, keep a copy of the file, and give the event that says so."""
    damage = log.damage
    if damage is None:
        return ()
    copy = log.cut_damage()
    _logger.warning(
        "session %s: %s. It goes on from what stands before, without %s; the whole file is kept as %s",
        log.id,
        damage,
        damage.lost,
        copy,
    )
    return (_salvaged(damage, copy=copy.name),)


def salvage_copied(id: str, content: LogContent) -> tuple[SessionSalvaged, ...]:
    """The same for a fork, which leaves the damaged log as it is."""
    damage = content.damage
    if damage is None:
        return ()
    _logger.warning(
        "session %s: %s. The fork goes on from what stands before, without %s; session %s stays as it is",
        id,
        damage,
        damage.lost,
        id,
    )
    return (_salvaged(damage, copy=""),)


def _salvaged(damage: Damage, *, copy: str) -> SessionSalvaged:
    return SessionSalvaged(line=damage.line, byte=damage.byte, events=damage.events, turns=damage.turns, copy=copy)


def copies(session: str, envelopes: Sequence[Envelope]) -> list[Envelope]:
    """The events of another session as this one's past. Their costs stay with the other one."""
    copied = []
    for each in envelopes:
        payload = each.payload
        if isinstance(payload, SessionStarted):
            continue
        if isinstance(payload, PAID):
            payload = replace(payload, cost=Decimal(0))
            there = {"elsewhere": True} if isinstance(payload, TurnAnswered) else {"used": ()}
            payload = replace(payload, **there)
        copied.append(replace(each, id=IDS.new(), session=session, payload=payload))
    return copied


def leave_behind(session: Session, why: str) -> None:
    """What ran for this conversation and will never report to it has ended, as far as it is concerned."""
    endings: list[Event] = [
        ProcessExited(process=each.process, exit_code=None) for each in session.state.running_processes
    ]
    endings += [
        DelegateFailed(delegate=each.delegate, error_message=why)
        for each in session.state.running_delegates
        if not each.question
    ]
    if endings:
        session.log(*endings)


def packed(state: bytes) -> str:
    return b64encode(state).decode()


def unpacked(state: str) -> bytes | None:
    try:
        return b64decode(state) or None
    except ValueError as error:
        raise HoldfastError(
            f"the stored state of a session cannot be read ({error}); restore its log from a copy."
        ) from error
