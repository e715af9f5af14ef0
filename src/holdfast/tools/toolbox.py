"""One session's tools: what its requests declare, what a call does, and later changes of sent results.

Composes the parts that each have one job: the owner of the tools array, the dispatcher, offloading, guides, usage,
masking, processes. The runner of a conversation asks for `definitions`, passes the model's calls to `run`, counts
turns, and reports when the prefix is lost anyway. What a restart needs is in `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.config.sections import ToolsSettings
from holdfast.errors import HoldfastError
from holdfast.records import Extra, Message, Opaque, ToolDefinition, ToolUse
from holdfast.records.events import Bus, Envelope, Event, ToolDeferred, ToolDemoted, ToolMasked, utc_microseconds

from .builtin import Processes, builtin_tools
from .carriers import fitting
from .change_lock import Lock
from .confirmation import FILE as DECISIONS
from .confirmation import Confirmations, Confirmer
from .contract import Cancel, RefusedCall, ResolvedCall, SkillsInUse, Tool, ToolAnswer
from .dispatcher import CallServices, Dispatcher
from .guides import Guides, GuideSection
from .journal import ToolJournal
from .keys import Keys
from .lifecycle import ToolUsage, ToolUsageState
from .masking import Masker
from .mcp.configuration import APPROVALS_FILE
from .offload import OFFLOADS, Offloader, directory_of
from .results import ResultPipeline, cut_off
from .toolset import Redeclared, ToolSet, ToolSetState
from .workspace import Workspace

if TYPE_CHECKING:
    from holdfast.engine import EngineCore, Lane, PreparedCall, PrepareOptions
    from holdfast.store import Store
    from holdfast.wire import Body

    from .mcp import Hub

_SECRETS = ("access-key", "admin-token", "tenant-key")
_OURS = (OFFLOADS, DECISIONS, APPROVALS_FILE, "holdfast.toml", "holdfast.db", *_SECRETS)
"""What no tool may touch where HOLDFAST_HOME is the workspace itself; elsewhere all of it is closed."""

DIALECT_OF = {"anthropic": "anthropic", "openai": "openai_responses", "gemini": "gemini", "openrouter": "openrouter"}
"""The default dialect of a provider; all others use OpenAI's Chat Completions."""


def dialect_of_model(model: str) -> str:
    """How a model of the form provider:name is spoken to."""
    return DIALECT_OF.get(model.partition(":")[0], "openai_chat")


class TurnResults(Struct, frozen=True):
    """The results of a turn's calls: the messages to append, and the answer to each call."""

    messages: tuple[Message, ...]
    answers: tuple[ToolAnswer, ...]


class ToolboxState(Struct, frozen=True, kw_only=True):
    """What a session's tools have to know after a restart to send the same bytes."""

    toolset: ToolSetState
    usage: ToolUsageState
    delivered: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    processes: int = 0
    before: tuple[tuple[tuple[str, str], ToolSetState], ...] = ()
    """Of other models that were used: by name and dialect."""


class _Current:
    """The array in use. The dispatcher asks this one: a reference to the whole box would keep its processes alive."""

    def __init__(self, toolset: ToolSet) -> None:
        self.toolset = toolset

    def resolve(self, call: ToolUse) -> ResolvedCall | RefusedCall:
        return self.toolset.resolve(call)


class ToolSession(Struct, frozen=True, kw_only=True):
    """The session that a Toolbox is for, and where it works."""

    id: str
    workspace: Path | str
    home: Path | str  # holds offloaded results and remembered decisions
    tenant: str = ""
    readable: tuple[Path, ...] = ()  # directories outside the workspace that may be read
    uses: Mapping[str, int] = {}  # calls by tool in earlier sessions: `auto` keeps those declared
    state: bytes | None = None  # `Toolbox.state` of the same session before a restart


class ToolSources(Struct, frozen=True, kw_only=True):
    """Where tools and their guides come from, beside the host's own tools."""

    builtins: bool = True
    hub: Hub | None = None  # MCP servers; it tells of changes
    skills: SkillsInUse | None = None  # of this session alone: its tools are declared, its directories may be read
    guides: Mapping[str, str] = {}  # by tool
    sections: Sequence[GuideSection] = ()


class ToolHost(Struct, frozen=True, kw_only=True):
    """What the host program provides to tools."""

    confirm: Confirmer | Confirmations | None = None
    """Asked before a call writes, executes or uses the network. Without it such calls are refused, unless the settings
    allow them."""
    bus: Bus | None = None  # gets the events
    store: Store | None = None  # keeps them, too
    listener: Callable[[Envelope], None] | None = None  # gets each event first, in the thread that emits it
    now: Callable[[], int] = utc_microseconds
    memory: Any = None
    stream: Callable[[str, str], None] | None = None  # gets the output of running commands, with the id of their call
    write_lock: Lock | None = None  # agents that share one change things one at a time


class Toolbox:
    """The tools of one session. `tools` are the host's own and those that its provider runs."""

    def __init__(
        self,
        tools: Iterable[Tool | Opaque] = (),
        *,
        session: ToolSession,
        model: str,
        dialect: str | None = None,
        settings: ToolsSettings | None = None,
        sources: ToolSources = ToolSources(),  # noqa: B008  frozen
        host: ToolHost = ToolHost(),  # noqa: B008  frozen
    ) -> None:
        if ":" not in model:
            raise HoldfastError(f"{model!r} names no provider; write it as provider:name, such as anthropic:{model}.")
        state = None if session.state is None else _decode_state(session.state)
        self.settings = settings = settings or ToolsSettings()
        self.session = session.id
        self._hub, self._skills, self._listener = sources.hub, sources.skills, host.listener
        self.journal = ToolJournal(
            host.bus, session.id, store=host.store, tenant=session.tenant, now=host.now, listener=host.listener
        )
        home = Path(session.home)
        directory = directory_of(home, session.id, session.tenant)
        self.offloader = Offloader(settings.offload, directory, session=session.id)
        self.workspace = Workspace(
            Path(session.workspace),
            readable=(*session.readable, *(() if self._skills is None else self._skills.directories)),
            offloads=(self.offloader.directory,),
            closed=(home, *(home / each for each in _OURS)),
        )
        self.processes = Processes(started=0 if state is None else state.processes)
        self.usage = ToolUsage(None if state is None else state.usage, earlier=session.uses)
        self._failed = dict.fromkeys(() if state is None else state.failed)
        keys = Keys(settings.command, [home / each for each in _SECRETS])
        offered = (*self._own_tools(keys, sources), *tools, *(() if self._hub is None else self._hub.tools()))
        guides = {tool.name: tool.guide for tool in offered if isinstance(tool, Tool) and tool.guide is not None}
        self.guides = Guides(guides | dict(sources.guides), sources.sections)
        if state is not None:
            self.guides.restore(state.delivered)
        toolset = ToolSet(
            offered,
            settings=settings,
            model=model,
            dialect=dialect or dialect_of_model(model),
            usage=self.usage,
            discovery=None if self._hub is None else True,
            state=None if state is None else state.toolset,
        )
        self._current = _Current(toolset)
        confirm = host.confirm
        if not isinstance(confirm, Confirmations):
            confirm = Confirmations(settings.confirm, home=home, ask=confirm)
        self.dispatcher = Dispatcher(
            self._current.resolve,
            workspace=self.workspace,
            settings=settings,
            journal=self.journal,
            results=ResultPipeline(self.offloader, self.guides if settings.guides else None),
            services=CallServices(
                confirmations=confirm,
                keys=keys,
                skills=self._skills,
                memory=host.memory,
                stream=host.stream,
                write_lock=host.write_lock,
            ),
        )
        self._masker = Masker(settings.mask, strip=settings.deferral.strip == "when_cold")
        self._before: dict[tuple[str, str], ToolSetState] = {} if state is None else dict(state.before)
        self._attach()
        if state is None and self.toolset.deferred:
            self.journal.emit(ToolDeferred(tools=self.toolset.deferred), actor="system")

    def _own_tools(self, keys: Keys, sources: ToolSources) -> tuple[Tool, ...]:
        """The built-in tools, and those of the skills."""
        own = builtin_tools(self.settings, self.processes, keys) if sources.builtins else ()
        if self._skills is None:
            return own
        self._skills.used_by(self.session)
        return (*own, *self._skills.tools)

    @property
    def toolset(self) -> ToolSet:
        """The owner of the tools array; another one after `switch`."""
        return self._current.toolset

    # A request

    def definitions(self) -> tuple[ToolDefinition | Opaque, ...]:
        """The tools array: the same bytes on every request until a reset."""
        return self.toolset.definitions()

    def choice(self) -> Extra:
        """Further members of a request: on OpenAI `tool_choice`, where a tool that is declared has vanished."""
        return self.toolset.choice()

    def fitting(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """The conversation as this session's model can read it: after a change of the model it may hold what only
        another carrier understands. Without one it stays as it is."""
        return fitting(messages, self.toolset.carrier)

    def prepare(
        self, engine: EngineCore, body: Body, *, lane: Lane, now: float, options: PrepareOptions, masking: bool = True
    ) -> PreparedCall:
        """Call `engine.prepare`, with old results masked when due and worthwhile. `body` is the complete conversation
        as stored: the engine masks again what was masked before, and nothing else unless `masking`."""
        if not masking:
            return engine.prepare(body, lane=lane, now=now, options=options)
        ledger = engine.ledger(lane, now=now)
        requests = self._masker.requests(
            body,
            engine.read(body).prompt,
            fence=lambda: engine.fence(lane, now=now),
            already=ledger.edits,
            failed=self._failed,
            defined=self.toolset.defined,
        )
        prepared = engine.prepare(body, lane=lane, now=now, options=replace(options, edits=requests.edits))
        for masked in self._masker.settle(prepared.edits is not None and prepared.edits.made):
            self.journal.emit(
                ToolMasked(tool=masked.tool, tool_use_id=masked.tool_use_id, characters=masked.characters),
                turn=prepared.turn,
                actor="system",
            )
        return prepared

    # A turn

    async def run(
        self, calls: Message | Sequence[ToolUse], *, turn: str | None = None, cancel: Cancel | None = None
    ) -> TurnResults:
        """Answer the calls of an assistant's message, each of them, in order."""
        uses = _uses(calls)
        if not uses:
            return TurnResults((), ())
        self.usage.observe((Message("assistant", tuple(uses)),), fresh=True)
        guides_before, found_before = self.guides.delivered, self.toolset.recent
        try:
            answers = await self.dispatcher.run(uses, turn=turn, cancel=cancel)
        except BaseException:  # nobody gets these answers
            self.guides.free(self.guides.delivered - guides_before)
            self.toolset.lost(name for name in self.toolset.recent if name not in found_before)
            raise
        if self.toolset.dialect != "gemini":  # which says itself what failed, and whose ids come again
            self._failed.update((answer.result.tool_use_id, None) for answer in answers if answer.result.is_error)
        results = Message("user", tuple(answer.result for answer in answers))
        late = [message for answer in answers if answer.output is not None for message in answer.output.messages]
        return TurnResults((results, *late), answers)

    def cut(self, calls: Message | Sequence[ToolUse]) -> TurnResults:
        """Answers for calls that nobody will answer any more: their task was cancelled, or the program ended while they
        ran. Every provider refuses a conversation with open calls."""
        uses = _uses(calls)
        if self._skills is not None:
            self._skills.lost(uses)
        answers = cut_off(uses)
        return TurnResults((Message("user", tuple(answer.result for answer in answers)),) if answers else (), answers)

    def turn_over(self) -> None:
        """A turn of the user's is answered: what was not used in it is idle for one turn more."""
        self.usage.turn()

    # Resets

    def switch(self, model: str, dialect: str | None = None) -> None:
        """Continue with another model. Its array is decided anew; a model used before gets the bytes that it had."""
        dialect = dialect or dialect_of_model(model)
        now = self.toolset
        ref = facts.model(model).ref
        if (now.facts.ref, now.dialect) == (ref, dialect):
            return
        self._before[now.facts.ref, now.dialect] = now.state
        if self._hub is not None:
            self._hub.detach(now)
        self._current.toolset = now.another(model, dialect, self._before.pop((ref, dialect), None))
        self._attach()

    def _attach(self) -> None:
        if self._hub is not None:
            self._hub.attach(self.toolset, session=self.session, listener=self._emit_server_event)

    def _emit_server_event(self, event: Event) -> None:
        if self._listener is not None:
            self._listener(self.journal.envelope(event, actor="system"))

    def at_reset(self, messages: Iterable[Message] | None = None) -> Redeclared | None:
        """The prefix is lost anyway: after compaction, which kept these messages, or on a cold load (None: all are
        kept).

        Vanished tools leave the array, used discovered ones join it, unused ones are demoted; removed guides and skills
        may be sent again. Returns what changed in the array: announce the reset `tools_redeclared` then, because
        `compaction` covers the messages alone. None means that its bytes are the same.
        """
        messages_left = None if messages is None else tuple(messages)
        if messages_left is not None:
            self.guides.keep(messages_left)
            if self._skills is not None:
                self._skills.at_reset(messages_left)
        changed = self.toolset.at_reset(messages_left)
        self._emit_demoted(changed)
        return changed

    def declare_found(self) -> Redeclared | None:
        """Where the carrier is `redeclare`, declare what was found since: the reset is `tools_redeclared`."""
        return self.toolset.redeclare()

    @property
    def strip_problem(self) -> str:
        """Why `tools.deferral.strip = "when_cold"` has no effect here, if it is set and has none."""
        if self.settings.deferral.strip != "when_cold" or self.toolset.carrier != "references":
            return ""
        return (
            f'tools.deferral.strip = "when_cold" has no effect with {self.toolset.facts.ref}: discover_tools answers '
            "with references, so no schema ever stands in the history. Answers hold schemas with "
            'tools.deferral.carrier = "redeclare" or "call_tool".'
        )

    def demote(self, *, behind: int, requests: float) -> Redeclared | None:
        """Demote unused tools, if that pays, with `behind` tokens after the tools and `requests` still expected. The
        reset is `tools_redeclared`."""
        changed = self.toolset.demote(behind=behind, requests=requests)
        self._emit_demoted(changed)
        return changed

    def _emit_demoted(self, changed: Redeclared | None) -> None:
        for name, idle in () if changed is None else changed.demoted:
            self.journal.emit(ToolDemoted(tool=name, idle_turns=idle), actor="system")

    # The session

    @property
    def state(self) -> bytes:
        """Everything that is needed to go on after a restart; a few bytes for each tool and call."""
        return msgspec.msgpack.encode(
            ToolboxState(
                toolset=self.toolset.state,
                usage=self.usage.state,
                delivered=tuple(sorted(self.guides.delivered)),
                failed=tuple(self._failed),
                processes=self.processes.started,
                before=tuple(self._before.items()),
            )
        )

    @property
    def lasting(self) -> bytes:
        """The part of `state` that requests depend on: without what is only counted, which changes at every turn."""
        return msgspec.msgpack.encode(
            msgspec.structs.replace(_decode_state(self.state), usage=ToolUsageState(), failed=()),
        )

    async def close(self) -> None:
        """Stop what runs in the background and listen to no server any more. Offloaded results stay."""
        if self._hub is not None:
            self._hub.detach(self.toolset)
        await self.processes.close()

    async def __aenter__(self) -> Toolbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _uses(calls: Message | Sequence[ToolUse]) -> list[ToolUse]:
    blocks = calls.content if isinstance(calls, Message) else calls
    return [block for block in blocks if isinstance(block, ToolUse)]


def _decode_state(state: bytes) -> ToolboxState:
    try:
        return msgspec.msgpack.decode(state, type=ToolboxState)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HoldfastError(
            f"the stored state of a session's tools cannot be read ({error}); begin a new session."
        ) from error
