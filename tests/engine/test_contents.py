"""Gemini's cached contents end to end: decisions carried out against the simulated API, on a virtual clock."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.config.sections.cache import GeminiSettings
from holdfast.core.gemini_contents import (
    AgentContents,
    Command,
    ContentsDecision,
    ContentsRequest,
    Create,
    Delete,
    Offer,
    Refresh,
    Use,
    creation_cost,
    decide,
    due,
)
from holdfast.engine import gemini_content_calls as wire_contents
from holdfast.records import Usage
from holdfast.simulator import HttpRequest
from holdfast.simulator.clock import VirtualClock
from holdfast.simulator.provider import Simulator, workspace
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader

from .. import shapes

NAME = "gemini-2.5-flash"
MODEL = facts.model(f"gemini:{NAME}")
RATES = facts.rates(MODEL.ref)
KEY = {"x-goog-api-key": "one"}
ON = GeminiSettings(enabled=True)
SYSTEM = {"parts": [{"text": "You keep the records of a library. " * 400}]}
TOOLS = [
    {"functionDeclarations": [{"name": "count", "description": "Count records.", "parameters": {"type": "OBJECT"}}]}
]


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def request(turns: int = 1, lane: str = "lane", **members: Any) -> Body:
    """Turn so many of a conversation that grows."""
    contents = [said("user", f"question 0 of {lane}")]
    for turn in range(1, turns):
        contents += [said("model", f"answer {turn}"), said("user", f"question {turn}")]
    whole = {"contents": contents, "systemInstruction": SYSTEM, "tools": TOOLS, "generationConfig": {"seed": 7}}
    return parsed(json.dumps(whole | members).encode())


def parsed(raw: bytes, model: str = NAME) -> Body:
    body = DIALECTS["gemini"].parse(raw, model=model)
    assert isinstance(body, Body)
    return body


class Agent:
    """What a caller does around the decisions: carries out commands, and takes in what came of them."""

    def __init__(self, settings: GeminiSettings = ON) -> None:
        self.clock = VirtualClock()
        self.simulator = Simulator(clock=self.clock)
        self.settings = settings
        self.objects = AgentContents()
        self.storage = Decimal(0)
        self.done: list[Command] = []
        self._reader = PromptReader()

    def send(self, method: str, path: str, query: Any = None, body: bytes = b"") -> tuple[int, bytes]:
        answer = self.simulator.answer(HttpRequest(method, path, KEY, query or {}, body))
        return answer.status, answer.body

    def decide(self, body: Body, lane: str = "lane", per_hour: float = 30) -> ContentsDecision:
        assert RATES is not None
        self.objects, charges = self.objects.swept(self.clock.now())
        self.storage += sum((charge.cost(RATES) for charge in charges), Decimal(0))
        prompt = self._reader.read(body, MODEL).prompt
        offers = wire_contents.offers(body, prompt, self.objects)
        wanted = ContentsRequest(lane=lane, offers=offers, per_hour=per_hour, implicit=0)
        return decide(self.objects, wanted, MODEL, RATES, self.settings, self.clock.now())

    def carry_out(self, command: Command, body: Body | None = None) -> int:
        assert RATES is not None
        self.done.append(command)
        call, now = wire_contents.call(command, body), self.clock.now()
        if isinstance(command, Create):
            self.objects = self.objects.creating(command, now)
        status, raw = self.send(call.method, call.path, call.query, call.body)
        found = wire_contents.answered(status, raw)
        if isinstance(command, Create):
            if found is None:
                self.objects = self.objects.failed(command, now)
            else:
                self.objects = self.objects.created(command, found.name, found.expires, found.tokens, now)
        elif isinstance(command, Refresh) and found is not None:
            self.objects = self.objects.refreshed(command.name, found.expires, now)
        elif isinstance(command, Delete):
            self.objects, charge = self.objects.deleted(command.name, now)
            self.storage += Decimal(0) if charge is None else charge.cost(RATES)
        return status

    def turn(self, body: Body, lane: str = "lane", per_hour: float = 30) -> Usage:
        """A whole request; what it was billed."""
        for command in self.decide(body, lane, per_hour).commands:
            self.carry_out(command, body)
        use = self.decide(body, lane, per_hour).use
        if use is not None:
            self.objects = self.objects.used(use.name, lane, self.clock.now())
        return self.generate(wire_contents.rewrite(body, use))

    def generate(self, raw: bytes) -> Usage:
        status, answer = self.send("POST", f"/v1beta/models/{NAME}:generateContent", None, raw)
        assert status == 200, answer
        used = self.simulator.journal.records()[-1].usage
        assert used is not None
        return used

    def tidy(self) -> None:
        for command in due(self.objects, self.settings, self.clock.now()):
            self.carry_out(command)

    def live(self) -> list[str]:
        _, raw = self.send("GET", "/v1beta/cachedContents")
        return [each["name"] for each in json.loads(raw).get("cachedContents", [])]


class TestLifecycle:
    def test_create_and_use(self) -> None:
        agent = Agent()
        first = agent.turn(request(3))
        held = next(iter(agent.objects.held.values()))
        assert agent.live() == [held.name]
        assert (first.read, held.contents) == (held.tokens, 4)
        assert held.tokens > MODEL.floor
        plain = Agent(GeminiSettings()).turn(request(3))
        assert first.prompt == plain.prompt  # the object and the rest are the request, no more and no less
        assert plain.read == 0

    def test_what_is_predicted_is_billed(self) -> None:
        agent = Agent()
        agent.turn(request(2))
        body = request(4)
        use = agent.decide(body, per_hour=1).use
        rest = PromptReader().read(parsed(wire_contents.rewrite(body, use)), MODEL).prompt
        used = agent.turn(body, per_hour=1)
        assert (used.read, used.input) == (use.tokens, rest.tokens)

    def test_a_grown_conversation_uses_the_object_of_its_beginning(self) -> None:
        agent = Agent()
        agent.turn(request(2))
        read = [agent.turn(request(turns), per_hour=6).read for turns in (3, 4, 5)]
        assert len(set(read)) == 1
        assert len([command for command in agent.done if isinstance(command, Create)]) == 1

    def test_a_conversation_far_beyond_its_object_gets_a_larger_one(self) -> None:
        agent = Agent()
        agent.turn(request(2))
        long = [said("user", "question 0 of lane"), said("model", "a long answer " * 2_000), said("user", "and now?")]
        agent.turn(request(contents=long))
        agent.tidy()
        assert [type(command) for command in agent.done] == [Create, Create, Delete]
        assert len(agent.live()) == 1

    def test_a_changed_system_text_has_no_object(self) -> None:
        agent = Agent()
        agent.turn(request(2))
        other = request(2, systemInstruction={"parts": [{"text": "You sell books. " * 800}]})
        assert agent.decide(other, per_hour=0) == ContentsDecision(
            why="too few uses are expected to pay for an object (rule 5.8)"
        )

    def test_refreshed_at_half_life_while_it_is_used(self) -> None:
        agent = Agent()
        for turn in range(2, 12):
            agent.turn(request(turn), per_hour=6)
            agent.clock.advance(600)
        refreshes = [command for command in agent.done if isinstance(command, Refresh)]
        assert len(refreshes) == 3  # at 30, 60 and 90 of 100 minutes
        assert len([command for command in agent.done if isinstance(command, Create)]) == 1
        assert agent.turn(request(12), per_hour=6).read > MODEL.floor

    def test_an_idle_one_expires_and_is_made_again_when_it_pays(self) -> None:
        agent = Agent()
        first = agent.turn(request(2))
        agent.clock.advance(1_800)
        agent.tidy()
        agent.clock.advance(1_801)
        assert agent.live() == []
        assert agent.turn(request(3)).read >= first.read
        assert [type(command) for command in agent.done] == [Create, Create]

    def test_deleted_when_the_lane_ends(self) -> None:
        agent = Agent()
        agent.turn(request(2))
        agent.objects = agent.objects.ended("lane", agent.clock.now())
        agent.tidy()
        assert agent.live() == []
        assert agent.objects.held == {}

    def test_two_lanes_that_begin_alike_share_one(self) -> None:
        agent = Agent()
        agent.turn(request(1, "one"), "one")
        agent.turn(request(1, "two"), "two")
        assert len(agent.live()) == 1
        agent.objects = agent.objects.ended("one", agent.clock.now())
        agent.tidy()
        assert len(agent.live()) == 1

    def test_at_most_twenty(self) -> None:
        agent = Agent()
        for number in range(23):
            body = request(1, systemInstruction={"parts": [{"text": f"Shelf {number}. " * 900}]})
            assert agent.turn(body, str(number)).read > MODEL.floor
            assert len(agent.live()) == min(number + 1, 20)
            agent.clock.advance(1)
        deleted = [command.name for command in agent.done if isinstance(command, Delete)]
        assert len(deleted) == 3
        assert set(deleted).isdisjoint(agent.live())

    def test_storage_is_accounted_as_the_provider_counts_it(self) -> None:
        assert RATES.storage_hour is not None
        agent = Agent()
        for turn in range(2, 9):
            agent.turn(request(turn), per_hour=6)
            agent.clock.advance(600)
        agent.objects = agent.objects.ended("lane", agent.clock.now())
        agent.tidy()
        agent.turn(request(2, "other"), "other")
        agent.clock.advance(7_200)
        agent.decide(request(2, "other"), "other", per_hour=0)  # lets go what has run out
        billed = agent.simulator.stored()[workspace(HttpRequest("POST", "/", KEY))]
        assert billed > 0
        assert float(agent.storage) == pytest.approx(billed * float(RATES.storage_hour))

    def test_it_is_cheaper_than_without_where_rule_5_8_says_so(self) -> None:
        assert RATES is not None
        agent, plain = Agent(), Agent(GeminiSettings())
        agent.simulator, plain.simulator = (Simulator(clock=each.clock, seed=3) for each in (agent, plain))
        costs = [Decimal(0), Decimal(0)]
        for turn in range(2, 14):
            for which, each in enumerate((agent, plain)):
                costs[which] += facts.price(each.turn(request(turn), per_hour=8), MODEL.ref).cost or Decimal(0)
                each.clock.advance(450)  # beyond what implicit caching remembers
        made = [command for command in agent.done if isinstance(command, Create)]
        costs[0] += sum((creation_cost(command.offer.tokens, RATES) for command in made), Decimal(0))
        agent.objects = agent.objects.ended("lane", agent.clock.now())
        agent.tidy()
        assert costs[0] + agent.storage < costs[1]


class TestFailures:
    def test_where_creating_fails_the_original_goes_out(self) -> None:
        agent = Agent()
        body = request(2)
        [create] = agent.decide(body).commands
        assert isinstance(create, Create)
        too_long = replace(create, ttl_s=10**13)
        assert agent.carry_out(too_long, body) == 400
        decision = agent.decide(body)
        assert decision.commands == ()
        assert wire_contents.rewrite(body, decision.use) is body.raw

    def test_a_vanished_object_is_recognised_and_forgotten(self) -> None:
        agent = Agent()
        body = request(2)
        agent.turn(body)
        use = agent.decide(body).use
        agent.send("DELETE", f"/v1beta/{use.name}")
        status, raw = agent.send(
            "POST", f"/v1beta/models/{NAME}:generateContent", None, wire_contents.rewrite(body, use)
        )
        assert wire_contents.is_lost(status, raw)
        agent.objects, _ = agent.objects.lost(use.name, agent.clock.now())
        assert agent.decide(body, per_hour=0).use is None
        assert agent.generate(body.raw).read == 0

    @pytest.mark.parametrize(
        ("status", "raw", "lost"),
        [
            (403, b'{"error":{"message":"CachedContent not found (or permission denied)"}}', True),
            (404, b'{"error":{"message":"CachedContent not found"}}', True),
            (403, b'{"error":{"message":"The caller does not have permission"}}', False),
            (500, b'{"error":{"message":"CachedContent not found"}}', False),
            (403, b"not json", False),
        ],
    )
    def test_only_that_error_says_it_is_gone(self, status: int, raw: bytes, lost: bool) -> None:
        assert wire_contents.is_lost(status, raw) is lost

    @pytest.mark.parametrize(
        ("status", "raw"), [(400, b"{}"), (200, b""), (200, b"[]"), (200, b'{"name":"x"}'), (200, b"\xff")]
    )
    def test_an_answer_that_says_nothing_is_a_failure(self, status: int, raw: bytes) -> None:
        assert wire_contents.answered(status, raw) is None

    def test_a_creation_needs_a_request(self) -> None:
        with pytest.raises(ValueError, match="none was given"):
            wire_contents.call(Create(Offer("a", 0, 5_000), 60, "lane", MODEL.ref, 1.0))


class TestBytes:
    def test_only_what_the_object_holds_is_left_out(self) -> None:
        body = request(3, toolConfig={"functionCallingConfig": {"mode": "AUTO"}})
        sent = json.loads(wire_contents.rewrite(body, Use("cachedContents/1", 2, 5_000)))
        whole = json.loads(body.raw)
        assert sent == {
            "contents": whole["contents"][2:],
            "generationConfig": {"seed": 7},
            "cachedContent": "cachedContents/1",
        }

    def test_the_object_holds_what_was_sent(self) -> None:
        body = request(3, toolConfig={"functionCallingConfig": {"mode": "AUTO"}})
        [create] = Agent().decide(body).commands
        assert isinstance(create, Create)
        made = json.loads(wire_contents.call(create, body).body)
        whole = json.loads(body.raw)
        assert made.pop("displayName") == f"holdfast-{create.offer.identity[:16]}"
        assert made == {
            "model": f"models/{NAME}",
            "ttl": "3600s",
            "contents": whole["contents"][:4],
            **{name: whole[name] for name in ("systemInstruction", "tools", "toolConfig")},
        }

    def test_the_identity_does_not_depend_on_spelling(self) -> None:
        plain = request(3)
        members = json.loads(plain.raw)
        members["system_instruction"] = members.pop("systemInstruction")
        spaced = parsed(json.dumps(members, indent=3).encode(), f"models/{NAME}")
        reader = PromptReader()
        one, two = (
            wire_contents.offers(body, reader.read(body, MODEL).prompt, AgentContents())[0].identity
            for body in (plain, spaced)
        )
        assert one == two

    def test_an_object_of_the_client_is_left_alone(self) -> None:
        agent = Agent()
        body = parsed(json.dumps({"contents": [said("user", "hi")], "cachedContent": "cachedContents/own"}).encode())
        prompt = PromptReader().read(body, MODEL).prompt
        assert wire_contents.offers(body, prompt, agent.objects) == ()

    @pytest.mark.parametrize(
        ("contents", "frozen"),
        [
            ([], 0),
            ([said("user", "a")], 0),
            ([said("user", "a"), said("model", "b"), said("user", "c")], 2),
            ([said("user", "a"), said("model", "b"), said("user", "c"), said("model", "d")], 2),
            (
                [
                    said("user", "a"),
                    said("model", "b"),
                    said("user", "c"),
                    {"role": "model", "parts": [{"functionCall": {"name": "count", "args": {}}}]},
                    {"role": "user", "parts": [{"functionResponse": {"name": "count", "response": {}}}]},
                ],
                2,
            ),
            ([{"parts": [{"text": "no role"}]}, said("model", "b")], 0),
        ],
    )
    def test_what_may_be_frozen_ends_before_the_last_word_of_the_user(self, contents: Any, frozen: int) -> None:
        assert wire_contents.freezable(parsed(json.dumps({"contents": contents}).encode())) == frozen


@pytest.mark.parametrize("shape", shapes.load("gemini-cli-0.61"), ids=lambda shape: shape.id)
def test_requests_of_a_real_client(shape: shapes.Shape) -> None:
    """Recorded requests in the middle of tool loops: the rewritten one is accepted and says the same."""
    assert shape.body is not None
    simulator = Simulator(clock=VirtualClock())
    name = "gemini-2.5-pro"
    body = parsed(shape.body, name)
    model = facts.model(f"gemini:{name}")
    prompt = PromptReader().read(body, model).prompt
    offer = wire_contents.offers(body, prompt, AgentContents())[-1]
    assert offer.tokens >= model.floor
    call = wire_contents.call(Create(offer, 3600, "lane", model.ref, 1.0), body)
    made = simulator.answer(HttpRequest(call.method, call.path, KEY, call.query, call.body))
    answered = wire_contents.answered(made.status, made.body)
    assert answered.tokens == offer.tokens
    raw = wire_contents.rewrite(body, Use(answered.name, offer.contents, answered.tokens))
    path = f"/v1beta/models/{name}:generateContent"
    assert simulator.answer(HttpRequest("POST", path, KEY, {}, raw)).status == 200
    used = simulator.journal.records()[-1].usage
    assert (used.read, used.prompt) == (answered.tokens, prompt.tokens)
