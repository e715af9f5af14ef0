"""Whatever markers a client sends, and whatever we add: what the provider accepted it accepts, and `respect` keeps all.

Layouts are drawn at random: on tools, deferred ones among them, on an attribution line, system text and messages, with
both lifetimes, with the automatic marker beside them, with a pinned block of ours, with and without credit to spend.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.strategies import STRATEGIES
from holdfast.engine import EngineCore, Lane, PrepareOptions
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body

pytestmark = pytest.mark.slow

ANTHROPIC = DIALECTS["anthropic"]
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
LANE = Lane(tenant="t", session="s", id="l", client="c")


def marker(ttl: str) -> dict[str, str]:
    return {"type": "ephemeral"} | ({"ttl": "1h"} if ttl == "1h" else {})


def request(random: Random, said: list[dict[str, Any]]) -> dict[str, Any]:
    deferred = {"defer_loading": True} if random.random() < 0.3 else {}
    tools: list[dict[str, Any]] = [{"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {}} | deferred]
    system: list[dict[str, Any]] = [{"type": "text", "text": "Be careful. " * 1_500}, {"type": "text", "text": "More."}]
    if random.random() < 0.4:
        system.insert(0, {"type": "text", "text": f"x-anthropic-billing-header: cc_version={random.random()};"})
    messages = json.loads(json.dumps(said))
    places = [tool for tool in tools if not tool.get("defer_loading")] + system
    places += [message["content"][0] for message in messages]
    chosen = sorted(random.sample(range(len(places)), random.randrange(5)))
    for place, ttl in zip(chosen, sorted(random.choices(["5m", "1h"], k=len(chosen))), strict=True):
        places[place]["cache_control"] = marker(ttl)
    whole = {"model": "claude-opus-4-6", "max_tokens": 5, "tools": tools, "system": system, "messages": messages}
    return whole | ({"cache_control": marker(random.choice(["5m", "1h"]))} if random.random() < 0.4 else {})


def markers(raw: bytes) -> set[tuple[int | None, str]]:
    body = ANTHROPIC.parse(raw)
    assert isinstance(body, Body)
    return {(each.block, each.ttl) for each in ANTHROPIC.markers(body)}


@pytest.mark.parametrize("how", ["respect", "improve", "manage"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_was_accepted_is_accepted(strategy: Any, how: Any) -> None:
    accepted = 0
    for seed in range(5):
        random = Random(seed)
        clock = VirtualClock(1_700_000_000.0)
        simulator, said = Simulator(clock=clock), list[dict[str, Any]]()
        cache = CacheSettings(strategy=strategy, client_markers=how, probe_credit_usd=random.choice([0.0, 0.001, 0.25]))
        engine = EngineCore(Settings(cache=cache), strict=True)
        for turn in range(4):
            text = f"question {turn} " + "with some words " * random.choice([5, 300])
            said.append({"role": "user", "content": [{"type": "text", "text": text}]})
            whole = request(random, said)
            raw = json.dumps(whole).encode()
            fine = Simulator(clock=clock).answer(HttpRequest("POST", "/v1/messages", HEADERS, {}, raw)).status == 200
            body = engine.parse(ANTHROPIC, raw)
            last = f"system[{len(whole['system']) - 1}]"
            pinned = {last: "1h"} if random.random() < 0.4 else {}
            prepared = engine.prepare(body, lane=LANE, now=clock.now(), options=PrepareOptions(pinned=pinned))
            exchange = simulator.begin(HttpRequest("POST", "/v1/messages", HEADERS, {}, prepared.raw))
            if strategy == "passthrough":
                assert prepared.raw is raw
            if fine:
                accepted += 1
                assert exchange.answer.status == 200, exchange.answer.body
                assert how != "respect" or markers(raw) <= markers(prepared.raw)
                exchange.first_token()
                exchange.finish()
                assert exchange.record.usage is not None
                assert engine.settle(prepared, exchange.record.usage, now=clock.now()).explained
            else:
                engine.abandon(prepared, now=clock.now(), error="invalid_request_error")
            said.append({"role": "assistant", "content": [{"type": "text", "text": "answer"}]})
            clock.advance(random.choice([5, 400]))
    assert accepted > 8
