"""A timeline played to the engine and to a simulated provider side by side: what the provider bills is what is settled.

A second provider gets the client's own bytes: what the client alone would have been billed (law 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches.prompts import Cache as ProviderCache
from holdfast.caches.prompts import Prompt
from holdfast.caches.providers import cache
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.economics import costs
from holdfast.core.planner import Verdict
from holdfast.engine import EngineCore, Lane, PreparedCall, PrepareOptions
from holdfast.engine.state import facts_of
from holdfast.facts import ModelFacts
from holdfast.records import Usage
from holdfast.simulator import Simulator, VirtualClock, checks
from holdfast.simulator.provider import Exchange
from holdfast.store import Store, open_store
from holdfast.wire import DIALECTS, Body, WireError, cache_parameters
from holdfast.wire.prompts import PromptReader
from tests.properties.lanes import Step

START = 1_700_000_000.0
"""Timelines begin here: a store keeps times since 1970."""

Raises = Literal["yes", "no"]


class Played(Struct, frozen=True):
    """A request that went out, and what came of it; no verdict where it was not settled.

    `alone` is what the client's own bytes are billed by a provider that saw nothing else.
    """

    step: Step
    prepared: PreparedCall
    billed: Usage
    alone: Usage
    verdict: Verdict | None = None

    @property
    def exact(self) -> bool:
        """Whether the prediction was what the provider billed, token for token."""
        found = self.prepared.core.outcome.usage()
        return (found.read, found.writes, found.input) == (self.billed.read, self.billed.writes, self.billed.input)


class Provider(Simulator):
    """A simulated provider of which it is known how it treats a long lifetime behind a short one."""

    def __init__(self, clock: VirtualClock, raises: Raises | None) -> None:
        self._raises = raises
        super().__init__(clock=clock)

    def _new_cache(self, model: ModelFacts) -> ProviderCache:
        if self._raises is None or model.knobs.ttl_raise is None:
            return super()._new_cache(model)
        return cache(replace(model, knobs=replace(model.knobs, ttl_raise=self._raises)))


Edits = Callable[[Step, Body], Mapping[bytes, bytes]]


class Runner(AbstractContextManager["Runner"]):
    """Plays steps. With a `path` everything is kept in a store there and read back at every restart; every second time
    the engine is closed before.

    `raises` is how the provider treats lifetimes; the engine believes it. `edits` are asked for with each request. With
    `automatic` the client alone has the provider mark what it does not mark itself.
    """

    def __init__(
        self,
        settings: CacheSettings,
        *,
        path: Path | None = None,
        raises: Raises | None = None,
        edits: Edits | None = None,
        automatic: bool = False,
    ) -> None:
        self.settings = Settings(cache=settings)
        self.clock = VirtualClock(START)
        self.simulator, self.alone = Provider(self.clock, raises), Provider(self.clock, raises)
        self.played: list[Played] = []
        self.sent: list[tuple[Step, PreparedCall]] = []
        self._path, self._raises, self._edits, self._automatic = path, raises, edits, automatic
        self._open: dict[int, tuple[Step, PreparedCall, Exchange, Exchange]] = {}
        self._store: Store | None = None
        self._restarts = 0
        self.engine = self._start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> EngineCore:
        if self._path is not None:
            self._store = open_store(self._path)
        return EngineCore(self.settings, store=self._store, strict=True)

    def play(self, steps: Iterable[Step]) -> Iterator[Played]:
        """Play all steps; gives each request when it is settled or over."""
        for step in steps:
            self.clock.set(START + step.at)
            found = self._step(step)
            if found is not None:
                self.played.append(found)
                yield found
        self.close()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _step(self, step: Step) -> Played | None:
        now = START + step.at
        if step.kind == "prepare":
            self._prepare(step, now)
        elif step.kind == "restart":
            self._restarts += 1
            if self._restarts % 2 == 0:  # every other time it was killed
                self.engine.close(now=now)
            self.close()
            self.engine = self._start()
        elif step.call in self._open:
            return self._after(step, now)
        return None

    def _after(self, step: Step, now: float) -> Played | None:
        first, prepared, exchange, alone = self._open[step.call]
        if step.kind == "first_token":
            exchange.first_token(now)
            alone.first_token(now)
            self.engine.first_token(prepared, now=now)
            return None
        del self._open[step.call]
        billed, lonely = exchange.record.usage, alone.record.usage
        assert billed is not None
        assert lonely is not None
        if step.kind == "settle":
            exchange.finish()
            alone.finish()
            billed = replace(billed, output=step.output)
            return Played(first, prepared, billed, lonely, self.engine.settle(prepared, billed, now=now))
        begun = exchange.record.first_token_at is not None
        exchange.abandon()
        alone.abandon()
        self.engine.abandon(prepared, now=now)
        return Played(first, prepared, billed, lonely) if begun else Played(first, prepared, Usage(), Usage())

    def _prepare(self, step: Step, now: float) -> None:
        dialect = DIALECTS[step.dialect]
        body = self.engine.parse(dialect, step.body, model=step.model)
        assert isinstance(body, Body)
        if self._raises is not None:
            self.engine.state.tenant("t").experience.route(facts_of(body).ref).raises = self._raises
        system = [span.path for span in body.blocks if span.section == "system"]
        prepared = self.engine.prepare(
            body,
            lane=lane_of(step),
            now=now,
            options=PrepareOptions(
                reset=step.reset,
                volatile=tuple(system[len(system) - step.volatile :]) if step.volatile else (),
                edits={} if self._edits is None else self._edits(step, body),
            ),
        )
        exchange = self.simulator.bill(replace(step.request, body=prepared.raw), output=step.output)
        request = step.request
        if self._automatic and not prepared.core.request.alone.marks:
            request = replace(request, body=body.apply(cache_parameters.set_automatic(body, "5m", facts_of(body))))
        alone = self.alone.bill(request, output=step.output)
        self.sent.append((step, prepared))
        self._open[step.call] = (step, prepared, exchange, alone)


def lane_of(step: Step) -> Lane:
    return Lane(
        tenant="t",
        session="s",
        id=step.lane,
        client=step.client,
        parent=step.parent,
        subagent="subagent" in step.tags,
    )


def refusal(step: Step, raw: bytes) -> WireError | None:
    """What the provider would have against these bytes in the place of the step's."""
    body = DIALECTS[step.dialect].parse(raw, model=step.model)
    model = facts_of(body) if isinstance(body, Body) else None
    return checks.check(step.dialect, body, model, replace(step.request, body=raw))


def prompt_of(step: Step, raw: bytes, reader: PromptReader | None = None) -> Prompt:
    body = DIALECTS[step.dialect].parse(raw, model=step.model)
    return (reader or PromptReader()).read(body, facts_of(body)).prompt


def begins_with(prompt: Prompt, earlier: Prompt) -> bool:
    return prompt.keys[: len(earlier.keys)] == earlier.keys


def dollars(prepared: PreparedCall, usage: Usage) -> float:
    """What a prompt costs; the answer's price is the same whoever asks."""
    return costs(facts_of(prepared.client), usage.prompt).of(usage)
