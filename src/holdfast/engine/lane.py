"""What goes in and out of the engine, and the checks of what it gets."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from holdfast.caches import Outcome
from holdfast.config import Settings
from holdfast.core import Command, IdleLane, Preflight, Proposal, Use, Verdict
from holdfast.core import planner as core
from holdfast.core.repairs import Repair
from holdfast.errors import ArgumentError, kind_of, wrong_argument
from holdfast.records import Usage
from holdfast.records.events import Bus
from holdfast.wire import Body, Reading

from .gemini_content_calls import Send


class Saving(Struct, frozen=True):
    """What repairs would have saved of one call, in dollars; below zero where it would have cost more, 0 where nothing
    is suggested. `exact` if nothing but unambiguous values is moved for it, so that `cache.repair = "values"` is
    enough."""

    dollars: Decimal
    exact: bool


class Lane(Struct, frozen=True, kw_only=True):
    """One linear conversation: tenant, session, agent and model make its id. `parent` is the lane that started it.

    A lane with an unknown id begins anew; the sender of a request decides which lane it belongs to. An `observed` one
    is planned as the client sends it: its requests are not changed, and no other calls are made for it. `before` is its
    tenant before a renewed login: that tenant's lane of the same id continues here, without any text of it.
    """

    tenant: str
    session: str
    id: str
    client: str = ""
    agent: str = ""
    parent: str | None = None
    subagent: bool = False
    observed: bool = False
    before: str = ""


class PrepareOptions(Struct, frozen=True, kw_only=True):
    """What the sender of a request announces and asks for. Blocks are named by their path in the body."""

    reset: str | None = None
    """The reason for which the request may depart from the lane's last one."""
    skip: frozenset[str] = frozenset()
    """Repairs to leave out."""
    edits: Mapping[bytes, bytes] = {}
    """Replacements that are asked for, by the digest of the block."""
    volatile: tuple[str, ...] = ()
    """Blocks that change with every request."""
    pinned: Mapping[str, str] = {}
    """Blocks that get a marker, with its TTL."""
    summary: str | None = None
    """The block of a summary."""
    common: str | None = None
    """The last block of what the agent's other conversations begin with too."""
    turn: str | None = None
    """The turn that the request's events belong to."""


class Arrival(Struct, frozen=True):
    """A request as it arrives at the engine."""

    body: Body
    reading: Reading
    """The result of the client's prompt readers for `body`."""
    lane: Lane
    options: PrepareOptions
    now: float


class SideCall(Struct, frozen=True):
    """A call to make beside the requests, for this agent's cached contents (Gemini)."""

    agent: str
    command: Command
    send: Send


class PreparedCall(Struct, kw_only=True):
    """A request that may be sent. `raw` are the bytes to send; `sent` is the body they were made of, without markers of
    ours, and `client` the body as received.

    `repairs` lists the repairs made and those that would help; `edits` is the decision on requested edits.
    """

    call: str
    lane: Lane
    raw: bytes
    client: Body
    sent: Body
    core: core.PlannedRequest
    preflight: Preflight
    repairs: tuple[Repair, ...] = ()
    edits: Proposal | None = None
    reset: str | None = None
    turn: str | None = None
    earlier: Body | None = None
    """The body of the lane's request before, where it is still remembered."""
    use: Use | None = None
    """The cached content it names (Gemini)."""
    created: Decimal = Decimal(0)
    """What making cached contents for it has cost, in dollars: accounted for with it."""
    plain: Outcome | None = None
    """The prediction before it named a cached content."""
    waited: IdleLane | None = None
    """The pause before it, if pings were sent in it."""
    before: tuple[SideCall, ...] = ()
    """Calls to make first, each brought back with `EngineCore.answered`."""
    verdict: Verdict | None = None
    """What became of it, once it is settled."""
    repairs_save: Saving | None = None
    """What repairs would have saved of it, where some are suggested for its lane."""
    owner: object = None
    """The engine that prepared it, which has to end it."""
    estimated: Usage | None = None
    """What was booked for it although its answer was cut; a part of it is an estimate."""

    @property
    def markers(self) -> tuple[tuple[str, str], ...]:
        """The markers of the sent request: path and lifetime."""
        path = self.path
        return tuple([(path(mark.block), mark.ttl) for mark in self.core.plan.marks])

    def path(self, block: int) -> str:
        """The path of a block of the prompt."""
        prompt = self.core.outcome.prompt
        place = prompt.place(block)
        blocks = self.sent.blocks
        return blocks[place].path if place < len(blocks) else ""


_SETTINGS = (
    "settings, such as Engine(load_config({'cache.strategy': 'economic'})) with load_config of holdfast, "
    "or nothing for the defaults: Engine()"
)


def check_engine(settings: object, store: object, bus: object) -> None:
    """HoldfastError where an engine cannot be made of these."""
    if isinstance(settings, type) or not (settings is None or isinstance(settings, Settings) or callable(settings)):
        raise wrong_argument("Engine", settings, _SETTINGS)
    if callable(settings) and not isinstance(found := settings(""), Settings):
        raise ArgumentError(f"Engine got a function for its settings that returns {kind_of(found)}; give {_SETTINGS}")
    if isinstance(store, (str, bytes, Path)) or (store is not None and not hasattr(store, "cache_effectiveness")):
        raise wrong_argument(
            "Engine(store=…)", store, "an open store, such as Engine(store=open_store('holdfast.db')) of holdfast"
        )
    if bus is not None and not isinstance(bus, Bus):
        raise wrong_argument("Engine(bus=…)", bus, "a Bus of holdfast, such as Engine(bus=Bus())")


_LANE = "Lane(tenant='me', session='s1', id='s1/main')"


def check_lane(what: str, lane: object) -> None:
    if not isinstance(lane, Lane):
        raise wrong_argument(what, lane, f"a lane, such as {_LANE}")
    names: dict[str, object] = {"tenant": lane.tenant, "session": lane.session, "id": lane.id}
    for name, value in names.items():
        if not isinstance(value, str):
            raise wrong_argument(f"Lane({name}=…)", value, f"a text, as in {_LANE}")
