"""Where in a request stand the blocks that the engine plans for: volatile text, preferences, what sub-agents share, the
summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.wire import Body

from .window.entries import Compacted, SessionContext, Window
from .window.renderer import render

if TYPE_CHECKING:
    from .session import Session


def volatile(session: Session, body: Body) -> tuple[str, ...]:
    """The blocks whose text may change: they carry no marker, also where the stable text is in one of them."""
    system = session.system
    if not system.changing or session.dialect not in ("anthropic", "openrouter"):
        return ()
    number = len(system.changing) if system.blocks else 1
    return _system(body)[-number:]


def pinned(session: Session, body: Body) -> dict[str, str]:
    """The block with the preferences, behind the host's: it is cached for an hour."""
    system = session.system
    return {_system(body)[1]: "1h"} if system.blocks and system.host and system.stable else {}


def _system(body: Body) -> tuple[str, ...]:
    return tuple(span.path for span in body.blocks if span.section == "system")


def common(session: Session, body: Body) -> str | None:
    """Where the surroundings end: so far an agent and its sub-agents send the same."""
    entries = session.state.window.entries
    if not entries or not isinstance(entries[0], SessionContext) or not entries[0].text.strip():
        return None
    if session.parent is None and not session.settings.agent.delegates.depth:
        return None
    return next((span.path for span in body.blocks if span.section == "messages"), None)


def summary(session: Session) -> str | None:
    """Where the summary of a compaction stands, for the one dialect whose zones begin with it."""
    window = session.state.window
    for place, entry in enumerate(window.entries if session.dialect == "anthropic" else ()):
        if isinstance(entry, Compacted):
            messages = render(Window(window.entries[: place + 1], window.borders[: place + 1]), session.static)
            return f"messages[{len(messages) - 1}].content[{len(messages[-1].content) - 1}]"
    return None
