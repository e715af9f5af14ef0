"""Recorded lanes through the core against the rules: what they cost, and how wrong beliefs are put right."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Mark
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.planner import Tenant
from holdfast.errors import HoldfastError
from holdfast.facts import model
from holdfast.lab import with_gaps
from holdfast.lab.marker_plans import TimedCall, cost, outcomes, prices, rolling
from holdfast.lab.playback import billed, replay
from holdfast.lab.sessions import calls_of
from tests.caches.prompts import SMALL, prompt
from tests.core.lanes import system
from tests.core.turns import RAISES
from tests.lab.recordings import own
from tests.lab.replay.timed_calls import calls, without_markers

OPUS = model("anthropic:claude-opus-4-6")


@pytest.mark.parametrize("gap", [20.0, 290.0, 310.0, 4_000.0])
def test_a_fixed_strategy_costs_what_its_plan_costs(gap: float) -> None:
    lane = calls(12, gap)
    found = replay(without_markers(lane), SMALL, CacheSettings(strategy="rolling"))
    assert billed(found, SMALL) == cost(lane, rolling(lane, "5m"), SMALL)
    assert [each.read for each in found] == [each.read for each in outcomes(lane, rolling(lane, "5m"), SMALL)]


def test_passthrough_costs_what_the_client_pays_alone() -> None:
    lane = calls(12)
    assert billed(replay(lane, SMALL, CacheSettings(strategy="passthrough")), SMALL) == cost(
        lane, tuple(call.prompt.marks for call in lane), SMALL
    )


def test_no_markers_and_no_strategy_is_no_caching() -> None:
    lane = without_markers(calls(5))
    assert all(not call.prompt.marks for call in lane)
    found = replay(lane, SMALL, CacheSettings(strategy="passthrough"))
    assert billed(found, SMALL) == Decimal(sum(call.prompt.tokens for call in lane))


def test_on_a_steady_lane_economic_costs_what_rolling_does() -> None:
    lane = without_markers(calls(60))
    steady = billed(replay(lane, SMALL, CacheSettings(strategy="rolling")), SMALL)
    assert billed(replay(lane, SMALL, CacheSettings()), SMALL) == steady


def test_answers_that_overlap_begin_in_their_order() -> None:
    """A request that starts before an earlier answer has begun cannot read what it writes (A11)."""
    lane = calls(6, 5.0, first=12.0)
    found = replay(without_markers(lane), SMALL, CacheSettings(strategy="rolling"))
    assert [each.read for each in found[:3]] == [0, 0, 0]
    assert found[3].read == lane[0].prompt.tokens
    assert [each.read for each in found] == [each.read for each in outcomes(lane, rolling(lane, "5m"), SMALL)]


def test_the_caches_are_empty_at_the_start_and_what_was_learned_is_carried_on() -> None:
    tenant = Tenant()
    lane = without_markers(calls(20))
    first = replay(lane, SMALL, CacheSettings(), tenant=tenant, client="cli")
    second = replay(lane, SMALL, CacheSettings(), tenant=tenant, client="cli")
    assert first[0].read == second[0].read == 0
    client = tenant.experience.clients["cli"]
    assert (client.lanes, client.requests) == (2, 40)
    assert client.reserved == 0


def test_a_route_that_raises_is_learned_from_what_is_billed() -> None:
    """The core believes that long markers do not raise; the provider's do."""
    tenant = Tenant()
    cost_of = []
    for session in range(20):
        lane = without_markers(calls(60))
        pauses = [1_000 * (number // 45) * (session % 2 == 0) for number in range(len(lane))]
        lane = [
            replace(call, at=call.at + pause, first_token_at=call.first_token_at + pause)
            for call, pause in zip(lane, pauses, strict=True)
        ]
        cost_of.append(
            billed(replay(lane, RAISES, CacheSettings(), tenant=tenant, client="cli", believed=SMALL), RAISES)
        )
    assert tenant.experience.routes[SMALL.ref].raises == "yes"
    assert cost_of[-1] < cost_of[0]


def test_a_session_with_texts_becomes_prompts_of_any_model() -> None:
    trace = with_gaps(own("session"), "none", seed=0)
    for facts in (SMALL, model("openai:gpt-6.1-sol")):
        lane = calls_of(trace, facts)
        assert len(lane) == len(trace.steps)
        assert all(call.prompt.model == facts.ref and not call.prompt.marks for call in lane)
        found = replay(lane, facts, CacheSettings())
        assert billed(found, facts) < sum(call.prompt.tokens for call in lane)


def test_a_session_without_times_is_refused() -> None:
    with pytest.raises(HoldfastError, match="session has no times; give it a gap pattern"):
        calls_of(own("session"), SMALL)


def test_a_bill_is_in_plain_input_tokens() -> None:
    lane = [TimedCall(0.0, 1.0, prompt([system("host", 5_000)], (0, "1h"), model=OPUS))]
    found = replay(lane, OPUS, CacheSettings(strategy="passthrough"))
    assert billed(found, OPUS) == 10_000
    assert prices(OPUS).of(found[0]) == 10_000 * prices(OPUS).unit
    assert found[0].prompt.marks == (Mark(0, "1h"),)
