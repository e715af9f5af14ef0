"""Memory for clients of others, which know nothing of it: put into their requests as if they had sent it.

A lane is given its stable block with its first request and never another one. Further memory comes in front of what the
user says, only where nothing was sent yet, or, with the placement `blocks`, as a block behind the stable one. What was
given is durable before it is first sent, and sent again with every later request. What cannot be kept in time is left
out; the request then goes with what was given before. A request that is to have none goes as it came, and says that it
departs where the one before had some; what its lane was given stays for when memory is switched on again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

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
from holdfast.wire import DIALECTS, Body, Injected, Reading, continued, injected, is_too_long

from .ids import is_named
from .injection_policy import Asked, Decision, again, begin, standing_in, texts_of
from .injection_state import Given, RecentLane, RecentLanes, Standing, decode, encode
from .knowledge import Knowledge
from .surface import Surfacing

OFF, NONE = "off", "none"
LASTS, BLOCK_CHANGED = "1h", "memory_block_changed"
TENANTS = 10_000
TURNS = 64
TRIES = 3
"""How often it is decided anew where another process was quicker."""


class Injecting:
    """Memory for all lanes of a process. `settings` are those of an agent by its name, `agents` those with settings of
    their own; None: it is not known which those are."""

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
        self._lanes = RecentLanes()
        self._had: dict[str, bool] = {}  # tenants, and whether they were ever given anything
        self._turns = tuple(threading.Lock() for _ in range(TURNS))

    # What a passage asks

    def concerns(self, tenant: str) -> bool:
        """Also one that has been given some before; of one that was not here yet that is not known."""
        if self._agents is None:
            return True
        return self._had.get(tenant, True) or any(_concerns(self._settings(agent), tenant) for agent in self._agents)

    def remember(self, reminder: Reminder) -> Remembered | None:
        lane, settings = reminder.lane, self._settings(reminder.lane.agent)
        if not _concerns(settings, lane.tenant, from_page=reminder.from_page):
            return self._without(reminder) if self._was_given(lane.tenant) else None
        known = self._lanes.of(lane)
        with self._alone(lane, reminder.timeout):
            if reminder.off:
                return self._without(reminder)
            version, given = self._load(lane, known)
            last = self._engine.ledger(lane, now=reminder.now).last
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
        known: RecentLane,
        version: int,
        given: Given | None,
        last: Sent | None,
    ) -> Remembered:
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
        known.given, known.refresh = decision.given, known.refresh and known.late is not None
        known.messages, known.after = asked.messages, asked.after
        if decision.block_changed and last is not None:
            known.changed = last.call
        return self._made(asked, known, decision, last)

    def _asked(self, reminder: Reminder, settings: Settings, known: RecentLane, last: Sent | None) -> Asked:
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
                patience=reminder.timeout / 2,  # the same again is for what the lane is given
            )

        earlier = known.messages
        return Asked(
            body=reminder.body,
            reading=reminder.read(),
            lane=reminder.lane,
            now=reminder.now,
            memory=settings.memory,
            keep_bodies=settings.store.keep_bodies,
            project=reminder.project or settings.memory.project or reminder.directory or None,
            joined=marks_nothing(settings.cache, model),
            knowledge=knowledge,
            surfacing=surfacing,
            earlier=b"" if earlier is not None and continued(reminder.body) != known.after else earlier,
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

    def _made(self, asked: Asked, known: RecentLane, decision: Decision, last: Sent | None) -> Remembered:
        """The request with all that its lane was given."""
        given = decision.given
        if given.is_empty:
            emptied = _has_changed(last, asked.reading.prompt, known)
            return Remembered(body=asked.body, reset=BLOCK_CHANGED if emptied else None, says=NONE)
        here = asked.standing(given)
        made, body, reading = self._with(asked.body, asked.reading, given, here)
        self._note(asked.lane.tenant, True)
        stable, context = (None if i is None else body.blocks[i].path for i in (made.stable, made.context))
        return Remembered(
            body=body,
            reading=reading,
            pinned={} if stable is None else {stable: LASTS},
            volatile=() if context is None else (context,),
            reset=_reset(last, asked.reading.prompt, reading.prompt, made, known),
            says=_says(given, here),
            went=lambda: self._tell(asked, given.project, decision.news),
        )

    def _with(self, theirs: Body, reading: Reading, given: Given, here: Standing) -> tuple[Injected, Body, Reading]:
        """A client's body with all that its lane was given."""
        texts = texts_of(reading, here)
        made = injected(theirs, given.stable.text, given.context.text, texts, joined=given.joined)
        if made is None:
            raise HoldfastError("the body has no place for the memory that its conversation was given before.")
        if made.raw is theirs.raw:
            return made, theirs, reading
        read = self._engine.given(DIALECTS[theirs.dialect], made.raw, model=theirs.model)
        if read is None or len(read[0].blocks) != made.blocks:
            raise HoldfastError("the body cannot be read with memory in it.")
        return made, *read

    def _without(self, reminder: Reminder) -> Remembered | None:
        """A request that is to have no memory. Where the one before it had some, this is why it departs from that."""
        reset, says = self._departs(reminder), OFF if reminder.off else ""
        return Remembered(body=reminder.body, reset=reset, says=says) if says or reset is not None else None

    def _departs(self, reminder: Reminder) -> str | None:
        """Whether something that the lane was given stood in its last request, of those that the provider took."""
        lane, last = reminder.lane, self._engine.ledger(reminder.lane, now=reminder.now).last
        known = self._lanes.peek(lane) or RecentLane()
        try:
            given = None if last is None else self._load(lane, known)[1]
            if last is None or given is None:
                return None
            reading = reminder.read()
            if _has_changed(last, reading.prompt, known):
                return BYPASSED
            if given.is_empty:
                return None
            here = standing_in(reminder.body, reading, given)
            made, _, ours = self._with(reminder.body, reading, given, here)
        except HoldfastError:  # the store cannot say, or the client has changed so much that it departs by itself
            return None
        return BYPASSED if _has(last, ours.prompt, made.ours) else None

    def _tell(self, asked: Asked, project: str | None, news: tuple[MemorySurfaced, ...]) -> None:
        """What was put into a prompt, and when each entry was shown; the words themselves only if bodies are kept."""
        lane, knowledge = asked.lane, asked.knowledge(project)
        for each in news:
            told = each if asked.keep_bodies else replace(each, text="")
            self._engine.tell(lane, told, now=asked.now)
            entries = tuple(zip(each.entries, each.hashes, strict=True))
            knowledge.note_shown(entries, session=lane.session, lane=lane.id, place=each.place, why=each.why)

    # What is kept

    def _was_given(self, tenant: str) -> bool:
        """Whether anything was ever put into a prompt of this tenant. The store is asked until it has said so; while it
        cannot say, nothing was."""
        had = self._had.get(tenant)
        if had is None:
            try:
                had = self._store.injected(tenant)
            except HoldfastError:
                return False
            self._note(tenant, had)
        return had

    def _note(self, tenant: str, had: bool) -> None:
        if len(self._had) >= TENANTS:
            self._had.clear()
        self._had[tenant] = had

    def _load(self, lane: Lane, known: RecentLane) -> tuple[int, Given | None]:
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
        return future.result(reminder.timeout / 2)

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


def _concerns(settings: Settings, tenant: str, *, from_page: bool = False) -> bool:
    """Whether a tenant is given memory. This user's own (`inject_as = "local"`) reaches a web page only if the page's
    credential is named: a page chooses whose key it sends, and reads what it gets."""
    memory = settings.memory
    if not memory.inject:
        return False
    if memory.inject_tenants:
        return is_named(tenant, memory.inject_tenants)
    return memory.inject_as == "tenant" or not from_page


def _same(last: Sent, prompt: Prompt) -> int:
    """How many blocks a request has in common with the one before, from the first on."""
    pairs = zip(range(len(last)), prompt.blocks, strict=False)
    return sum(1 for _ in takewhile(lambda pair: last.digest(pair[0]) == pair[1].digest[:DIGEST], pairs))


def _differs(last: Sent, prompt: Prompt) -> bool:
    """Whether a request does not go on with the one before."""
    return _same(last, prompt) < min(len(last), len(prompt.blocks))


def _has_changed(last: Sent | None, prompt: Prompt, known: RecentLane) -> bool:
    """Whether a request departs from the one before, and the context block is another one since that."""
    return last is not None and last.call == known.changed and _differs(last, prompt)


def _reset(last: Sent | None, theirs: Prompt, prompt: Prompt, made: Injected, known: RecentLane) -> str | None:
    """Why a request departs from the one before, if memory is the reason: the context block has changed, or the one
    before went without what its lane was given."""
    if last is None or not _differs(last, prompt):
        return None
    index = _same(last, prompt)
    if _has_changed(last, prompt, known) or prompt.place(index) == made.context:
        return BLOCK_CHANGED
    missing = made.stable is not None and not _has(last, prompt, (made.stable,))
    return BYPASSED if missing or _same(last, theirs) > index else None


def _has(last: Sent, prompt: Prompt, ours: tuple[int, ...]) -> bool:
    """Whether one of these blocks of ours stood in the last request, wherever: what is before it may be repaired."""
    sent = {last.digest(index) for index in range(len(last))}
    return any(
        block.digest[:DIGEST] in sent for index, block in enumerate(prompt.blocks) if prompt.place(index) in ours
    )


def _says(given: Given, here: Standing) -> str:
    """What a client is told of it."""
    parts = ["stable"] if given.stable.text else []
    parts += ["context"] if given.context.text else []
    parts += [f"deltas={here.count}"] if here.count else []
    return "; ".join(parts)
