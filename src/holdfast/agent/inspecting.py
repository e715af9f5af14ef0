"""The next request, block by block: whose each is, how large, how old, and whether it is cached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.canonical import Block, Message, Text, ToolResult, ToolUse
from holdfast.wire import DIALECTS, Body

from .calling import parsed
from .values import Shown
from .window.entries import AssistantTurn, Compacted, Context, Entry, GoalInjection, SessionContext, UserMessage

if TYPE_CHECKING:
    from .session import Session

_HEAD = 80


def inspect(session: Session) -> tuple[Shown, ...]:
    body = parsed(session, session.request())
    prompt = session.engine.read(body).prompt
    cached = session.engine.fence(session.lane, now=session.clock())
    owners = list(_owners(session))
    spans = [span for span in body.blocks if span.section == "messages"]
    if len(owners) != len(spans):  # a dialect that spells blocks in another way: only their roles are known
        owners = []
    shown, message = [], 0
    for number, block in enumerate(prompt.blocks):
        place = prompt.origin[number] if prompt.origin else number
        span = body.blocks[place]
        owner, at = {"tools": "tools", "system": "host"}.get(span.section, block.role or "user"), None
        if span.section == "messages":
            if owners:
                owner, at = owners[min(message, len(owners) - 1)]
            message += 1
        shown.append(
            Shown(
                path=span.path,
                owner=owner,
                tokens=block.tokens,
                at=None if at is None else at / 1_000_000,
                cached=number < cached,
                head=_head(body, place),
            )
        )
    return tuple(shown)


def _owners(session: Session) -> Iterator[tuple[str, int]]:
    """Owner and time of each block of the messages, in order."""
    names: dict[str, str] = {}
    for entry in session.state.window.entries:
        if isinstance(entry, AssistantTurn):
            for message in (entry.message, *entry.results):
                yield from ((_owner(block, message, names), entry.at) for block in message.content)
        elif isinstance(entry, Context):
            for item in entry.items:
                owner = "user" if isinstance(item, UserMessage) else _item_owner(item)
                yield owner, item.at
                yield from ((owner, item.at) for _ in getattr(item, "attachments", ()))
        else:
            yield _entry_owner(entry), entry.at


def _owner(block: Block, message: Message, names: dict[str, str]) -> str:
    if isinstance(block, ToolUse):
        names[block.id] = block.name
    if isinstance(block, ToolResult):
        return f"tool:{names.get(block.tool_use_id, '?')}"
    return message.role


def _entry_owner(entry: Entry) -> str:
    if isinstance(entry, SessionContext):
        return "surroundings"
    if isinstance(entry, Compacted):
        return "summary"
    return "goal" if isinstance(entry, GoalInjection) else "runtime"


def _item_owner(item: object) -> str:
    return "memory" if type(item).__name__ == "MemoryChanged" else "runtime"


def _head(body: Body, place: int) -> str:
    """The beginning of a block's text."""
    decoded = DIALECTS[body.dialect].content(body, place)
    text = decoded.decode("utf-8", "replace")
    return " ".join(text.split())[:_HEAD]


__all__ = ["Text", "inspect"]
