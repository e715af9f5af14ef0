"""The pool: the provider's rules with our copy of the state, corrected by what is billed, rebuilt from calls."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from holdfast.caches import CacheControls
from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.openai_breakpoints import OpenAIBreakpoints
from holdfast.caches.prompts import Entry, Mark, Outcome, Prompt
from holdfast.caches.providers import prompt as prompt_of
from holdfast.core.pool import Effect, Pool, effect
from holdfast.facts import ModelFacts, model
from tests.caches.prompts import SMALL
from tests.core.lanes import SOL, said, system, tool
from tests.core.turns import RAISES

FIVE, HOUR = 300.0, 3_600.0


def talk(count: int, *marks: tuple[int, str], model: ModelFacts = SMALL, route: str = "", name: str = "said") -> Prompt:
    blocks = [tool("bash"), system("host"), *(said(number, name=name) for number in range(count))]
    placed = [Mark(at % len(blocks), ttl) for at, ttl in marks]
    return prompt_of(model, blocks, CacheControls(marks=placed, route=route))


def send(pool: Pool, prompt: Prompt, at: float, first: float | None = None) -> Outcome:
    outcome = pool.begin(prompt, at)
    pool.first_token(outcome, at if first is None else first)
    return outcome


# What is alive


def test_it_predicts_what_the_rules_bill() -> None:
    pool, real = Pool(SMALL), AnthropicCache(SMALL)
    for number, at in ((1, 0.0), (3, 10.0), (5, 311.0), (7, 320.0)):
        prompt = talk(number, (1, "1h"), (-1, "5m"))
        billed = real.begin(prompt, at)
        assert pool.decide(prompt, at) == pool.begin(prompt, at) == replace(billed, why=())
        pool.first_token(billed, at + 1)
        real.first_token(billed, at + 1)
    assert pool.live(321) == real.entries(321)


def test_deciding_changes_nothing() -> None:
    pool = Pool(SMALL)
    send(pool, talk(1, (-1, "5m")), 0)
    before = pool.live(1)
    pool.decide(talk(3, (-1, "5m")), 1)
    assert pool.live(1) == before


@pytest.mark.parametrize("facts", [SMALL, SOL], ids=lambda facts: facts.name)
def test_what_another_pool_that_knows_the_same_decided_is_what_it_would_decide(facts: ModelFacts) -> None:
    pool, other, ttl = Pool(facts), Pool(facts), facts.default_ttl or ""
    for number in (1, 3, 5):
        prompt = talk(number, (1, ttl), (-1, ttl), model=facts)
        assert pool.knows_as(other, prompt)
        decided = other.begin(prompt, float(number))
        assert pool.decide(prompt, float(number)) == decided
        pool.follow(decided)
        assert pool.begin(prompt, float(number)) is decided
        assert pool.knows_as(other, prompt)
        for each in (pool, other):
            each.first_token(decided, number + 0.5)
    assert pool.live(6) == other.live(6)
    send(other, talk(2, (-1, ttl), model=facts), 6)
    assert not pool.knows_as(other, talk(3, model=facts))
    assert pool.knows_as(other, prompt_of(facts, [tool("another"), said(0)]))


def test_what_was_decided_elsewhere_holds_until_something_changes() -> None:
    pool, other, prompt = Pool(SMALL), Pool(SMALL), talk(3, (-1, "5m"))
    pool.follow(other.begin(prompt, 2))
    pool.first_token(pool.begin(talk(1, (-1, "5m")), 1), 1)
    found = pool.decide(prompt, 2)
    assert found.read == 7_000


def test_pools_that_cannot_be_compared_are_not_the_same() -> None:
    keyed = talk(1, (-1, "30m"), model=SOL, route="k")
    assert not Pool(SOL).knows_as(Pool(SOL), keyed)
    gemini = model("gemini:gemini-2.5-pro")
    assert not Pool(gemini).knows_as(Pool(gemini), talk(1, model=gemini))
    assert not Pool(SMALL).knows_as(Pool(RAISES), talk(1))


def test_lanes_share_what_they_begin_with() -> None:
    pool = Pool(SMALL)
    send(pool, talk(1, (1, "5m"), (-1, "5m")), 0)
    assert send(pool, talk(1, (1, "5m"), (-1, "5m"), name="another"), 1).read == 6_000


def test_what_is_pending_cannot_be_read_and_an_abandoned_call_leaves_nothing() -> None:
    pool, prompt = Pool(SMALL), talk(1, (-1, "5m"))
    pending = pool.begin(prompt, 0)
    assert pool.begin(prompt, 1).read == 0
    assert not any(entry.live(1) for entry in pool.known(prompt.keys))
    pool.abandon(pending, 2)
    pool.first_token(pool.begin(prompt, 3), 4)
    assert pool.find(prompt.keys[-1], 3.9) is None
    assert pool.find(prompt.keys[-1], 4) is not None
    assert pool.begin(prompt, 5).read == 7_000


@pytest.mark.parametrize("ref", ["openai:gpt-5.5", "gemini:gemini-2.5-pro", "deepseek:deepseek-chat"])
def test_caches_that_match_by_token_live_in_memory_only(ref: str) -> None:
    pool = Pool(model(ref))
    assert not pool.by_entry
    prompt = talk(1, model=pool.model)
    assert pool.decide(prompt, 0) is None
    outcome = send(pool, prompt, 0)
    assert pool.correct(outcome, 5_000, 0, 1) is outcome
    assert pool.live(1) == []


# What a provider reports


def test_what_was_read_less_is_gone() -> None:
    pool = Pool(SMALL)
    send(pool, talk(1, (1, "5m"), (-1, "5m")), 0)
    outcome = send(pool, talk(3, (1, "5m"), (-1, "5m")), 10)
    assert outcome.read == 7_000
    found = pool.correct(outcome, 6_000, 10, 12)
    assert (found.read, dict(found.writes), found.input) == (6_000, {"5m": 3_000}, 0)
    assert pool.find(talk(1).keys[-1], 12) is None
    again = pool.begin(talk(3, (1, "5m"), (-1, "5m")), 20)
    assert again.read == 9_000  # what it wrote instead is known


def test_what_was_not_read_at_all_takes_everything_with_it() -> None:
    pool = Pool(SMALL)
    send(pool, talk(1, (1, "1h"), (-1, "5m")), 0)
    outcome = send(pool, talk(3, (-1, "5m")), 10)
    found = pool.correct(outcome, 0, 10, 12)
    assert (found.read, dict(found.writes)) == (0, {"5m": 9_000})
    assert [entry.tokens for entry in pool.live(12)] == [9_000]


def test_what_was_read_more_must_have_been_there() -> None:
    pool = Pool(SMALL)
    outcome = send(pool, talk(3, (1, "5m"), (-1, "5m")), 10)
    assert outcome.read == 0
    found = pool.correct(outcome, 7_000, 11, 12)
    assert (found.read, dict(found.writes)) == (7_000, {"5m": 2_000})
    entry = pool.find(talk(1).keys[-1], 12)
    assert (entry.ttl, entry.expires) == ("5m", 310)


def test_what_others_left_lives_as_long_as_this_request_would_have_marked_it() -> None:
    pool = Pool(SMALL)
    outcome = send(pool, talk(3, (1, "1h"), (-1, "5m")), 10)
    pool.correct(outcome, 6_000, 11, 12)
    entry = pool.find(talk(1).keys[1], 12)
    assert (entry.tokens, entry.ttl, entry.expires) == (6_000, "1h", 3_610)


@pytest.mark.parametrize(("read", "block"), [(7_000, 7_000), (6_870, 7_000), (7_139, 7_000), (6_600, 6_000)])
def test_a_read_is_up_to_the_end_of_a_block_that_is_near(read: int, block: int) -> None:
    """A provider counts otherwise than we do: within two in a hundred it means the same place."""
    pool = Pool(SMALL)
    found = pool.correct(send(pool, talk(3, (1, "5m"), (-1, "5m")), 10), read, 11, 12)
    assert found.read == block


def test_a_prediction_that_held_corrects_nothing() -> None:
    pool = Pool(SMALL)
    outcome = send(pool, talk(1, (-1, "5m")), 0)
    before = pool.live(1)
    assert pool.correct(outcome, 0, 0, 1) is outcome
    assert pool.live(1) == before


def test_openai_s_entries_are_corrected_under_their_cache_key() -> None:
    pool = Pool(SOL)
    first = talk(1, model=SOL, route="key")
    send(pool, first, 0)
    outcome = send(pool, talk(3, model=SOL, route="key"), 10)
    assert outcome.read == first.tokens
    found = pool.correct(outcome, 0, 10, 11)
    assert found.read == 0
    assert send(pool, first, 20).read == 0
    assert send(pool, talk(3, model=SOL, route="key"), 30).read == 9_000


def test_a_route_that_raises_is_believed_from_then_on() -> None:
    def chained(pool: Pool) -> float:
        send(pool, talk(1, (-1, "5m")), 0)
        send(pool, talk(3, (-1, "1h")), 10)
        return next(entry.seconds for entry in pool.live(11) if entry.tokens == 9_000)

    pool = Pool(SMALL)
    assert chained(pool) == FIVE
    pool = Pool(SMALL)
    pool.believe("yes")
    assert pool.model == RAISES
    assert chained(pool) == HOUR
    pool.believe("no")
    assert pool.model == SMALL
    assert len(pool.live(11)) == 2  # what is alive stays


def test_a_model_without_the_question_believes_nothing() -> None:
    pool = Pool(SOL)
    pool.believe("yes")
    assert pool.model == SOL


# Keeping it


def test_it_is_kept_and_taken_over() -> None:
    pool = Pool(SMALL)
    send(pool, talk(1, (1, "1h"), (-1, "5m")), 0)
    other = Pool(SMALL)
    assert other.restore(pool.encode(200)) == 200
    assert other.live(250) == pool.live(250) != []
    assert [entry.tokens for entry in other.live(301)] == [6_000]


def test_of_another_model_or_damaged_it_is_not_taken_over() -> None:
    pool = Pool(SMALL)
    send(pool, talk(1, (-1, "5m")), 0)
    assert Pool(SOL).restore(pool.encode(1)) is None
    assert Pool(SMALL).restore(b"\xc1") is None


def test_a_request_that_was_cut_before_its_first_token_rebuilds_only_what_it_refreshed() -> None:
    pool = Pool(SMALL)
    first = send(pool, talk(1, (-1, "5m")), 0)
    cut = pool.begin(talk(3, (-1, "5m")), 200)
    pool.abandon(cut, 201)
    rebuilt = Pool(SMALL)
    rebuilt.rebuild([effect(first, first, 0), effect(cut, cut, None)])
    assert rebuilt.live(400) == pool.live(400) != []
    assert [entry.expires for entry in rebuilt.live(400)] == [500]


def _timeline(random: Random, facts: ModelFacts) -> tuple[Pool, list[Effect], float]:
    """Calls side by side, resent, forked, cancelled and cut, with all lifetimes, in a pool."""
    pool, effects, now, open_calls = Pool(facts), [], 0.0, list[Outcome]()
    for _ in range(60):
        now += random.choice([0.0, 0.5, 5.0, 100.0, 290.0, 310.0])
        if open_calls and random.random() < 0.5:
            outcome = open_calls.pop(random.randrange(len(open_calls)))
            if random.random() < 0.2:
                pool.abandon(outcome, now)
                effects.append(effect(outcome, outcome, None))
            else:
                pool.first_token(outcome, now)
                effects.append(effect(outcome, outcome, now))
            continue
        ttls = sorted(random.choices(["5m", "1h"], k=2))  # a longer one comes first
        marks = [(1, ttls[0]), (-1, ttls[1])] if facts is not SOL else []
        prompt = talk(random.randrange(1, 8), *marks, model=facts, name=random.choice("ab"))
        open_calls.append(pool.begin(prompt, now))
    for outcome in open_calls:
        now += 1
        pool.first_token(outcome, now)
        effects.append(effect(outcome, outcome, now))
    return pool, sorted(effects, key=lambda each: each.at), now


def _believed(entries: list[Entry]) -> list[tuple[bytes, int, float, float]]:
    return sorted((each.key, each.tokens, each.seconds, each.expires) for each in entries)


@pytest.mark.parametrize("facts", [SMALL, RAISES, SOL], ids=["anthropic", "raises", "openai"])
@pytest.mark.parametrize("seed", range(40))
def test_a_pool_rebuilt_from_what_its_calls_did_is_the_same(seed: int, facts: ModelFacts) -> None:
    pool, effects, now = _timeline(Random(seed), facts)
    rebuilt = Pool(facts)
    rebuilt.rebuild(effects)
    assert _believed(rebuilt.live(now)) == _believed(pool.live(now)) != []


def test_rules_of_a_pool_are_those_of_the_provider() -> None:
    assert isinstance(Pool(SMALL).cache, AnthropicCache)
    assert isinstance(Pool(SOL).cache, OpenAIBreakpoints)


def test_what_a_call_found_lost_stays_lost_when_the_pool_is_rebuilt() -> None:
    pool = Pool(SMALL)
    first = send(pool, talk(2, (-1, "5m")), 0)
    predicted = pool.begin(talk(3, (-1, "5m")), 60)
    assert predicted.read
    pool.first_token(predicted, 61)
    outcome = pool.correct(predicted, 0, 61, 62)
    rebuilt = Pool(SMALL)
    rebuilt.rebuild([effect(first, first, 0), effect(predicted, outcome, 61)])
    assert _believed(rebuilt.live(70)) == _believed(pool.live(70)) != []
    assert first.new[0].key not in {entry.key for entry in rebuilt.live(70)}
