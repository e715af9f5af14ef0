"""vLLM's prefix cache, rule by rule (V1 to V7 of `caches.vllm`); the real engine is in tests/engines."""

from __future__ import annotations

import pytest

from holdfast import facts
from holdfast.caches.vllm import Vllm

from .token_prompts import ask, block, run, tokens

FACTS = facts.model("vllm:any")


@pytest.mark.parametrize(("cpu", "size"), [(False, 16), (True, 32)])
def test_V1_only_full_blocks(cpu: bool, size: int) -> None:
    cache = Vllm(FACTS, cpu=cpu)
    ask(cache, tokens(run(0, 3 * size + 5)))
    assert {entry.tokens for entry in cache.entries(0.0)} == {size}
    assert ask(cache, tokens([*run(0, 3 * size + 5), 9_999])).read == 3 * size


def test_V1_the_block_size_is_a_setting() -> None:
    cache = Vllm(FACTS, block_tokens=128)
    ask(cache, tokens(run(0, 300)))
    assert ask(cache, tokens(run(0, 300))).read == 256


def test_V2_a_hit_is_a_run_of_blocks_from_the_start() -> None:
    cache = Vllm(FACTS)
    ask(cache, tokens(run(0, 160)))
    assert ask(cache, tokens([77_777, *run(1, 159)])).read == 0
    edited = [*run(0, 50), 77_777, *run(51, 109)]
    assert ask(cache, tokens(edited)).read == 48


@pytest.mark.parametrize(("length", "read"), [(64, 48), (65, 64), (16, 0), (17, 16), (1, 0)])
def test_V3_at_least_one_token_is_computed(length: int, read: int) -> None:
    cache = Vllm(FACTS)
    ask(cache, tokens(run(0, length)))
    assert ask(cache, tokens(run(0, length))).read == read


def test_V4_generated_tokens_are_cached_except_the_last() -> None:
    cache = Vllm(FACTS)
    ask(cache, tokens(run(0, 40)), output=run(1_000, 24))
    said = [*run(0, 40), *run(1_000, 24)]
    assert ask(cache, tokens([*said, 5, 6])).read == 48  # the 64th token was sampled but never computed
    ask(cache, tokens(run(2_000, 40)), output=run(1_000, 25))
    assert ask(cache, tokens([*run(2_000, 40), *run(1_000, 25), 5])).read == 64


@pytest.mark.parametrize(("start", "read"), [(0, 32), (1_000, 64), (2_000, 64)])
def test_V5_the_least_recently_released_blocks_go_first_and_of_a_request_its_end(start: int, read: int) -> None:
    cache = Vllm(FACTS, blocks=11)
    ask(cache, tokens(run(0, 64)), 0.0)  # 4 blocks
    ask(cache, tokens(run(1_000, 64)), 1.0)  # 4 more
    ask(cache, tokens(run(2_000, 64)), 2.0)  # 4 more: two of the first have to go
    assert len(cache.entries(3.0)) == 10
    assert cache.begin(tokens([*run(start, 64), 1]), 3.0).read == read


def test_V5_a_read_makes_a_block_recent() -> None:
    cache = Vllm(FACTS, blocks=10)
    ask(cache, tokens(run(0, 64)), 0.0)
    ask(cache, tokens(run(1_000, 64)), 1.0)
    ask(cache, tokens([*run(0, 64), 1]), 2.0)
    ask(cache, tokens(run(2_000, 64)), 3.0)
    assert ask(cache, tokens([*run(0, 64), 1]), 4.0).read == 64
    assert ask(cache, tokens([*run(1_000, 64), 1]), 5.0).read < 64


def test_V5_a_running_request_holds_its_blocks() -> None:
    cache = Vllm(FACTS, blocks=9)
    running = cache.begin(tokens(run(0, 64)), 0.0)
    cache.first_token(running, 0.0)
    for i in range(3):
        ask(cache, tokens(run(1_000 * (i + 1), 64)), 1.0)
    assert cache.begin(tokens([*run(0, 64), 1]), 2.0).read == 64
    cache.finish(running, [], 3.0)


def test_V5_a_block_computed_again_takes_room_beside_its_copy() -> None:
    """The last block of a prompt of whole blocks is never read (V3), so asking again makes a second one."""
    cache = Vllm(FACTS, blocks=6)  # five to use
    ask(cache, tokens(run(0, 32)), 0.0)
    ask(cache, tokens(run(0, 32)), 1.0)  # three in use
    ask(cache, tokens(run(1_000, 33)), 2.0)  # three more: the older copy goes
    assert len(cache.entries(3.0)) == 4
    assert cache.begin(tokens([*run(0, 32), 1]), 3.0).read == 32


def test_V6_readable_by_others_with_the_first_token() -> None:
    cache = Vllm(FACTS)
    first = cache.begin(tokens(run(0, 65)), 0.0)
    assert cache.begin(tokens(run(0, 65)), 0.0).read == 0
    cache.first_token(first, 1.0)
    assert cache.begin(tokens(run(0, 65)), 1.0).read == 64


def test_V6_an_abandoned_request_leaves_what_it_found() -> None:
    cache = Vllm(FACTS)
    cache.abandon(cache.begin(tokens(run(0, 65)), 0.0), 0.0)
    assert cache.entries(0.0) == []
    ask(cache, tokens(run(0, 65)))
    cache.abandon(cache.begin(tokens(run(0, 129)), 0.0), 0.0)
    assert ask(cache, tokens(run(0, 129))).read == 64


def test_V7_a_salt_separates_entries() -> None:
    cache = Vllm(FACTS)
    ask(cache, tokens(run(0, 65), route="one"))
    assert ask(cache, tokens(run(0, 65), route="two")).read == 0
    assert ask(cache, tokens(run(0, 65), route="one")).read == 64


def test_ending_twice_changes_nothing() -> None:
    cache = Vllm(FACTS)
    outcome = ask(cache, tokens(run(0, 65)))
    cache.first_token(outcome, 1.0)
    cache.finish(outcome, [block([1])], 1.0)
    cache.abandon(outcome, 1.0)
    assert len(cache.entries(1.0)) == 4
