"""What the program around an agent gives it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from holdfast.engine import EngineCore
from holdfast.records.events import Bus
from holdfast.store import Store
from holdfast.tools import Confirmer, GuideSection, Tool
from holdfast.tools.mcp import Hub

from .contract import Provider


class Host(Struct, frozen=True, kw_only=True):
    """What sessions run on."""

    provider: Provider
    engine: EngineCore
    store: Store | None = None
    """Where events and knowledge are kept; without one there is no knowledge."""
    bus: Bus | None = None
    """Who hears of events as they happen."""
    tenant: str = ""
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """How pauses between retries are waited for."""
    confirm: Confirmer | None = None
    """Asked before a tool changes something; without one such calls are refused."""
    hub: Hub | None = None
    """The connected MCP servers."""


class Equipment(Struct, frozen=True, kw_only=True):
    """What the host's agents have beside, or instead of, what ours have."""

    tools: Sequence[Tool] = ()
    builtins: bool = True
    """Whether the built-in tools are declared too."""
    persona: str | None = None
    """Takes the place of our persona."""
    guides: Mapping[str, str] | None = None
    """Texts by tool, shown with the first result of the tool; one of a name that ours have takes its place."""
    sections: Sequence[GuideSection] = ()
    """The same for several tools together."""
