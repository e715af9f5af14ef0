"""An engine and a simulated provider side by side: what the provider bills is what is settled."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import pytest

from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.planner import Verdict
from holdfast.engine import EngineCore, Lane, PreparedCall, PrepareOptions, UnplannedCall
from holdfast.engine.reports import Reports
from holdfast.records import Usage
from holdfast.records.events import Bus
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.provider import Exchange
from holdfast.store import Operation, SqliteStore, Store, open_store
from holdfast.wire import DIALECTS, Body
from tests.properties.sessions import PATHS, RENDER, Talk

START = 1_800_000_000.0
MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "openai_chat": "gpt-6.1-sol",
    "openai_responses": "gpt-6.1-sol",
    "gemini": "gemini-2.5-pro",
}
assert {*MODELS} == {*DIALECTS} - {"openrouter"}, "a dialect without a model"
HEADERS = {"x-api-key": "k", "authorization": "Bearer k", "x-goog-api-key": "k", "anthropic-version": "2023-06-01"}
ON = CacheSettings(repair="on")
HOST = "You are an engineer who finds faults. " * 400
QUESTION = "Where does the pointer come from? " * 60


def talk(turns: int = 0, *, system: tuple[str, ...] = (HOST,), marks: tuple[tuple[str, str], ...] = ()) -> Talk:
    """A question and so many answers with questions behind them."""
    said: list[tuple[str, int, list[str]]] = [("user", 0, [QUESTION])]
    for number in range(1, turns + 1):
        said += [("assistant", number, [f"Answer {number}. " * 200]), ("user", number, [f"Question {number}. " * 200])]
    return Talk(list(system), ["bash", "read"], said, marks=list(marks))


def raw_of(said: Talk, dialect: str = "anthropic", model: str = "", **more: Any) -> bytes:
    return json.dumps(RENDER[dialect](copy.deepcopy(said), model or MODELS[dialect]) | more).encode()


class Driver:
    """An engine in front of a simulator; with a path everything is kept in a store there."""

    def __init__(
        self,
        cache: CacheSettings | None = None,
        *,
        path: Path | None = None,
        bus: Bus | None = None,
        reports: Reports | None = None,
        timeout: float = 10.0,
        busy_timeout: float = 5.0,
    ) -> None:
        self.settings, self.path, self.bus, self.reports = Settings(cache=cache or CacheSettings()), path, bus, reports
        self.timeout, self.busy_timeout = timeout, busy_timeout
        self.clock = VirtualClock(START)
        self.simulator = Simulator(clock=self.clock)
        self.store: SqliteStore | None = None
        self.engine = self.start()
        self.lane = Lane(tenant="t", session="s", id="l", client="cli")

    def start(self) -> EngineCore:
        self.store = None if self.path is None else open_store(self.path, busy_timeout=self.busy_timeout)
        return EngineCore(
            self.settings,
            store=self.store,
            bus=self.bus,
            reports=self.reports,
            strict=True,
            timeout=self.timeout,
        )

    def restart(self) -> None:
        self.close()
        self.engine = self.start()

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    @property
    def now(self) -> float:
        return self.clock.now()

    def wait(self, seconds: float) -> None:
        self.clock.set(self.now + seconds)

    def body(self, raw: bytes | Talk, dialect: str = "anthropic", model: str = "") -> Body:
        raw = raw_of(raw, dialect, model) if isinstance(raw, Talk) else raw
        body = self.engine.parse(
            DIALECTS[dialect], raw, model=model or (MODELS[dialect] if dialect == "gemini" else "")
        )
        assert isinstance(body, Body), body
        return body

    def prepare(
        self,
        raw: bytes | Talk,
        *,
        dialect: str = "anthropic",
        lane: Lane | None = None,
        model: str = "",
        timeout: float | None = None,
        **options: Any,
    ) -> PreparedCall:
        body = self.body(raw, dialect, model)
        asked = PrepareOptions(**options)
        return self.engine.prepare(body, lane=lane or self.lane, now=self.now, options=asked, timeout=timeout)

    def note(self, model: str, seconds: float, why: str = "") -> None:
        """A side call of so many seconds."""
        call, now = self.engine.call_id(), self.now
        side = UnplannedCall(
            id=call, lane=self.lane, kind="side", model=model, started=now, ended=now + seconds, why=why
        )
        self.engine.note(side)

    def bill(self, prepared: PreparedCall, *, check: bool = True) -> Exchange:
        """What the provider makes of it; refused if it would refuse it."""
        dialect = prepared.client.dialect
        path = PATHS[dialect].format(model=prepared.client.model)
        call = HttpRequest("POST", path, HEADERS, {}, prepared.raw)
        exchange = self.simulator.begin(call) if check else self.simulator.bill(call)
        assert exchange.record.usage is not None, exchange.answer
        return exchange

    def begin(self, prepared: PreparedCall, exchange: Exchange) -> None:
        exchange.first_token(self.now)
        self.engine.first_token(prepared, now=self.now)

    def finish(self, prepared: PreparedCall, exchange: Exchange) -> Verdict:
        self.begin(prepared, exchange)
        self.wait(1)
        exchange.finish()
        usage = exchange.record.usage
        assert usage is not None
        return self.engine.settle(prepared, usage, now=self.now)

    def send(self, raw: bytes | Talk, gap: float = 10.0, **more: Any) -> tuple[PreparedCall, Usage, Verdict]:
        """A whole exchange, `gap` seconds after the one before."""
        self.wait(gap)
        prepared = self.prepare(raw, **more)
        exchange = self.bill(prepared)
        self.wait(1)
        verdict = self.finish(prepared, exchange)
        return prepared, verdict.usage, verdict

    def after(self, *requests: bytes | Talk) -> Self:
        """The driver once these were sent."""
        for request in requests:
            self.send(request)
        return self


def clocked(turns: int, minute: int) -> bytes:
    """A conversation whose system text begins with a clock, which is repaired."""
    return raw_of(talk(turns, system=(f"Current time: 2026-11-02T09:{minute:02d}:00Z\n\n{HOST}",)))


def instead_of(
    patch: pytest.MonkeyPatch, store: Store | None, kind: type[Operation[Any]], act: Callable[[Any], Future[Any]]
) -> None:
    """From now on, what is done instead of the store's writes of this kind."""
    write = store.write
    patch.setattr(store, "write", lambda each: act(each) if isinstance(each, kind) else write(each))


def worked(rounds: int = 3, **more: Any) -> Talk:
    """A question and rounds of tool calls."""
    said: list[tuple[str, int, list[str]]] = [("user", 0, ["find it " * 300])]
    for number in range(1, rounds + 1):
        said += [("calls", number, [f"call {number}"]), ("results", number, [f"result {number} " * 800])]
    return Talk([HOST], ["bash", "read"], said, **more)


def told_behind(prepared: PreparedCall) -> list[int]:
    """The messages that something was told behind."""
    messages = json.loads(prepared.raw)["messages"]
    return [n for n, each in enumerate(messages) if "Current values" in json.dumps(each["content"])]
