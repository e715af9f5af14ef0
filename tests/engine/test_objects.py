"""Gemini's cached contents through the engine, against the simulator: created, named, refreshed, paid for, let go."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings, GeminiSettings
from holdfast.core.experience import Experience
from holdfast.core.gemini_contents import Create
from holdfast.core.planner import Verdict
from holdfast.engine import EngineCore, Lane, PreparedCall
from holdfast.engine.lane import SideCall
from holdfast.records import usage
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.provider import workspace
from holdfast.wire import DIALECTS

MODEL = "gemini-3-pro"
REF = f"gemini:{MODEL}"
RATES = facts.rates(REF)
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
        self.engine = EngineCore(Settings(cache=CacheSettings(gemini=GeminiSettings(enabled=enabled))), strict=True)
        self.made: list[str] = []
        self.fail = False

    def side(self, call: SideCall) -> tuple[int, bytes]:
        send = call.send
        self.made.append(send.method)
        if self.fail:
            return 500, b"{}"
        answer = self.simulator.answer(HttpRequest(send.method, send.path, KEY, send.query, send.body))
        return answer.status, answer.body

    def names(self) -> list[str]:
        answer = self.simulator.answer(HttpRequest("GET", "/v1beta/cachedContents", KEY, {}, b""))
        return [each["name"] for each in json.loads(answer.body).get("cachedContents", [])]

    def turn(self, turns: int, lane: Lane = LANE) -> tuple[PreparedCall, Verdict]:
        now = self.clock.now()
        body = self.engine.parse(DIALECTS["gemini"], request(turns), model=MODEL)
        prepared = self.engine.prepare(body, lane=lane, now=now)
        for call in prepared.before:
            self.engine.answered(prepared, call, *self.side(call), now=now)
        answer = self.simulator.answer(
            HttpRequest("POST", f"/v1beta/models/{MODEL}:generateContent", KEY, {}, prepared.raw)
        )
        if answer.status != 200:
            raw = self.engine.gone(prepared, answer.status, answer.body, now=now)
            assert raw is not None
            answer = self.simulator.answer(HttpRequest("POST", f"/v1beta/models/{MODEL}:generateContent", KEY, {}, raw))
        assert answer.status == 200, answer.body
        used = self.simulator.journal.records()[-1].usage
        assert used is not None
        return prepared, self.engine.settle(prepared, used, now=now)

    def talk(self, first: int, last: int, pause: float = 30) -> list[tuple[PreparedCall, Verdict]]:
        told = []
        for turns in range(first, last + 1):
            told.append(self.turn(turns))
            self.clock.advance(pause)
        return told

    def stored(self) -> Decimal:
        """What the provider asks for storage so far."""
        assert RATES.storage_hour is not None
        return Decimal(self.simulator.stored().get(workspace(HttpRequest("POST", "/", KEY)), 0.0)) * RATES.storage_hour

    def experience(self) -> Experience:
        return self.engine.state.tenant(LANE.tenant).experience


def of_contents(told: list[tuple[PreparedCall, Verdict]]) -> Decimal:
    return sum((verdict.storage for _, verdict in told), Decimal(0))


def created(told: list[tuple[PreparedCall, Verdict]]) -> Decimal:
    """What every creation is billed: its tokens as input."""
    tokens = 0
    for prepared, _ in told:
        if any(isinstance(call.command, Create) for call in prepared.before):
            tokens += prepared.use.tokens
    return tokens * RATES.input


def test_a_lane_that_comes_often_gets_an_object_and_reads_it_exactly() -> None:
    caller = Caller()
    told = caller.talk(1, 6)
    assert caller.made[0] == "POST"
    named = [(prepared, verdict) for prepared, verdict in told if prepared.use is not None]
    assert len(named) >= 3
    for prepared, verdict in named:
        assert b'"cachedContent"' in prepared.raw
        assert b'"systemInstruction"' not in prepared.raw
        assert verdict.usage.read == prepared.use.tokens == prepared.core.outcome.read
        assert verdict.explained


def test_storage_is_part_of_prediction_verdict_and_cost() -> None:
    caller = Caller()
    told = caller.talk(1, 6)
    for prepared, verdict in told:
        plain = facts.price(replace(verdict.usage, cost=None), REF)
        answer = facts.price(usage(output=verdict.usage.output), REF).cost
        assert plain.cost is not None
        assert answer is not None
        assert verdict.usage.cost == plain.cost + verdict.storage
        assert prepared.preflight.this == verdict.usage.cost - answer
    assert 0 < told[-1][1].storage < told[-1][0].preflight.this / 2  # type: ignore[operator]


def test_making_an_object_is_paid_for_by_the_request_it_is_made_for() -> None:
    caller = Caller()
    told = caller.talk(1, 6)
    [verdict] = [verdict for prepared, verdict in told if prepared.before]
    assert verdict.storage == created(told) > 0
    assert verdict.saved < 0  # alone it would have been one request's input


def test_before_the_calls_are_made_the_prediction_has_what_they_will_cost() -> None:
    caller = Caller()
    caller.talk(1, 1)
    body = caller.engine.parse(DIALECTS["gemini"], request(2), model=MODEL)
    prepared = caller.engine.prepare(body, lane=LANE, now=caller.clock.now())
    [call] = prepared.before
    assert isinstance(call.command, Create)
    plain = facts.price(prepared.core.outcome.usage(), REF).cost
    assert plain is not None
    assert prepared.preflight.this == plain + call.command.offer.tokens * RATES.input
    caller.engine.answered(prepared, call, 500, b"{}", now=caller.clock.now())
    assert prepared.preflight.this == plain


@pytest.mark.parametrize("end", ["expired", "deleted", "lost"])
def test_every_stored_token_hour_is_charged_once(end: str) -> None:
    """Held, refreshed, then gone in one of three ways: in all what the provider counts, and the creations."""
    caller = Caller()
    told = caller.talk(1, 6, pause=60)
    caller.clock.advance(1_800)
    told += caller.talk(7, 9, pause=60)
    if end == "expired":
        caller.clock.advance(7_200)
    elif end == "deleted":
        for call in caller.engine.end(LANE, now=caller.clock.now()):
            caller.engine.chore_done(LANE, call, *caller.side(call), now=caller.clock.now())
        caller.clock.advance(100)
    else:
        for name in caller.names():
            caller.simulator.answer(HttpRequest("DELETE", f"/v1beta/{name}", KEY, {}, b""))
    told.append(caller.turn(10))
    assert told[-1][0].use is None
    assert told[-1][1].storage > 0
    assert not caller.experience().owed
    assert float(of_contents(told)) == pytest.approx(float(caller.stored() + created(told)))
    caller.clock.advance(30)
    made = len(caller.made)
    storage = caller.turn(11)[1].storage
    if end == "expired":
        assert (storage, caller.made[made:]) == (0, [])
    else:  # another one is made, and pays for its own time
        assert caller.made[made:] == ["POST"]
        assert storage > 0


def test_what_contents_cost_is_no_saving_and_leaves_the_clients_account() -> None:
    caller, plain = Caller(), Caller(enabled=False)
    told, alone = caller.talk(1, 8), plain.talk(1, 8)
    assert caller.experience().client("c").saved == pytest.approx(sum(verdict.saved for _, verdict in told))
    paid = sum(float(verdict.usage.cost or 0) for _, verdict in told)
    cost = sum(float(verdict.usage.cost or 0) for _, verdict in alone)
    assert sum(verdict.saved for _, verdict in told) == pytest.approx(cost - paid)


def test_what_was_made_for_a_request_that_never_was_is_paid_with_the_next() -> None:
    caller = Caller()
    caller.talk(1, 1)
    body = caller.engine.parse(DIALECTS["gemini"], request(2), model=MODEL)
    now = caller.clock.now()
    prepared = caller.engine.prepare(body, lane=LANE, now=now)
    [call] = prepared.before
    caller.engine.answered(prepared, call, *caller.side(call), now=now)
    making = created([(prepared, None)])  # type: ignore[list-item]
    caller.engine.abandon(prepared, now=now)
    _, verdict = caller.turn(2)
    assert verdict.storage == making > 0
    assert caller.turn(3)[1].storage == 0


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
        caller.simulator.answer(HttpRequest("DELETE", f"/v1beta/{name}", KEY, {}, b""))
    prepared, verdict = caller.turn(5)
    assert prepared.use is None
    assert prepared.raw == prepared.client.raw
    assert verdict.usage.prompt > 4_096
    assert prepared.core.outcome == prepared.plain  # what is compared is the request that went out
    assert prepared.core.expectation.outcome == prepared.plain


@pytest.mark.parametrize(
    ("status", "raw"),
    [(429, b'{"error":{"message":"slow down"}}'), (403, b'{"error":{"message":"no permission"}}'), (500, b"")],
)
def test_another_error_says_nothing_about_the_object(status: int, raw: bytes) -> None:
    caller = Caller()
    caller.talk(1, 4)
    body = caller.engine.parse(DIALECTS["gemini"], request(5), model=MODEL)
    prepared = caller.engine.prepare(body, lane=LANE, now=caller.clock.now())
    assert prepared.use is not None
    assert caller.engine.gone(prepared, status, raw, now=caller.clock.now()) is None
    assert b"cachedContent" in prepared.raw
    gone = b'{"error":{"message":"CachedContent not found (or permission denied)"}}'
    assert caller.engine.gone(prepared, 403, gone, now=caller.clock.now()) == body.raw
    assert caller.engine.gone(prepared, 403, gone, now=caller.clock.now()) is None  # it names none any more


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


def test_an_object_made_beside_the_requests_is_named_by_the_next_one_and_charged_to_it() -> None:
    """Who does not wait for a creation brings it back as a chore."""
    caller = Caller()
    for turns in range(1, 7):
        now = caller.clock.now()
        body = caller.engine.parse(DIALECTS["gemini"], request(turns), model=MODEL)
        prepared = caller.engine.prepare(body, lane=LANE, now=now)
        if prepared.before:
            break
        caller.engine.settle(prepared, usage(input=prepared.core.prompt.tokens, output=5), now=now)
        caller.clock.advance(30)
    assert prepared.use is None
    alone = caller.engine.settle(prepared, usage(input=prepared.core.prompt.tokens, output=5), now=now)
    assert alone.storage == 0
    for call in prepared.before:
        caller.engine.chore_done(LANE, call, *caller.side(call), now=now)
    caller.clock.advance(30)
    after, verdict = caller.turn(turns + 1)
    assert after.before == ()
    assert verdict.usage.read == after.use.tokens
    assert verdict.storage > after.use.tokens * RATES.input
    assert caller.turn(turns + 2)[1].storage < verdict.storage / 10


def test_an_object_that_could_not_be_made_beside_the_requests_costs_nothing() -> None:
    caller = Caller()
    caller.fail = True
    told = caller.talk(1, 2)
    prepared = caller.turn(3)[0]
    call = next(call for each in (*[one for one, _ in told], prepared) for call in each.before)
    caller.engine.chore_done(LANE, call, *caller.side(call), now=caller.clock.now())
    assert caller.experience().owed == {}


@pytest.mark.parametrize(("status", "lost"), [(500, False), (503, False), (429, False), (0, False), (404, True)])
def test_a_refresh_that_the_provider_could_not_answer_is_tried_again(status: int, lost: bool) -> None:
    caller = Caller()
    caller.talk(1, 12)
    (held,) = caller.experience().objects[LANE.agent].held.values()
    caller.clock.set(held.since + (held.expires - held.since) * 0.51)
    (due,) = caller.engine.chores(LANE, now=caller.clock.now())
    caller.engine.chore_done(LANE, due, status, b"{}", now=caller.clock.now())
    again = caller.engine.chores(LANE, now=caller.clock.now())
    assert [call.command for call in again] == ([] if lost else [due.command])


def test_what_an_object_holds_counts_as_live_when_nothing_else_does() -> None:
    """Whoever asks whether a lane is cold would else change a prefix that is paid for."""
    seen = []
    for enabled in (True, False):
        caller = Caller(enabled=enabled)
        caller.talk(1, 8)
        caller.clock.advance(1_200)
        seen.append(caller.engine.fence(LANE, now=caller.clock.now()))
        caller.clock.advance(7_200)
        assert caller.engine.fence(LANE, now=caller.clock.now()) == 0
    assert seen[0] > 0
    assert seen[1] == 0
