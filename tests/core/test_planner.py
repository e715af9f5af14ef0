"""The core turn by turn against the real rules: prediction, learning, and calls that do not end well."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.config.sections.cache import CacheSettings
from holdfast.core import planner, tenants
from holdfast.core.economics import costs
from holdfast.core.pool import Pool
from holdfast.core.strategies import STRATEGIES
from holdfast.facts import model
from holdfast.records import usage
from tests.caches.prompts import SMALL
from tests.core.lanes import SOL, said, system, tool
from tests.core.turns import HEAD, RAISES, Lane


@pytest.mark.parametrize("facts", [SMALL, SOL], ids=lambda facts: facts.name)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_predicts_what_is_billed(strategy: str, facts: object) -> None:
    lane = Lane(CacheSettings(strategy=strategy), model=facts)  # type: ignore[arg-type]
    for gap in (1, 20, 290, 310, 20, 2_000, 4_000, 5):
        played = lane.turn(gap)
        assert played.verdict.predicted == played.verdict.usage
        assert played.verdict.explained
        assert played.prepared.outcome.writes == played.billed.writes
    assert lane.ledger.requests == lane.ledger.settled == 8


def test_what_goes_out_as_it_came_is_decided_once_until_the_pools_differ() -> None:
    lane = Lane(CacheSettings(strategy="passthrough"))
    for _ in range(3):
        found = lane.turn(10, marks=((2, "5m"), (-1, "5m")))
        assert found.prepared.outcome is found.prepared.alone
        assert found.prepared.predicted(lane.tenant.experience).read == found.billed.read
    key = lane.prompt().keys[2]
    lane.tenant.pool_alone(SMALL).entries.drop(key)
    prepared = lane.prepare(lane.prompt(((2, "5m"),)))
    assert (prepared.outcome.read, prepared.alone.read) == (7_000, 0)


def test_a_lane_is_counted_once_and_its_gaps_by_what_they_precede() -> None:
    lane = Lane()
    lane.send()
    lane.turn(400)
    lane.grow(kind="tool_result")
    lane.send(5)
    client = lane.tenant.experience.client("c")
    assert (client.lanes, client.requests) == (1, 3)
    assert client.gaps == lane.ledger.gaps
    assert client.gaps.user == [0, 1, 0]  # start to start
    assert client.gaps.tools == [1, 0, 0]
    assert lane.ledger.kind == "tools"
    assert (lane.ledger.growths, lane.ledger.grown) == (2, 4_000)


def test_a_resend_is_no_turn() -> None:
    lane = Lane()
    lane.turn()
    before = lane.tenant.experience.client("c").requests
    again = lane.send(3)
    assert again.prepared.gap is None
    assert again.billed.read == again.billed.prompt.tokens
    assert again.verdict.finding is None
    assert lane.tenant.experience.client("c").requests == before
    assert lane.ledger.compared == 0


def test_heads_that_lanes_share_are_counted() -> None:
    lane = Lane()
    lane.send()
    lane.beside().send()
    other = lane.beside()
    other.blocks[2] = system("another host")
    other.send()
    assert lane.tenant.experience.client("c").heads == [1, 2]


def test_only_so_many_heads_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenants, "MOST_HEADS", 2)
    tenant = planner.Tenant()
    assert [tenant.head_known(key) for key in (b"a", b"b", b"a", b"c", b"a", b"b")] == [0, 0, 1, 0, 1, 0]


def test_a_call_leaves_nothing_if_it_is_cancelled_before_its_first_token() -> None:
    lane = Lane()
    first = lane.turn()
    lane.grow()
    prepared = lane.prepare(reset="compaction")
    lane.abandon(prepared)
    assert lane.ledger.last.call == first.prepared.request.call
    assert lane.ledger.reset == "compaction"  # still to be used
    again = lane.send(1)
    assert again.billed.read == first.billed.prompt.tokens
    assert again.verdict.explained
    assert lane.ledger.reset is None


def test_an_announced_reset_is_still_to_be_used_after_a_cancelled_call() -> None:
    lane = Lane()
    lane.turn()
    lane.ledger.reset = "compaction"
    prepared = lane.prepare()
    assert prepared.expectation.reset == "compaction"
    assert lane.ledger.reset is None
    lane.abandon(prepared)
    assert lane.ledger.reset == "compaction"


def test_a_call_that_is_cut_after_its_first_token_has_written() -> None:
    lane = Lane()
    lane.turn()
    lane.grow()
    prepared = lane.prepare()
    lane.begin(prepared, lane.bill(prepared))
    lane.abandon(prepared)
    assert lane.ledger.last.call == prepared.request.call
    cut = prepared.prompt.tokens
    again = lane.turn(1)
    assert again.billed.read == cut
    assert again.verdict.explained


def test_what_a_cut_call_cost_beyond_the_client_alone_is_booked() -> None:
    """Law 7 holds for a client that cuts every answer too."""
    lane = Lane(CacheSettings(probe_credit_usd=0.05))
    marked = 0
    for number in range(30):
        lane.blocks = [*HEAD, *(said(n, name=f"never again {number}") for n in range(12))]
        lane.blocks[0] = tool(f"tool {number}")
        lane.now += 10
        prepared = lane.prepare()
        marked += bool(prepared.plan.marks)
        lane.begin(prepared, lane.bill(prepared))
        lane.abandon(prepared)
    client = lane.tenant.experience.client("c")
    assert client.reserved == 0
    assert client.saved < 0
    assert client.saved == pytest.approx(-0.05, abs=0.05)
    assert 0 < marked < 30


def test_parallel_calls_of_a_lane_all_pay_and_the_next_one_reads() -> None:
    lane = Lane()
    lane.turn()
    lane.grow()
    calls = [lane.prepare() for _ in range(3)]
    billed = [lane.bill(call) for call in calls]
    assert {each.read for each in billed} == {billed[0].read}
    for call, each in zip(calls, billed, strict=True):
        lane.now += 1
        lane.begin(call, each)
        assert lane.settle(call, each.usage(1)).explained
    assert lane.turn(1).billed.read == calls[0].prompt.tokens


def test_of_parallel_calls_that_are_all_cancelled_none_is_the_lane_s_last() -> None:
    lane = Lane()
    first = lane.turn()
    for order in ((0, 1), (1, 0)):
        lane.grow()
        calls = [lane.prepare(), lane.prepare()]
        for place in order:
            lane.abandon(calls[place])
        assert lane.ledger.last.call == first.prepared.request.call
    assert lane.turn(1).billed.read == first.billed.prompt.tokens


def test_of_so_many_cancelled_calls_it_is_known_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.tenants.MOST_CANCELLED", 3)
    lane = Lane()
    lane.turn()
    lane.grow()
    calls = [lane.prepare() for _ in range(7)]
    for call in calls[:-1]:  # none of them is the lane's last
        lane.abandon(call)
    assert list(lane.tenant.cancelled) == [call.request.call for call in calls[3:6]]


def test_a_fork_reads_what_both_have_and_is_no_break() -> None:
    lane = Lane()
    for _ in range(4):
        lane.turn()
    lane.blocks = [*lane.blocks[:8], said(5, name="asked anew", role="user")]
    forked = lane.send(5)
    assert forked.billed.read == forked.billed.prompt.ends[7]
    assert forked.verdict.finding is None
    assert forked.verdict.explained


def test_an_answer_begins_once_and_an_end_is_one() -> None:
    lane = Lane()
    lane.now = 10
    prepared = lane.prepare()
    billed = lane.bill(prepared)
    planner.first_token(lane.tenant, prepared, 11)
    planner.first_token(lane.tenant, prepared, 15)
    assert prepared.first_token == 11
    lane.settle(prepared, billed.usage())
    saved = lane.tenant.experience.client("c").saved
    lane.abandon(prepared)
    assert lane.tenant.experience.client("c").saved == saved
    assert lane.ledger.last is not None
    other = lane.prepare()
    lane.abandon(other)
    planner.first_token(lane.tenant, other, 20)
    assert other.first_token is None


def test_a_provider_that_lost_an_entry_is_believed() -> None:
    lane = Lane()
    lane.turn()
    lane.provider = Lane().provider  # all is lost
    played = lane.turn()
    assert not played.verdict.explained
    assert played.verdict.finding.cause == "likely_server_side"
    assert played.verdict.outcome.read == 0
    assert lane.ledger.retention.cooldown == lane.settings.cooldown_turns
    following = lane.turn()
    assert following.verdict.explained


@pytest.mark.parametrize("gap", [310.0, 4_000.0])
def test_what_a_request_is_about_to_write_is_no_reason_for_what_it_cannot_read(gap: float) -> None:
    """The entries have expired. That the same keys are pending again, by this very request, is no race."""
    lane = Lane(CacheSettings(strategy="rolling"))
    for _ in range(4):
        lane.turn()
    found = lane.turn(gap).verdict
    assert (found.finding.cause, found.finding.also) == ("ttl_expired_5m", ())


def test_a_provider_that_counts_otherwise_agrees_within_the_thresholds() -> None:
    lane = Lane()
    for _ in range(30):
        lane.now += 5
        lane.grow()
        prepared = lane.prepare()
        billed = lane.bill(prepared)
        lane.begin(prepared, billed)
        theirs = {ttl: round(tokens * 1.1) for ttl, tokens in billed.writes}
        used = usage(input=round(billed.input * 1.1), read=round(billed.read * 1.1), output=5, writes=theirs)
        assert lane.settle(prepared, used).explained
    factor = lane.tenant.experience.calibration.tokens(SMALL.ref, 10_000)
    assert factor == pytest.approx(11_000, rel=0.01)


def test_what_was_saved_is_the_difference_to_the_client_alone() -> None:
    lane = Lane()
    first = lane.send()
    price = costs(SMALL, 0)
    assert first.verdict.saved == pytest.approx(8_000 * price.input - price.of(first.billed))
    assert first.verdict.saved < 0  # the write
    second = lane.turn()
    assert second.verdict.saved == pytest.approx(10_000 * price.input - price.of(second.billed))
    assert second.verdict.saved > 0  # the read
    client = lane.tenant.experience.client("c")
    assert client.saved == pytest.approx(first.verdict.saved + second.verdict.saved)
    assert client.reserved == 0


def test_what_the_provider_loses_for_us_it_would_have_lost_for_the_client() -> None:
    lane = Lane(CacheSettings(strategy="passthrough"))
    marks = [(2, "5m"), (-1, "5m")]
    lane.turn(marks=marks)
    lane.provider = Lane().provider
    played = lane.turn(marks=marks)
    assert played.verdict.saved == pytest.approx(0)


def test_a_client_that_marks_well_by_itself_is_left_alone() -> None:
    lane = Lane(CacheSettings(client_markers="respect"))
    for _ in range(5):
        played = lane.turn(marks=[(1, "5m"), (2, "5m"), (-1, "5m")])
        assert played.verdict.saved == pytest.approx(0)
        assert played.prepared.plan.marks == played.prepared.request.prompt.marks


def test_a_route_that_was_proved_to_raise_is_believed_for_the_client_alone_too() -> None:
    tenant = planner.Tenant()
    tenant.experience.route(SMALL.ref).raises = "yes"
    assert tenant.pool(SMALL).model == RAISES
    assert tenant.pool_alone(SMALL).model == RAISES


def test_pools_are_shared_by_lanes_and_kept_apart_by_models() -> None:
    tenant = planner.Tenant()
    assert tenant.pool(SMALL) is tenant.pool(SMALL)
    assert tenant.pool(SMALL) is not tenant.pool(SOL)
    assert tenant.pool_alone(SMALL) is not tenant.pool(SMALL)
    assert isinstance(tenant.pool(SMALL), Pool)


def test_a_changed_setting_is_compared_by_its_digest() -> None:
    lane = Lane()
    first = lane.prepare(settings={"thinking": b"a long secret"})
    assert b"secret" not in dict(lane.ledger.last.settings)["thinking"]  # type: ignore[union-attr]
    lane.begin(first, lane.bill(first))
    lane.settle(first, first.outcome.usage())
    second = lane.prepare(settings={"thinking": b"another"})
    assert second.comparison.divergence.setting == "thinking"


def test_an_announced_departure_is_no_evidence_of_instability() -> None:
    lane = Lane()
    lane.turn()
    lane.blocks[2] = system("after a change that was announced")
    lane.send(reset="volatile_system_changed")
    assert lane.ledger.positions == {}
    lane.blocks[2] = system("after another")
    lane.send()
    assert set(lane.ledger.positions) == {"system:0"}


def test_a_model_without_a_price_is_planned_for_like_any_other() -> None:
    lane = Lane(model=model("anthropic:claude-nobody-9"))
    lane.send()
    played = lane.turn()
    assert played.billed.read == 8_000
    assert played.verdict.saved > 0


def test_an_empty_prompt_is_settled() -> None:
    lane = Lane()
    lane.blocks = []
    prepared = lane.prepare()
    assert prepared.plan.marks == ()
    verdict = lane.settle(prepared, usage(input=3, output=1))
    assert verdict.saved == 0
    assert replace(verdict.usage, cost=None).input == 3
