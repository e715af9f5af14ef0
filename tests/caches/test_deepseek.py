"""DeepSeek's cache, rule by rule (D1 to D7 of `caches.deepseek`)."""

from __future__ import annotations

import pytest

from holdfast import facts
from holdfast.caches.deepseek import DeepSeek, unit_ends

from .token_prompts import ask, block, prompt, run, tokens

FACTS = facts.model("deepseek:deepseek-chat")
INTERVAL = FACTS.knobs.unit_interval or 0
LONG = run(0, 3_000)


def test_D1_writes_are_not_reported() -> None:
    outcome = ask(DeepSeek(FACTS), tokens(LONG))
    assert (outcome.read, outcome.writes, outcome.input) == (0, (), 3_000)


def test_D2_part_of_a_unit_is_no_hit() -> None:
    cache = DeepSeek(FACTS)
    ask(cache, tokens(LONG))
    assert ask(cache, tokens([*LONG[:2_900], *run(50_000, 300)])).read == 0


def test_D3_a_unit_ends_with_the_input() -> None:
    cache = DeepSeek(FACTS)
    ask(cache, tokens(LONG))
    assert ask(cache, tokens([*LONG, *run(50_000, 300)])).read == 3_000
    assert ask(cache, tokens(LONG)).read == 3_000


def test_D3_a_unit_ends_with_the_output() -> None:
    cache = DeepSeek(FACTS)
    ask(cache, tokens(LONG), output=run(70_000, 200))
    assert ask(cache, tokens([*LONG, *run(70_000, 200), *run(50_000, 300)])).read == 3_200
    assert ask(cache, tokens([*LONG, *run(70_000, 150), *run(60_000, 300)])).read == 3_000


def test_D4_a_common_prefix_helps_from_the_third_request_on() -> None:
    cache = DeepSeek(FACTS)
    reads = [ask(cache, tokens([*LONG, *run(10_000 * (i + 1), 300)])).read for i in range(4)]
    assert reads == [0, 0, 3_000, 3_000]


def test_D4_the_outcome_says_that_a_common_prefix_was_seen() -> None:
    cache = DeepSeek(FACTS)
    ask(cache, tokens([*LONG, 1]))
    assert "3000 tokens shared" in ask(cache, tokens([*LONG, 2])).why[0]


def test_D4_a_unit_seen_on_one_branch_helps_another() -> None:
    """The longest unit wins wherever it was stored, not the sequence that shares most."""
    cache = DeepSeek(FACTS)
    deep = [*LONG, *run(10_000, 1_000)]
    ask(cache, tokens([*deep, *run(20_000, 50)]))
    ask(cache, tokens([*LONG, *run(30_000, 50)]))  # makes LONG a unit
    outcome = ask(cache, tokens([*deep[:3_500], *run(40_000, 50)]))
    assert outcome.read == 3_000


def test_D5_fixed_intervals() -> None:
    cache = DeepSeek(FACTS)
    ask(cache, tokens(run(0, 3 * INTERVAL)))
    assert ask(cache, tokens([*run(0, 2 * INTERVAL + 5), 9_999_999])).read == 2 * INTERVAL


def test_D6_input_with_the_first_token_output_with_the_last() -> None:
    cache = DeepSeek(FACTS)
    said = run(70_000, 200)
    first = cache.begin(tokens(LONG), 0.0)
    assert cache.begin(tokens(LONG), 0.5).read == 0
    cache.first_token(first, 1.0)
    assert cache.begin(tokens([*LONG, *said]), 1.0).read == 3_000
    cache.finish(first, [block(said, "assistant")], 2.0)
    assert cache.begin(tokens([*LONG, *said]), 2.0).read == 3_200


def test_D6_an_abandoned_request_has_stored_nothing() -> None:
    cache = DeepSeek(FACTS)
    cache.abandon(cache.begin(tokens(LONG), 0.0), 1.0)
    assert cache.begin(tokens(LONG), 2.0).read == 0
    assert cache.entries(2.0) == []


def test_D7_units_below_the_floor_are_not_stored() -> None:
    cache = DeepSeek(FACTS)
    ask(cache, tokens(run(0, FACTS.floor - 1)))
    assert ask(cache, tokens(run(0, FACTS.floor - 1))).read == 0
    ask(cache, tokens(run(0, FACTS.floor)))
    assert ask(cache, tokens(run(0, FACTS.floor))).read == FACTS.floor


def test_where_units_end() -> None:
    assert unit_ends(10_000, 4_096, 1_024, [2_000, 500]) == (2_000, 4_096, 8_192, 10_000)


def test_the_borders_of_a_setting_separate_units() -> None:
    cache = DeepSeek(FACTS)
    blocks = block(LONG[:2_000], "system", section="system"), block(LONG[2_000:])
    ask(cache, prompt(*blocks, salts={"messages": b"one"}))
    assert ask(cache, prompt(*blocks, salts={"messages": b"two"})).read == 0


def test_units_are_listed() -> None:
    cache = DeepSeek(FACTS)
    ask(cache, tokens(LONG), output=run(70_000, 200))
    assert sorted(entry.tokens for entry in cache.entries(1.0)) == [3_000, 3_200]


def test_the_places_units_are_filed_under_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.caches.deepseek._FILED", 2)
    cache = DeepSeek(FACTS)
    for i in range(4):
        ask(cache, tokens(run(10_000 * i, 2_000)))
    assert [cache.begin(tokens(run(10_000 * i, 2_000)), 1.0).read for i in range(4)] == [0, 0, 2_000, 2_000]
