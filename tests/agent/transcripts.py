"""What requests hold: results, texts, and the bytes that a cache sees first."""

from __future__ import annotations

from holdfast.records import Message, Request, Text, ToolResult
from holdfast.wire import DIALECTS, Body


def newest_results(request: Request) -> list[str]:
    """The texts of the newest tool results."""
    blocks = [block for block in request.messages[-1].content if isinstance(block, ToolResult)]
    return ["\n".join(part.text for part in block.content if isinstance(part, Text)) for block in blocks]


def head_blocks(sent: tuple[str, str, bytes]) -> list[bytes]:
    """Tools and system text of a request, block by block, as the cache sees them."""
    dialect, model, raw = sent
    body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
    assert isinstance(body, Body)
    return [DIALECTS[dialect].content(body, n) for n, span in enumerate(body.blocks) if span.section != "messages"]


def results(request: Request) -> list[ToolResult]:
    return [block for message in request.messages for block in message.content if isinstance(block, ToolResult)]


def text_of(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, Text))


def texts(message: Message) -> list[str]:
    return [block.text for block in message.content if isinstance(block, Text)]


def same_head(one: Request, two: Request) -> bool:
    return (one.tools, one.system_prompt, one.system_prompt_volatile) == (
        two.tools,
        two.system_prompt,
        two.system_prompt_volatile,
    )
