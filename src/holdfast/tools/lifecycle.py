"""Which tools are used, and which have not been for so long that their definitions are not worth sending.

Use is read from the conversation itself: from the calls that stand in assistant messages. A demotion changes the tools
array, so it waits for a reset or has to pay for the one it causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256

from msgspec import Struct

from holdfast.config.sections import ToolsSettings
from holdfast.core import requests_to_edit
from holdfast.facts import ModelFacts
from holdfast.lru import LRU
from holdfast.records import Block, Message, Opaque, ToolUse
from holdfast.wire import object_of, string_of

from .carriers import unwrapped
from .contract import CALL_TOOL, RefusedCall, Tool
from .deferral import pinned

REMEMBERED = 20_000
"""Calls that are recognised when they are observed again. An older one counts twice, which only keeps its tool."""

_MARK = 8  # bytes by which a call is recognised


class ToolUsageState(Struct, frozen=True, kw_only=True):
    """What has been counted: turns, calls by tool, the turn since which a tool is idle, and the calls seen."""

    turns: int = 0
    uses: dict[str, int] = {}
    since: dict[str, int] = {}
    seen: bytes = b""


class ToolUsage:
    """Counts the calls of one session by tool, besides those of `earlier` ones. Each call counts once."""

    def __init__(self, state: ToolUsageState | None = None, *, earlier: Mapping[str, int] | None = None) -> None:
        state = state or ToolUsageState()
        self._earlier = dict(earlier or {})
        self._turns = state.turns
        self._uses = dict(state.uses)
        self._since = dict(state.since)
        self._seen = LRU[bytes, None](REMEMBERED)
        for at in range(0, len(state.seen), _MARK):
            self._seen[state.seen[at : at + _MARK]] = None

    @property
    def uses(self) -> Mapping[str, int]:
        return self._uses

    def total(self, name: str) -> int:
        """The calls of a tool in this session and earlier ones."""
        return self._uses.get(name, 0) + self._earlier.get(name, 0)

    @property
    def state(self) -> ToolUsageState:
        return ToolUsageState(
            turns=self._turns, uses=dict(self._uses), since=dict(self._since), seen=b"".join(self._seen)
        )

    def observe(self, messages: Iterable[Message], *, fresh: bool = False) -> None:
        """Count the calls in these messages, also where a conversation is handed over whole again and again. `fresh`
        ones were made just now: some dialects give the same call the same id on every turn."""
        for message in messages:
            if message.role != "assistant":
                continue
            for block in message.content:
                call = _call(block)
                if call is not None:
                    self._count(*call, fresh)

    def _count(self, name: str, mark: bytes, fresh: bool) -> None:
        if mark in self._seen and not fresh:
            return
        self._seen[mark] = None
        self._uses[name] = self._uses.get(name, 0) + 1
        self._since[name] = self._turns + 1  # the turn of the call is none without it

    def turn(self) -> None:
        """Count a finished turn."""
        self._turns += 1

    def first_seen(self, names: Iterable[str]) -> None:
        """These tools are there from now on: none is idle for longer than the model could call it."""
        for name in names:
            self._since.setdefault(name, self._turns)

    def forget(self, name: str) -> None:
        """A tool that the model never knew is gone: a server may invent names for ever."""
        if name not in self._uses:
            self._since.pop(name, None)

    def note_callable(self, names: Iterable[str]) -> None:
        """These tools can be called from now on."""
        for name in names:
            self._since[name] = max(self._turns, self._since.get(name, 0))

    def idle(self, names: Iterable[str]) -> dict[str, int]:
        """For how many turns each of these was not called; 0 for one that was never heard of."""
        return {name: max(0, self._turns - self._since.get(name, self._turns)) for name in names}


def _call(block: Block) -> tuple[str, bytes] | None:
    """The tool that a block calls, and what recognises the call. Ids alone do not: some dialects number them anew."""
    match block:
        case ToolUse(id=call, name=name, input=raw):
            target = unwrapped(block) if name == CALL_TOOL else RefusedCall("")
            return name if isinstance(target, RefusedCall) else target[0], _mark(call, name, raw)
        case Opaque(raw=raw, call_id=str(call)):  # a call of a kind that only its dialect knows
            tool = _name(raw)
            return None if tool is None else (tool, _mark(call, tool, raw))
    return None


def _name(raw: bytes) -> str | None:
    members = object_of(raw) or {}
    inner = next(
        (members_ for key in ("function", "custom", "functionCall") if (members_ := object_of(members.get(key, b"")))),
        members,
    )
    return string_of(inner.get("name"))


def _mark(*parts: str | bytes) -> bytes:
    texts = (part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in parts)
    return sha256(b"\0".join(texts)).digest()[:_MARK]


def demotions(tools: Sequence[Tool], settings: ToolsSettings, idle: Mapping[str, int]) -> dict[str, int]:
    """The tools that were not called for too many turns, with the turns: never core or pinned ones, and none where
    nothing is to be deferred."""
    if not settings.lifecycle.enabled or settings.deferral.mode == "never":
        return {}
    return {
        tool.name: idle[tool.name]
        for tool in tools
        if idle.get(tool.name, 0) >= settings.lifecycle.demote_after_turns
        and not tool.core
        and pinned(tool.name, settings.deferral) is None
    }


def pays(model: ModelFacts, *, behind: int, removed: int, requests: float) -> bool:
    """Rule 5.5: whether sending so many tokens less pays for writing everything `behind` again, within the requests
    that are still to be expected."""
    needed = requests_to_edit(Decimal(behind), Decimal(removed), model.read, model.write())
    return needed is not None and requests > needed
