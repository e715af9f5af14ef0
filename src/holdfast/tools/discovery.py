"""discover_tools and call_tool: how a model comes to tools that are not declared.

discover_tools asks the owner of the tools array what may be found, looks among it, and answers with what that owner
makes of the finds. call_tool is a name under which others are called; what it means is resolved before anything runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import Block, Message, Text
from holdfast.records.events import ToolDiscovered

from .carriers import loaded_text
from .contract import CALL_TOOL, DISCOVER_TOOLS, Tool, ToolContext, ToolExecutionError, ToolOutput
from .search import ToolIndex, ToolMatches
from .text_limits import shown

if TYPE_CHECKING:
    from .toolset import ToolSet

DEFAULT, MOST = 5, 20
_LISTED = 20

_DISCOVER = (
    "Find tools that are not loaded yet and make them callable. The query is words for what you want to do, the name "
    "of a server for its tools, or `select:name,name` for tools whose names you know."
)
_DISCOVER_INPUT = (
    b'{"type":"object","properties":{"query":{"type":"string"},'
    b'"limit":{"type":"integer","minimum":1,"maximum":20,"default":5}},'
    b'"required":["query"],"additionalProperties":false}'
)
_CALL = f"Call a tool that {DISCOVER_TOOLS} has found, by its name and with its own arguments."
_CALL_INPUT = (
    b'{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},'
    b'"required":["name","arguments"],"additionalProperties":false}'
)


def discovery_tools(toolset: ToolSet) -> tuple[Tool, Tool]:
    """discover_tools and call_tool for a session's tools."""
    discover = Tool(
        name=DISCOVER_TOOLS,
        description=_DISCOVER,
        run=Discovery(toolset).run,
        effect="read",
        input_schema=_DISCOVER_INPUT,
        source="builtin",
        core=True,
        exempt=True,  # schemas on disk would help nobody
    )
    call = Tool(
        name=CALL_TOOL,
        description=_CALL,
        run=_unresolved,
        effect="none",
        input_schema=_CALL_INPUT,
        source="builtin",
        core=True,
    )
    return discover, call


class Discovery:
    """A search among the deferred tools of a session. The index is made anew when they have changed."""

    def __init__(self, toolset: ToolSet) -> None:
        self._toolset = toolset
        self._index: tuple[int, ToolIndex] | None = None

    async def run(self, input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        query = str(input.get("query", ""))
        limit = min(MOST, max(1, int(input.get("limit", DEFAULT))))
        try:
            matches, index = await self._find(query, limit)
        except HoldfastError as error:
            raise ToolExecutionError(str(error)) from error
        declared = [name for name in matches.unknown if name in self._toolset.declared]
        matches = replace(matches, unknown=tuple(name for name in matches.unknown if name not in declared))
        if not matches.tools and not declared:
            return ToolOutput(content=_no_match(query, matches, index), metadata=_metadata(matches, (), ()))
        return self._answer(matches, declared, context)

    async def _find(self, query: str, limit: int) -> tuple[ToolMatches, ToolIndex]:
        """What is found among the tools of this moment: they may change while an index is made."""
        while True:
            version = self._toolset.version
            if self._index is None or self._index[0] != version:
                self._index = version, ToolIndex(self._toolset.findable())
            index = self._index[1]
            matches = await asyncio.to_thread(index.find, query, limit) if index.unbuilt else index.find(query, limit)
            if self._toolset.version == version:
                return matches, index

    def _answer(self, matches: ToolMatches, declared: Sequence[str], context: ToolContext) -> ToolOutput:
        """Answer a search. Tools found before are in the history already and only named, like declared ones. A tool
        requested by name that is only in an earlier answer is sent again: the model may not have it any more."""
        toolset = self._toolset
        before = set(toolset.recent)
        names = tuple(tool.name for tool in matches.tools if tool.name not in before)
        again = matches.selected and toolset.carrier != "redeclare"
        if again:
            toolset.lost(tool.name for tool in matches.tools)
        requested = [tool for tool in matches.tools if again or tool.name not in before]
        callable_names = [*(tool.name for tool in matches.tools if tool not in requested), *declared]
        blocks: tuple[Block, ...] = (Text(loaded_text(callable_names)),)
        messages: tuple[Message, ...] = ()
        if requested:
            discovered = toolset.discover(requested)
            blocks, messages = discovered.blocks, discovered.messages
        beside = callable_names if requested else ()
        if names:
            context.emit(ToolDiscovered(tools=names, tool_use_id=context.tool_use_id or None))
        return ToolOutput(
            content=_with_note(blocks, _note(matches, beside)),
            messages=messages,
            metadata=_metadata(matches, names, declared),
        )


def _with_note(blocks: tuple[Block, ...], note: str) -> tuple[Block, ...]:
    """Add a note after a text answer. References have to be alone."""
    return (*blocks, Text(note)) if note and all(isinstance(block, Text) for block in blocks) else blocks


def _note(matches: ToolMatches, beside: Sequence[str]) -> str:
    lines = []
    if beside:
        lines.append(f"Callable already: {', '.join(beside)}.")
    if matches.unknown:
        lines.append(_missing(matches.unknown))
    if matches.more:
        lines.append(f"{matches.more} more tool(s) of this server are left out; raise the limit or search by words.")
    return "\n".join(lines)


def _missing(names: Sequence[str]) -> str:
    listed = ", ".join(shown(name) for name in names[:_LISTED])
    return f"There is no tool named {listed}{', …' if len(names) > _LISTED else ''} to be found."


def _no_match(query: str, matches: ToolMatches, index: ToolIndex) -> str:
    """Why nothing is found, and what there is."""
    if not index.tools:
        return "There are no further tools to be found: all that exist are declared."
    problem = _missing(matches.unknown) if matches.unknown else f"No tool matches {shown(query)!r}."
    among = ""
    if index.servers:
        listed = ", ".join(index.servers[:_LISTED]) + (", …" if len(index.servers) > _LISTED else "")
        among = f" of the server(s) {listed}" if all(tool.server for tool in index.tools) else f", also of {listed}"
    return f"{problem} {len(index.tools)} tool(s) can be found{among}: try other words, or the name of a server."


def _metadata(matches: ToolMatches, fresh: Sequence[str], declared: Sequence[str]) -> dict[str, Any]:
    """For the trace and for those who watch: all that was found, what of it is `new`, what was asked for by its name
    and is declared anyway."""
    return {
        "found": [tool.name for tool in matches.tools],
        "declared": list(declared),
        "new": list(fresh),
        "unknown": list(matches.unknown[:_LISTED]),
        "more": matches.more,
    }


async def _unresolved(input: Mapping[str, Any], context: ToolContext) -> NoReturn:
    raise ToolExecutionError(
        f"{CALL_TOOL} was not resolved to the tool it names, so nothing was done. Call the tool by its own name."
    )
