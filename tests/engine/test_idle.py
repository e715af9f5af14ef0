"""Keep-alive through the engine: pings where a return is likely, that the provider takes and that keep the entry."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.config.schema import Settings
from holdfast.config.sections.cache import Cache, Keepalive
from holdfast.engine import Engine, Lane
from holdfast.events import Bus
from holdfast.prefix.core import Verdict
from holdfast.simulator import Call, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body

ANTHROPIC = DIALECTS["anthropic"]
MODEL = "claude-sonnet-5-5"
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
ON = Keepalive(enabled=True)
PAUSE = 420.0  # longer than five minutes, shorter than two intervals


class Caller:
    """A user who comes back after the same pause every time."""

    def __init__(self, keepalive: Keepalive = ON, **members: Any) -> None:
        self.clock = VirtualClock(1_700_000_000.0)
        self.simulator = Simulator(clock=self.clock)
        self.bus = Bus()
        self.told = self.bus.subscribe(types=["cache.ping"])
        cache = Cache(strategy="rolling", keepalive=keepalive)  # fixed lifetimes: the economic one would buy the hour
        self.engine = Engine(Settings(cache=cache), bus=self.bus, strict=True)
        self.members = members
        self.pings: list[int] = []

    def send(self, raw: bytes) -> Any:
        answer = self.simulator.answer(Call("POST", "/v1/messages", HEADERS, {}, raw))
        assert answer.status == 200, answer.body
        return self.simulator.journal.records()[-1].usage

    def turn(self, lane: Lane, turns: int) -> Verdict:
        text = "You keep the records of a library, and answer questions about them. " * 60
        messages = [{"role": "user", "content": f"question 0 of {lane.id}"}]
        for number in range(1, turns):
            messages += [{"role": "assistant", "content": "answer"}, {"role": "user", "content": f"question {number}"}]
        whole = {"model": MODEL, "max_tokens": 64, "system": text, "messages": messages} | self.members
        body = self.engine.parse(ANTHROPIC, json.dumps(whole).encode())
        assert isinstance(body, Body)
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
    ledger = caller.engine.ledger(Lane(tenant="t", session="s", id="lane 1", client="c"), now=caller.clock.now())
    assert ledger.pings.returned >= 1
    assert ledger.pings.saved > ledger.pings.spent
    assert len(caller.told.drain()) == len(caller.pings)
    caller.bus.close()


def test_off_by_default() -> None:
    assert Cache().keepalive.enabled is False
    caller = Caller(Keepalive())
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
    lane = Lane(tenant="t", session="s", id="lane 1", client="c")
    caller.wait(lane, 3_000)
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
