"""Toolboxes and dispatchers around real parts, made from options by their names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.config.sections.agent import ConfirmSettings, ToolsSettings
from holdfast.records import Opaque, Text, ToolResult, ToolUse, canonical_json
from holdfast.records.events import Bus, Envelope
from holdfast.tools.contract import RefusedCall, ResolvedCall, Tool
from holdfast.tools.dispatcher import CallServices, Dispatcher
from holdfast.tools.journal import ToolJournal
from holdfast.tools.results import ResultPipeline
from holdfast.tools.toolbox import Toolbox, ToolHost, ToolSession, ToolSources
from holdfast.tools.validation import read_input, unknown
from holdfast.tools.workspace import Workspace

MODEL = "anthropic:claude-opus-4-6"
ALLOW = ToolsSettings(confirm=ConfirmSettings(mode="allow"))


def _take(record: Any, options: dict[str, Any]) -> dict[str, Any]:
    return {name: options.pop(name) for name in record.__struct_fields__ if name in options}


def toolbox(tools: Iterable[Tool | Opaque] = (), **options: Any) -> Toolbox:
    """A Toolbox; options that are none of its own are fields of its session, sources or host."""
    options = {"model": MODEL, "id": options.pop("session", "s"), **options}
    records = {
        "session": ToolSession(**_take(ToolSession, options)),
        "sources": ToolSources(**_take(ToolSources, options)),
        "host": ToolHost(**_take(ToolHost, options)),
    }
    return Toolbox(tools, **records, **options)


def by_name(tools: Mapping[str, Tool]) -> Callable[[ToolUse], ResolvedCall | RefusedCall]:
    """A look-up in these tools."""

    def resolve(call: ToolUse) -> ResolvedCall | RefusedCall:
        tool = tools.get(call.name)
        if tool is None:
            return unknown(call.name, tools)
        members = read_input(call)
        return members if isinstance(members, RefusedCall) else ResolvedCall(tool, members)

    return resolve


class _Shaped(ResultPipeline):
    """Does to outputs what a test says."""

    def __init__(self, shape: Callable[..., Any]) -> None:
        super().__init__(None, None)
        self.shape = shape  # type: ignore[method-assign]


def dispatcher(root: Path | Workspace, resolve: Any = None, **options: Any) -> Dispatcher:
    """A dispatcher of these tools by name, or with this look-up; other options are services of its calls."""
    if "shape" in options:
        options["results"] = _Shaped(options.pop("shape"))
    journal = ToolJournal(options.pop("bus", None), options.pop("session", "s"))
    return Dispatcher(
        by_name(resolve) if isinstance(resolve, Mapping) else resolve,
        workspace=root if isinstance(root, Workspace) else Workspace(root),
        settings=options.pop("settings", ALLOW),
        journal=journal,
        services=CallServices(**_take(CallServices, options)),
        **options,
    )


class Room:
    """A workspace and a home with sessions in them, and every event of these."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.home = root / "work", root / "home" / ".holdfast"
        self.workspace.mkdir(exist_ok=True)
        self.bus = Bus()
        self._subscription = self.bus.subscribe()
        self.envelopes: list[Envelope] = []

    def open(self, tools: Iterable[Tool | Opaque] = (), **options: Any) -> Toolbox:
        options = {"builtins": False, "bus": self.bus, **options}
        return toolbox(tools, workspace=self.workspace, home=self.home, **options)

    def events(self) -> list[Envelope]:
        """All events so far."""
        self.envelopes += self._subscription.drain()
        return self.envelopes

    def payloads(self, kind: type) -> list[Any]:
        """The events of one type that came since the last look."""
        return [envelope.payload for envelope in self._subscription.drain() if isinstance(envelope.payload, kind)]


def call(name: str, id: str = "c1", /, **given: Any) -> ToolUse:
    return ToolUse(id, name, canonical_json(json.dumps(given).encode()))


def do(box: Toolbox, *calls: ToolUse, turn: str | None = "t1") -> tuple[ToolResult, ...]:
    """The results of one turn."""
    return tuple(answer.result for answer in asyncio.run(box.run(calls, turn=turn)).answers)


def text(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, Text))
