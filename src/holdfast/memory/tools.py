"""memory_add, memory_replace and memory_consolidate: how an agent writes its two files.

They write without a question: nothing else is in these files, and they have limits. What a file says afterwards goes
out as an event with the answer, so that the conversation is told once, and only of what it goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.records.events import MemoryUpdated
from holdfast.tools import Run, Tool, ToolContext, ToolOutput, go_on, in_thread, schema, text

from .entries import AMNESIA
from .files import FILES, Change, MemoryFiles

MEMORY_ADD = "memory_add"
MEMORY_REPLACE = "memory_replace"
MEMORY_CONSOLIDATE = "memory_consolidate"

EMPTY = "(It is empty.)"
"""What is told of a file that says nothing any more: no text at all would not be told."""

_ADD = (
    "Remember one fact for later sessions, as one line: in USER.md (`user`) what is known of the user, in MEMORY.md "
    "(`memory`) notes about the project."
)
_REPLACE = "Replace a passage of USER.md or MEMORY.md that stands there exactly once. An empty `new` removes it."
_CONSOLIDATE = "Replace all of USER.md or MEMORY.md with a shorter text that keeps what matters."
_FILE = text(enum=list(FILES))


def memory_tools(files: MemoryFiles, *, amnesia: Callable[[], bool] = lambda: False) -> tuple[Tool, ...]:
    """The tools for these files. Their definitions are the same for any, also where nothing may be written."""

    def add(input: Mapping[str, Any]) -> Change:
        return files.add(input["file"], input["text"])

    def replace(input: Mapping[str, Any]) -> Change:
        return files.replace(input["file"], input["old"], input["new"])

    def consolidate(input: Mapping[str, Any]) -> Change:
        return files.consolidate(input["file"], input["text"])

    passage = text("As it stands there, to the letter", minLength=1)
    return (
        _tool(MEMORY_ADD, _ADD, {"text": text(minLength=1)}, add, amnesia),
        _tool(MEMORY_REPLACE, _REPLACE, {"old": passage, "new": text()}, replace, amnesia),
        _tool(MEMORY_CONSOLIDATE, _CONSOLIDATE, {"text": text()}, consolidate, amnesia),
    )


def _tool(
    name: str,
    description: str,
    members: Mapping[str, Mapping[str, Any]],
    change: Callable[[Mapping[str, Any]], Change],
    amnesia: Callable[[], bool],
) -> Tool:
    return Tool(
        name=name,
        description=description,
        run=_run(change, amnesia),
        effect="write",
        input_schema=schema({"file": _FILE, **members}),
        source="builtin",
        core=True,
        confirm=False,
    )


def _run(change: Callable[[Mapping[str, Any]], Change], amnesia: Callable[[], bool]) -> Run:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await in_thread(work, input, context)

    def work(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        go_on(context)
        if amnesia():
            raise HoldfastError(AMNESIA)
        made = change(input)
        event = MemoryUpdated(store=made.store, operation=made.operation, digest=made.digest, text=made.text or EMPTY)
        return ToolOutput(content=made.said, metadata={"store": made.store, "bytes": made.size}, events=(event,))

    return run
