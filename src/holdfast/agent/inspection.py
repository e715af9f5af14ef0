"""The next request, block by block: whose each is, how large, how old, and whether it is cached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.caches import Prompt
from holdfast.records import Block, Message, ToolResult, ToolUse
from holdfast.wire import DIALECTS, Body

from .contract import InspectedBlock
from .model_call import parsed
from .requests import pinned_block
from .window.entries import (
    AssistantTurn,
    Compacted,
    Entry,
    GoalInjection,
    KnowledgeNews,
    MemoryChanged,
    SessionContext,
    Timeline,
    TimelineItem,
    UserMessage,
)
from .window.renderer import entry_messages
from .window.texts import item_blocks

if TYPE_CHECKING:
    from .session import Session

_HEAD = 80
_WORDS = ("text", "name", "content", "arguments", "parts", "input", "output", "thinking")
"""Members of a block with its main text."""


def inspect(session: Session) -> tuple[InspectedBlock, ...]:
    body = parsed(session, session.request())
    prompt = session.engine.read(body).prompt
    cached = _cached(session, prompt)
    owners = list(_owners(session))
    if len(owners) != sum(span.section == "messages" for span in body.blocks):
        owners = []  # a dialect that spells blocks in another way: only their roles are known
    shown: list[InspectedBlock] = []
    message = 0
    for number, block in enumerate(prompt.blocks):
        place = prompt.place(number)
        span = body.blocks[place]
        owner, at = {"tools": "tools", "system": "host"}.get(span.section, block.role or "user"), None
        if span.section == "system" and shown and shown[-1].owner in ("host", "preferences", "memory"):
            stable = shown[-1].owner == "host" and pinned_block(session, body)
            owner = "preferences" if stable else "memory"  # the volatile segment stands behind the stable one
        if span.section == "messages":
            if owners:
                owner, at = owners[min(message, len(owners) - 1)]
            message += 1
        shown.append(
            InspectedBlock(
                path=span.path,
                owner=owner,
                tokens=block.tokens,
                at=None if at is None else at / 1_000_000,
                cached=number < cached,
                head=_head(body, place),
            )
        )
    return tuple(shown)


def _cached(session: Session, prompt: Prompt) -> int:
    """Count the blocks under a live entry: at most those unchanged since they were sent, masked ones included. Nothing
    after a summary that was not sent yet is cached."""
    now = session.clock()
    ledger, fence = session.engine.ledger(session.lane, now=now), session.engine.fence(session.lane, now=now)
    last = ledger.last
    if last is None:
        return 0
    same = 0
    for block, number in zip(prompt.blocks, range(min(fence, len(last))), strict=False):
        if block.digest != last.digest(number) and block.digest not in ledger.edits:
            break
        same += 1
    return same


def _owners(session: Session) -> Iterator[tuple[str, int]]:
    """Owner and time of each block of the messages, in order."""
    static, names = session.static, dict[str, str]()
    for entry in session.state.window.entries:
        if isinstance(entry, AssistantTurn):
            for message in entry_messages(entry, static):
                yield from ((_owner(block, message, names), entry.at) for block in message.content)
        elif isinstance(entry, Timeline):
            for item in entry.items:
                yield from ((_item_owner(item), item.at) for _ in item_blocks(item, static.timezone))
        else:
            yield from ((_entry_owner(entry), entry.at) for _ in entry_messages(entry, static))


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


def _item_owner(item: TimelineItem) -> str:
    if isinstance(item, UserMessage):
        return "user"
    return "memory" if isinstance(item, MemoryChanged | KnowledgeNews) else "runtime"


def _head(body: Body, place: int) -> str:
    """Return the beginning of a block's text on one line."""
    raw = DIALECTS[body.dialect].content(body, place)
    try:
        words = block_text(msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        words = raw.decode("utf-8", "replace")
    return " ".join(words.split())[:_HEAD]


def block_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(block_text(each) for each in value[:3])
    if isinstance(value, dict):
        words = [block_text(value[name]) for name in _WORDS if value.get(name)]
        return " ".join(words) or msgspec.json.encode(value).decode()
    return str(value)
