"""From a tool's output to the model's input: valid blocks, long ones offloaded, guides appended.

Every answer carries the id of its call; an empty output or error still gets a text.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.records import Block, Document, Image, Opaque, Text, ToolResult, ToolUse, kind_of
from holdfast.records.events import GuideDelivered, ToolOffloaded

from .contract import Tool, ToolAnswer, ToolContext, ToolExecutionError, ToolOutput
from .guides import Guides
from .offload import Offloaded, Offloader
from .text_limits import cut, mend

NO_OUTPUT = "(no output)"
NOT_BEGUN = "The call was cancelled before it began."
CANCELLED = "The call was cancelled before it ended; what it had done by then may remain."
CUT = "The turn was cut before this call was answered; it may have run in part or not at all."

EXEMPT = "exempt_from_offload"
"""In the metadata of an output that was read from an offloaded result: it is not offloaded again."""

MAX_IMAGE_BYTES = 3_750_000
"""Five megabytes in base64, which is the least that providers allow for one image."""

_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_INSIDE = (Text, Image, Document, Opaque)


def content(output: ToolOutput, tool: str) -> tuple[Block, ...]:
    """The blocks of an output as they can stand in a result; ToolExecutionError where some cannot."""
    content_ = output.content
    if isinstance(content_, str):
        content_ = (Text(content_),)
    if not isinstance(content_, (tuple, list)):
        raise _unusable(tool, f"content of the type {type(content_).__name__}")
    blocks = tuple(block for each in content_ if (block := _legal(each, tool)) is not None)
    return blocks or (Text(NO_OUTPUT),)


def _legal(block: object, tool: str) -> Block | None:
    """A block with text that is valid Unicode; None for one that says nothing, which some providers refuse."""
    if not isinstance(block, _INSIDE):
        kind = kind_of(block) if isinstance(block, Block) else type(block).__name__
        raise _unusable(tool, f"a block of the kind {kind}")
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


def _unusable(tool: str, kind: str) -> ToolExecutionError:
    return ToolExecutionError(f"{tool} ran, but what it returned cannot be shown: {kind}.")


def shortened(blocks: tuple[Block, ...], limit: int) -> tuple[Block, ...]:
    """Return the blocks with texts cut to `limit`."""
    return tuple(
        msgspec.structs.replace(each, text=cut(each.text, limit)) if isinstance(each, Text) else each for each in blocks
    )


def text_of(blocks: tuple[Block, ...]) -> str:
    """Blocks as one text, for the trace."""
    return "\n".join(each.text if isinstance(each, Text) else f"[{kind_of(each)}]" for each in blocks)


def success(call: ToolUse, tool: str, output: ToolOutput, elapsed_us: int) -> ToolAnswer:
    return ToolAnswer(result=ToolResult(call.id, output.blocks), tool=tool, output=output, elapsed_us=elapsed_us)


def failure(call: ToolUse, tool: str, text: str, *, cancelled: bool = False, elapsed_us: int = 0) -> ToolAnswer:
    text = mend(text) if text.strip() else f"{tool} failed and did not say why."
    result = ToolResult(call.id, (Text(text),), is_error=True)
    return ToolAnswer(result=result, tool=tool, error=text, cancelled=cancelled, elapsed_us=elapsed_us)


def cut_off(calls: Sequence[ToolUse]) -> tuple[ToolAnswer, ...]:
    """Answers for calls of a turn that was cut, so that the conversation can go on."""
    return tuple(failure(call, call.name, CUT, cancelled=True) for call in calls)


class ResultPipeline:
    """Offloads long results, then appends guides: in this order, so that a guide is never cut off or sent to disk.

    A failed call gets no guide, which waits for the first success. Without an offloader or guides that step is skipped.
    """

    def __init__(self, offloader: Offloader | None, guides: Guides | None) -> None:
        self._offloader, self._guides = offloader, guides

    def shape(self, tool: Tool, call: ToolUse, output: ToolOutput, context: ToolContext) -> ToolOutput:
        """A successful output as it is answered; the same object where nothing is to be done. May block."""
        before = blocks = output.blocks
        if self._offloader is not None:
            # What an MCP server says about itself does not exempt it.
            exempt = tool.source != "mcp" and output.metadata.get(EXEMPT) is True
            blocks, offloaded = self._offloader.store(tool, call.id, blocks, exempt=exempt)
            _emit_offloaded(tool, call, offloaded, context)
        if self._guides is not None and not any(
            isinstance(block, Opaque) for block in blocks
        ):  # references stand alone
            guides = self._guides.take(tool.name, tool.guide)
            if guides:
                blocks = (*blocks, *guides)
            for _ in guides:
                context.emit(GuideDelivered(tool=tool.name, tool_use_id=call.id))
        return output if blocks is before else msgspec.structs.replace(output, content=blocks)

    def shorten(self, tool: Tool, call: ToolUse, text: str, context: ToolContext) -> str:
        """The text of an error: one over the limit is offloaded as a result would be. May block."""
        if self._offloader is None:
            return text
        (first, *_), offloaded = self._offloader.store(tool, call.id, (Text(text),))
        _emit_offloaded(tool, call, offloaded, context)
        return first.text if isinstance(first, Text) else text


def _emit_offloaded(tool: Tool, call: ToolUse, offloaded: Offloaded | None, context: ToolContext) -> None:
    if offloaded is not None:
        size, path = offloaded.characters, offloaded.path
        context.emit(ToolOffloaded(tool=tool.name, tool_use_id=call.id, characters=size, path=path))


def image_type(head: bytes) -> str | None:
    """Return the media type from a picture's first bytes: providers refuse a wrong one."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
