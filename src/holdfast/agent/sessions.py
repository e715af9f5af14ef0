"""Begin, resume and fork conversations.

What stays the same for a whole session is made here, once, and stored: system text, tools array, surroundings. A
session that is resumed sends the bytes that it sent before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from holdfast import facts
from holdfast.config import Settings
from holdfast.errors import HoldfastError
from holdfast.memory import knowledge_tools, memory_tools
from holdfast.records.events import (
    IDS,
    Envelope,
    Event,
    SessionComposed,
    SessionResumed,
    SessionStarted,
    SessionState,
    VolatileChanged,
    WindowAppended,
)
from holdfast.skills import SessionSkills
from holdfast.tools import Confirmations, LoopLock, Toolbox, ToolHost, ToolSession, ToolSources, mend

from . import delegates, memory_updates
from .arguments import (
    check_calls,
    check_guides,
    check_host,
    check_id,
    check_level,
    check_model,
    check_sections,
    check_text,
    check_tools,
)
from .cached_contents import SessionCachedContents
from .contract import Equipment, Host
from .effort import first_effort
from .guides import agent_guides
from .keepalive import KeepaliveLoop
from .log import Log, SessionOnDisk, UnreadableLog, find, log_path, read_content, stored, unreadable
from .log_content import Damage
from .memory_updates import Memories
from .mentions import fitting, known_models, meant, some
from .reopen import (
    ELSEWHERE,
    INTERRUPTED,
    copies,
    leave_behind,
    look_around,
    offloads,
    packed,
    salvage,
    salvage_copied,
    unpacked,
)
from .routing import ConfiguredModels
from .session import CLIENT, Session, SessionParts
from .stable_text import EXPECTED_CALLS, PromptTexts, compose_session
from .surroundings import surroundings
from .window.entries import SessionContext, Static, to_json
from .window.projection import project
from .window.renderer import render
from .window.state import Projection
from .window.texts import zone


class Sessions:
    """The conversations of one workspace. `config` gives the settings of an agent by its name, `chosen` says which
    models are configured and by whom."""

    def __init__(
        self,
        config: Callable[[str], Settings] | Settings,
        *,
        workspace: Path,
        home: Path,
        host: Host,
        equipment: Equipment = Equipment(),  # noqa: B008  a frozen value
        chosen: Callable[[str], ConfiguredModels] | None = None,
    ) -> None:
        check_host(host, equipment)
        self.settings: Callable[[str], Settings] = (lambda _: config) if isinstance(config, Settings) else config
        self.workspace, self.home, self.directory = Path(workspace).resolve(), Path(home), Path(home) / "sessions"
        self.provider, self.engine, self.store, self.bus = host.provider, host.engine, host.store, host.bus
        self.tenant, self.clock, self.sleep = host.tenant, host.clock, host.sleep
        self.ids = IDS
        self._confirm, self._hub, self._configured = host.confirm, host.hub, chosen
        self._tools, self._builtins, self._persona = check_tools(equipment.tools), equipment.builtins, equipment.persona
        self._guides, self._sections = check_guides(equipment.guides), check_sections(equipment.sections)
        self._writing = LoopLock()
        self._open: dict[str, Session] = {}
        self.contents = SessionCachedContents(self.engine, self.provider, self.clock)
        self.keepalive = KeepaliveLoop(self)
        self._memories = Memories(self.store, self.tenant, self.workspace, self.clock)

    @property
    def workspace_name(self) -> str:
        """The workspace as logs name it: a directory may have a name that no text can hold."""
        return mend(str(self.workspace))

    def configured(self, agent: str) -> ConfiguredModels:
        """The models that are configured for an agent."""
        if self._configured is not None:
            models = self._configured(agent)
        else:
            chosen = self.settings(agent).agent
            models = ConfiguredModels(model=chosen.model, fallback=chosen.fallback)
        return replace(models, fallback=tuple(self.model_ref(each, "agent.fallback: ") for each in models.fallback))

    def model_ref(self, name: str, where: str = "") -> str:
        """A model as provider:name. One of a provider's own names is taken as it is, since new models appear daily; a
        name without a provider has to be known."""
        if ":" in name:
            return name
        try:
            return self.model_named(name)
        except HoldfastError as problem:
            raise HoldfastError(f"{where}{problem}") from problem

    def model_named(self, text: str) -> str:
        """Return the only model that matches a name or a part of one."""
        matches = fitting(text, known_models())
        if len(matches) > 1:
            raise HoldfastError(f"{text!r} may be one of {some(matches)}; name one of them.")
        if not matches:
            near = meant(text)
            hint = f"did you mean {near}? `holdfast models`" if near else "`holdfast models`"
            raise HoldfastError(
                f"no model is named {text!r}; {hint} lists what is known, and all others are given as provider:name."
            )
        return matches[0]

    # A new one

    async def create(
        self,
        *,
        agent: str = "",
        model: str | None = None,
        goal: str | None = None,
        system_prompt: str | None = None,
        amnesia: bool = False,
        effort: str | None = None,
        expected_calls: float = EXPECTED_CALLS,
    ) -> Session:
        """Begin a conversation. `system_prompt` takes the place of persona and project instructions; with `amnesia`
        memory is read and not written; `effort` takes the place of `agent.effort`. `expected_calls` is how many
        requests it is likely to make: a prompt below the model's floor is padded where that pays within them."""
        check_text("create(agent=…)", agent, "create(agent='reviewer')")
        if model is not None:
            check_model("create(model=…)", model)
        for name, text in (("goal", goal), ("system_prompt", system_prompt)):
            if text is not None:
                check_text(f"create({name}=…)", text, f"create({name}='Ship it.')")
        check_calls(expected_calls)
        settings = self.settings(agent)
        chosen = self.configured(agent)
        model = model or chosen.model or next(iter(chosen.fallback), None)
        if model is None:
            raise HoldfastError(
                "no model is chosen; set agent.model to one, such as anthropic:claude-haiku-4-5, or name it."
            )
        model = self.model_ref(model)
        if effort is not None:
            check_level("create(effort=…)", effort, facts.model(model).efforts)
        effort = first_effort(model, effort, settings.agent.effort, configured=model == chosen.model)
        zone(settings.agent.timezone)
        skills = await asyncio.to_thread(SessionSkills.begin, settings.skills, self.workspace)
        knowledge = await asyncio.to_thread(self._memories.of, settings.memory)
        log = Log.create(self.directory, self.ids.new())
        async with self._opening(log, log.discard):
            parts = SessionParts(log, agent, model, settings, skills, knowledge, amnesia=amnesia)
            session = self._session(parts)
            stable = await memory_updates.stable_block(session)
            texts = PromptTexts(
                persona=self._persona,
                system_prompt=system_prompt,
                preferences=stable.text,
                knowledge=knowledge is not None,
            )
            around = await asyncio.to_thread(self._around, settings)
            composed = await asyncio.to_thread(
                compose_session,
                session,
                texts,
                models=(model, *chosen.fallback),
                around=around,
                effort=effort,
                expected_calls=expected_calls,
            )
            first = SessionStarted(agent=agent or None, client=CLIENT, model=model)
            self._begin(session, composed, around, first, *memory_updates.stable_events(stable))
        skills.announce(session.box.journal)
        session.keep_state()
        if goal:
            session.set_goal(goal)
        return session

    def _begin(self, session: Session, composed: SessionComposed, around: str, *first: Event) -> None:
        """All that a session consists of, in one write."""
        context = SessionContext(at=session.now_us(), text=around)
        state = SessionState(tools=packed(session.box.state), skills=packed(session.skills.state))
        session.log(*first, composed, WindowAppended(entries=to_json((context,))), state)

    @asynccontextmanager
    async def _opening(self, log: Log, undo: Callable[[], None]) -> AsyncIterator[None]:
        """What fails in here leaves no session half open."""
        try:
            yield
        except BaseException:
            undo()
            if (half := self._open.pop(log.id, None)) is not None:
                await half.box.close()
            raise

    def _session(self, parts: SessionParts, *, state: bytes | None = None, readable: Sequence[Path] = ()) -> Session:
        """A session with its tools, which know what `state` says and may read below `readable`."""
        session = Session(self, parts)
        settings, parent, knowledge = parts.settings, parts.parent, parts.knowledge
        remember = memory_tools(session.memory, amnesia=lambda: session.amnesia)
        if knowledge is not None:
            most = settings.memory.retrieve_max
            remember += knowledge_tools(knowledge, most=most, amnesia=lambda: session.amnesia)
        confirm = (
            parent.confirmations.narrowed(settings.tools.confirm)
            if parent is not None
            else Confirmations(settings.tools.confirm, home=self.home, ask=self._confirm)
        )
        session.confirmations = confirm
        guides, sections = agent_guides(self.workspace, self.home, guides=self._guides, sections=self._sections)
        session.box = Toolbox(
            (*self._tools, *remember, delegates.delegate_tool(session)),
            session=ToolSession(
                id=session.id,
                workspace=self.workspace,
                home=self.home,
                tenant=self.tenant,
                readable=tuple(readable),
                state=state,
            ),
            model=session.model,
            dialect=session.dialect,
            settings=settings.tools,
            sources=ToolSources(
                builtins=self._builtins,
                hub=self._hub,
                skills=session.skills,
                guides=guides,
                sections=sections,
            ),
            host=ToolHost(
                confirm=confirm,
                bus=self.bus,
                store=self.store,
                listener=session.heard,
                now=session.now_us,
                memory=session.memory,
                stream=lambda call, text: session.watching[0].output(call, text),
                write_lock=self._writing,
            ),
        )
        self._open[session.id] = session
        if settings.cache.keepalive.enabled and parent is None:
            self.keepalive.start()
        return session

    def open_sessions(self) -> tuple[Session, ...]:
        """Those that are open now, sub-agents' included."""
        return tuple(self._open.values())

    def _around(self, settings: Settings) -> str:
        chosen = settings.agent
        return surroundings(self.workspace, now=self.clock(), timezone=chosen.timezone, entries=chosen.tree_entries)

    # One that was there before

    async def resume(self, named: str) -> Session:
        """Resume a session by its id or a unique prefix of it. A damaged log is used up to the damage: a warning is
        logged and the file is kept."""
        check_id("resume", named)
        id_ = find(self.directory, named)
        if id_ in self._open:
            raise HoldfastError(f"session {id_} is open already.")
        log = Log.open(self.directory, id_)
        async with self._opening(log, log.close):
            composed = self._begun(id_, project(log.envelopes), log.damage)
            session = await self._resumed(log, log.envelopes, composed)
            session.log(*salvage(log), SessionResumed(agent=session.agent or None, client=CLIENT))
            if not session.state.turns:  # it may have been killed before it could say so
                session.skills.announce(session.box.journal)
            session.answer_open_calls()
            leave_behind(session, INTERRUPTED)
            await look_around(session, partial(self._around, session.settings))
        return session

    def _begun(self, id: str, state: Projection, damage: Damage | None) -> SessionComposed:
        """What a session was begun with, if it was begun to the end and here."""
        composed = state.composed
        if (composed is None or not state.window.entries) and damage is not None:
            raise HoldfastError(
                f"session {id}: {damage}, before the session had begun, so there is nothing to go on from; restore "
                f"{log_path(self.directory, id)} from a copy, or begin a new session."
            )
        if composed is None or not state.window.entries:
            raise HoldfastError(f"session {id} was never begun; begin a new one.")
        if composed.workspace not in ("", self.workspace_name):
            raise HoldfastError(f"session {id} belongs to {composed.workspace}; go there to go on with it.")
        return composed

    async def _resumed(
        self, log: Log, past: Sequence[Envelope], composed: SessionComposed, *, parent: Session | None = None
    ) -> Session:
        state = project(past)
        settings = self.settings(composed.agent)
        static = Static(timezone=composed.timezone, model=state.model, dialect=composed.dialect)
        messages = render(state.window, static)
        skills = await asyncio.to_thread(
            SessionSkills.begin, settings.skills, self.workspace, state=unpacked(state.skills), messages=messages
        )
        knowledge = await asyncio.to_thread(self._memories.of, settings.memory, composed.project)
        model = state.model or composed.model
        parts = SessionParts(log, composed.agent, model, settings, skills, knowledge, parent=parent)
        session = self._session(parts, state=unpacked(state.box), readable=offloads(self, state))
        session.fold(past)
        return session

    async def fork(self, named: str) -> Session:
        """Create a session that continues from another one's current state; both are independent afterwards. They share
        what is cached."""
        check_id("fork", named)
        id_ = find(self.directory, named)
        content = read_content(log_path(self.directory, id_))
        composed = self._begun(id_, content.state, content.damage)
        log = Log.create(self.directory, self.ids.new())
        async with self._opening(log, log.discard):
            first = SessionStarted(agent=composed.agent or None, client=CLIENT, forked_from=id_)
            past = [self._envelope(log.id, first), *copies(log.id, content.envelopes)]
            log.append(past)
            session = await self._resumed(log, past, composed)
            session.publish(past[:1])  # the others were, when they happened
            session.log(*salvage_copied(id_, content))
            session.answer_open_calls()
            leave_behind(session, ELSEWHERE)
        return session

    def _envelope(self, session: str, payload: Event) -> Envelope:
        at = int(self.clock() * 1_000_000)
        return Envelope.of(payload, id=self.ids.new(), at=at, session=session, actor="user")

    # Sub-agents

    async def child(self, parent: Session, role: str) -> Session:
        """A session for a sub-agent: the tools and the system text of its parent to the byte, and its surroundings, so
        that the parent's entries in the cache are read."""
        settings = self.settings(role)
        composed, first = parent.state.composed, parent.state.window.entries[0]
        assert composed is not None
        model = settings.agent.model if settings.agent.model != self.settings(parent.agent).agent.model else None
        model = self.model_ref(model or parent.model)
        skills = await asyncio.to_thread(
            SessionSkills.begin, settings.skills, self.workspace, state=parent.skills.state, messages=()
        )
        log = Log.create(self.directory, self.ids.new())
        async with self._opening(log, log.discard):
            knowledge = await asyncio.to_thread(self._memories.of, settings.memory, composed.project)
            parts = SessionParts(log, role, model, settings, skills, knowledge, parent=parent)
            session = self._session(parts, state=parent.box.state, readable=(parent.box.offloader.directory,))
            around = first.text if isinstance(first, SessionContext) else self._around(settings)
            own, inherited = settings.agent.effort, self.settings(parent.agent).agent.effort
            effort = own if own is not None and own != inherited else parent.state.effort
            mine = replace(
                composed,
                agent=role,
                parent=parent.id,
                model=model,
                dialect=session.dialect,
                effort=effort if effort in session.facts.efforts else "",
            )
            session.box.guides.keep(())  # what its parent was told and found stands in the parent's conversation
            session.box.toolset.lost(session.box.toolset.recent)
            volatile = (VolatileChanged(text=parent.state.volatile),) if parent.state.volatile else ()
            self._begin(session, mine, around, SessionStarted(agent=role, client=CLIENT, model=model), *volatile)
        return session

    async def resume_child(self, parent: Session, id: str) -> Session:
        """Resume a sub-agent that has asked a question."""
        id_ = find(self.directory, id)
        if id_ in self._open:
            raise HoldfastError(f"session {id_} is open already.")
        log = Log.open(self.directory, id_)
        async with self._opening(log, log.close):
            composed = project(log.envelopes).composed
            if composed is None or composed.parent != parent.id:
                raise HoldfastError(f"{id} is no sub-agent of this session.")
            session = await self._resumed(log, log.envelopes, composed, parent=parent)
            session.log(*salvage(log), SessionResumed(agent=session.agent or None, client=CLIENT))
            session.answer_open_calls()
            leave_behind(session, INTERRUPTED)
        return session

    # What there is

    def stored(self, *, everywhere: bool = False) -> list[SessionOnDisk]:
        """The sessions of this workspace, or of all, the newest first."""
        sessions = stored(self.directory)
        return sessions if everywhere else [each for each in sessions if each.workspace == self.workspace_name]

    def unreadable(self) -> list[UnreadableLog]:
        """Logs of which nothing can be salvaged, whatever workspace they were of."""
        return unreadable(self.directory)

    def forget(self, session: Session) -> None:
        self._open.pop(session.id, None)

    async def close(self) -> None:
        """Leave all sessions that are open, also where one of them cannot be written any more."""
        await self.keepalive.stop()
        problems = []
        for session in self.open_sessions():
            if session.parent is None:
                try:
                    await session.close()
                except HoldfastError as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]
