"""Gemini's cached contents through the engine, against the simulator: created, named, refreshed, paid for, let go."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from holdfast.config.schema import Settings
from holdfast.config.sections.cache import Cache, Gemini
from holdfast.engine import Engine, Lane, Prepared
from holdfast.engine.values import SideCall
from holdfast.prefix.core import Verdict
from holdfast.simulator import Call, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body

MODEL = "gemini-3-pro"
KEY = {"x-goog-api-key": "one"}
START = 1_700_000_000.0
SYSTEM = {"parts": [{"text": "You keep the records of a library. " * 900}]}
LANE = Lane(tenant="t", session="s", id="s/main", client="c", agent="librarian")


def request(turns: int) -> bytes:
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "question 0"}]}]
    for turn in range(1, turns):
        contents += [
            {"role": "model", "parts": [{"text": f"answer {turn}"}]},
            {"role": "user", "parts": [{"text": f"question {turn}"}]},
        ]
    return json.dumps({"contents": contents, "systemInstruction": SYSTEM}).encode()


class Caller:
    """Who sends requests: makes the calls the engine asks for, and brings the answers back."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.clock = VirtualClock(START)
        self.simulator = Simulator(clock=self.clock)
        self.engine = Engine(Settings(cache=Cache(gemini=Gemini(enabled=enabled))), strict=True)
        self.made: list[str] = []
        self.fail = False

    def side(self, call: SideCall) -> tuple[int, bytes]:
        send = call.send
        self.made.append(send.method)
        if self.fail:
            return 500, b"{}"
        answer = self.simulator.answer(Call(send.method, send.path, KEY, send.query, send.body))
        return answer.status, answer.body

    def names(self) -> list[str]:
        answer = self.simulator.answer(Call("GET", "/v1beta/cachedContents", KEY, {}, b""))
        return [each["name"] for each in json.loads(answer.body).get("cachedContents", [])]

    def turn(self, turns: int, lane: Lane = LANE) -> tuple[Prepared, Verdict]:
        now = self.clock.now()
        body = self.engine.parse(DIALECTS["gemini"], request(turns), model=MODEL)
        assert isinstance(body, Body)
        prepared = self.engine.prepare(body, lane=lane, now=now)
        for call in prepared.before:
            self.engine.answered(prepared, call, *self.side(call), now=now)
        answer = self.simulator.answer(Call("POST", f"/v1beta/models/{MODEL}:generateContent", KEY, {}, prepared.raw))
        if answer.status != 200:
            raw = self.engine.gone(prepared, now=now)
            answer = self.simulator.answer(Call("POST", f"/v1beta/models/{MODEL}:generateContent", KEY, {}, raw))
        assert answer.status == 200, answer.body
        used = self.simulator.journal.records()[-1].usage
        assert used is not None
        return prepared, self.engine.settle(prepared, used, now=now)

    def talk(self, first: int, last: int, pause: float = 30) -> list[tuple[Prepared, Verdict]]:
        told = []
        for turns in range(first, last + 1):
            told.append(self.turn(turns))
            self.clock.advance(pause)
        return told


def test_a_lane_that_comes_often_gets_an_object_and_reads_it_exactly() -> None:
    caller = Caller()
    told = caller.talk(1, 6)
    assert caller.made[0] == "POST"
    named = [(prepared, verdict) for prepared, verdict in told if prepared.use is not None]
    assert len(named) >= 3
    for prepared, verdict in named:
        assert b'"cachedContent"' in prepared.raw
        assert b'"systemInstruction"' not in prepared.raw
        assert prepared.use is not None
        assert verdict.usage.read == prepared.use.tokens == prepared.core.outcome.read
        assert verdict.explained


def test_storage_is_part_of_prediction_verdict_and_cost() -> None:
    caller = Caller()
    told = caller.talk(1, 6)
    charged = [(prepared, verdict) for prepared, verdict in told if verdict.storage > 0]
    assert charged
    prepared, verdict = charged[-1]
    assert verdict.usage.cost is not None
    assert prepared.preflight.this is not None
    plain = verdict.usage.cost - verdict.storage
    assert 0 < verdict.storage < plain
    predicted = prepared.preflight.this + Decimal(0)
    assert abs(predicted - verdict.usage.cost) < verdict.usage.cost / 20 + verdict.usage.output * Decimal("0.00002")


def test_switched_off_nothing_is_asked_for() -> None:
    caller = Caller(enabled=False)
    told = caller.talk(1, 4)
    assert not caller.made
    assert all(prepared.use is None and prepared.raw == prepared.client.raw for prepared, _ in told)


def test_where_creating_fails_the_clients_request_goes_out() -> None:
    caller = Caller()
    caller.fail = True
    told = caller.talk(1, 5)
    assert caller.made == ["POST"]  # and is not tried again for a life
    assert all(prepared.raw == prepared.client.raw for prepared, _ in told)


def test_an_object_the_provider_lost_is_replaced_by_the_original_request() -> None:
    caller = Caller()
    caller.talk(1, 4)
    for name in caller.names():
        caller.simulator.answer(Call("DELETE", f"/v1beta/{name}", KEY, {}, b""))
    prepared, verdict = caller.turn(5)
    assert prepared.use is None
    assert prepared.raw == prepared.client.raw
    assert verdict.usage.prompt > 4_096


def test_at_half_life_it_is_refreshed_and_at_the_end_deleted() -> None:
    caller = Caller()
    caller.talk(1, 6, pause=60)
    caller.clock.advance(1_800)
    caller.talk(7, 9, pause=60)
    assert "PATCH" in caller.made
    calls = caller.engine.end(LANE, now=caller.clock.now())
    assert [call.send.method for call in calls] == ["DELETE"]
    for call in calls:
        caller.engine.chore_done(LANE, call, *caller.side(call), now=caller.clock.now())
    assert not caller.names()
    assert not caller.engine.chores(LANE, now=caller.clock.now())


@pytest.mark.parametrize("pause", [4_000.0])
def test_a_lane_that_comes_seldom_gets_none(pause: float) -> None:
    caller = Caller()
    caller.talk(1, 4, pause=pause)
    assert not caller.made
