"""llama.cpp's slots, rule by rule (L1 to L7 of `caches.llama`); the real engine is in tests/engines."""

from __future__ import annotations

import pytest

from holdfast import facts
from holdfast.caches.llama import Llama

from .token_prompts import ask, run, tokens

FACTS = facts.model("llama:any")
SYSTEM = run(0, 100)


def test_L1_a_slot_keeps_prompt_and_output_except_the_last_token() -> None:
    cache = Llama(FACTS)
    ask(cache, tokens(SYSTEM), output=run(500, 10))
    assert cache.entries(0.0)[0].tokens == 109
    assert ask(cache, tokens([*SYSTEM, *run(500, 10), 7])).read == 109


def test_L2_a_request_takes_over_the_slot_whose_beginning_it_shares() -> None:
    """Although a slot is free: the first conversation loses what followed the shared text."""
    cache = Llama(FACTS, slots=2)
    first, second = [*SYSTEM, *run(1_000, 50)], [*SYSTEM, *run(2_000, 50)]
    assert ask(cache, tokens(first)).read == 0
    assert ask(cache, tokens(second)).read == 100
    assert ask(cache, tokens(first)).read == 100


def test_L2_not_below_the_share() -> None:
    cache = Llama(FACTS, slots=2)
    ask(cache, tokens(run(0, 100)))
    small_share = [*run(0, 100), *run(5_000, 900)]
    outcome = ask(cache, tokens(small_share))  # exactly a tenth is not above it
    assert outcome.read == 0
    assert "L3" in outcome.why[0]
    assert ask(cache, tokens([*run(0, 100), *run(6_000, 899)])).read == 100


def test_L2_the_slot_that_shares_most_wins() -> None:
    cache = Llama(FACTS, slots=3, similarity=0.5)
    ask(cache, tokens([*SYSTEM, *run(1_000, 300)]))
    ask(cache, tokens([*SYSTEM, *run(2_000, 300)]))
    assert ask(cache, tokens([*SYSTEM, *run(1_000, 300), 9])).read == 400
    assert ask(cache, tokens([*SYSTEM, *run(2_000, 300), 9])).read == 400


def test_L3_the_slot_released_the_longest_ago() -> None:
    cache = Llama(FACTS, slots=2)
    talks = [run(1_000 * (i + 1), 200) for i in range(3)]
    for talk in talks:
        ask(cache, tokens(talk))
    assert ask(cache, tokens(talks[1])).read == 199
    assert ask(cache, tokens(talks[2])).read == 199
    assert ask(cache, tokens(talks[0])).read == 0


def test_L3_without_similarity_slots_go_by_age_alone() -> None:
    cache = Llama(FACTS, slots=2, similarity=0.0)
    talk = run(0, 200)
    assert [ask(cache, tokens(talk)).read for _ in range(3)] == [0, 0, 199]


@pytest.mark.parametrize(("shared", "read"), [(37, 37), (99, 99), (100, 99)])
def test_L4_to_the_token_and_at_least_one_is_computed(shared: int, read: int) -> None:
    cache = Llama(FACTS)
    ask(cache, tokens(SYSTEM))
    assert ask(cache, tokens([*SYSTEM[:shared], *run(900, 100 - shared)])).read == read


def test_L4_writes_are_never_reported() -> None:
    outcome = ask(Llama(FACTS), tokens(SYSTEM))
    assert (outcome.writes, outcome.input) == ((), 100)


def test_L5_host_memory_brings_a_conversation_back() -> None:
    talks = [run(1_000 * (i + 1), 200) for i in range(3)]
    without, with_memory = Llama(FACTS), Llama(FACTS, host_tokens=10_000)
    for talk in talks:
        ask(without, tokens(talk))
        ask(with_memory, tokens(talk))
    assert ask(without, tokens([*talks[0], 1])).read == 0
    assert ask(with_memory, tokens([*talks[0], 1])).read == 200
    assert ask(with_memory, tokens([*talks[1], 1])).read == 200


def test_L5_a_takeover_that_keeps_less_than_half_saves_the_rest() -> None:
    cache = Llama(FACTS, host_tokens=10_000)
    first = [*SYSTEM, *run(1_000, 150)]
    ask(cache, tokens(first))
    ask(cache, tokens([*SYSTEM, *run(2_000, 150)]))  # keeps 100 of 250
    assert ask(cache, tokens([*first, 1])).read == 250


def test_L5_a_takeover_that_keeps_half_saves_nothing() -> None:
    cache = Llama(FACTS, host_tokens=10_000)
    first = [*SYSTEM, *run(1_000, 100)]
    ask(cache, tokens(first))
    ask(cache, tokens([*SYSTEM, *run(2_000, 100)]))  # keeps 100 of 200
    assert ask(cache, tokens([*first, 1])).read == 100


def test_L5_a_copy_of_which_less_than_a_quarter_would_be_kept_stays_where_it_is() -> None:
    cache = Llama(FACTS, host_tokens=10_000)
    ask(cache, tokens([*SYSTEM, *run(1_000, 400)]))
    ask(cache, tokens(run(5_000, 200)))
    assert ask(cache, tokens([*SYSTEM, *run(2_000, 50)])).read == 0


def test_L5_memory_is_bounded_and_the_oldest_goes() -> None:
    cache = Llama(FACTS, host_tokens=450)
    talks = [run(1_000 * (i + 1), 200) for i in range(4)]
    for talk in talks:
        ask(cache, tokens(talk))
    assert [entry.tokens for entry in cache.entries(0.0)] == [200, 200, 200]
    assert ask(cache, tokens([*talks[0], 1])).read == 0
    ask(cache, tokens(run(90_000, 1_000)))  # more than memory holds: never copied
    ask(cache, tokens(run(80_000, 10)))
    assert max(entry.tokens for entry in cache.entries(0.0)) < 1_000


def test_L6_idle_slots_are_copied_when_a_request_starts() -> None:
    cache = Llama(FACTS, slots=2, host_tokens=10_000)
    ask(cache, tokens(run(1_000, 200)))
    ask(cache, tokens(run(2_000, 200)))
    names = [entry.key for entry in cache.entries(0.0)]
    assert names == [b"slot 0", b"slot 1", b"host 0"]


def test_L6_a_sequence_that_begins_another_is_not_kept_beside_it() -> None:
    cache = Llama(FACTS, host_tokens=10_000)
    for length in (100, 150, 200):
        ask(cache, tokens(run(0, length)))
        ask(cache, tokens(run(7_000, 60)))
    assert sorted(entry.tokens for entry in cache.entries(0.0)) == [60, 200]


def test_a_busy_slot_is_left_alone() -> None:
    cache = Llama(FACTS, slots=2)
    running = cache.begin(tokens(SYSTEM), 0.0)
    cache.first_token(running, 0.0)
    assert cache.begin(tokens(SYSTEM), 0.5).read == 0


def test_L7_with_no_free_slot_the_one_that_began_first_is_taken() -> None:
    cache = Llama(FACTS, slots=2)
    first = cache.begin(tokens(run(1_000, 50)), 0.0)
    cache.begin(tokens(run(2_000, 50)), 1.0)
    third = cache.begin(tokens([*run(1_000, 50), 3]), 2.0)
    assert third.read == 50
    assert "L7" in third.why[0]
    cache.finish(first, [], 3.0)  # it no longer owns a slot
    cache.finish(third, [], 4.0)
    assert ask(cache, tokens([*run(1_000, 50), 3, 4])).read == 51


def test_an_abandoned_request_leaves_what_it_had_read() -> None:
    cache = Llama(FACTS)
    ask(cache, tokens(SYSTEM))
    cache.abandon(cache.begin(tokens([*SYSTEM[:60], *run(700, 60)]), 1.0), 2.0)
    assert ask(cache, tokens(SYSTEM)).read == 60
    cache.abandon(cache.begin(tokens([]), 3.0), 4.0)
