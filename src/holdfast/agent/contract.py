"""What goes in and out of the agent: its host and provider, who watches it, and the result of a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from holdfast.engine import EngineCore
from holdfast.errors import HoldfastError
from holdfast.records import Message, ToolUse, Usage
from holdfast.records.events import Bus
from holdfast.store import Store
from holdfast.tools import Confirmer, GuideSection, Tool, ToolAnswer
from holdfast.tools.mcp import Hub
from holdfast.wire import Unreachable as Unreachable

from .window.entries import Status

Ended = Literal["completed", "cancelled", "failed", "capped"]
"""How a turn ended: answered, stopped by the user, without an answer, or after too many calls."""


class OutgoingRequest(Struct, frozen=True, kw_only=True):
    """A request as it leaves. `model` is `provider:name`; `raw` asks for a stream."""

    dialect: str
    model: str
    raw: bytes
    session: str = ""


class ProviderAnswer(Protocol):
    """An answer on its way. Header names are in lower case."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class SideRequest(Struct, frozen=True, kw_only=True):
    """A call to the provider beside the requests. `path` begins with the version of the API."""

    dialect: str
    method: str
    path: str
    query: Mapping[str, str] = {}
    raw: bytes = b""


class Provider(Protocol):
    """Where requests go: over HTTP, or to a simulator in this process. A connection that fails is `Unreachable`."""

    def open(self, request: OutgoingRequest) -> AbstractAsyncContextManager[ProviderAnswer]: ...


@runtime_checkable
class SideProvider(Protocol):
    """A provider that takes calls beside the requests too; without it Gemini's cached contents cannot be made."""

    async def send(self, request: SideRequest) -> tuple[int, bytes]:
        """Status and body of the answer."""


class KeyMissing(HoldfastError):
    """There is no key for a service; another model may have one."""


class Watch:
    """Callbacks for whoever watches a turn; each does nothing unless it is overridden."""

    def piece(self, kind: Literal["text", "thinking", "tool"], text: str) -> None:
        """A piece of the answer; for a call the tool's name."""

    def answered(self, message: Message, line: CostLine) -> None:
        """A request was answered completely."""

    def retrying(self, why: str, seconds: float) -> None:
        """The last request failed and will be retried after a pause; discard what was shown of its answer."""

    def calling(self, call: ToolUse) -> None:
        """A tool is about to run."""

    def output(self, call: str, text: str) -> None:
        """A running tool has written output."""

    def called(self, answer: ToolAnswer) -> None:
        """A tool has ended."""

    def notice(self, text: str) -> None:
        """Something the user should know: a change of the model, a compaction, what it costs."""


class CostLine(Struct, frozen=True, kw_only=True):
    """What one request or one turn cost and how well the cache served it."""

    model: str
    usage: Usage
    calls: int = 1
    cost: Decimal | None = None
    without: Decimal | None = None
    """The cost of the same tokens without a cache."""
    resets: tuple[str, ...] = ()
    breaks: int = 0
    short: int = 0
    """Tokens of the longest prompt, where nothing was cached because it is below the model's floor; else 0."""
    floor: int = 0
    """That floor."""

    @property
    def hit_rate(self) -> float | None:
        return self.usage.read / self.usage.prompt if self.usage.prompt else None


class Turn(Struct, frozen=True, kw_only=True):
    """What became of one message of the user's. `text` is the last answer; `problem` says why there is none."""

    id: str
    ended: Ended
    text: str = ""
    line: CostLine
    problem: str = ""
    delegated: Decimal = Decimal(0)
    """What sub-agents cost meanwhile; it is not in `line`."""


class Task(Struct, frozen=True, kw_only=True):
    """Work for a sub-agent. `role` says as whom it works and names its settings (`[agents.ROLE]`); `resume` is the id
    of one that has asked something, and `task` the answer then."""

    task: str
    role: str = "helper"
    resume: str | None = None


class DelegateResult(Struct, frozen=True, kw_only=True):
    """The result of a task. `question` is what it needs to know to continue; the status `started` is for one running in
    the background."""

    id: str
    role: str
    status: Status
    text: str = ""
    question: str = ""
    cost: Decimal | None = None
    usage: Usage
    used: tuple[int, ...] = ()
    """Calls and tokens, with those of its own sub-agents: input, read, written, output."""


class CompactionResult(Struct, frozen=True, kw_only=True):
    """What a compaction did, cost, and when it pays for itself: after `payback` more requests, None for never."""

    why: str
    tokens_before: int
    tokens_after: int
    elided: bool
    attempts: int
    cost: Decimal | None = None
    rewrite_cost: Decimal | None = None
    """What the next request costs more because everything after the summary is written again."""
    saved_per_request: Decimal | None = None
    payback: int | None = None


class InspectedBlock(Struct, frozen=True, kw_only=True):
    """One block of the next request, for those who look. `at` is when its content came about (None: before)."""

    path: str
    owner: str
    tokens: int
    at: float | None
    cached: bool
    head: str
    """Its beginning."""


class Host(Struct, frozen=True, kw_only=True):
    """What sessions run on."""

    provider: Provider
    engine: EngineCore
    store: Store | None = None
    """Where events and knowledge are kept; without one there is no knowledge."""
    bus: Bus | None = None
    """Receives events as they happen."""
    tenant: str = ""
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """How pauses between retries are waited for."""
    confirm: Confirmer | None = None
    """Asked before a tool changes something; without one such calls are refused."""
    hub: Hub | None = None
    """The connected MCP servers."""


class Equipment(Struct, frozen=True, kw_only=True):
    """What the host adds to, or replaces in, its agents."""

    tools: Sequence[Tool] = ()
    builtins: bool = True
    """Whether the built-in tools are declared too."""
    persona: str | None = None
    """Replaces the default persona."""
    guides: Mapping[str, str] | None = None
    """Texts by tool, shown with the first result of the tool; they replace built-in ones of the same name."""
    sections: Sequence[GuideSection] = ()
    """The same for several tools together."""
