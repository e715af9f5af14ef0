"""Memory for clients of the gateway, which know nothing of it: put into their requests as if they had sent it.

A lane is given its stable block with its first request and never another one. Further memory comes in front of what the
user says, only where nothing was sent yet, or, with the placement `blocks`, as a block behind the stable one. What was
given is durable before it is first sent, and sent again with every later request. What cannot be kept in time is left
out; the request then goes with what was given before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.caches.values import Prompt
from holdfast.config.schema import Settings
from holdfast.engine import Engine, Lane
from holdfast.engine.state import facts_of
from holdfast.errors import HoldfastError
from holdfast.identity.core import LOCAL
from holdfast.prefix.retention import override
from holdfast.prefix.values import DIGEST, Sent
from holdfast.store import Store
from holdfast.store.base import VersionConflictError
from holdfast.transport.remembering import Remembered, Reminder
from holdfast.wire.injecting import Injected, injected
from holdfast.wire.lengths import is_too_long

from .injecting_deciding import Asked, Decision, News, again, begin, texts_of
from .injecting_lanes import Known, Lanes
from .injecting_state import Given, Standing, decode, encode, standing
from .injecting_telling import tell
from .knowledge import Knowledge
from .surfacing import Surfacing

OFF = "off"
BYPASSED, BLOCK_CHANGED = "bypassed", "memory_block_changed"
TURNS = 64
TRIES = 3
"""How often it is decided anew where another process was quicker."""


class Refused(Exception):
    """A body has no place for what its lane was given."""


class Injecting:
    """Memory for all lanes of a gateway. `settings` are those of an agent by its name, `agents` those with settings of
    their own."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        settings: Callable[[str], Settings],
        *,
        agents: tuple[str, ...] = (),
        clock: Callable[[], float],
    ) -> None:
        self._engine, self._store, self._settings, self._clock = engine, store, settings, clock
        self._agents = ("", *agents)
        self._lanes = Lanes()
        self._turns = tuple(threading.Lock() for _ in range(TURNS))

    # What a passage asks

    def concerns(self, tenant: str) -> bool:
        return any(_concerns(self._settings(agent), tenant) for agent in self._agents)

    def remember(self, reminder: Reminder) -> Remembered | None:
        settings = self._settings(reminder.lane.agent)
        if not _concerns(settings, reminder.lane.tenant):
            return None
        with self._alone(reminder.lane, reminder.patience):
            known = self._lanes.of(reminder.lane)
            version, given = self._load(reminder.lane, known)
            last = self._engine.ledger(reminder.lane, now=reminder.now).last
            if reminder.off:
                return _without(reminder, known, given, last)
            return self._remember(reminder, settings, known, version, given, last)

    def refused(self, lane: Lane, status: int, text: str) -> None:
        """A request that does not fit: what can be chosen anew is, with the next one."""
        if is_too_long(status, text):
            self._lanes.of(lane).refresh = True

    # A request

    def _remember(
        self,
        reminder: Reminder,
        settings: Settings,
        known: Known,
        version: int,
        given: Given | None,
        last: Sent | None,
    ) -> Remembered | None:
        asked = self._asked(reminder, settings, known, last)
        decision = self._decided(asked, given)
        for _ in range(TRIES):
            if not decision.write and known.late is None:
                break
            try:
                version = self._put(reminder, decision.given, version)
            except VersionConflictError:
                version, given = self._load(reminder.lane, known)
                decision = self._decided(asked, given)
            except (HoldfastError, TimeoutError):
                # It may become durable all the same; what counts is what is sent now.
                decision = decision.without_news
                known.late = decision.given
                break
            else:
                known.late = None
                break
        else:
            decision = decision.without_news
        known.given, known.refresh = decision.given, False
        known.messages = asked.messages
        return self._made(asked, known, decision, last)

    def _asked(self, reminder: Reminder, settings: Settings, known: Known, last: Sent | None) -> Asked:
        model = facts_of(reminder.body)

        def surfacing(project: str | None) -> Surfacing:
            tenant = LOCAL if settings.memory.inject_as == "local" else reminder.lane.tenant
            knowledge = Knowledge(self._store, tenant, project=project, clock=self._clock)
            return Surfacing(
                knowledge,
                settings.memory,
                audience="client",
                context_limit=model.context_limit,
                output_limit=model.output_limit,
                patience=reminder.patience / 2,  # the same again is for what the lane is given
            )

        return Asked(
            body=reminder.body,
            reading=reminder.read(),
            lane=reminder.lane,
            now=reminder.now,
            memory=settings.memory,
            keep_bodies=settings.store.keep_bodies,
            project=reminder.project or settings.memory.project or None,
            joined=settings.cache.strategy == "passthrough" or override(settings.cache, model) == "none",
            ttl={"short": "5m", "none": None}.get(override(settings.cache, model) or "", "1h"),
            surfacing=surfacing,
            earlier=known.messages,
            last=last,
            refresh=known.refresh,
        )

    def _decided(self, asked: Asked, given: Given | None) -> Decision:
        """What a request is given. Where nothing new can be found out, what its lane was given before."""
        if given is None:
            inherited = self._inherited(asked.lane) if asked.last is None else None
            return begin(asked) if inherited is None else again(asked, inherited, inherited=True)
        try:
            return again(asked, given)
        except HoldfastError:
            return Decision(given=given, before=given)

    def _inherited(self, lane: Lane) -> Given | None:
        """A conversation that was forked from another sends what that one sent. A sub-agent has one of its own."""
        if lane.parent is None or lane.subagent:
            return None
        row = self._store.injection(lane.tenant, lane.parent)
        return None if row is None else decode(row.data)

    def _made(self, asked: Asked, known: Known, decision: Decision, last: Sent | None) -> Remembered | None:
        """The request with all that its lane was given."""
        given = decision.given
        if given.is_empty:
            known.without = True
            return None
        here = standing(given, asked.blocks)
        texts = texts_of(asked, here)
        made = injected(asked.body, given.stable.text, given.context.text, texts, joined=given.joined)
        if made is None:
            raise Refused(asked.body.dialect)
        body, reading = asked.body, asked.reading
        if made.raw is not body.raw:
            read = self._engine.given(asked.dialect, made.raw, model=body.model)
            if read is None or len(read[0].blocks) != made.blocks:
                raise Refused(asked.body.dialect)
            body, reading = read
        known.without = False
        stable, context = (None if i is None else body.blocks[i].path for i in (made.stable, made.context))
        return Remembered(
            body=body,
            reading=reading,
            pinned={stable: asked.ttl} if stable is not None and asked.ttl is not None else {},
            volatile=() if context is None else (context,),
            reset=_reset(last, reading.prompt, made, decision),
            says=_says(given, here),
            went=lambda: self._tell(asked, given.project, decision.news),
        )

    def _tell(self, asked: Asked, project: str | None, news: tuple[News, ...]) -> None:
        if news:
            tell(self._engine, asked, asked.surfacing(project).knowledge, news)

    # What is kept

    def _load(self, lane: Lane, known: Known) -> tuple[int, Given | None]:
        """What the lane was given, and its version. While the store cannot say, what was sent last counts."""
        try:
            row = self._store.injection(lane.tenant, lane.id)
        except HoldfastError:
            if known.given is None:
                raise
            return -1, known.given
        version = 0 if row is None else row.version
        if known.late is not None:
            return version, known.late
        return version, None if row is None else decode(row.data) or Given(started=True)

    def _put(self, reminder: Reminder, given: Given, version: int) -> int:
        if version < 0:
            raise HoldfastError("the store cannot be read, so nothing new is put into a prompt.")
        lane = reminder.lane
        future = self._store.put_injection(lane.tenant, lane.id, encode(given), expected=version)
        return future.result(reminder.patience / 2)

    @contextmanager
    def _alone(self, lane: Lane, patience: float) -> Iterator[None]:
        """One request of a lane at a time; a few lanes share a turn."""
        turn = self._turns[hash((lane.tenant, lane.id)) % TURNS]
        if not turn.acquire(timeout=max(0.0, patience)):
            raise TimeoutError("another request of the same lane takes too long")
        try:
            yield
        finally:
            turn.release()


def _concerns(settings: Settings, tenant: str) -> bool:
    memory = settings.memory
    return memory.inject and (not memory.inject_tenants or tenant in memory.inject_tenants)


def _without(reminder: Reminder, known: Known, given: Given | None, last: Sent | None) -> Remembered | None:
    """A request that wants no memory. What the lane was given before is missing from it."""
    departs = given is not None and not given.is_empty and last is not None and not known.without
    known.without = True
    if given is None:
        return None
    return Remembered(body=reminder.body, reset=BYPASSED if departs else None, says=OFF)


def _reset(last: Sent | None, prompt: Prompt, made: Injected, decision: Decision) -> str | None:
    """Why a request departs from the one before, if it does so at a block of ours: the context block has changed, or
    what the lane was given was missing there."""
    if last is None:
        return None
    if decision.block_changed:
        return BLOCK_CHANGED
    pairs = zip(range(len(last)), prompt.blocks, strict=False)
    index = next((i for i, block in pairs if last.digest(i) != block.digest[:DIGEST]), None)
    if index is None:
        return None
    place = prompt.origin[index] if prompt.origin else index
    if place not in made.ours:
        return None
    return BLOCK_CHANGED if place == made.context else BYPASSED


def _says(given: Given, here: Standing) -> str:
    """What a client is told of it."""
    parts = ["stable"] if given.stable.text else []
    parts += ["context"] if given.context.text else []
    parts += [f"deltas={here.count}"] if here.count else []
    return "; ".join(parts)
