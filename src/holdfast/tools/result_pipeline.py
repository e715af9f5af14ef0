"""What is done to a successful output before it is a result: long ones are offloaded, then guides are appended.

In this order, so that a guide is never cut off or sent to disk. For failed calls nothing here is called: their text
reaches the model as it is, and the guide waits for the first success.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.records import Opaque, Text, ToolUse
from holdfast.records.events import Event, GuideDelivered, ToolOffloaded

from .contract import Tool, ToolContext, ToolOutput
from .guides import Guides
from .offload import Offloader

EXEMPT = "exempt_from_offload"
"""In the metadata of an output that was read from an offloaded result: it is not offloaded again."""


def finish(
    tool: Tool, tool_use_id: str, output: ToolOutput, *, offloader: Offloader | None, guides: Guides | None
) -> tuple[ToolOutput, tuple[Event, ...]]:
    """The output as it shall be answered, and what there is to tell. The same output where nothing is to be done.

    What an MCP server says about itself does not exempt it.
    """
    told: list[Event] = []
    before = blocks = output.blocks
    if offloader is not None:
        exempt = tool.source != "mcp" and output.metadata.get(EXEMPT) is True
        blocks, gone = offloader.store(tool, tool_use_id, blocks, exempt=exempt)
        if gone is not None:
            told.append(
                ToolOffloaded(tool=tool.name, tool_use_id=tool_use_id, characters=gone.characters, path=gone.path)
            )
    if guides is not None and not any(isinstance(block, Opaque) for block in blocks):  # references stand alone
        given = guides.take(tool.name, tool.guide)
        if given:
            blocks = (*blocks, *given)
        told += [GuideDelivered(tool=tool.name, tool_use_id=tool_use_id) for _ in given]
    if blocks is before:
        return output, tuple(told)
    return msgspec.structs.replace(output, content=blocks), tuple(told)


def shaper(
    offloader: Offloader | None, guides: Guides | None
) -> Callable[[Tool, ToolUse, ToolOutput, ToolContext], ToolOutput]:
    """What a dispatcher calls for each successful output."""

    def shape(tool: Tool, call: ToolUse, output: ToolOutput, context: ToolContext) -> ToolOutput:
        shaped, told = finish(tool, call.id, output, offloader=offloader, guides=guides)
        for event in told:
            context.tell(event)
        return shaped

    return shape


def shortener(offloader: Offloader) -> Callable[[Tool, ToolUse, str, ToolContext], str]:
    """What a dispatcher calls for the text of an error: one over the limit goes to disk as a result would, and gets no
    guide."""

    def shorten(tool: Tool, call: ToolUse, text: str, context: ToolContext) -> str:
        (first, *_), gone = offloader.store(tool, call.id, (Text(text),))
        if gone is not None:
            context.tell(ToolOffloaded(tool=tool.name, tool_use_id=call.id, characters=gone.characters, path=gone.path))
        return first.text if isinstance(first, Text) else text

    return shorten
