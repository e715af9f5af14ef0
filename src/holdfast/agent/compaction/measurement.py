"""How long a session's conversation is now: what the provider counted, and what has been added since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.records import Message, Opaque, ToolDefinition

from ..window.entries import AssistantTurn, Compacted, Static
from ..window.flush import flush
from ..window.renderer import entry_messages
from ..window.state import Projection
from .sizes import Sizes, message_tokens, sizes

if TYPE_CHECKING:
    from ..session import Session


class Length(Struct, frozen=True, kw_only=True):
    """`used` tokens were counted by the provider, `pending` are estimated for what the next request adds to them."""

    used: int
    pending: int


def length(session: Session) -> Length:
    """How long the next request will be."""
    state, static = session.state, session.static
    fresh = message_tokens(unanswered(state, static))
    used = counted(state) or measured(session).total - fresh
    waiting = [message for entry in flush(state, 0) for message in entry_messages(entry, static)]
    return Length(used=used, pending=fresh + message_tokens(waiting))


def measured(session: Session) -> Sizes:
    """The size of everything that stands in a request."""
    state, static = session.state, session.static
    before = ("" if state.composed is None else state.composed.system, state.volatile)
    return sizes(
        state.window.entries,
        static,
        before=(*before, *map(_text, session.box.definitions())),
        used=counted(state),
        pending=unanswered(state, static),
    )


def counted(state: Projection) -> int:
    """Tokens of the last answer and its prompt, 0 where that prompt is not what stands in the window now: nobody has
    counted since a reset, and nobody counts what was broken off."""
    turn, last = _last_turn(state), state.last
    if last is None or turn is None or state.window.sent < turn:
        return 0
    if any(isinstance(entry, Compacted) for entry in state.window.entries[turn:]):
        return 0
    return last.input + last.read + last.written + last.output


def unanswered(state: Projection, static: Static) -> tuple[Message, ...]:
    """The messages that came into the window after the last answer."""
    entries, turn = state.window.entries, _last_turn(state)
    if turn is None:
        return tuple(message for entry in entries for message in entry_messages(entry, static))
    results = entry_messages(entries[turn], static)[1:]
    return (*results, *(message for entry in entries[turn + 1 :] for message in entry_messages(entry, static)))


def _last_turn(state: Projection) -> int | None:
    entries = state.window.entries
    return next((i for i in range(len(entries) - 1, -1, -1) if isinstance(entries[i], AssistantTurn)), None)


def _text(tool: ToolDefinition | Opaque) -> str:
    """A definition as it counts; one that is deferred does not."""
    if isinstance(tool, Opaque):
        return tool.raw.decode("utf-8", "replace")
    if dict(tool.extra).get("defer_loading") == b"true":
        return ""
    return f"{tool.name} {tool.description or ''} {tool.input_schema.decode('utf-8', 'replace')}"
