"""From a window to messages: a pure function of its entries and what is fixed for the session.

No clock, no locale, no randomness, no state of anything that runs; times come from the entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import assert_never

from msgspec.structs import replace

from holdfast.records import Block, Message, Opaque, RedactedThinking, Text, Thinking, ToolResult, ToolUse

from .entries import (
    AssistantTurn,
    AttemptFeedback,
    Compacted,
    Entry,
    GoalInjection,
    SessionContext,
    Static,
    Timeline,
    Window,
)
from .texts import CONTINUE, NO_TEXT, goal_text, item_blocks

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ODD = re.compile(r"[^A-Za-z0-9_-]")
"""Ids and names of calls that every provider takes back."""


def render(window: Window, static: Static) -> tuple[Message, ...]:
    """The messages of a request, without those that somebody appends for this request alone."""
    return coalesce(
        (border, entry_messages(entry, static)) for entry, border in zip(window.entries, window.borders, strict=True)
    )


def entry_messages(entry: Entry, static: Static) -> tuple[Message, ...]:
    """Render one entry on its own."""
    match entry:
        case SessionContext():
            return _user_message(entry.text) if entry.text.strip() else ()
        case Timeline():
            blocks = tuple(block for item in entry.items for block in item_blocks(item, static.timezone))
            return (Message("user", blocks),) if blocks else _user_message(CONTINUE)
        case Compacted() | AttemptFeedback():
            return _user_message(entry.text if entry.text.strip() else NO_TEXT)
        case GoalInjection():
            return _user_message(goal_text(entry.text))
        case AssistantTurn():
            return _turn(entry, static)
        case _:
            assert_never(entry)


def _user_message(text: str) -> tuple[Message, ...]:
    return (Message("user", (Text(text),)),)


def _turn(turn: AssistantTurn, static: Static) -> tuple[Message, ...]:
    own = (turn.model, turn.dialect) == (static.model, static.dialect)
    content = turn.message.content if own else tuple(_plain(block) for block in turn.message.content if _open(block))
    content = _without_trailing_thoughts(tuple(block for block in content if not _blank(block, turn.dialect)))
    message = Message("assistant", content or (Text(NO_TEXT),), turn.message.extra if own else ())
    if own:
        return (message, *_results(turn.results, frozenset()))
    return (message, *_renamed(_results(turn.results, _sealed_calls(turn.message))))


def _open(block: Block) -> bool:
    """Return whether models other than the block's author can read it."""
    return not isinstance(block, Thinking | RedactedThinking | Opaque)


def _sealed_calls(message: Message) -> frozenset[str]:
    return frozenset(block.call_id for block in message.content if isinstance(block, Opaque) and block.call_id)


def _without_trailing_thoughts(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Without thoughts that nothing followed, because the answer was cut: providers refuse a message that ends so."""
    end = len(content)
    while end and isinstance(content[end - 1], Thinking | RedactedThinking):
        end -= 1
    return content[:end]


def _plain(block: Block) -> Block:
    if isinstance(block, Opaque):
        return block
    if isinstance(block, ToolUse):
        block = replace(block, id=_common_id(block.id), name=_common_name(block.name))
    return replace(block, extra=()) if block.extra else block


def _common_id(id: str) -> str:
    """The id of a call as others take it too: some providers give ids that the next one refuses for ever."""
    if _ID.fullmatch(id):
        return id
    return f"call_{blake2b(id.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"


def _common_name(name: str) -> str:
    """The name of a tool; a model may have called one that cannot be."""
    return name if _NAME.fullmatch(name) else _ODD.sub("_", name)[:64] or "unknown"


def _renamed(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Replace the call ids of results with those that other models get."""
    return tuple(
        replace(
            message,
            content=tuple(
                replace(block, tool_use_id=_common_id(block.tool_use_id)) if isinstance(block, ToolResult) else block
                for block in message.content
            ),
        )
        for message in messages
    )


def _blank(block: Block, dialect: str) -> bool:
    """Whether a text is blank, which providers refuse. Gemini signs its thoughts on empty texts: those are kept."""
    if not isinstance(block, Text) or block.text.strip():
        return False
    return not (block.extra and dialect == "gemini")


def _results(messages: tuple[Message, ...], missing: frozenset[str]) -> tuple[Message, ...]:
    """The answers to a turn's calls, without those to calls that are left out."""
    out = []
    for message in messages:
        content = tuple(_result(block) for block in message.content if _answers(block) not in missing)
        if content or message.extra or not message.content:
            out.append(replace(message, content=content))
    return tuple(out)


def _answers(block: Block) -> str | None:
    if isinstance(block, ToolResult):
        return block.tool_use_id
    return block.call_id if isinstance(block, Opaque) else None


def _result(block: Block) -> Block:
    if not isinstance(block, ToolResult):
        return block
    content = tuple(inner for inner in block.content if not (isinstance(inner, Text) and not inner.text.strip()))
    return block if len(content) == len(block.content) else replace(block, content=content)


def coalesce(rendered: Iterable[tuple[bool, tuple[Message, ...]]]) -> tuple[Message, ...]:
    """The messages of entries, in order; each entry says whether a new message has to begin with it.

    An entry that renders to nothing passes its border on to the next one.
    """
    out: list[Message] = []
    border = False
    for begins, messages in rendered:
        border = border or begins
        for message in messages:
            if out and not border and _join(out[-1], message):
                out[-1] = Message("user", out[-1].content + message.content)
            else:
                out.append(message)
            border = False
    return tuple(out)


def _join(before: Message, after: Message) -> bool:
    return before.role == after.role == "user" and not before.extra and not after.extra
