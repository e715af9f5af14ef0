"""From a window to messages: a pure function of its entries and what is fixed for the session.

No clock, no locale, no randomness, no state of anything that runs; times come from the entries.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from holdfast.canonical import (
    Block,
    Message,
    Opaque,
    RedactedThinking,
    Text,
    Thinking,
    ToolResult,
)

from .coalescing import coalesce
from .entries import (
    AssistantTurn,
    AttemptFeedback,
    Compacted,
    Context,
    Entry,
    GoalInjection,
    SessionContext,
    Static,
    Window,
)
from .wording import CONTINUE, NO_TEXT, goal_text, item_blocks


def render(window: Window, static: Static) -> tuple[Message, ...]:
    """The messages of a request, without those that somebody appends for this request alone."""
    return coalesce(
        (border, entry_messages(entry, static)) for entry, border in zip(window.entries, window.borders, strict=True)
    )


def entry_messages(entry: Entry, static: Static) -> tuple[Message, ...]:
    """What one entry comes to by itself."""
    match entry:
        case SessionContext():
            return _said(entry.text) if entry.text.strip() else ()
        case Context():
            blocks = tuple(block for item in entry.items for block in item_blocks(item, static.timezone))
            return (Message("user", blocks),) if blocks else _said(CONTINUE)
        case Compacted() | AttemptFeedback():
            return _said(entry.text if entry.text.strip() else NO_TEXT)
        case GoalInjection():
            return _said(goal_text(entry.text))
        case AssistantTurn():
            return _turn(entry, static)
        case _:
            assert_never(entry)


def _said(text: str) -> tuple[Message, ...]:
    return (Message("user", (Text(text),)),)


def _turn(turn: AssistantTurn, static: Static) -> tuple[Message, ...]:
    own = (turn.model, turn.dialect) == (static.model, static.dialect)
    content = turn.message.content if own else tuple(_plain(block) for block in turn.message.content if _open(block))
    content = _ending_with_words(tuple(block for block in content if not _blank(block, turn.dialect)))
    said = Message("assistant", content or (Text(NO_TEXT),), turn.message.extra if own else ())
    return (said, *_results(turn.results, frozenset() if own else _sealed_calls(turn.message)))


def _open(block: Block) -> bool:
    """What others can read too, beside the model that said it."""
    return not isinstance(block, Thinking | RedactedThinking | Opaque)


def _sealed_calls(message: Message) -> frozenset[str]:
    return frozenset(block.call_id for block in message.content if isinstance(block, Opaque) and block.call_id)


def _ending_with_words(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Without thoughts that nothing followed, because the answer was cut: providers refuse a message that ends so."""
    end = len(content)
    while end and isinstance(content[end - 1], Thinking | RedactedThinking):
        end -= 1
    return content[:end]


def _plain(block: Block) -> Block:
    return block if isinstance(block, Opaque) or not block.extra else replace(block, extra=())


def _blank(block: Block, dialect: str) -> bool:
    """A text that providers refuse. Gemini seals its thoughts with empty texts: there it is what stands beside them
    that counts."""
    if not isinstance(block, Text) or block.text.strip():
        return False
    return not (block.extra and dialect == "gemini")


def _results(messages: tuple[Message, ...], gone: frozenset[str]) -> tuple[Message, ...]:
    """The answers to a turn's calls, without those to calls that are left out."""
    out = []
    for message in messages:
        kept = tuple(_result(block) for block in message.content if _answers(block) not in gone)
        if kept or message.extra or not message.content:
            out.append(replace(message, content=kept))
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
