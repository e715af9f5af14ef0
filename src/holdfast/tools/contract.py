"""The interface of tools: definition, context and output.

A tool is a frozen value around one asynchronous function. Everything that a call may touch comes in its `ToolContext`;
its result is a `ToolOutput`, or a `ToolExecutionError` whose text the model reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.records import Block, Extra, Message, Text, ToolResult, ToolUse
from holdfast.records.events import Event

if TYPE_CHECKING:
    from .workspace import Workspace

Effect = Literal["none", "read", "write", "execute", "network"]
"""What a call does to the world. `none` and `read` change nothing; `network` reads over the network unless its tool
`changes` something there. All of these run side by side; `write` and `execute` change something and run alone."""

Source = Literal["builtin", "host", "mcp"]

READ_ONLY: frozenset[Effect] = frozenset({"none", "read"})
MUTATING: frozenset[Effect] = frozenset({"write", "execute"})

DISCOVER_TOOLS = "discover_tools"
CALL_TOOL = "call_tool"
SKILL_LOAD = "skill_load"
MCP_PREFIX = "mcp__"


class ToolExecutionError(HoldfastError):
    """A call that did not succeed. The text is the answer that the model gets; `metadata` goes to the trace."""

    def __init__(self, message: str, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.metadata: Mapping[str, Any] = metadata or {}


class ToolOutput(Struct, frozen=True, kw_only=True):
    """The output of a call: `content` for the model, the rest for the trace.

    `messages` are appended to the conversation after the results of the turn, for providers that want late tools so.
    `events` are emitted once all calls of the turn are answered, and not at all if the turn is lost: they are true only
    if the answer gets into the conversation.
    """

    content: str | tuple[Block, ...] = ""
    metadata: Mapping[str, Any] = {}
    files_modified: tuple[str, ...] = ()
    command_executed: str | None = None
    messages: tuple[Message, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        if isinstance(self.content, str):
            return (Text(self.content),) if self.content else ()
        return self.content


class Cancel:
    """A signal set once for all calls of a turn. Thread-safe once a call waits for it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._said = False

    def set(self) -> None:
        self._said = True
        loop = self._loop
        if loop is None:
            self._event.set()
            return
        try:
            loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self._event.set()

    def is_set(self) -> bool:
        return self._said

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._event, self._loop = asyncio.Event(), loop
        if not self._said:
            await self._event.wait()


class ToolContext(Struct, kw_only=True):
    """What a call may access."""

    session: str
    turn: str | None = None
    tool_use_id: str = ""
    workspace: Workspace
    cancel: Cancel
    skills: Any = None
    memory: Any = None
    bus: Any = None
    emit: Callable[[Event], None] = lambda event: None  # under this session and turn
    stream: Callable[[str], None] = lambda text: None  # output for a user to watch; it never reaches the model


Run = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolOutput]]


class Touch(Struct, frozen=True):
    """A member of a tool's input that names a file or a directory, and what is done to it. `outside` also allows the
    session's skill and offload directories, for reading."""

    member: str
    access: Literal["read", "write"]
    outside: bool = False

    def named(self, input: Mapping[str, Any]) -> list[Any]:
        """Return the paths in an input: one, several or none."""
        value = input.get(self.member)
        return value if isinstance(value, list) else [] if value is None else [value]


class Tool(Struct, frozen=True, kw_only=True):
    """One tool.

    `input_schema` is canonical JSON text. `paths` are checked before a call is confirmed or run. `confirm` None asks
    for tools that write, execute or use the network. `subject` is what a call acts on: it is part of the question, and
    a stored decision covers exactly this; without one it covers the tool. `hints` are further search words. `changes`
    if a tool that uses the network changes something there, such as one that posts a message. `inline_chars` is the
    tool's own limit for results that stay inline; those of an `exempt` tool are never offloaded.
    """

    name: str
    description: str
    run: Run
    effect: Effect
    input_schema: bytes = b'{"type":"object"}'
    paths: tuple[Touch, ...] = ()
    source: Source = "host"
    server: str | None = None
    core: bool = False
    confirm: bool | None = None
    changes: bool = False
    subject: Callable[[Mapping[str, Any]], str] | None = None
    timeout_s: float | None = None
    guide: str | None = None
    hints: tuple[str, ...] = ()
    inline_chars: int | None = None
    exempt: bool = False
    extra: Extra = ()
    """Further members of its definition, as canonical JSON text."""

    @property
    def read_only(self) -> bool:
        """Whether a call runs without consent: it changes nothing and reads nothing but this machine."""
        return self.effect in READ_ONLY

    @property
    def mutating(self) -> bool:
        """Whether a call may change something, so that it runs while no other one does. A tool of an MCP server may,
        unless it is declared to read only."""
        return self.effect in MUTATING or (self.effect == "network" and (self.changes or self.source == "mcp"))


class ResolvedCall(Struct, frozen=True):
    """What a call means: this tool with this input. `via` is the tool that was named, where that is another."""

    tool: Tool
    input: Any
    via: str | None = None


class RefusedCall(Struct, frozen=True):
    """A call without a tool to run, and the text for the model. `invalid` if its input was the reason."""

    text: str
    invalid: bool = False


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """One call's end: the result for the model, and what is known of it. `tool` is the tool that ran."""

    result: ToolResult
    tool: str
    output: ToolOutput | None = None
    error: str | None = None
    cancelled: bool = False
    elapsed_us: int = 0


class SkillsInUse(Protocol):
    """A session's skills as its Toolbox and Dispatcher see them."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools to declare with the built-in ones."""

    @property
    def directories(self) -> Sequence[Path]:
        """Directories that may be read even though they are outside the workspace."""

    def used_by(self, session: str) -> None:
        """Bind the skills to this session's conversation; HoldfastError if they are bound to another one."""

    def begun(self, calls: Iterable[ToolUse]) -> None:
        """These calls are about to run."""

    def answered(self, answers: Iterable[ToolAnswer]) -> None:
        """These results are added to the conversation."""

    def lost(self, calls: Iterable[ToolUse]) -> None:
        """The results of these calls are lost."""

    def at_reset(self, kept: Iterable[Message]) -> None:
        """Keep only what these remaining messages of the conversation contain."""
