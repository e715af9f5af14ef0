"""What sessions cost from the very first request on, over what they would have cost without the engine (law 7).

Clients that mark their prompts are compared with their own bytes and markers under the same cache rules, clients that
do not with the provider's automatic caching or with their own bytes. Bodies go through identity and the whole engine on
a virtual clock, and the rules bill what is sent. Every client begins with nothing known of it, unless it is said.

Ratios of sessions are exact: both sides are counted by the same rules. A hundredth of tolerance stands where sessions
are counted that cost more.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from benchmarks import Result, recordings
from benchmarks.agent import START, Ticking
from benchmarks.first_session_clients import JUDGED, OTHERS, Recorded, Sent, documents, one_shots
from benchmarks.mechanisms_driving import prompt_cost
from holdfast.agent import Host, Sessions
from holdfast.agent.contract import OutgoingRequest, ProviderAnswer
from holdfast.caches.prompts import Cache as Provider
from holdfast.caches.prompts import Outcome
from holdfast.caches.providers import cache
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.counterfactuals import BOUND
from holdfast.core.planner import Tenant
from holdfast.engine import EngineCore
from holdfast.engine.identity import Identities, RequestSource
from holdfast.engine.state import facts_of
from holdfast.facts import ModelFacts, model
from holdfast.lab import Trace, read, with_gaps
from holdfast.lab.marker_plans import prices
from holdfast.lab.peers import PEERS
from holdfast.lab.playback import CoreWay, Marks, play
from holdfast.lab.sessions import TimedRequest, turns
from holdfast.lab.shape_blocks import words
from holdfast.records import Request, Usage
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.script import Script
from holdfast.wire import DIALECTS, Body, cache_parameters
from holdfast.wire.prompts import PromptReader

LENGTH, GAP, ANSWERED = 5, 20.0, 3.0
"""Requests of a first session, the seconds between them, and until an answer begins."""
SHOTS, SHOTS_APART, FILE = 10, 40.0, 12_000
CHAT = 30
LARGE = (
    ("84,000 tokens", 84_000, "claude-opus-4-6"),
    ("84,000 tokens", 84_000, "claude-opus-4-1"),
    ("a megabyte", 250_000, "claude-opus-4-6"),
)
THIRD = 3
MODELS = ("claude-opus-4-6", "claude-sonnet-5-5")
MARKING = ("claude-code", "opencode", "litellm", "langchain")
TOLERANCE = 1.01
ALONE = CacheSettings(strategy="passthrough", repair="off")


def run(*, quick: bool) -> Iterator[Result]:
    yield from first_sessions(quick=quick)
    yield from shared_file()
    yield from chat(quick=quick)
    yield from large_prefixes(quick=quick)
    yield from recorded_sessions(quick=quick)


# Bodies through the whole engine


@dataclass
class Bill:
    """What the provider's rules make of bodies, and what their prompts cost so far."""

    paid: Decimal = Decimal(0)
    used: list[Usage] = field(default_factory=list)
    _caches: dict[str, Provider] = field(default_factory=dict)
    _reader: PromptReader = field(default_factory=PromptReader)

    def add(self, raw: bytes, now: float, *, automatic: bool = False) -> tuple[Usage, str]:
        """A request that is answered before the next one comes."""
        body = self._body(raw)
        facts = facts_of(body)
        if automatic:
            body = self._body(body.apply(cache_parameters.set_automatic(body, "5m", facts)))
        provider = self._caches.setdefault(facts.ref, cache(facts))
        outcome = provider.begin(self._reader.read(body, facts).prompt, now)
        provider.first_token(outcome, now + ANSWERED)
        provider.finish(outcome, (), now + ANSWERED)
        used = outcome.usage(0)
        self.paid += prompt_cost(facts.ref, used)
        self.used.append(used)
        return used, facts.ref

    def _body(self, raw: bytes) -> Body:
        body = self._reader.parse(DIALECTS["anthropic"], raw)
        assert isinstance(body, Body), body
        return body


def through(
    requests: Sequence[Sent], *, gap: float = GAP, settings: CacheSettings | None = None
) -> tuple[Bill, list[str]]:
    """Requests of a client nobody knows, through the engine; with each what was done about its markers."""
    engine = EngineCore(Settings(cache=settings or CacheSettings()), strict=True)
    identities = Identities(b"a key of this benchmark, 32 bytes")
    bill, told = Bill(), list[str]()
    for number, request in enumerate(requests):
        now = START + number * gap
        body = engine.parse(DIALECTS["anthropic"], request.raw)
        assert isinstance(body, Body), body
        reading = partial(engine.read, body)
        found = identities.find(RequestSource(request.headers, request.query, body, reading), now)
        if found.side:
            bill.add(request.raw, now)
            told.append("beside the conversation")
            continue
        prepared = engine.prepare(body, lane=found.lane, now=now)
        identities.sent(found, body, reading, now)
        used, _ = bill.add(prepared.raw, now)
        engine.first_token(prepared, now=now + ANSWERED)
        engine.settle(prepared, used, now=now + ANSWERED)
        plan = prepared.core.plan
        told.append(f"{plan.marks} {plan.reasons} {plan.dropped}")
    return bill, told


def alone(requests: Sequence[Sent], *, gap: float = GAP, automatic: bool = False) -> Bill:
    """The same without the engine, as the client sends them or with automatic caching switched on."""
    bill = Bill()
    for number, request in enumerate(requests):
        bill.add(request.raw, START + number * gap, automatic=automatic)
    return bill


def _compared(name: str, ours: Bill, other: Bill, limit: float | None, against: str) -> Result:
    note = f"${ours.paid:.5f} for ${other.paid:.5f} {against}; {_tokens(ours)} for {_tokens(other)}"
    return Result(name, float(ours.paid / other.paid), "x", limit, "lower", note)


def _tokens(bill: Bill) -> str:
    read, written, plain = (sum(getattr(each, kind) for each in bill.used) for kind in ("read", "written", "input"))
    return f"{read:,} read, {written:,} written, {plain:,} plain"


# First sessions


def first_sessions(*, quick: bool) -> Iterator[Result]:
    """Five requests of each client that talks to Anthropic."""
    for each in JUDGED:
        yield _first(each, 1.0)
    for each in () if quick else JUDGED:
        yield _first(each, 1.0, grown=False)
    for each in OTHERS[:1] if quick else OTHERS:
        yield _first(each, 1.0)


def _first(client: Recorded, limit: float, *, grown: bool = True) -> Result:
    requests = client.session(max(LENGTH, len(client.requests)), grown=grown)
    ours, _ = through(requests)
    sizes = "" if grown else ", texts cut as recorded"
    return _compared(f"first session of {client.name}{sizes}", ours, alone(requests), limit, "alone")


def shared_file() -> Iterator[Result]:
    """aider asked again and again about one file, by a new conversation each time."""
    for marked, limit in ((False, 0.45), (True, 1.0)):
        requests = one_shots(SHOTS, FILE, marked=marked)
        ours, _ = through(requests, gap=SHOTS_APART)
        with_markers = "with" if marked else "without"
        name = f"{SHOTS} one-shots of aider with a file, {with_markers} markers"
        yield _compared(name, ours, alone(requests, gap=SHOTS_APART), limit, "alone")


# Our own agent


def chat(*, quick: bool) -> Iterator[Result]:
    """A chat of the agent without pauses, over the same chat of an agent that leaves caching to the provider."""
    for name in MODELS[:1] if quick else MODELS:
        ours, other = Bill(), Bill()
        for raw, now in asyncio.run(_chat(name, CacheSettings())):
            ours.add(raw, now)
        for raw, now in asyncio.run(_chat(name, replace(ALONE, padding="off"))):
            other.add(raw, now, automatic=True)
        yield _compared(f"chat of {CHAT} turns of our agent, {name}", ours, other, 1.01, "with automatic caching")


class Noting(Ticking):
    """A provider that notes what it is asked, and when."""

    def __init__(self, simulator: Simulator, clock: VirtualClock) -> None:
        super().__init__(simulator, clock)
        self._now = clock.now
        self.asked: list[tuple[bytes, float]] = []

    def open(self, request: OutgoingRequest) -> AbstractAsyncContextManager[ProviderAnswer]:
        self.asked.append((request.raw, self._now()))
        return super().open(request)


async def _chat(name: str, settings: CacheSettings) -> list[tuple[bytes, float]]:
    """What an agent sends in a chat, with times."""
    whole = Settings(agent=AgentSettings(model=f"anthropic:{name}"), cache=settings)
    clock = VirtualClock(START)
    provider = Noting(Simulator(script=Script(name="chat", function=_answer), clock=clock), clock)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        workspace = Path(scratch, "workspace")
        workspace.mkdir()
        sessions = Sessions(
            whole,
            workspace=workspace,
            home=Path(scratch, "home"),
            host=Host(provider=provider, engine=EngineCore(whole, strict=True), clock=clock.now),
        )
        session = await sessions.create()
        for number in range(CHAT):
            await session.ask(f"Question {number}: " + words(f"question {number}", 60))
            clock.advance(GAP)
        await session.end()
    return provider.asked


def _answer(request: Request) -> str:
    return words(f"answer {len(request.messages)}", 150)


# Large prefixes


def large_prefixes(*, quick: bool) -> Iterator[Result]:
    """A document that comes with every request of a program that marks nothing."""
    for size, tokens, name in LARGE[:1] if quick else LARGE:
        document = words("document", tokens)
        for conversation in (True, False):
            requests = documents(name, document, SHOTS, conversation=conversation)
            ours, _ = through(requests, gap=SHOTS_APART)
            other = alone(requests, gap=SHOTS_APART, automatic=True)
            title = f"{size} {'in a conversation' if conversation else 'as one-shots'}, {name}"
            yield _cached(title, ours, tokens)
            yield _compared(f"{title}: over automatic", ours, other, 1.1, "with automatic caching")


def _cached(title: str, bill: Bill, tokens: int) -> Result:
    """At which request a prefix was written that a later one read; one more than there are where none was."""
    most = tokens * 0.9
    written = [number for number, used in enumerate(bill.used, start=1) if used.written > most]
    first = next((number for number, used in enumerate(bill.used, start=1) if used.read > most), None)
    cached = len(bill.used) + 1 if first is None else max(number for number in written if number < first)
    note = f"written at {', '.join(map(str, written)) or 'none'} of {len(bill.used)}, read first at {first or 'none'}"
    return Result(f"{title}: cached at request", float(cached), "", THIRD, "lower", note)


# Recorded sessions


def recorded_sessions(*, quick: bool) -> Iterator[Result]:
    """Sessions in order, by clients that mark as known tools do, and by one that does not mark."""
    traces = _traces()[: 10 if quick else None]
    for name in MODELS[:1] if quick else MODELS:
        facts = model(f"anthropic:{name}")
        sessions = [turns(with_gaps(trace, "real", 0), facts) for trace in traces]
        for peer in MARKING[:1] if quick else MARKING:
            place = PEERS[peer].place
            marks = [[place(turn.prompt) for turn in session] for session in sessions]
            tenant = Tenant()
            ours = _played(sessions, marks, facts, lambda: CoreWay(CacheSettings(), facts, tenant=tenant, client=peer))  # noqa: B023
            yield from _dearer(f"sessions as {peer}, {name}", ours, _played(sessions, marks, facts, lambda: None))
        unmarked = _played(sessions, [()] * len(sessions), facts, lambda: CoreWay(CacheSettings(), facts))  # noqa: B023
        marks = [[PEERS["automatic"].place(turn.prompt) for turn in session] for session in sessions]
        automatic = _played(sessions, marks, facts, lambda: None)
        ratios = _ratios(unmarked, automatic)
        note = f"{len(ratios)} sessions, in sum {float(sum(unmarked) / sum(automatic)):.3f}, each by a new client"
        limit = BOUND if recordings.JUDGED else None
        yield Result(f"sessions without markers, {name}: worst, over automatic", max(ratios), "x", limit, "lower", note)


def _traces() -> tuple[Trace, ...]:
    folder = recordings.FOLDER / "sessions"
    return tuple(read(folder)) if folder.is_dir() else tuple(recordings.shaped())


def _played(
    sessions: Sequence[Sequence[TimedRequest]],
    marks: Sequence[Marks],
    facts: ModelFacts,
    way: Callable[[], CoreWay | None],
) -> list[Decimal]:
    """What each session costs, which begins with an empty cache; by nobody's way the client's markers stay."""
    price, paid = prices(facts), []
    for session, theirs in zip(sessions, marks, strict=True):
        chosen = way() or CoreWay(ALONE, facts)
        outcomes: list[Outcome] = [played.outcome for played in play(session, chosen, cache(facts), marks=theirs)]
        paid.append(price.tokens(sum(price.of(outcome) for outcome in outcomes)))
    return paid


def _dearer(name: str, ours: Sequence[Decimal], other: Sequence[Decimal]) -> Iterator[Result]:
    ratios = _ratios(ours, other)
    note = f"of {len(ratios)}, by more than a hundredth; in sum {float(sum(ours) / sum(other)):.3f}"
    limit = 0 if recordings.JUDGED else None
    yield Result(f"{name}: dearer than alone", sum(each > TOLERANCE for each in ratios), "", limit, "lower", note)
    yield Result(f"{name}: worst, over alone", max(ratios), "x", None, "lower")


def _ratios(ours: Sequence[Decimal], other: Sequence[Decimal]) -> list[float]:
    return [float(one / two) for one, two in zip(ours, other, strict=True) if two]
