"""Memory for clients of the gateway and the SDK, which know nothing of it: put into their requests as if they had sent
it.

A lane is given its stable block with its first request and never another one. Further memory is put in front of the
user's message, only where nothing was sent yet, or, with the placement `blocks`, as a block behind the stable one. It
is durable before it is first sent, and sent again with every later request. Memory that cannot be stored in time is
left out, and the request is sent with the memory of the one before. A request without memory is sent as it came, with a
reset if the one before had some; the lane's memory is kept for when memory is switched on again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from holdfast.caches import Prompt
from holdfast.config import Settings
from holdfast.core import DIGEST, Sent, marks_nothing
from holdfast.engine import EngineCore, Lane, facts_of
from holdfast.engine.identity import LOCAL
from holdfast.engine.passage import BYPASSED, Remembered, Reminder
from holdfast.errors import HoldfastError
from holdfast.records.events import MemorySurfaced
from holdfast.store import Store, VersionConflictError
from holdfast.store import operations as op
from holdfast.wire import DIALECTS, Body, Injected, Reading, continued_id, inject, is_too_long

from .ids import is_named
from .injection_policy import InjectionDecision, InjectionRequest, again, begin, present_in, texts_of
from .injection_state import LaneMemory, PresentDeltas, RecentLane, RecentLanes, decode, encode
from .knowledge import Knowledge
from .surface import Surfacing

OFF, NONE = "off", "none"
LASTS, BLOCK_CHANGED = "1h", "memory_block_changed"
TENANTS = 10_000
LOCKS = 64
TRIES = 3
"""Attempts to decide again after another process stored the lane's memory first."""


class MemoryInjector:
    """Memory for all lanes of a process. `settings` returns the settings of an agent by its name; `agents` are the
    agents with settings of their own, None where they are not known."""

    def __init__(
        self,
        engine: EngineCore,
        store: Store,
        settings: Callable[[str], Settings],
        *,
        agents: tuple[str, ...] | None = (),
        clock: Callable[[], float],
    ) -> None:
        self._engine, self._store, self._settings, self._clock = engine, store, settings, clock
        self._agents = None if agents is None else ("", *agents)
        self.recent_lanes = RecentLanes()
        self._tenants: dict[str, bool] = {}  # tenants, and whether they were ever given anything
        self._locks = tuple(threading.Lock() for _ in range(LOCKS))

    # What a passage asks

    def concerns(self, tenant: str) -> bool:
        """Whether a tenant is or was given memory; also true for a tenant that was not seen yet."""
        if self._agents is None:
            return True
        return self._tenants.get(tenant, True) or any(
            _concerns(self._settings(agent), tenant) for agent in self._agents
        )

    def remember(self, reminder: Reminder) -> Remembered | None:
        lane, settings = reminder.lane, self._settings(reminder.lane.agent)
        if not _concerns(settings, lane.tenant, from_page=reminder.from_page):
            return self._without_memory(reminder) if self.has_memory(lane.tenant) else None
        recent = self.recent_lanes.of(lane)
        with self._locked(lane, reminder.timeout):
            if reminder.off:
                return self._without_memory(reminder)
            version, memory = self._load(lane, recent)
            last = self._engine.ledger(lane, now=reminder.now).last
            return self._remember(reminder, settings, recent, version, memory, last)

    def refused(self, lane: Lane, status: int, text: str) -> None:
        """Choose again with the next request what can be chosen again, because this one did not fit."""
        if is_too_long(status, text):
            self.recent_lanes.of(lane).refresh = True

    # A request

    def _remember(
        self,
        reminder: Reminder,
        settings: Settings,
        recent: RecentLane,
        version: int,
        memory: LaneMemory | None,
        last: Sent | None,
    ) -> Remembered:
        request = self._request(reminder, settings, recent, last)
        decision = self._decide(request, memory)
        for _ in range(TRIES):
            if not decision.write and recent.late is None:
                break
            try:
                version = self._put(reminder, decision.memory, version)
            except VersionConflictError:
                version, memory = self._load(reminder.lane, recent)
                decision = self._decide(request, memory)
            except (HoldfastError, TimeoutError):
                # It may become durable all the same; what counts is what is sent now.
                decision = decision.without_news
                recent.late = decision.memory
                break
            else:
                recent.late = None
                break
        else:
            decision = decision.without_news
        recent.memory, recent.refresh = decision.memory, recent.refresh and recent.late is not None
        recent.messages, recent.after = request.messages, request.after
        if decision.block_changed and last is not None:
            recent.changed = last.call
        return self._remembered(request, recent, decision, last)

    def _request(
        self, reminder: Reminder, settings: Settings, recent: RecentLane, last: Sent | None
    ) -> InjectionRequest:
        model = facts_of(reminder.body)

        def knowledge(project: str | None) -> Knowledge:
            tenant = LOCAL if settings.memory.inject_as == "local" else reminder.lane.tenant
            return Knowledge(self._store, tenant, project=project, clock=self._clock)

        def surfacing(project: str | None) -> Surfacing:
            return Surfacing(
                knowledge(project),
                settings.memory,
                audience="client",
                context_limit=model.context_limit,
                output_limit=model.output_limit,
                timeout=reminder.timeout / 2,  # the same again is for what the lane is given
            )

        earlier = recent.messages
        return InjectionRequest(
            body=reminder.body,
            reading=reminder.read(),
            lane=reminder.lane,
            now=reminder.now,
            settings=settings.memory,
            keep_bodies=settings.store.keep_bodies,
            project=reminder.project or settings.memory.project or reminder.directory or None,
            joined=marks_nothing(settings.cache, model),
            knowledge=knowledge,
            surfacing=surfacing,
            earlier=b"" if earlier is not None and continued_id(reminder.body) != recent.after else earlier,
            last=last,
            refresh=recent.refresh,
        )

    def _decide(self, request: InjectionRequest, memory: LaneMemory | None) -> InjectionDecision:
        """The memory of a request; that of the request before where nothing new can be looked up."""
        if memory is None:
            inherited = self._inherited(request.lane) if request.last is None else None
            return begin(request) if inherited is None else again(request, inherited, inherited=True)
        try:
            return again(request, memory)
        except HoldfastError:
            return InjectionDecision(memory=memory, before=memory)

    def _inherited(self, lane: Lane) -> LaneMemory | None:
        """The memory of the conversation that a lane was forked from. A sub-agent inherits none."""
        if lane.parent is None or lane.subagent:
            return None
        row = self._store.injection(lane.tenant, lane.parent)
        return None if row is None else decode(row.data)

    def _remembered(
        self, request: InjectionRequest, recent: RecentLane, decision: InjectionDecision, last: Sent | None
    ) -> Remembered:
        """The request with the memory of its lane."""
        memory = decision.memory
        if memory.is_empty:
            emptied = _has_changed(last, request.reading.prompt, recent)
            return Remembered(body=request.body, reset=BLOCK_CHANGED if emptied else None, says=NONE)
        present = request.present_deltas(memory)
        injection, body, reading = self._inject(request.body, request.reading, memory, present)
        self._note(request.lane.tenant, True)
        stable, context = (None if i is None else body.blocks[i].path for i in (injection.stable, injection.context))
        return Remembered(
            body=body,
            reading=reading,
            pinned={} if stable is None else {stable: LASTS},
            volatile=() if context is None else (context,),
            reset=_reset(last, request.reading.prompt, reading.prompt, injection, recent),
            says=_header_value(memory, present),
            went=lambda: self._emit(request, memory.project, decision.news),
        )

    def _inject(
        self, body: Body, reading: Reading, memory: LaneMemory, present: PresentDeltas
    ) -> tuple[Injected, Body, Reading]:
        """A client's body with the memory of its lane."""
        texts = texts_of(reading, present)
        injection = inject(body, memory.stable.text, memory.context.text, texts, joined=memory.joined)
        if injection is None:
            raise HoldfastError("the body has no place for the memory that its conversation was given before.")
        if injection.raw is body.raw:
            return injection, body, reading
        read = self._engine.given(DIALECTS[body.dialect], injection.raw, model=body.model)
        if read is None or len(read[0].blocks) != injection.blocks:
            raise HoldfastError("the body cannot be read with memory in it.")
        return injection, *read

    def _without_memory(self, reminder: Reminder) -> Remembered | None:
        """A request that is to have no memory, with a reset if the one before had some."""
        reset, says = self._departure(reminder), OFF if reminder.off else ""
        return Remembered(body=reminder.body, reset=reset, says=says) if says or reset is not None else None

    def _departure(self, reminder: Reminder) -> str | None:
        """The reset of a request without memory: set if the last accepted request of the lane held memory."""
        lane, last = reminder.lane, self._engine.ledger(reminder.lane, now=reminder.now).last
        recent = self.recent_lanes.peek(lane) or RecentLane()
        try:
            memory = None if last is None else self._load(lane, recent)[1]
            if last is None or memory is None:
                return None
            reading = reminder.read()
            if _has_changed(last, reading.prompt, recent):
                return BYPASSED
            if memory.is_empty:
                return None
            present = present_in(reminder.body, reading, memory)
            injection, _, ours = self._inject(reminder.body, reading, memory, present)
        except HoldfastError:  # the store cannot say, or the client has changed so much that it departs by itself
            return None
        return BYPASSED if _has(last, ours.prompt, injection.ours) else None

    def _emit(self, request: InjectionRequest, project: str | None, news: tuple[MemorySurfaced, ...]) -> None:
        """Emit what was put into a prompt and record when each entry was shown; the text only if bodies are stored."""
        lane, knowledge = request.lane, request.knowledge(project)
        for each in news:
            event = each if request.keep_bodies else replace(each, text="")
            self._engine.tell(lane, event, now=request.now)
            entries = tuple(zip(each.entries, each.hashes, strict=True))
            knowledge.note_shown(entries, session=lane.session, lane=lane.id, place=each.place, why=each.why)

    # What is kept

    def has_memory(self, tenant: str) -> bool:
        """Whether a prompt of this tenant ever held memory. False while the store cannot be read."""
        had = self._tenants.get(tenant)
        if had is None:
            try:
                had = self._store.injected(tenant)
            except HoldfastError:
                return False
            self._note(tenant, had)
        return had

    def _note(self, tenant: str, had: bool) -> None:
        if len(self._tenants) >= TENANTS:
            self._tenants.clear()
        self._tenants[tenant] = had

    def _load(self, lane: Lane, recent: RecentLane) -> tuple[int, LaneMemory | None]:
        """The memory of the lane, and its version. While the store cannot be read, the memory sent last."""
        try:
            row = self._store.injection(lane.tenant, lane.id)
        except HoldfastError:
            if recent.memory is None:
                raise
            return -1, recent.memory
        version = 0 if row is None else row.version
        if recent.late is not None:
            return version, recent.late
        return version, None if row is None else decode(row.data) or LaneMemory(started=True)

    def _put(self, reminder: Reminder, memory: LaneMemory, version: int) -> int:
        if version < 0:
            raise HoldfastError("the store cannot be read, so nothing new is put into a prompt.")
        lane = reminder.lane
        future = self._store.write(op.PutInjection(lane.tenant, lane.id, encode(memory), expected=version))
        return future.result(reminder.timeout / 2)

    @contextmanager
    def _locked(self, lane: Lane, timeout: float) -> Iterator[None]:
        """Serialise the requests of a lane. Lanes share a fixed number of locks."""
        lock = self._locks[hash((lane.tenant, lane.id)) % LOCKS]
        if not lock.acquire(timeout=max(0.0, timeout)):
            raise TimeoutError("another request of the same lane takes too long")
        try:
            yield
        finally:
            lock.release()


def _concerns(settings: Settings, tenant: str, *, from_page: bool = False) -> bool:
    """Return whether a tenant gets memory. This user's own (`inject_as = "local"`) reaches a web page only if the
    page's credential is named: a page chooses the key it sends, and reads the answer."""
    memory = settings.memory
    if not memory.inject:
        return False
    if memory.inject_tenants:
        return is_named(tenant, memory.inject_tenants)
    return memory.inject_as == "tenant" or not from_page


def _has_changed(last: Sent | None, prompt: Prompt, recent: RecentLane) -> bool:
    """Whether a request departs from the one before, after which the context block changed."""
    return last is not None and last.call == recent.changed and last.departs(prompt)


def _reset(
    last: Sent | None, client_prompt: Prompt, prompt: Prompt, injection: Injected, recent: RecentLane
) -> str | None:
    """The reason of a departure that memory causes: the context block changed, or the request before was sent without
    the memory of its lane."""
    if last is None or not last.departs(prompt):
        return None
    index = last.common_blocks(prompt)
    if _has_changed(last, prompt, recent) or prompt.place(index) == injection.context:
        return BLOCK_CHANGED
    missing = injection.stable is not None and not _has(last, prompt, (injection.stable,))
    return BYPASSED if missing or last.common_blocks(client_prompt) > index else None


def _has(last: Sent, prompt: Prompt, ours: tuple[int, ...]) -> bool:
    """Whether one of these blocks of ours was in the last request, at any place: a block before it may be repaired."""
    sent = {last.digest(index) for index in range(len(last))}
    return any(
        block.digest[:DIGEST] in sent for index, block in enumerate(prompt.blocks) if prompt.place(index) in ours
    )


def _header_value(memory: LaneMemory, present: PresentDeltas) -> str:
    """The value of the client's response header."""
    parts = ["stable"] if memory.stable.text else []
    parts += ["context"] if memory.context.text else []
    parts += [f"deltas={present.count}"] if present.count else []
    return "; ".join(parts)
