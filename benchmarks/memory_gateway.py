"""What memory costs a client of the gateway that knows nothing of it: 40 requests of one conversation, with a change of
memory before every third, beside the same requests without memory.

One client sets markers of its own, behind its system text and on its last message, for five minutes each; the other
sets none. Every request goes through a passage and is billed by the simulator, on a virtual clock.

The stable block is cached for an hour, and with it the client's system text in front of it: what the hour costs a
client that would have written that for five minutes is told apart.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from benchmarks import Result
from benchmarks.agent import START
from benchmarks.memory import ANSWER, ASKED, EVERY, LIMIT, MODELS, PAUSE, SUBJECTS, TURNS, change, fill
from holdfast import facts
from holdfast.agent.costs import add
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.engine import EngineCore
from holdfast.engine.identity import Identities
from holdfast.engine.passage import Incoming, Passages
from holdfast.memory.injection import MemoryInjector
from holdfast.memory.knowledge import Knowledge
from holdfast.records import Usage, usage
from holdfast.records.events import Bus
from holdfast.records.events.tools import MemorySurfaced
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.store import open_store
from holdfast.wire import DIALECTS

Arm = Literal["none", "deltas", "blocks"]

ARMS: tuple[Arm, ...] = ("none", "deltas", "blocks")
THINKS = 4.0
KEY, PROJECT = b"a key that is for this measurement", "/home/me/app"
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01", "x-holdfast-session": "s"}
MARK = {"cache_control": {"type": "ephemeral"}}

HOST = "You are an engineer who looks after a large program and says what is to be done next, and why. " * 200


class Played(Struct, frozen=True, kw_only=True):
    """One conversation: what was paid, what of it the entries' own tokens come to (`stable` are those of the stable
    block), and what broke."""

    usage: Usage
    dollars: Decimal
    own: Decimal
    stable: int
    breaks: int
    resets: int
    told: int


def run(*, quick: bool) -> Iterator[Result]:
    for name in MODELS[:1] if quick else MODELS:
        for marks in (True, False):
            yield from _told(name, marks, {arm: play(name, arm, marks=marks) for arm in ARMS})


def _told(name: str, marks: bool, arms: dict[Arm, Played]) -> Iterator[Result]:
    none, deltas = arms["none"], arms["deltas"]
    client = f"{name.rpartition('claude-')[2]}, client {'with' if marks else 'without'} markers"
    for arm, played in arms.items():
        used = played.usage
        note = (
            f"${played.dollars:.5f}, {used.read:,} read, {used.written:,} written, {used.input:,} input, told "
            f"{played.told} times, {played.resets} resets, {played.breaks} breaks"
        )
        yield Result(f"gateway, {client}, {arm}", float(played.dollars / none.dollars), "x", None, "lower", note)
    beyond, hour = deltas.dollars - deltas.own, _hour(name, none, deltas)
    note = f"${deltas.own:.5f} are the entries' own tokens"
    yield Result(f"gateway, {client}, deltas less own", float(beyond / none.dollars), "x", None, "lower", note)
    note = f"${hour:.5f} are for what stands before them: written for an hour, not for five minutes"
    name = f"gateway, {client}, deltas less own, hour"
    yield Result(name, float((beyond - hour) / none.dollars), "x", LIMIT, "lower", note)
    yield Result(f"gateway, {client}, deltas: breaks", float(deltas.breaks), "", 0, "lower")
    yield Result(f"gateway, {client}, deltas: resets", float(deltas.resets), "", 0, "lower")


def _hour(name: str, none: Played, deltas: Played) -> Decimal:
    """What it costs that more than the entries' own tokens was written for an hour instead of five minutes."""
    tokens = deltas.usage.written_for("1h") - none.usage.written_for("1h") - deltas.stable
    longer, shorter = (facts.price(usage(writes={ttl: max(0, tokens)}), name).cost for ttl in ("1h", "5m"))
    return (longer or Decimal(0)) - (shorter or Decimal(0))


def play(name: str, arm: Arm, *, marks: bool) -> Played:
    """40 requests; somebody changes what is known before every third of them."""
    clock, bus = VirtualClock(START), Bus()
    told = bus.subscribe()
    settings = Settings(
        memory=MemorySettings(
            inject=arm != "none", project=PROJECT, placement="blocks" if arm == "blocks" else "deltas"
        ),
        gateway=GatewaySettings(limits=LimitSettings(stages_ms=60_000)),  # what is measured is the cost, on any machine
    )
    simulator, own = Simulator(clock=clock), Own(name)
    said, spent = list[tuple[str, str]](), list[Usage]()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch, open_store(Path(scratch, "h.db")) as store:
        engine, identities = EngineCore(settings, store=store, bus=bus, strict=True), Identities(KEY, store=store)
        injecting = MemoryInjector(engine, store, lambda _agent: settings, clock=clock.now)
        passages = Passages(engine, identities, settings, clock=clock.now, remembering=injecting)
        known = Knowledge(store, identities.tenant(HEADERS, ""), project=PROJECT, clock=clock.now)
        entries = [] if arm == "none" else fill(known)
        breaks = resets = 0
        for turn in range(TURNS):
            if turn and turn % EVERY == 0 and entries:
                entries = change(known, entries, turn)
            said.append(("user", ASKED.format(subject=SUBJECTS[turn % len(SUBJECTS)], step=turn)))
            spent.append(_sent(passages, simulator, clock, _body(name, said, marks)))
            said.append(("assistant", ANSWER))
            for each in told.drain():
                breaks += each.type == "cache.break"
                resets += each.type == "cache.reset"
                if isinstance(each.payload, MemorySurfaced):
                    own.add(each.payload, TURNS - 1 - turn)
            clock.advance(PAUSE)
    bus.close()
    paid = facts.price(add(spent), name)
    return Played(
        usage=paid,
        dollars=paid.cost or Decimal(0),
        own=own.dollars,
        stable=own.stable,
        breaks=breaks,
        resets=resets,
        told=own.told,
    )


class Own:
    """What the entries' own tokens cost at best: each text is written once, the stable block for an hour, and read by
    every request after that."""

    def __init__(self, name: str) -> None:
        self._name, self._read, self._writes, self.told = name, 0, {"1h": 0, "5m": 0}, 0

    def add(self, surfaced: MemorySurfaced, further: int) -> None:
        self._writes["1h" if surfaced.place == "stable" else "5m"] += surfaced.tokens
        self._read += surfaced.tokens * further
        self.told += surfaced.place != "stable"

    @property
    def stable(self) -> int:
        return self._writes["1h"]

    @property
    def dollars(self) -> Decimal:
        return facts.price(usage(read=self._read, writes=self._writes), self._name).cost or Decimal(0)


def _sent(passages: Passages, simulator: Simulator, clock: VirtualClock, raw: bytes) -> Usage:
    """A request through the gateway's part to the provider and back; what was billed."""
    headers = tuple((name.encode(), value.encode()) for name, value in HEADERS.items())
    passage = passages.begin(Incoming("POST", "/v1/messages", "", headers, raw), DIALECTS["anthropic"])
    if passage.bypass is not None:
        raise AssertionError(f"the request went past us: {passage.bypass}")
    exchange = simulator.begin(HttpRequest("POST", "/v1/messages", HEADERS, {}, passage.raw))
    answer = exchange.answer
    passage.answer(answer.status, [(name.encode(), value.encode()) for name, value in answer.headers])
    exchange.first_token()
    passage.feed(answer.body)
    clock.advance(THINKS)
    exchange.finish()
    passage.finish()
    if exchange.record.usage is None:
        raise AssertionError(f"the provider answered {answer.status}: {answer.body!r}")
    return exchange.record.usage


def _body(name: str, said: list[tuple[str, str]], marks: bool) -> bytes:
    """The whole conversation, as such a client sends it."""
    messages: list[dict[str, Any]] = [
        {"role": role, "content": [{"type": "text", "text": words}]} for role, words in said
    ]
    system: dict[str, Any] = {"type": "text", "text": HOST}
    if marks:
        system |= MARK
        messages[-1]["content"][0] |= MARK
    model = name.partition(":")[2]
    return json.dumps({"model": model, "max_tokens": 400, "system": [system], "messages": messages}).encode()
