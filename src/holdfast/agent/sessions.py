"""Begin, resume and fork conversations.

What stays the same for a whole session is made here, once, and stored: system text, tools array, surroundings. A
session that is resumed sends the bytes that it sent before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from holdfast.config.schema import Settings
from holdfast.engine import Engine
from holdfast.errors import HoldfastError
from holdfast.events import IDS, Bus, Envelope, Event
from holdfast.events.agent import SessionComposed, SessionState, VolatileChanged, WindowAppended
from holdfast.events.sessions import SessionResumed, SessionStarted
from holdfast.memory.files import MemoryFiles
from holdfast.memory.knowledge import Knowledge
from holdfast.memory.recalling import knowledge_tools
from holdfast.memory.tools import memory_tools
from holdfast.skills.session import SessionSkills
from holdfast.store import Store
from holdfast.tools import Confirmations, Confirmer, Tool, Toolbox
from holdfast.tools.mcp import Hub
from holdfast.tools.turns import LoopLock
from holdfast.tools.wording import mend

from . import delegates, remembering
from .composing import compose_session
from .knowing import Memories
from .listing import Stored, stored
from .loading import ELSEWHERE, INTERRUPTED, copies, leave_behind, look_around, offloads, packed, unpacked
from .log import Log, find, log_path, read_log
from .mentions import fitting, known_models, some
from .routing import Configured
from .session import CLIENT, Session
from .surroundings import surroundings
from .values import Provider
from .window.entries import SessionContext, Static, to_json
from .window.projection import State, project
from .window.rendering import render
from .window.times import zone


class Sessions:
    """The conversations of one workspace. `config` gives the settings of an agent by its name.

    `tools` are the host's own, beside the built-in ones; `persona` takes the place of ours. `confirm` is asked before a
    tool changes something. `chosen` says which models are configured and by whom. Times come from `clock`.
    """

    def __init__(
        self,
        config: Callable[[str], Settings] | Settings,
        *,
        workspace: Path,
        home: Path,
        provider: Provider,
        engine: Engine,
        store: Store | None = None,
        bus: Bus | None = None,
        tenant: str = "",
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        confirm: Confirmer | None = None,
        tools: Sequence[Tool] = (),
        builtins: bool = True,
        hub: Hub | None = None,
        persona: str | None = None,
        chosen: Callable[[str], Configured] | None = None,
    ) -> None:
        self.settings: Callable[[str], Settings] = (lambda _: config) if isinstance(config, Settings) else config
        self.workspace, self.home, self.directory = Path(workspace).resolve(), Path(home), Path(home) / "sessions"
        self.provider, self.engine, self.store, self.bus = provider, engine, store, bus
        self.tenant, self.clock, self.sleep = tenant, clock, sleep
        self.ids = IDS
        self._confirm, self._tools, self._builtins, self._hub = confirm, tuple(tools), builtins, hub
        self._persona, self._configured = persona, chosen
        self._writing = LoopLock()
        self._open: dict[str, Session] = {}
        self._memories = Memories(store, tenant, self.workspace, clock)

    @property
    def workspace_name(self) -> str:
        """The workspace as logs name it: a directory may have a name that no text can hold."""
        return mend(str(self.workspace))

    def configured(self, agent: str) -> Configured:
        """The models that are configured for an agent."""
        if self._configured is not None:
            return self._configured(agent)
        chosen = self.settings(agent).agent
        return Configured(model=chosen.model, fallback=chosen.fallback)

    def model_named(self, text: str) -> str:
        """The one model that a name, or a part of one, stands for."""
        found = fitting(text, known_models())
        if len(found) > 1:
            raise HoldfastError(f"{text!r} may be one of {some(found)}; name one of them.")
        if not found:
            raise HoldfastError(
                f"no model is named {text!r}; `holdfast models` lists what is known, and all others are given as "
                "provider:name."
            )
        return found[0]

    # A new one

    async def create(
        self,
        *,
        agent: str = "",
        model: str | None = None,
        goal: str | None = None,
        system_prompt: str | None = None,
        amnesia: bool = False,
    ) -> Session:
        """Begin a conversation. `system_prompt` takes the place of persona and project instructions; with `amnesia`
        memory is read and not written."""
        settings = self.settings(agent)
        chosen = self.configured(agent)
        model = model or chosen.model or next(iter(chosen.fallback), None)
        if model is None:
            raise HoldfastError(
                "no model is chosen; set agent.model to one, such as anthropic:claude-haiku-4-5, or name it."
            )
        if ":" not in model:
            model = self.model_named(model)
        zone(settings.agent.timezone)
        skills = await asyncio.to_thread(SessionSkills.begin, settings.skills, self.workspace)
        knowledge = await asyncio.to_thread(self._memories.of, settings.memory)
        log = Log.create(self.directory, self.ids.new())
        async with self._opening(log, log.discard):
            session = self._session(log, agent, model, settings, skills, knowledge, amnesia=amnesia)
            stable = await remembering.stable(session)
            models = (model, *chosen.fallback)
            made = partial(compose_session, session, models=models, persona=self._persona, system_prompt=system_prompt)
            composed = await asyncio.to_thread(made, preferences=stable.text)
            around = await asyncio.to_thread(self._around, settings)
            first = SessionStarted(agent=agent or None, client=CLIENT, model=model)
            self._begin(session, composed, around, first, *remembering.begun(stable))
        skills.announce(session.box.tell)
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

    def _session(
        self,
        log: Log,
        agent: str,
        model: str,
        settings: Settings,
        skills: SessionSkills,
        knowledge: Knowledge | None,
        *,
        parent: Session | None = None,
        state: bytes | None = None,
        readable: Sequence[Path] = (),
        amnesia: bool = False,
    ) -> Session:
        memory = MemoryFiles(self.workspace / ".holdfast", settings.memory)
        session = Session(
            self,
            log,
            agent=agent,
            model=model,
            settings=settings,
            skills=skills,
            memory=memory,
            knowledge=knowledge,
            amnesia=amnesia or (parent is not None and parent.amnesia),
            parent=parent,
        )
        remember = memory_tools(memory, amnesia=lambda: session.amnesia)
        if knowledge is not None:
            most = settings.memory.retrieve_max
            remember += knowledge_tools(knowledge, most=most, amnesia=lambda: session.amnesia)
        confirm = (
            parent.confirmations
            if parent is not None
            else Confirmations(settings.tools.confirm, home=self.home, ask=self._confirm)
        )
        session.confirmations = confirm
        session.box = Toolbox(
            (*self._tools, *remember, delegates.delegate_tool(session)),
            model=model,
            dialect=session.dialect,
            workspace=self.workspace,
            home=self.home,
            session=session.id,
            tenant=self.tenant,
            settings=settings.tools,
            confirm=confirm,
            hub=self._hub,
            builtins=self._builtins,
            readable=readable,
            bus=self.bus,
            store=self.store,
            skills=skills,
            memory=memory,
            stream=lambda call, text: session.watching[0].output(call, text),
            writing=self._writing,
            heard=session.heard,
            now=session.now_us,
            state=state,
        )
        self._open[session.id] = session
        return session

    def _around(self, settings: Settings) -> str:
        chosen = settings.agent
        return surroundings(self.workspace, now=self.clock(), timezone=chosen.timezone, entries=chosen.tree_entries)

    # One that was there before

    async def resume(self, named: str) -> Session:
        """Go on with a session, by its id or a unique beginning of it."""
        id_ = find(self.directory, named)
        if id_ in self._open:
            raise HoldfastError(f"session {id_} is open already.")
        log = Log.open(self.directory, id_)
        async with self._opening(log, log.close):
            session = await self._resumed(log, log.envelopes, self._begun(id_, project(log.envelopes)))
            session.log(SessionResumed(agent=session.agent or None, client=CLIENT))
            if not session.state.turns:  # it may have been killed before it could say so
                session.skills.announce(session.box.tell)
            session.answer_open_calls()
            leave_behind(session, INTERRUPTED)
            await look_around(session, partial(self._around, session.settings))
        return session

    def _begun(self, id: str, state: State) -> SessionComposed:
        """What a session was begun with, if it was begun to the end and here."""
        composed = state.composed
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
            SessionSkills.begin,
            settings.skills,
            self.workspace,
            state=unpacked(state.skills),
            messages=messages,
        )
        session = self._session(
            log,
            composed.agent,
            state.model or composed.model,
            settings,
            skills,
            await asyncio.to_thread(self._memories.of, settings.memory, composed.project),
            parent=parent,
            state=unpacked(state.box),
            readable=offloads(self, state),
        )
        session.fold(past)
        return session

    async def fork(self, named: str) -> Session:
        """A new session that goes on from where another is now; both go their own ways. What is cached for one is for
        the other."""
        id_ = find(self.directory, named)
        events = read_log(log_path(self.directory, id_))
        composed = self._begun(id_, project(events))
        log = Log.create(self.directory, self.ids.new())
        async with self._opening(log, log.discard):
            first = SessionStarted(agent=composed.agent or None, client=CLIENT, forked_from=id_)
            past = [self._envelope(log.id, first), *copies(log.id, events)]
            log.append(past)
            session = await self._resumed(log, past, composed)
            session.publish(past[:1])  # the others were, when they happened
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
        model = model or parent.model
        skills = await asyncio.to_thread(
            SessionSkills.begin, settings.skills, self.workspace, state=parent.skills.state, messages=()
        )
        log = Log.create(self.directory, self.ids.new())
        async with self._opening(log, log.discard):
            session = self._session(
                log,
                role,
                model,
                settings,
                skills,
                await asyncio.to_thread(self._memories.of, settings.memory, composed.project),
                parent=parent,
                state=parent.box.state,
                readable=(parent.box.offloader.directory,),
            )
            around = first.text if isinstance(first, SessionContext) else self._around(settings)
            mine = replace(composed, agent=role, parent=parent.id, model=model, dialect=session.dialect)
            session.box.guides.keep(())  # what its parent was told and found stands in the parent's conversation
            session.box.toolset.lost(session.box.toolset.found)
            volatile = (VolatileChanged(text=parent.state.volatile),) if parent.state.volatile else ()
            self._begin(session, mine, around, SessionStarted(agent=role, client=CLIENT, model=model), *volatile)
        return session

    async def resume_child(self, parent: Session, id: str) -> Session:
        """A sub-agent that has asked something goes on."""
        id_ = find(self.directory, id)
        if id_ in self._open:
            raise HoldfastError(f"session {id_} is open already.")
        log = Log.open(self.directory, id_)
        async with self._opening(log, log.close):
            composed = project(log.envelopes).composed
            if composed is None or composed.parent != parent.id:
                raise HoldfastError(f"{id} is no sub-agent of this session.")
            session = await self._resumed(log, log.envelopes, composed, parent=parent)
            session.log(SessionResumed(agent=session.agent or None, client=CLIENT))
            session.answer_open_calls()
            leave_behind(session, INTERRUPTED)
        return session

    # What there is

    def stored(self, *, everywhere: bool = False) -> list[Stored]:
        """The sessions of this workspace, or of all, the newest first."""
        found = stored(self.directory)
        return found if everywhere else [each for each in found if each.workspace == self.workspace_name]

    def forget(self, session: Session) -> None:
        self._open.pop(session.id, None)

    async def close(self) -> None:
        """Leave all sessions that are open, also where one of them cannot be written any more."""
        problems = []
        for session in tuple(self._open.values()):
            if session.parent is None:
                try:
                    await session.close()
                except HoldfastError as problem:
                    problems.append(problem)
        if problems:
            raise problems[0]
