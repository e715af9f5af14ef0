"""The sessions on disk."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from holdfast.errors import HoldfastError

from .log import listed, log_path, read_content, read_log
from .window.projection import project


class SessionOnDisk(Struct, frozen=True, kw_only=True):
    """A session on disk."""

    id: str
    started_at: int
    last_at: int
    turns: int
    cost: Decimal
    title: str
    model: str
    agent: str = ""
    ended: bool = False
    workspace: str = ""
    damage: str = ""
    """Where its log is damaged, and what is lost by that."""


class UnreadableLog(Struct, frozen=True):
    """A log on disk of which not even the beginning can be read."""

    id: str
    problem: str


def stored(directory: Path) -> list[SessionOnDisk]:
    """All of them but sub-agents', the newest first."""
    found = [one for each in listed(directory) if (one := _one(directory, each)) is not None]
    return sorted(found, key=lambda each: (each.last_at, each.id), reverse=True)


def forked_from(directory: Path, id: str) -> str | None:
    """The session that another one was forked from, if that is still there."""
    try:
        return project(read_log(log_path(directory, id))[:1]).forked_from
    except HoldfastError:
        return None


def unreadable(directory: Path) -> list[UnreadableLog]:
    """Logs that nothing can be salvaged of."""
    found = []
    for each in listed(directory):
        try:
            content = read_content(log_path(directory, each))
        except HoldfastError as problem:
            found.append(UnreadableLog(each, str(problem)))
            continue
        if content.damage is not None and content.state.composed is None:
            found.append(UnreadableLog(each, f"{content.damage}, so nothing of it can be read"))
    return found


def _one(directory: Path, id: str) -> SessionOnDisk | None:
    """A session as the list shows it; None for sub-agents' and for what cannot be read."""
    try:
        content = read_content(log_path(directory, id))
    except HoldfastError:
        return None
    state, damage = content.state, content.damage
    if state.composed is None or state.composed.parent is not None:
        return None
    return SessionOnDisk(
        id=id,
        started_at=state.started_at,
        last_at=state.last_at,
        turns=state.turns,
        cost=state.cost + state.delegated_cost,
        title=state.title,
        model=state.model,
        agent=state.agent,
        ended=state.ended,
        workspace=state.composed.workspace,
        damage="" if damage is None else f"{damage}; lost: {damage.lost}",
    )
