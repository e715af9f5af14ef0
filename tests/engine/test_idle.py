"""Keep-alive through the engine: pings where a return is likely, that the provider takes and that keep the entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings, KeepaliveSettings
from holdfast.core.keepalive import Pings
from holdfast.core.planner import Verdict
from holdfast.engine import EngineCore, Lane
from holdfast.engine.keepalive import DuePing
from holdfast.errors import HoldfastError
from holdfast.records import usage
from holdfast.records.events import Bus
from holdfast.records.events.calls import CachePing
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.store import open_store
from holdfast.wire import DIALECTS

ANTHROPIC = DIALECTS["anthropic"]
MODEL = "claude-sonnet-5-5"
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
ON = KeepaliveSettings(enabled=True)
LANE = Lane(tenant="t", session="s", id="lane 1", client="c")
PAUSE = 420.0  # longer than five minutes, shorter than two intervals


class Caller:
    """A user who comes back after the same pause every time."""

    def __init__(self, keepalive: KeepaliveSettings = ON, path: Path | None = None, **members: Any) -> None:
        self.clock = VirtualClock(1_700_000_000.0)
        self.simulator = Simulator(clock=self.clock)
        self.bus = Bus()
        self.told = self.bus.subscribe(types=["cache.ping"])
        cache = CacheSettings(
            strategy="rolling", keepalive=keepalive
        )  # fixed lifetimes: the economic one would buy the hour
        self.settings, self.path = Settings(cache=cache), path
        self.store = None if path is None else open_store(path)
        self.engine = EngineCore(self.settings, store=self.store, bus=self.bus, strict=True)
        self.members = members
        self.pings: list[int] = []

    def restart(self) -> None:
        """The process was killed: another one begins with what is stored."""
        assert self.path is not None
        self.store.close()
        self.store = open_store(self.path)
        self.engine = EngineCore(self.settings, store=self.store, bus=self.bus, strict=True)

    def send(self, raw: bytes) -> Any:
        answer = self.simulator.answer(HttpRequest("POST", "/v1/messages", HEADERS, {}, raw))
        assert answer.status == 200, answer.body
        return self.simulator.journal.records()[-1].usage

    def turn(self, lane: Lane, turns: int) -> Verdict:
        text = "You keep the records of a library, and answer questions about them. " * 60
        messages = [{"role": "user", "content": f"question 0 of {lane.id}"}]
        for number in range(1, turns):
            messages += [{"role": "assistant", "content": "answer"}, {"role": "user", "content": f"question {number}"}]
        whole = {"model": MODEL, "max_tokens": 64, "system": text, "messages": messages} | self.members
        body = self.engine.parse(ANTHROPIC, json.dumps(whole).encode())
        now = self.clock.now()
        prepared = self.engine.prepare(body, lane=lane, now=now)
        return self.engine.settle(prepared, self.send(prepared.raw), now=now)

    def wait(self, lane: Lane, seconds: float) -> None:
        """Time passes; every ten seconds the engine is asked for pings."""
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            self.clock.advance(min(10.0, end - self.clock.now()))
            for due in self.engine.pings([lane], now=self.clock.now()):
                used = self.send(due.raw)
                assert json.loads(due.raw)["max_tokens"] == 0
                self.pings.append(used.read)
                self.engine.pinged(due, used, now=self.clock.now())

    def due(self, lane: Lane) -> DuePing:
        """The next ping of a lane, not sent yet."""
        while True:
            self.clock.advance(5)
            for due in self.engine.pings([lane], now=self.clock.now()):
                return due

    def known(self, lane: Lane) -> Pings:
        return self.engine.ledger(lane, now=self.clock.now()).pings

    def live(self, lane: Lane) -> int:
        return self.engine.fence(lane, now=self.clock.now())

    def visits(self, number: int, turns: int = 14, pause: float = PAUSE) -> list[Verdict]:
        """A conversation with a pause before every turn."""
        lane, told = Lane(tenant="t", session="s", id=f"lane {number}", client="c"), []
        for turn in range(1, turns + 1):
            told.append(self.turn(lane, turn))
            self.wait(lane, pause)
        return told


def test_after_enough_pauses_have_been_seen_a_lane_is_kept_alive_until_its_user_returns() -> None:
    caller = Caller()
    told = caller.visits(1)
    assert caller.pings
    assert all(read > 512 for read in caller.pings)
    assert told[8].usage.read == 0  # too few pauses had been seen
    assert told[-1].usage.read > 512
    assert told[-1].explained
    ledger = caller.engine.ledger(LANE, now=caller.clock.now())
    assert ledger.pings.returned >= 1
    assert ledger.pings.saved > ledger.pings.spent
    assert len(caller.told.drain()) == len(caller.pings)
    caller.bus.close()


def test_off_by_default() -> None:
    assert CacheSettings().keepalive.enabled is False
    caller = Caller(KeepaliveSettings())
    caller.visits(1)
    assert not caller.pings


def test_the_budget_of_a_day_ends_it() -> None:
    caller = Caller(replace(ON, budget_usd=0.0))
    caller.visits(1)
    assert not caller.pings


def test_the_breaker_ends_it_when_nobody_returns() -> None:
    caller = Caller(replace(ON, breaker=2))
    caller.visits(1)
    sent = len(caller.pings)
    caller.wait(LANE, 3_000)
    assert len(caller.pings) - sent <= 2


@pytest.mark.parametrize(
    "members",
    [
        {"thinking": {"type": "adaptive"}},
        {"tools": [{"name": "a", "input_schema": {}}], "tool_choice": {"type": "any"}},
    ],
)
def test_what_the_provider_would_refuse_is_not_sent(members: dict[str, Any]) -> None:
    caller = Caller(**members)
    caller.visits(1)
    assert not caller.pings


def paused(caller: Caller) -> DuePing:
    """A lane that is kept alive, with the next ping given out."""
    caller.visits(1, 13)
    caller.turn(LANE, 14)
    caller.told.drain()
    return caller.due(LANE)


def test_a_ping_is_given_out_once_and_keeps_nothing_before_it_is_answered() -> None:
    caller = Caller()
    due = paused(caller)
    assert due.outcome.read > 512
    assert caller.engine.pings([LANE], now=caller.clock.now()) == ()
    assert not caller.told.drain()
    caller.clock.advance(20)
    assert caller.live(LANE) == 0  # the entry has run out: nobody knows yet that the ping kept it


@pytest.mark.parametrize("restarted", [False, True])
def test_an_answered_ping_keeps_the_entry_and_a_rebuilt_pool_knows_it(restarted: bool, tmp_path: Path) -> None:
    caller = Caller(path=tmp_path / "h.db")
    due = paused(caller)
    before = caller.known(LANE)
    used = caller.send(due.raw)
    caller.engine.pinged(due, used, now=caller.clock.now())
    billed = facts.price(used, f"anthropic:{MODEL}").cost
    assert billed is not None
    after = caller.known(LANE)
    assert after.spent - before.spent == billed - due.ping.cost
    assert after.covers == due.outcome.at + 300
    [event] = caller.told.drain()
    assert isinstance(event.payload, CachePing)
    assert (event.payload.tokens, event.payload.cost) == (used.read, billed)
    if restarted:
        caller.restart()
    caller.clock.advance(100)
    verdict = caller.turn(LANE, 15)
    assert verdict.explained
    assert verdict.usage.read == due.outcome.read
    caller.restart()  # what was written behind is there
    [row] = [call for call in caller.store.calls("t", lane=LANE.id) if call.id == due.call]
    assert (row.kind, row.status, row.usage and row.usage.cost) == ("ping", "settled", billed)
    assert caller.known(LANE).returned == after.returned + 1
    caller.store.close()


def test_what_pings_cost_today_outlives_the_process(tmp_path: Path) -> None:
    caller = Caller(path=tmp_path / "h.db")
    due = paused(caller)
    state = caller.engine.state
    spent = state.tenant("t").experience.spending
    assert spent.usd >= due.ping.cost
    caller.restart()
    assert caller.engine.state.tenant("t").experience.spending == spent
    caller.store.close()


def test_a_ping_that_read_nothing_says_that_the_entry_was_lost() -> None:
    caller = Caller()
    due = paused(caller)
    now, before = caller.clock.now(), caller.known(LANE)
    caller.simulator = Simulator(clock=caller.clock)  # the provider has forgotten everything
    used = caller.send(due.raw)
    assert used.read == 0
    assert used.written == due.outcome.read
    caller.engine.pinged(due, used, now=now)
    after = caller.known(LANE)
    billed = facts.price(used, f"anthropic:{MODEL}").cost
    assert billed is not None
    assert after.spent - before.spent == billed - due.ping.cost > 0
    assert after.covers == now + 300  # it was written again
    lost = Caller()
    due = paused(lost)
    nothing = usage(input=used.prompt)
    lost.engine.pinged(due, nothing, now=lost.clock.now())
    assert lost.live(LANE) == 0
    assert lost.known(LANE).uncovered is None
    verdict = lost.turn(LANE, 15)
    assert verdict.predicted.read == 0


def test_a_failed_ping_kept_and_cost_nothing_and_counts_for_the_breaker() -> None:
    caller = Caller(replace(ON, breaker=2))
    caller.visits(1, 13)
    caller.turn(LANE, 14)
    before = caller.known(LANE)
    for failures in (1, 2):
        due = caller.due(LANE) if failures == 1 else caller.engine.pings([LANE], now=caller.clock.now())[0]
        caller.engine.ping_failed(due, now=caller.clock.now(), error="connection refused")
        assert caller.known(LANE) == replace(before, row=before.row + failures)
    assert caller.engine.pings([LANE], now=caller.clock.now()) == ()


def test_a_lane_that_came_back_before_the_answer_owes_its_ping_nothing() -> None:
    caller = Caller()
    due = paused(caller)
    used = caller.send(due.raw)
    caller.clock.advance(2)
    assert caller.turn(LANE, 15).usage.read > 512
    caller.engine.pinged(due, used, now=caller.clock.now())
    assert caller.known(LANE).uncovered is None


def test_a_ping_is_brought_back_once() -> None:
    caller = Caller()
    due = paused(caller)
    caller.engine.ping_failed(due, now=caller.clock.now())
    with pytest.raises(HoldfastError, match="over already"):
        caller.engine.pinged(due, usage(input=5), now=caller.clock.now())


def test_what_a_ping_costs_is_part_of_the_clients_account() -> None:
    caller = Caller()
    due = paused(caller)
    client = caller.engine.state.tenant("t").experience.client("c")
    before = client.saved
    used = caller.send(due.raw)
    caller.engine.pinged(due, used, now=caller.clock.now())
    billed = facts.price(used, f"anthropic:{MODEL}").cost
    assert billed is not None
    assert client.saved == pytest.approx(before - float(billed))
