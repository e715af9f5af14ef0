"""Sends an example through the real engine to a simulated provider, on a virtual clock: what breaks, what it costs."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.breaks import Finding
from holdfast.core.cures import Cure, case, cure_for, reset_cure
from holdfast.engine import EngineCore, Lane, PreparedCall, PrepareOptions, UnplannedCall
from holdfast.engine.byte_diff import ByteDiff, locate
from holdfast.records import Usage
from holdfast.records.events import Bus
from holdfast.records.events.calls import CacheReset
from holdfast.report.explainer.explainer import Explainer
from holdfast.report.explainer.results import ExplainReport
from holdfast.report.logs.records import LoggedRequest
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.provider import Exchange
from holdfast.wire import DIALECTS, Body

PATHS = {"anthropic": "/v1/messages", "openai_chat": "/v1/chat/completions"}
HEADERS = {"x-api-key": "k", "authorization": "Bearer k", "anthropic-version": "2023-06-01"}
WAYS: dict[str, CacheSettings] = {
    "as sent": CacheSettings(strategy="passthrough", client_markers="respect", repair="off"),
    "defaults": CacheSettings(),
    "values": CacheSettings(repair="values"),
    "repairs": CacheSettings(repair="on"),
    "manage": CacheSettings(client_markers="manage"),
}
"""Nothing is changed; Holdfast as it comes; its repairs of unambiguous values; all its repairs; our markers instead of
the client's."""


class Ask(Struct, frozen=True, kw_only=True):
    """One request of an example. `gap` is start to start, in seconds. `begun` says whether its answer has begun when
    the next one is sent. `through`: Holdfast, past it (it is told), or another program that uses the same key.
    `forgotten`: the provider has just dropped everything."""

    body: dict[str, Any]
    gap: float = 30.0
    reset: str | None = None
    begun: bool = True
    through: Literal["holdfast", "past", "other"] = "holdfast"
    forgotten: bool = False


class Example(Struct, frozen=True, kw_only=True):
    """Requests of one conversation, and the way of sending them under which the fault shows."""

    asks: tuple[Ask, ...]
    dialect: str = "anthropic"
    way: str = "as sent"


class Found(Struct, frozen=True):
    """A break or reset of a request, counted from 1."""

    request: int
    finding: Finding
    where: ByteDiff
    cure: Cure


class Played(Struct, frozen=True):
    """What came of an example: the bill of its prompts, what broke, which repairs were made, what `explain` makes of
    its usage alone, and by which prices."""

    cost: Decimal
    read: int
    prompt: int
    found: tuple[Found, ...]
    repairs: tuple[str, ...]
    explained: ExplainReport
    prices: str

    @property
    def breaks(self) -> int:
        return sum(each.finding.reason is None for each in self.found)

    @property
    def hit_rate(self) -> float:
        return self.read / self.prompt


class _Open(Struct):
    number: int
    at: float
    prepared: PreparedCall
    exchange: Exchange


class _Player:
    def __init__(self, example: Example, cache: CacheSettings) -> None:
        self.clock = VirtualClock()
        self.simulator = Simulator(clock=self.clock)
        bus = Bus()
        self.resets = bus.subscribe(types=("cache.reset",))
        self.engine = EngineCore(Settings(cache=cache), bus=bus, strict=True)
        self.example = example
        self.lane = Lane(tenant="t", session="s", id="l", client="example")
        self.open: list[_Open] = []
        self.found: list[Found] = []
        self.usages: list[Usage] = []
        self.repairs: dict[str, None] = {}
        self.explainer = Explainer()

    def send(self, number: int, ask: Ask) -> None:
        self.clock.advance(ask.gap)
        if ask.forgotten:
            self.simulator.reset()
        raw = json.dumps(ask.body).encode()
        if ask.through == "other":
            self._finished(self._begin(raw))
            return
        body = self.engine.parse(DIALECTS[self.example.dialect], raw)
        assert isinstance(body, Body), body
        if ask.through == "past":
            self._past(number, body)
            return
        prepared = self.engine.prepare(
            body, lane=self.lane, now=self.clock.now(), options=PrepareOptions(reset=ask.reset)
        )
        self.repairs |= dict.fromkeys(each.name for each in prepared.repairs if each.applied)
        self.open.append(_Open(number, self.clock.now(), prepared, self._begin(prepared.raw)))
        if ask.begun:
            self.settle()

    def _past(self, number: int, body: Body) -> None:
        """As the gateway does where a request is to go past it."""
        now, exchange, model = self.clock.now(), self._begin(body.raw), facts.model(body.model).ref
        self._finished(exchange)
        usage = self._bill(exchange, body.model)
        past = UnplannedCall(
            id=self.engine.call_id(),
            lane=self.lane,
            kind="bypassed",
            model=model,
            started=now,
            ended=now,
            usage=usage,
        )
        self.engine.note(past)
        self.engine.bypassed(self.lane, body, now=now)
        for event in self.resets.drain():
            assert isinstance(event.payload, CacheReset)
            lost, cost = event.payload.tokens, event.payload.dollars or Decimal(0)
            finding = Finding(
                cause=None,
                reason=event.payload.reason,
                tokens=lost,
                dollars=cost,
                expected=usage.read + lost,
                read=usage.read,
            )
            self.found.append(Found(number, finding, ByteDiff(), reset_cure(event.payload.reason)))

    def settle(self) -> None:
        """The answers to all that is under way come."""
        for each in self.open:
            each.exchange.first_token(self.clock.now())
            self.engine.first_token(each.prepared, now=self.clock.now())
        for each in self.open:
            self._finished(each.exchange)
            usage = self._bill(each.exchange, each.prepared.client.model)
            finding = self.engine.settle(each.prepared, usage, now=self.clock.now()).finding
            self.resets.drain()
            if finding is not None:
                self.found.append(_told(each, finding))
            self.explainer.add(
                LoggedRequest(
                    session="example",
                    source=f"example:{each.number}",
                    model=facts.model(each.prepared.core.request.model.ref).ref,
                    at=each.at,
                    first_token_at=self.clock.now(),
                    usage=usage,
                )
            )
        self.open.clear()

    def _begin(self, raw: bytes) -> Exchange:
        exchange = self.simulator.begin(HttpRequest("POST", PATHS[self.example.dialect], HEADERS, {}, raw))
        assert exchange.record.usage is not None, exchange.answer
        return exchange

    def _finished(self, exchange: Exchange) -> None:
        exchange.first_token(self.clock.now())
        exchange.finish()

    def _bill(self, exchange: Exchange, model: str) -> Usage:
        assert exchange.record.usage is not None
        usage = replace(exchange.record.usage, output=0)  # answers are not what this is about
        self.usages.append(facts.price(usage, facts.model(model).ref))
        return usage


def play(example: Example, way: str) -> Played:
    player = _Player(example, WAYS[way])
    for number, ask in enumerate(example.asks, 1):
        player.send(number, ask)
    player.settle()
    return Played(
        sum((usage.cost or Decimal(0) for usage in player.usages), Decimal(0)),
        sum(usage.read for usage in player.usages),
        sum(usage.prompt for usage in player.usages),
        tuple(player.found),
        tuple(player.repairs),
        player.explainer.result(),
        ", ".join(sorted({usage.price_version or "none" for usage in player.usages})),
    )


def _told(sent: _Open, finding: Finding) -> Found:
    """What the engine writes into its reports; with the words, which are ours."""
    prepared = sent.prepared
    prompt, marks = prepared.core.prompt, prepared.core.plan.marks
    at = locate(prepared.sent, prompt, prepared.earlier, finding.divergence, keep_bodies=True)
    model = prepared.core.request.model
    told = case(finding, model, path=at.path, before=at.content_before, after=at.content_after, marks=marks)
    return Found(sent.number, finding, at, cure_for(told))
