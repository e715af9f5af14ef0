"""OpenAI's cache up to GPT-5.5, rule by rule (O1 to O7 of `caches.openai`)."""

from __future__ import annotations

import pytest

from holdfast import facts
from holdfast.caches.openai import OpenAIPrefix, whole_steps

from .token_prompts import ask, block, prompt, run, tokens

FACTS = facts.model("openai:gpt-5.5")
LONG = run(0, 3_000)


def test_O1_writes_are_neither_paid_nor_reported() -> None:
    cache = OpenAIPrefix(FACTS)
    outcome = ask(cache, tokens(LONG))
    assert (outcome.read, outcome.writes, outcome.input) == (0, (), 3_000)
    assert ask(cache, tokens(LONG)).writes == ()


@pytest.mark.parametrize(
    ("shared", "hit"), [(1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152), (2_999, 2_944)]
)
def test_O2_steps_of_128_from_1024(shared: int, hit: int) -> None:
    assert whole_steps(shared, FACTS) == hit
    cache = OpenAIPrefix(FACTS)
    ask(cache, tokens(LONG))
    assert ask(cache, tokens([*LONG[:shared], *run(50_000, 500)])).read == hit


def test_O2_tokens_are_matched_across_the_borders_of_messages() -> None:
    cache = OpenAIPrefix(FACTS)
    ask(cache, prompt(block(LONG[:1_500]), block(LONG[1_500:], message=1)))
    outcome = ask(cache, tokens([*LONG, 7]))
    assert outcome.read == 2_944


def test_O3_the_cache_key_chooses_the_machine() -> None:
    cache = OpenAIPrefix(FACTS)
    ask(cache, tokens(LONG, route="one"))
    assert ask(cache, tokens(LONG, route="two")).read == 0
    assert ask(cache, tokens(LONG, route="one")).read == 2_944


def test_O3_another_organisation_is_another_world() -> None:
    cache = OpenAIPrefix(FACTS)
    ask(cache, tokens(LONG))
    assert ask(cache, tokens(LONG, scope="them")).read == 0


def test_O4_more_than_fifteen_a_minute_overflow_to_a_machine_that_has_to_learn() -> None:
    cache = OpenAIPrefix(FACTS)
    reads = [ask(cache, tokens(LONG), float(i)).read for i in range(18)]
    assert reads == [0, *[2_944] * 14, 0, 2_944, 2_944]


def test_O4_after_a_quiet_minute_the_first_machine_answers_again() -> None:
    cache = OpenAIPrefix(FACTS)
    for i in range(16):
        ask(cache, tokens(LONG), float(i))
    only_there = [*LONG, *run(90_000, 500)]
    ask(cache, tokens(only_there), 15.0)  # the seventeenth: on the second machine
    assert ask(cache, tokens(only_there), 100.0).read == 2_944  # the first machine knows only the beginning


def test_O5_in_memory_lives_five_minutes_idle_and_use_refreshes_it() -> None:
    cache = OpenAIPrefix(FACTS)
    ask(cache, tokens(LONG), 0.0)
    assert ask(cache, tokens(LONG), 300.0).read == 2_944
    assert ask(cache, tokens(LONG), 600.0).read == 2_944
    assert ask(cache, tokens(LONG), 901.0).read == 0


def test_O5_a_read_refreshes_only_what_it_read() -> None:
    cache = OpenAIPrefix(FACTS)
    ask(cache, tokens(LONG), 0.0)
    half = cache.begin(tokens([*LONG[:2_000], *run(80_000, 10)]), 200.0)
    assert half.read == 1_920
    cache.abandon(half, 201.0)
    assert ask(cache, tokens(LONG), 400.0).read == 1_920


def test_O5_retention_of_a_day() -> None:
    cache = OpenAIPrefix(FACTS)
    ask(cache, tokens(LONG, mode="24h"), 0.0)
    assert cache.entries(1.0)[0].ttl == "24h"
    assert ask(cache, tokens(LONG, mode="24h"), 86_400.0).read == 2_944
    assert ask(cache, tokens(LONG, mode="24h"), 3 * 86_400.0).read == 0


def test_O6_readable_once_the_answer_has_begun() -> None:
    cache = OpenAIPrefix(FACTS)
    first = cache.begin(tokens(LONG), 0.0)
    assert cache.begin(tokens(LONG), 1.0).read == 0
    cache.first_token(first, 2.0)
    assert cache.begin(tokens(LONG), 2.0).read == 2_944


def test_O7_a_setting_is_part_of_the_prefix() -> None:
    cache = OpenAIPrefix(FACTS)
    ask(cache, tokens(LONG, salts={"system": b"low"}))
    assert ask(cache, tokens(LONG, salts={"system": b"high"})).read == 0


def test_a_setting_of_a_later_section_keeps_what_comes_before() -> None:
    cache = OpenAIPrefix(FACTS)
    blocks = block(LONG[:2_000], "system", section="system"), block(LONG[2_000:])
    ask(cache, prompt(*blocks, salts={"messages": b"one"}))
    assert ask(cache, prompt(*blocks, salts={"messages": b"two"})).read == 1_920


def test_a_model_without_caching_reads_nothing() -> None:
    cache = OpenAIPrefix(facts.model("openai:gpt-5.5-pro"))
    ask(cache, tokens(LONG))
    assert ask(cache, tokens(LONG)).read == 0


def test_rates_of_routes_no_longer_used_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.caches.openai._ROUTES", 3)
    cache = OpenAIPrefix(FACTS)
    for i in range(15):
        ask(cache, tokens(LONG, route="busy"), float(i))
    ask(cache, tokens(run(200_000, 3_000), route="busy"), 15.0)  # the second machine knows nothing else
    for i in range(3):
        ask(cache, tokens(LONG, route=str(i)), 16.0)
    assert ask(cache, tokens(LONG, route="busy"), 17.0).read == 2_944  # counted from one again: on the first machine
