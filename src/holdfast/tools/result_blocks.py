"""What the model is told of a call: results that every provider takes, whatever a tool gave back.

Pure. Every answer carries the id of its call; an empty output and an empty error still say something.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.records import Block, Document, Image, Opaque, Text, ToolResult, ToolUse, kind_of

from .contract import Answer, ToolExecutionError, ToolOutput
from .text_limits import cut, mend

NO_OUTPUT = "(no output)"
NOT_BEGUN = "The call was cancelled before it began."
CANCELLED = "The call was cancelled before it ended; what it had done by then may remain."
CUT = "The turn was cut before this call was answered; it may have run in part or not at all."

_INSIDE = (Text, Image, Document, Opaque)


def content(output: ToolOutput, tool: str) -> tuple[Block, ...]:
    """The blocks of an output as they can stand in a result; ToolExecutionError where some cannot."""
    found = output.content
    if isinstance(found, str):
        found = (Text(found),)
    if not isinstance(found, (tuple, list)):
        raise _unusable(tool, f"content of the type {type(found).__name__}")
    blocks = tuple(block for each in found if (block := _legal(each, tool)) is not None)
    return blocks or (Text(NO_OUTPUT),)


def _legal(block: object, tool: str) -> Block | None:
    """A block with text that is valid Unicode; None for one that says nothing, which some providers refuse."""
    if not isinstance(block, _INSIDE):
        what = kind_of(block) if isinstance(block, Block) else type(block).__name__
        raise _unusable(tool, f"a block of the kind {what}")
    if isinstance(block, Opaque):
        return block
    if isinstance(block, Text) and isinstance(block.text, str) and not block.text.strip():
        return None
    changes = {}
    for field in block.__struct_fields__:
        value = getattr(block, field)
        if isinstance(value, str):
            if (better := mend(value)) != value:
                changes[field] = better
        elif field != "extra" and (value is not None or isinstance(block, Text)):
            raise _unusable(tool, f"a block whose {field} is not text")
    return msgspec.structs.replace(block, **changes) if changes else block


def _unusable(tool: str, what: str) -> ToolExecutionError:
    return ToolExecutionError(f"{tool} ran, but what it returned cannot be shown: {what}.")


def shortened(blocks: tuple[Block, ...], limit: int) -> tuple[Block, ...]:
    """Blocks whose texts are no longer than this."""
    return tuple(
        msgspec.structs.replace(each, text=cut(each.text, limit)) if isinstance(each, Text) else each for each in blocks
    )


def text_of(blocks: tuple[Block, ...]) -> str:
    """Blocks as one text, for the trace."""
    return "\n".join(each.text if isinstance(each, Text) else f"[{kind_of(each)}]" for each in blocks)


def success(call: ToolUse, tool: str, output: ToolOutput, elapsed_us: int) -> Answer:
    return Answer(result=ToolResult(call.id, output.blocks), tool=tool, output=output, elapsed_us=elapsed_us)


def failure(call: ToolUse, tool: str, text: str, *, cancelled: bool = False, elapsed_us: int = 0) -> Answer:
    text = mend(text) if text.strip() else f"{tool} failed and did not say why."
    result = ToolResult(call.id, (Text(text),), is_error=True)
    return Answer(result=result, tool=tool, error=text, cancelled=cancelled, elapsed_us=elapsed_us)


def cut_off(calls: Sequence[ToolUse]) -> tuple[Answer, ...]:
    """Answers for calls of a turn that was cut, so that the conversation can go on."""
    return tuple(failure(call, call.name, CUT, cancelled=True) for call in calls)
