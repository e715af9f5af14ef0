"""One conversation: its log, what follows from it, and everything that may be done with it.

State changes in one way only: an event is appended to the log, then the projection takes it up. Whatever has to be the
same after a restart is therefore in the log.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast import facts
from holdfast.config import Settings
from holdfast.core.strategies import takes_markers
from holdfast.engine import Lane, PreparedCall, PrepareOptions
from holdfast.memory import Knowledge, MemoryFiles
from holdfast.records import Document, Image, Message, Request, Usage
from holdfast.records.events import (
    Actor,
    Envelope,
    Event,
    GoalSet,
    MemorySurfaced,
    MemoryUpdated,
    SessionEnded,
    SessionState,
    TurnAnswered,
    TurnToolsAnswered,
    WindowAppended,
)
from holdfast.skills import SessionSkills
from holdfast.tools import Cancel, Confirmations, Toolbox, dialect_of_model, mended
from holdfast.wire import Body

from . import compaction, costs, inspection, memory_updates, model_choice
from .arguments import check_level, check_model, check_said, check_tasks, check_text, check_watched, checked_event
from .contract import CompactionResult, CostLine, DelegateResult, InspectedBlock, Task, Turn, Watch
from .delegates import delegate_tool
from .delegation.crew import Crew
from .effort import effort_members, lost_section, set_effort
from .event_filter import from_tools, publish
from .log import Log
from .loop import run_turn
from .reopen import packed
from .requests import (
    SystemText,
    Target,
    key_members,
    named,
    pinned_block,
    request,
    shared_head,
    summary_block,
    system_of,
    volatile_blocks,
)
from .resets import Resets
from .window.entries import Static, to_json
from .window.projection import advance
from .window.renderer import render
from .window.state import Projection, flush

if TYPE_CHECKING:
    from .sessions import Sessions

_TURN_END_S = 5.0
"""How long the end of a turn is waited for when its session is closed."""

CLIENT = "holdfast"
"""The client's name in the engine."""


class SessionParts(Struct, frozen=True):
    """The parts of one session."""

    log: Log
    agent: str
    model: str
    settings: Settings
    skills: SessionSkills
    knowledge: Knowledge | None = None
    parent: Session | None = None
    """The parent session, if it is a sub-agent's."""
    amnesia: bool = False


class Session:
    """A conversation with one agent. Made by `Sessions`."""

    def __init__(self, sessions: Sessions, parts: SessionParts) -> None:
        self.sessions, self.id, self.agent, self.settings = sessions, parts.log.id, parts.agent, parts.settings
        self.skills, self.knowledge, self.parent = parts.skills, parts.knowledge, parts.parent
        self.memory = MemoryFiles(sessions.workspace / ".holdfast", parts.settings.memory)
        self._amnesia = parts.amnesia or (parts.parent is not None and parts.parent.amnesia)
        self.engine, self.provider = sessions.engine, sessions.provider
        self.clock, self.sleep = sessions.clock, sessions.sleep
        self.state = Projection()
        self.resets = Resets()
        self.lines: list[CostLine] = []
        self._delegated_before = Decimal(0)
        """What was paid since the session was opened, request by request."""
        self.children: dict[str, Session] = {}
        self.disk_log = parts.log
        self._guard = threading.RLock()  # events come from the threads of background commands too
        self.reading: set[str] = set()
        """Models that have read something of this conversation from a cache."""
        self._surfaced: list[Envelope] = []
        """Events of the knowledge store from tools whose answers are not in the log yet."""
        self.redeclared = False
        """Whether the tools array differs from the logged one."""
        self._stored = (b"", "")
        self._watch, self._cancel = Watch(), Cancel()
        self._turn, self._asking = asyncio.Lock(), Cancel()
        self.confirmations: Confirmations
        self.crew = Crew(self)
        self.on_planned: Callable[[PreparedCall], None] | None = None
        self.on_begun: Callable[[], None] | None = None
        """Called for each request: when it is planned, and when its answer begins."""
        self.box: Toolbox
        self._speak_to(parts.model)

    def _speak_to(self, model: str) -> None:
        self.facts = facts.model(model)
        self.model = model
        self.dialect = dialect_of_model(model)
        self.lane = self.lane_of(model)

    def lane_of(self, model: str) -> Lane:
        """The lane of this conversation with a model. A sub-agent's is a lane of the session that it works for."""
        return Lane(
            tenant=self.sessions.tenant,
            session=self.id if self.parent is None else self.parent.lane.session,
            id=f"{self.id}/{self.agent or 'main'}/{named(model)}",
            client=CLIENT,
            agent=self.agent,
            parent=None if self.parent is None else self.parent.lane.id,
            subagent=self.parent is not None,
        )

    # What happened

    @property
    def amnesia(self) -> bool:
        """Whether memory is read but not written: set at the session's start or later."""
        composed = self.state.composed
        return self._amnesia or self.settings.memory.amnesia or (composed is not None and composed.amnesia)

    def new_id(self) -> str:
        return self.sessions.ids.new()

    def now_us(self) -> int:
        return int(self.clock() * 1_000_000)

    def log(
        self, *payloads: Event, turn: str | None = None, actor: Actor = "system", heard: Sequence[Envelope] = ()
    ) -> None:
        """Log events that happened now: all or none, after the earlier ones in `heard`."""
        with self._guard:
            at = self.now_us()
            made = [
                Envelope.of(mended(payload), id=self.new_id(), at=at, session=self.id, turn=turn, actor=actor)
                for payload in payloads
            ]
            self._append([*heard, *made])
            self.publish(made)
            memory_updates.note_shown(self, [*(each.payload for each in heard), *payloads])

    def tell(
        self,
        event: Event | str,
        fields: Mapping[str, object] | None = None,
        *,
        actor: Actor = "system",
        turn: str | None = None,
    ) -> None:
        """Tell the model of something before it is asked the next time: an event, or its type (`task.updated`,
        `setting.toggled`…) and its fields."""
        self.log(checked_event(event, fields), actor=actor, turn=turn)

    def heard(self, envelope: Envelope) -> None:
        """Log a tool's event, which the tool has already published."""
        logged = from_tools(envelope)
        if isinstance(envelope.payload, MemoryUpdated) and self.settings.agent.volatile == "system":
            logged = None  # the volatile system text says it
        if isinstance(envelope.payload, MemorySurfaced):
            self._surfaced.append(envelope)  # what stands in an answer is told when that is
        elif logged is not None:
            with self._guard:
                self._append([logged])

    def fold(self, envelopes: Sequence[Envelope]) -> None:
        """Apply events that are already in the log to the state."""
        for envelope in envelopes:
            self._take(envelope)
        self._delegated_before = self.state.delegated_cost

    def _append(self, envelopes: list[Envelope]) -> None:
        self.disk_log.append(envelopes)
        for envelope in envelopes:
            self._take(envelope)

    def _take(self, envelope: Envelope) -> None:
        payload = envelope.payload
        self.state = advance(self.state, envelope)
        self.resets.take(envelope)
        if isinstance(payload, TurnAnswered) and payload.read:
            self.reading.add(payload.model)
        elif isinstance(payload, SessionState):
            self._stored = (self.box.lasting, self.state.skills)

    def publish(self, envelopes: Sequence[Envelope]) -> None:
        """For the bus and the store."""
        bodies = self.settings.store.keep_bodies
        publish(envelopes, bus=self.sessions.bus, store=self.sessions.store, tenant=self.sessions.tenant, bodies=bodies)

    # A request

    @property
    def static(self) -> Static:
        composed = self.state.composed
        zone = "UTC" if composed is None else composed.timezone
        return Static(timezone=zone, model=self.model, dialect=self.dialect)

    @property
    def output_limit(self) -> int:
        return min(self.settings.agent.output_tokens, self.facts.output_limit)

    def messages(self) -> tuple[Message, ...]:
        """The conversation as this model is sent it."""
        return self.box.fitting(render(self.state.window, self.static))

    @property
    def system(self) -> SystemText:
        """The system text as this model is sent it: in blocks of their own where they can carry markers."""
        return system_of(self.state, marked=self.dialect in ("anthropic", "openrouter") and takes_markers(self.facts))

    def request(self, extra: Sequence[Message] = (), *, output_limit: int | None = None) -> Request:
        composed = self.state.composed
        key = key_members(self.facts, self.dialect, "" if composed is None else composed.cache_key)
        effort = effort_members(self.facts, self.dialect, self.state.effort, self.output_limit)
        return request(
            (*self.messages(), *extra),
            target=Target(facts=self.facts, name=named(self.model), dialect=self.dialect),
            system=self.system,
            tools=self.box.definitions(),
            members=(*key, *self.box.choice(), *effort),
            output_limit=self.output_limit if output_limit is None else output_limit,
            stored=self.settings.cache.openai.store_completions,
        )

    @property
    def reset(self) -> str | None:
        """Why the next request may depart from the last one."""
        return self.resets.of(self.model, effort_matters=lost_section(self.facts, self.dialect) is not None)

    def prepare(self, body: Body, *, turn: str | None, masking: bool = True) -> PreparedCall:
        """Prepare a request. Without `masking` it masks what the last one did and nothing new."""
        options = PrepareOptions(
            reset=self.reset,
            volatile=volatile_blocks(self, body),
            pinned=pinned_block(self, body),
            summary=summary_block(self),
            common=shared_head(self, body),
            turn=turn,
        )
        prepared = self.box.prepare(
            self.engine, body, lane=self.lane, now=self.clock(), options=options, masking=masking
        )
        if self.on_planned is not None:
            self.on_planned(prepared)
        return prepared

    def began(self, prepared: PreparedCall, usage: Usage | None = None) -> None:
        """Record that the answer has begun; `usage` is the provider's usage so far."""
        if prepared.core.first_token is None:
            self.engine.first_token(prepared, now=self.clock(), usage=usage)
            if self.on_begun is not None:
                self.on_begun()

    def flush(self, turn: str | None = None) -> None:
        """What has happened since becomes one more entry, for ever."""
        memory_updates.update_files(self, turn)
        with self._guard:
            entries = flush(self.state, self.now_us())
            if entries:
                self.log(WindowAppended(entries=to_json(entries)), turn=turn)

    # A turn

    @property
    def waiting(self) -> bool:
        """Whether it is open and waits for its user: no turn runs, no summary is made, and it is no sub-agent's."""
        return self.parent is None and not self.disk_log.closed and not self._turn.locked()

    async def ask(
        self,
        text: str,
        *,
        attachments: Sequence[Image | Document] = (),
        watch: Watch | None = None,
        cancel: Cancel | None = None,
    ) -> Turn:
        """Say something to the agent and wait until it has answered. One turn at a time: others wait for it."""
        check_said(text, attachments, watch, cancel)
        async with self._turn:
            self._asking = cancel or Cancel()
            turn = await run_turn(self, text, attachments=tuple(attachments), watch=watch, cancel=self._asking)
        self.lines.append(turn.line)
        return turn

    @contextmanager
    def watched(self, watch: Watch, cancel: Cancel) -> Iterator[None]:
        """Tools run now: who sees their output, and what stops those that they start."""
        before = self._watch, self._cancel
        self._watch, self._cancel = watch, cancel
        try:
            yield
        finally:
            self._watch, self._cancel = before

    @property
    def watching(self) -> tuple[Watch, Cancel]:
        return self._watch, self._cancel

    def tools_answered(self, messages: tuple[Message, ...], turn: str | None) -> None:
        """The answers to the open calls, and what tools and skills know by now."""
        state = self._changed_state()
        answered = TurnToolsAnswered(messages=to_json(messages))
        heard, self._surfaced = self._surfaced, []
        self.log(answered, *(() if state is None else (state,)), turn=turn, actor="tool", heard=heard)

    def answer_open_calls(self, turn: str | None = None) -> None:
        """Answer calls that will get no result with a text that says so."""
        calls = self.state.open_calls
        self._surfaced.clear()
        if calls:
            self.tools_answered(self.box.cut(calls).messages, turn)

    def keep_state(self, *events: Event, turn: str | None = None, all_of_it: bool = False) -> None:
        """Log the state that the next request depends on, in one write with the `events` that caused it; `all_of_it`
        adds mere counts, which change with every turn and would make up most of the log."""
        state = self._changed_state(all_of_it)
        if events or state is not None:
            self.log(*events, *(() if state is None else (state,)), turn=turn)

    def _changed_state(self, all_of_it: bool = False) -> SessionState | None:
        skills = packed(self.skills.state)
        if not all_of_it and (self.box.lasting, skills) == self._stored:
            return None
        box = packed(self.box.state)
        return None if (box, skills) == (self.state.box, self.state.skills) else SessionState(tools=box, skills=skills)

    # Which model

    def set_model(self, model: str) -> None:
        """Another model from the next turn on."""
        check_model("set_model", model)
        model_choice.choose(self, self.sessions.model_ref(model))

    def switch(self, model: str) -> None:
        """Use this model from now on."""
        if model != self.model:
            self._speak_to(model)
            self.box.switch(model, self.dialect)

    def set_effort(self, effort: str) -> None:
        """How much the model is to think from the next request on; `default` is the provider's own. HoldfastError where
        it takes no such level."""
        check_level("set_effort", effort, self.facts.efforts)
        set_effort(self, effort)

    # Whatever else may be asked for

    def set_goal(self, text: str) -> None:
        """What the session is to reach, from the next turn on; an empty text gives it up."""
        check_text("set_goal", text, "set_goal('Ship it.')")
        self.log(GoalSet(goal=text.strip()), actor="user")

    async def compact(self, *, watch: Watch | None = None, cancel: Cancel | None = None) -> CompactionResult:
        """Put a summary in the place of old history, now."""
        check_watched("session.compact", watch, cancel)
        async with self._turn:
            return await compaction.compact(self, watch=watch, cancel=cancel)

    async def delegate(
        self, tasks: Sequence[Task], *, awaited: bool = True, watch: Watch | None = None, cancel: Cancel | None = None
    ) -> tuple[DelegateResult, ...]:
        """Give tasks to sub-agents. Results that are not `awaited` reach the next turn."""
        check_tasks(tasks, watch, cancel)
        return await self.crew.run(
            tasks, awaited=awaited, watch=watch or Watch(), cancel=cancel or Cancel(), tool=delegate_tool(self)
        )

    def inspect(self) -> tuple[InspectedBlock, ...]:
        """Every block of the next request: whose it is, how large, how old, and whether it is cached."""
        return inspection.inspect(self)

    def totals(self) -> CostLine:
        """What was paid since the session was opened, but for sub-agents."""
        return costs.total(self.lines, self.model)

    @property
    def delegated(self) -> Decimal:
        """What sub-agents were paid since the session was opened."""
        return self.state.delegated_cost - self._delegated_before

    async def end(self) -> None:
        """End the session. It stays on disk."""
        await self.close(ended=True)
        for model in self.resets.used:
            self.engine.end(self.lane_of(model), now=self.clock())

    def discard(self) -> None:
        """Delete the log of a session that was never started."""
        self.disk_log.discard()

    async def close(self, *, ended: bool = False) -> None:
        """Leave the session as it is; it can be resumed. What runs in the background ends, and so does a turn."""
        self._asking.set()
        with suppress(TimeoutError):  # a tool that closes its own session cannot be waited for
            async with asyncio.timeout(_TURN_END_S), self._turn:
                pass
        await self.crew.close()
        await self.box.close()
        try:
            if not self.disk_log.closed:
                self.answer_open_calls()
                self.keep_state(all_of_it=True)
                if ended:
                    cost = self.state.cost + self.state.delegated_cost
                    self.log(SessionEnded(turns=self.state.turns, cost=cost), actor="user")
        finally:
            self.disk_log.close()
            self.sessions.forget(self)
            await self.sessions.contents.release(self)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
