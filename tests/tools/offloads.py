"""Tools and an offloader to store their results with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.records import Block, Text
from holdfast.tools.contract import Tool, ToolContext, ToolOutput
from holdfast.tools.offload import Offloader


async def nothing(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput()


def tool(name: str = "run_command", **members: Any) -> Tool:
    return Tool(name=name, description="", run=nothing, effect="read", **members)


def only(blocks: tuple[Block, ...]) -> str:
    assert len(blocks) == 1
    assert isinstance(blocks[0], Text)
    return blocks[0].text


def stored(offloader: Offloader, text: str, name: str = "run_command", call: str = "toolu_01") -> tuple[str, Path]:
    blocks, gone = offloader.store(tool(name), call, (Text(text),))
    return only(blocks), Path(gone.path)


def stays(offloader: Offloader, tool: Tool, *blocks: Block, exempt: bool = False) -> bool:
    kept, gone = offloader.store(tool, "toolu_01", blocks, exempt=exempt)
    assert (kept is blocks) == (gone is None)
    return kept is blocks


def numbered(count: int) -> str:
    """A text in which every place can be told from every other."""
    return "".join(f"{number:07d}\n" for number in range(count // 8 + 1))[:count]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
