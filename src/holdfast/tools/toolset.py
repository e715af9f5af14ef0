"""The one owner of a session's tools array: the declared tools, their order and bytes, and the meaning of a call.

A declared tool keeps its bytes until a reset, whatever happens to it: one that changes keeps its first definition, one
that vanishes stays and answers that it is unavailable, one that comes late is found by discover_tools and called
through the session's carrier. Knows nothing of how tools run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.config.sections import DeferralSettings, ToolsSettings
from holdfast.errors import HoldfastError
from holdfast.records import Extra, Message, Opaque, ToolDefinition, ToolUse, encode_string
from holdfast.wire import arr, obj, object_of, string_of

from . import deferral
from .carriers import (
    Carrier,
    DiscoveryAnswer,
    answer,
    answered,
    carrier_of,
    definition_of,
    input_of,
    loaded,
    unwrapped,
    waiting,
)
from .contract import CALL_TOOL, DISCOVER_TOOLS, RefusedCall, ResolvedCall, Tool
from .deferral import DeferralPolicy, arrange, size_of
from .discovery import discovery_tools
from .lifecycle import ToolUsage, demotions, pays
from .text_limits import shown
from .validation import unknown

GONE = "nothing offers it at the moment"
"""The default reason why a tool is unavailable."""


class ToolSetState(Struct, frozen=True, kw_only=True):
    """Everything that is needed to render the same tools after a restart."""

    model: str
    dialect: str
    carrier: Carrier
    declared: tuple[ToolDefinition | Opaque, ...] = ()  # the array in order
    deferred: tuple[ToolDefinition, ...] = ()  # what may be found
    discovered: tuple[str, ...] = ()  # what was found
    recent: tuple[str, ...] = ()  # what was found since the last reset
    vanished: dict[str, str] = {}  # why tools that the model knows are unavailable


class Redeclared(Struct, frozen=True, kw_only=True):
    """What changed in the array, by name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()  # had vanished
    deferred: tuple[str, ...] = ()
    demoted: tuple[tuple[str, int], ...] = ()  # with the turns they were idle
    changed: tuple[str, ...] = ()  # have another definition


class ToolSet:
    """The tools of one session. `tools` are those that exist now and the provider's own; `state` is that of the same
    session before a restart, and wins as long as the model is the same.

    discover_tools has to be declared from the beginning, because adding it later would lose the prefix. It is where
    something is deferred or a tool comes from an MCP server, whose list may change; `discovery` true declares it in any
    case (servers that have yet to answer), false never: then nothing is deferred, and what comes late is declared at
    the next reset.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Opaque],
        *,
        settings: ToolsSettings,
        model: str,
        dialect: str,
        usage: ToolUsage | None = None,
        discovery: bool | None = None,
        state: ToolSetState | None = None,
    ) -> None:
        self.settings, self.dialect = settings, dialect
        self.facts = facts.model(model)
        same = state is not None and (state.model, state.dialect) == (self.facts.ref, dialect)
        self.carrier: Carrier = (
            state.carrier if state and same else carrier_of(self.facts, dialect, settings.deferral.carrier)
        )
        self.usage = usage or ToolUsage()
        self.version = 0
        self._discovery = discovery
        items = tuple(tools)
        self._server_tools = tuple(item for item in items if isinstance(item, Opaque))
        self._tools = _by_name((item for item in items if isinstance(item, Tool)), self._server_tools)
        self._own = self._discovery_tools()
        self._declared: tuple[ToolDefinition | Opaque, ...] = ()
        self._deferred: dict[str, ToolDefinition] = {}
        self._discovered: dict[str, None] = {}
        self._recent: dict[str, None] = {}
        self._vanished: dict[str, str] = {}
        if state is not None and same:
            self._restore(state)
        elif state is not None:
            self._follow(state)
        else:
            self._plan()
        self.usage.first_seen(self._tools)

    def another(self, model: str, dialect: str, before: ToolSetState | None = None) -> ToolSet:
        """The same tools for another model, which had `before` if it was used before."""
        return ToolSet(
            (*self._tools.values(), *self._server_tools),
            settings=self.settings,
            model=model,
            dialect=dialect,
            usage=self.usage,
            discovery=self._discovery,
            state=self.state if before is None else before,
        )

    def _discovery_tools(self) -> dict[str, Tool]:
        """discover_tools, and call_tool where that carries; the caller's own if it brought some."""
        names = (DISCOVER_TOOLS, CALL_TOOL) if self.carrier == "call_tool" else (DISCOVER_TOOLS,)
        tools = {name: self._tools.pop(name) for name in (DISCOVER_TOOLS, CALL_TOOL) if name in self._tools}
        if any(name not in tools for name in names):
            tools = {tool.name: tool for tool in discovery_tools(self)} | tools
        return {name: tools[name] for name in names}

    # What a request declares

    def definitions(self) -> tuple[ToolDefinition | Opaque, ...]:
        """The tools array: built-in tools, the host's, those of MCP servers by name, the provider's own, and where the
        carrier refers to them, the deferred ones, which are no part of the prefix."""
        if self.carrier != "references":
            return self._declared
        return (*self._declared, *(waiting(definition) for definition in self._deferred.values()))

    def allowed(self) -> tuple[str, ...] | None:
        """The functions for OpenAI's `allowed_tools`, if a tool that the model knows has vanished: the array, and with
        it the prefix, stays as it is. Other providers refuse such a choice."""
        late = self._recent if self.carrier == "additional" else ()
        names = dict.fromkeys((*self.declared, *late))
        takes = self.facts.provider == "openai" and self.dialect.startswith("openai")
        if not takes or all(self._exists(name) for name in names):
            return None
        return tuple(name for name in names if self._exists(name))

    def choice(self) -> Extra:
        """The member of a request that allows these functions and the provider's own tools; none where all are allowed.
        A choice, not a definition: what it rules out stays declared and cached."""
        names = self.allowed()
        if names is None:
            return ()
        if self.dialect == "openai_chat":
            tools = [
                obj((("type", b'"function"'), ("function", obj((("name", encode_string(name)),))))) for name in names
            ]
            inner = obj((("mode", b'"auto"'), ("tools", arr(tools))))
            return (("tool_choice", obj((("type", b'"allowed_tools"'), ("allowed_tools", inner)))),)
        tools = [obj((("type", b'"function"'), ("name", encode_string(name)))) for name in names]
        own = [object_of(item.raw) or {} for item in self._declared if isinstance(item, Opaque)]
        tools += [
            obj(tuple((key, members[key]) for key in ("type", "name", "server_label") if key in members))
            for members in own
        ]
        return (("tool_choice", obj((("type", b'"allowed_tools"'), ("mode", b'"auto"'), ("tools", arr(tools))))),)

    @property
    def declared(self) -> tuple[str, ...]:
        """The names of the functions in the array that are part of the prefix."""
        return tuple(item.name for item in self._declared if isinstance(item, ToolDefinition))

    @property
    def deferred(self) -> tuple[str, ...]:
        """The names of the tools that exist and are not declared."""
        return tuple(name for name in self._deferred if name in self._tools)

    @property
    def state(self) -> ToolSetState:
        return ToolSetState(
            model=self.facts.ref,
            dialect=self.dialect,
            carrier=self.carrier,
            declared=self._declared,
            deferred=tuple(self._deferred.values()),
            discovered=tuple(self._discovered),
            recent=tuple(self._recent),
            vanished=dict(self._vanished),
        )

    # What a call means

    def resolve(self, call: ToolUse) -> ResolvedCall | RefusedCall:
        """The tool that a call means, with its input: declared, found, or named through call_tool."""
        if call.name != CALL_TOOL:
            tool = self._find(call.name)
            if isinstance(tool, RefusedCall):
                return tool
            members = input_of(call)
            return members if isinstance(members, RefusedCall) else ResolvedCall(tool, members)
        target = unwrapped(call)
        if isinstance(target, RefusedCall):
            return target
        name, arguments = target
        if name in deferral.DISCOVERY:
            return RefusedCall(f"{name} cannot be called through {CALL_TOOL}. Call it by its own name.")
        tool = self._find(name)
        return tool if isinstance(tool, RefusedCall) else ResolvedCall(tool, arguments, CALL_TOOL)

    def _find(self, name: str) -> Tool | RefusedCall:
        tool = (self._own if name in deferral.DISCOVERY else self._tools).get(name)
        if tool is None or not self._exists(name):
            why = self._vanished.get(name)
            return self._unknown(name) if why is None else RefusedCall(f"The tool {name} is unavailable: {why}.")
        if self.carrier != "call_tool" and name in self._deferred and name not in self._discovered:
            return RefusedCall(
                f"The tool {name} is not loaded yet. Call {DISCOVER_TOOLS} with the query `select:{name}`, then {name}."
            )
        return tool

    def _exists(self, name: str) -> bool:
        return name in self.declared if name in deferral.DISCOVERY else name in self._tools

    def _unknown(self, name: str) -> RefusedCall:
        names = [*self.declared, *self.deferred]
        inner = [full for full in names if full.endswith(f"__{name}")]  # called without the server it belongs to
        if inner:
            return RefusedCall(f"There is no tool named {shown(name)!r}. Did you mean {' or '.join(inner[:3])}?")
        return unknown(name, names)

    # Tools that are found

    def findable(self) -> tuple[Tool, ...]:
        """The deferred tools that exist now, also those that were found before."""
        return tuple(self._tools[name] for name in self.deferred)

    def discover(self, tools: Sequence[Tool]) -> DiscoveryAnswer:
        """These tools become callable. What the answer holds is the carrier's."""
        names = [name for name in dict.fromkeys(tool.name for tool in tools) if self._exists(name)]
        definitions = [self._deferred[name] for name in names if name in self._deferred]
        fresh = [definition.name for definition in definitions if definition.name not in self._recent]
        full = self.settings.deferral.strip == "when_cold"
        for definition in definitions:
            self._discovered[definition.name] = self._recent[definition.name] = None
        self.usage.note_callable(definition.name for definition in definitions)
        return answer(self.carrier, definitions, names, fresh=fresh, full=full)

    @property
    def recent(self) -> tuple[str, ...]:
        """The tools that the history holds the answer for."""
        return tuple(self._recent)

    def lost(self, names: Iterable[str]) -> None:
        """These were found, and the answer never got into the history: whoever searches gets it again."""
        for name in names:
            self._recent.pop(name, None)

    @property
    def pending(self) -> tuple[str, ...]:
        """What was found and has to be declared before the model can call it: with the carrier `redeclare` only."""
        if self.carrier != "redeclare":
            return ()
        return tuple(name for name in self._recent if name in self._deferred and name in self._tools)

    def redeclare(self) -> Redeclared | None:
        """Declare what is pending, after the others. Everything behind the tools is written again: announce the reset
        `tools_redeclared`."""
        late = self.pending
        if not late:
            return None
        self._declared = (*self._declared, *(self._deferred.pop(name) for name in late))
        self.version += 1
        return Redeclared(added=late)

    # Tools that come and go

    def add(self, tools: Iterable[Tool]) -> tuple[str, ...]:
        """Tools that came, or came back, or are described in another way; gives the names that were not there before.

        A new one is deferred. One that the model knows is callable again under the definition that it knows.
        """
        came = self._join(_by_name(tools))
        self.usage.first_seen(came)
        return came

    def _join(self, tools: Mapping[str, Tool]) -> tuple[str, ...]:
        for name, tool in tools.items():
            present = self._tools.get(name)
            if name in deferral.DISCOVERY or (
                present and (present.source, present.server) != (tool.source, tool.server)
            ):
                raise HoldfastError(f"two tools are named {name}; give one of them another name.")
        came = tuple(name for name in tools if name not in self._tools)
        declared = self.declared
        findable = DISCOVER_TOOLS in declared
        for name, tool in tools.items():
            self._tools[name] = tool
            self._vanished.pop(name, None)
            definition, before = definition_of(tool, self.dialect), self._deferred.get(name)
            referred = self.carrier == "references" and name in self._discovered  # its bytes are part of the history
            if findable and name not in declared and definition != before and not (before and referred):
                self._deferred[name] = definition
                if self.carrier != "redeclare":  # what an answer said of it is not true any more
                    self._recent.pop(name, None)
        self.version += 1
        return came

    def remove(self, names: Iterable[str], why: str = "") -> tuple[str, ...]:
        """Tools that are gone; gives those that were there. `why` completes "it is unavailable: "."""
        removed = tuple(name for name in dict.fromkeys(names) if name in self._tools)
        declared = self.declared
        for name in removed:
            del self._tools[name]
            if name in declared or name in self._discovered:
                self._vanished[name] = why or GONE
            else:
                self._deferred.pop(name, None)
                self.usage.forget(name)
        self.version += 1
        return removed

    # Resets

    def at_reset(self, kept: Iterable[Message] | None = ()) -> Redeclared | None:
        """The prefix is lost anyway: vanished tools leave, used discovered ones are declared, long unused ones are
        deferred, and any excess is decided anew. Returns what changed, None if the array is the same.

        `kept` are the messages that the conversation continues with, None for all of them: tools declared by an item in
        them are not declared a second time.
        """
        before = {item.name: item for item in self._declared if isinstance(item, ToolDefinition)}
        array = self._declared
        idle = demotions(list(self._tools.values()), self.settings, self.usage.idle(self._tools))
        recent = dict.fromkeys(self._recent if kept is None else self._loaded_names(tuple(kept)))
        used = [name for name in self._tools if self.usage.uses.get(name)]
        self._plan(keep=used, out=idle, recent=recent)
        if len(array) == len(self._declared) and all(item in array for item in self._declared):
            self._declared = array  # another order alone is worth no other bytes
            return None
        after = {item.name: item for item in self._declared if isinstance(item, ToolDefinition)}
        removed = [name for name in before if name not in after]
        return Redeclared(
            added=tuple(name for name in after if name not in before),
            removed=tuple(name for name in removed if name not in self._tools),
            deferred=tuple(name for name in removed if name in self._tools and name not in idle),
            demoted=tuple((name, idle[name]) for name in removed if name in idle),
            changed=tuple(name for name in after if before.get(name, after[name]) != after[name]),
        )

    def _loaded_names(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """What these messages hold the answer for: an item that declares it, or with `redeclare`, where nothing but the
        array does, the answer that named it."""
        return answered(messages, self._recent) if self.carrier == "redeclare" else loaded(messages)

    @property
    def unused(self) -> tuple[str, ...]:
        """The declared tools that were not used for so long that they are to be demoted, in the order of the array."""
        idle = demotions(list(self._tools.values()), self.settings, self.usage.idle(self.declared))
        return tuple(name for name in self.declared if name in idle)

    def demote(self, *, behind: int, requests: float) -> Redeclared | None:
        """The same without a reset, if that pays by what unused definitions cost: `behind` tokens are written again,
        and so many requests are still to be expected. Announce the reset `tools_redeclared`."""
        definitions = {item.name: item for item in self._declared if isinstance(item, ToolDefinition)}
        removed = sum(size_of(definitions[name]) for name in self.unused)
        if DISCOVER_TOOLS not in self.declared:  # what is left out has to be found, and called
            removed -= sum(size_of(definition_of(tool)) for tool in self._own.values())
        return self.at_reset(None) if pays(self.facts, behind=behind, removed=removed, requests=requests) else None

    @property
    def defined(self) -> frozenset[str]:
        """The tools defined elsewhere than in an answer of discover_tools: in the array, or in an item of the
        conversation."""
        late = () if self.carrier in ("call_tool", "redeclare") else self._recent
        return frozenset((*self.declared, *late))

    def _plan(self, *, keep: Collection[str] = (), out: Collection[str] = (), recent: Collection[str] = ()) -> None:
        """Decide anew which of the existing tools are declared or deferred. The history still contains the definitions
        of the `recent` ones."""
        definitions = {item.name: item for item in self._declared if isinstance(item, ToolDefinition)} | self._deferred
        items = (
            {name: definitions[name] for name in recent if name in definitions} if self.carrier == "additional" else {}
        )
        policy = DeferralPolicy(
            settings=self._pins(name for name in recent if name not in out),
            context_limit=self.facts.context_limit,
            uses={name: self.usage.total(name) for name in self._tools},
            keep=keep,
            out=out,
        )
        plan = arrange(
            [tool for name, tool in self._tools.items() if name not in items],
            tuple(self._own.values()),
            policy,
            dialect=self.dialect,
            wanted=True if DISCOVER_TOOLS in self.declared else self._discovery,
        )
        self._declared = (*plan.declared, *self._server_tools)
        self._deferred = {item.name: item for item in plan.deferred} | items
        # What an answer in the history refers to is part of it, also if it is gone and after another carrier meanwhile.
        vanished = [name for name in self._discovered if name not in self._tools]
        read = [name for name in recent if name in self._deferred] if self.carrier == "references" else []
        self._deferred.update((name, definitions[name]) for name in (*vanished, *read) if name in definitions)
        held = {*self.declared}.difference(out) if self.carrier == "redeclare" else self._deferred
        self._recent = {name: None for name in recent if name in held}
        self.version += 1

    def _pins(self, names: Iterable[str]) -> DeferralSettings:
        """Return the settings of deferral. With `redeclare` only the array makes a tool callable, so an answer in the
        history takes precedence over a pin."""
        settings = self.settings.deferral
        return replace(settings, never=(*settings.never, *names)) if self.carrier == "redeclare" else settings

    def _follow(self, state: ToolSetState) -> None:
        """Continue with another model. The array is decided anew; the history stays, and its references and definitions
        of tools are valid if the carrier is the same."""
        self._declared = state.declared
        self._deferred = {item.name: item for item in state.deferred}
        self._discovered = dict.fromkeys(state.discovered)
        names = (name for name in (*state.vanished, *self._discovered) if name not in self._tools)
        self._vanished = {name: state.vanished.get(name, GONE) for name in names}
        recent = state.recent if state.carrier == self.carrier else ()
        keep = [name for name in self._discovered if self.usage.uses.get(name)]
        self._plan(keep=keep, recent=recent)

    def _restore(self, state: ToolSetState) -> None:
        tools, self._tools = self._tools, {}
        self._declared = state.declared
        self._discovered = dict.fromkeys(state.discovered)
        self._recent = dict.fromkeys(state.recent)
        self._deferred = {
            item.name: item for item in state.deferred if item.name in tools or item.name in self._discovered
        }
        names = {name for name in (*self.declared, *self._discovered) if name not in deferral.DISCOVERY}
        self._vanished = {name: state.vanished.get(name, GONE) for name in sorted(names)}
        self._join(tools)


def _by_name(tools: Iterable[Tool], server_tools: Sequence[Opaque] = ()) -> dict[str, Tool]:
    by_name: dict[str, Tool] = {}
    taken = {string_of((object_of(tool.raw) or {}).get("name")) for tool in server_tools}
    for tool in tools:
        if tool.name in by_name or tool.name in taken:
            raise HoldfastError(f"two tools are named {tool.name}; give one of them another name.")
        by_name[tool.name] = tool
    return by_name
