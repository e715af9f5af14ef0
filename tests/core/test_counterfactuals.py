"""What fixed lifetimes would have cost, and what is chosen by that: in the sums, and through the core."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from holdfast.config.sections.cache import CacheSettings
from holdfast.core import planner
from holdfast.core.counterfactuals import (
    AHEAD,
    BOUND,
    ENOUGH,
    HISTORY,
    MEMORY,
    OTHERS,
    allowance,
    cheapest,
    lasting,
    outliving,
    priced,
    see,
    supported,
)
from holdfast.core.experience import Client, Experience, RouteExperience
from holdfast.core.ledger import Ledger
from holdfast.core.planner import Tenant
from holdfast.facts import model
from holdfast.facts.pause_table import pauses
from holdfast.lab.playback import billed, replay
from holdfast.records import Usage
from tests.lab.replay.timed_calls import calls, without_markers

OPUS = model("claude-opus-4-6")


def seen(*requests: tuple[int, int, float]) -> Client:
    """A client of one conversation: tokens, those in common with the request before, seconds since it."""
    client = Client()
    for tokens, common, idle in requests:
        see(client, priced(OPUS, tokens, 5_000, common, idle), tokens, second=False)
    return client


def test_the_prior_is_dated_and_its_shares_add_up() -> None:
    prior = pauses()
    assert prior.as_of.year == 2026
    assert sum(prior.human.classes) == pytest.approx(1)
    assert sum(prior.machine.classes) == pytest.approx(1)
    assert prior.policies.hour_at(0.1) == 0.897
    assert prior.policies.hour_at(0.05) == prior.policies.hour_at(0.025) == 0.837


def test_each_policy_is_priced_by_the_rules() -> None:
    assert seen((10_000, 0, 0.0)).fixed == pytest.approx([12_500, 20_000, 16_250])
    warm = seen((10_000, 0, 0.0), (11_000, 10_000, 60.0))
    assert warm.fixed == pytest.approx([12_500 + 2_250, 20_000 + 3_000, 16_250 + 2_250])
    paused = seen((10_000, 0, 0.0), (11_000, 10_000, 1_000.0))
    assert paused.fixed == pytest.approx([12_500 + 13_750, 20_000 + 3_000, 16_250 + 500 + 7_500])
    gone = seen((10_000, 0, 0.0), (11_000, 10_000, 4_000.0))
    assert gone.fixed == pytest.approx([26_250, 42_000, 16_250 + 10_000 + 7_500])


def test_below_the_floor_all_cost_the_same_and_conversations_fade() -> None:
    assert seen((4_000, 0, 0.0)).fixed == [4_000, 4_000, 4_000]
    client = Client(fixed=[10.0, 20.0, 30.0])
    see(client, priced(OPUS, 10, 0, 0, 1.0), 10, second=True)
    assert client.fixed == pytest.approx([10 + each * (1 - 1 / MEMORY) for each in (10, 20, 30)])
    assert client.conversations == 1


def test_the_prior_counts_beside_what_was_seen_and_other_clients_less() -> None:
    experience = Experience()
    assert cheapest(experience, "cli", OPUS, 10_000) == "long"
    weight = pauses().policies.requests * 10_000 * (1 - 0.897)
    experience.client("cli").fixed = [0.0, weight + 1, 0.5 * weight]
    assert cheapest(experience, "cli", OPUS, 10_000) == "short"
    assert cheapest(experience, "other", OPUS, 10_000) == "long"
    experience.client("cli").fixed = [0.0, (weight + 1) / OTHERS, 0.0]
    assert cheapest(experience, "other", OPUS, 10_000) == "short"


def test_nothing_is_supported_before_a_pause_between_the_lifetimes_was_seen() -> None:
    experience = Experience()
    for gap in (10.0, 299.0, 4_000.0):
        experience.client("cli").gaps.see("user", "user", gap)
        assert not supported(experience)
    experience.client("cli").gaps.see("user", "user", 301.0)
    assert supported(experience)


def paused(lane: list, every: int) -> list:  # type: ignore[type-arg]
    later = [1_000.0 * (number // every) for number in range(len(lane))]
    return [
        replace(call, at=call.at + more, first_token_at=call.first_token_at + more)
        for call, more in zip(lane, later, strict=True)
    ]


def test_through_the_core_a_tenant_without_pauses_never_buys_an_hour_and_one_with_them_does() -> None:
    tenant = Tenant()
    for _ in range(3):
        found = replay(without_markers(calls(30)), OPUS, CacheSettings(), tenant=tenant, client="cli")
        assert {ttl for outcome in found for ttl, _ in outcome.writes} == {"5m"}
    for _ in range(3):
        found = replay(paused(without_markers(calls(30)), 6), OPUS, CacheSettings(), tenant=tenant, client="cli")
    assert {ttl for outcome in found for ttl, _ in outcome.writes} == {"1h"}
    assert sum(outcome.read == 0 for outcome in found) == 1


def test_through_the_core_the_choice_follows_what_was_cheapest() -> None:
    """As good as the best fixed strategy once it is known which that is."""
    for every in (5, 1_000):
        tenant, lane = Tenant(), paused(without_markers(calls(40)), every)
        for _ in range(4):
            ours = billed(replay(lane, OPUS, CacheSettings(), tenant=tenant, client="cli"), OPUS)
        long = CacheSettings(strategy="rolling", retention_overrides={"": "long"})
        best = min(billed(replay(lane, OPUS, each), OPUS) for each in (CacheSettings(strategy="rolling"), long))
        assert ours <= best


def test_a_conversation_may_cost_a_tenth_more_until_a_few_are_known() -> None:
    experience, ledger = Experience(), Ledger(automatic=8.0, spent=8.0)
    assert allowance(experience, ledger, 2.0, 0.5) == pytest.approx(BOUND * 10 - 10)
    experience.clients["cli"] = Client(conversations=ENOUGH - 1, automatic=100.0, spent=50.0)
    assert allowance(experience, ledger, 2.0, 0.5) == pytest.approx(1)
    experience.clients["other"] = Client(conversations=1, automatic=20.0, spent=30.0)
    usual = AHEAD * (120 + 2) / ENOUGH
    assert allowance(experience, ledger, 2.0, 0.5) == pytest.approx(120 - 80 + usual)
    experience.clients["other"].spent += 100.0
    assert allowance(experience, ledger, 2.0, 0.5) == pytest.approx(120 - 180 + usual)


@pytest.mark.parametrize(
    ("conversations", "fixed", "counts"),
    [(1, [20.0, 12.0, 16.0], 0.0), (2, [20.0, 12.0, 16.0], 4.0), (2, [20.0, 32.0, 26.0], 0.0)],
)
def test_what_another_policy_would_have_saved_counts_from_the_second_conversation_on(
    conversations: int, fixed: list[float], counts: float
) -> None:
    experience, ledger = Experience(), Ledger(automatic=8.0, spent=8.0)
    experience.clients["cli"] = Client(conversations=conversations, fixed=fixed)
    assert allowance(experience, ledger, 2.0, 0.5) == pytest.approx(1 + HISTORY * counts)


@pytest.mark.parametrize("raises", ["no", "yes"])
def test_through_the_core_no_first_conversation_costs_a_tenth_more_than_automatic_caching(raises: str) -> None:
    """Whatever pauses it makes, and whenever it ends; the prior and the first pause speak for an hour."""
    world = replace(OPUS, knobs=replace(OPUS.knobs, ttl_raise=raises))
    bought = set()
    for every in (3, 7, 20):
        lane = paused(without_markers(calls(40, facts=OPUS)), every)
        sent = replay(lane, world, CacheSettings(), client="cli", believed=world)
        automatic = replay(lane, world, CacheSettings(strategy="rolling"), believed=world)
        bought |= {ttl for outcome in sent for ttl, _ in outcome.writes}
        for end in range(1, len(lane) + 1):
            assert billed(sent[:end], world) <= Decimal(BOUND) * billed(automatic[:end], world)
    assert bought == {"5m", "1h"}


def test_the_documented_lifetime_is_believed_until_an_entry_was_lost() -> None:
    assert lasting(RouteExperience()) == lasting(RouteExperience(pauses=50, survived=50)) == 1.0
    assert pauses().provider.long > lasting(RouteExperience(pauses=20, survived=10)) > 0.5
    kept, lost = Client(), Client()
    for client, route in ((kept, RouteExperience()), (lost, RouteExperience(pauses=10, survived=7))):
        see(client, priced(OPUS, 10_000, 2_000, 9_000, 900.0, route), 10_000, second=False)
    assert lost.fixed[0] == kept.fixed[0]
    assert lost.fixed[1] > kept.fixed[1]
    assert lost.fixed[2] > kept.fixed[2]


def after_pauses(*reads: float) -> Tenant:
    """A lane whose requests come after pauses that an hour's entry was to survive: these shares of it were read."""
    tenant, ledger, settings = Tenant(), Ledger(client="c"), CacheSettings(retention_overrides={"claude": "long"})
    for number, (call, share) in enumerate(zip(paused(without_markers(calls(len(reads))), 1), reads, strict=True)):
        asked = planner.PlanRequest(call=str(number), prompt=call.prompt, alone=call.prompt, model=OPUS)
        prepared = planner.prepare(tenant, ledger, asked, call.at, settings)
        planner.first_token(tenant, prepared, call.first_token_at)
        foreseen, found = prepared.outcome.usage(0), int(prepared.outcome.read * share)
        usage = Usage(input=foreseen.input, read=found, writes=(("1h", foreseen.prompt - foreseen.input - found),))
        planner.settle(tenant, ledger, prepared, usage, call.first_token_at, settings)
    return tenant


def test_through_the_core_lost_entries_are_counted_and_make_the_hour_dearer() -> None:
    kept, lost = after_pauses(0.0, 1.0, 1.0), after_pauses(0.0, 0.0, 1.0)
    assert [(route.pauses, route.survived) for each in (kept, lost) for route in each.experience.routes.values()] == [
        (2, 2),
        (2, 1),
    ]
    assert lost.experience.client("c").fixed[1] > kept.experience.client("c").fixed[1]


def test_a_short_entry_is_gone_when_it_should_be_until_one_was_read_later() -> None:
    assert [outliving(RouteExperience(), idle) for idle in (10.0, 300.0, 301.0)] == [1.0, 1.0, 0.0]
    known = RouteExperience(outlived=1)
    assert [outliving(known, idle) for idle in (10.0, 300.0, 320.0, 350.0, 500.0)] == [1.0, 1.0, 0.64, 0.15, 0.0]
    late = priced(OPUS, 10_000, 2_000, 9_000, 320.0, known)
    assert late[0] == pytest.approx(0.64 * 9_000 * 0.1 + (10_000 - 0.64 * 9_000) * 1.25)


def requests_after(*gaps: float, reads: float = 1.0) -> tuple[Tenant, list[planner.PlannedRequest]]:
    """A lane whose requests come after such gaps, of which so much was read that is said to be there."""
    tenant, ledger, prepared, now = Tenant(), Ledger(client="c"), list[planner.PlannedRequest](), 0.0
    for number, (call, gap) in enumerate(zip(without_markers(calls(len(gaps))), gaps, strict=True)):
        now += gap
        asked = planner.PlanRequest(call=str(number), prompt=call.prompt, alone=call.prompt, model=OPUS)
        prepared.append(planner.prepare(tenant, ledger, asked, now, CacheSettings()))
        planner.first_token(tenant, prepared[-1], now + 2)
        usage = prepared[-1].outcome.usage(0)
        if gap > 300:
            usage = Usage(read=int(usage.prompt * reads), writes=(("5m", usage.prompt - int(usage.prompt * reads)),))
        planner.settle(tenant, ledger, prepared[-1], usage, now + 2, CacheSettings())
    return tenant, prepared


def test_through_the_core_it_is_said_how_likely_the_prediction_is() -> None:
    _, prepared = requests_after(0.0, 60.0, 280.0, 320.0, 500.0, 4_000.0)
    assert [each.likely for each in prepared] == pytest.approx([1.0, 1.0, 0.92, 1 - 0.64, 1.0, 1.0])


@pytest.mark.parametrize(("read", "outlived"), [(0.8, 1), (0.0, 0)])
def test_through_the_core_entries_that_outlive_their_time_are_counted(read: float, outlived: int) -> None:
    tenant, _ = requests_after(0.0, 60.0, 320.0, reads=read)
    assert [route.outlived for route in tenant.experience.routes.values()] == [outlived]
