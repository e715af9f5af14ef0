"""How far a lane's bytes are under a live entry: a question to the pool, whatever happened to the history."""

from __future__ import annotations

import copy

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches.entries import Entries
from holdfast.core.fence import believed, fence
from tests.core.warm_pool import OPUS, Pool, read, sent, talk

TAIL = (("last", "5m"),)


def test_a_lane_without_entries_has_no_fence() -> None:
    assert fence(read(talk()), Entries(), 0.0) == 0


def test_the_fence_is_the_end_of_the_longest_live_entry() -> None:
    prompt, pool = read(talk(marks=TAIL)), Pool()
    pool.send(prompt, 0.0)
    assert fence(prompt, pool, 1.0) == len(prompt.blocks)
    longer = read(talk(rounds=5))
    assert fence(longer, pool, 1.0) == len(prompt.blocks)


def test_the_fence_falls_back_to_the_entry_that_lives_longer() -> None:
    prompt, pool = read(talk(marks=(("system", "1h"), ("last", "5m")))), Pool()
    pool.send(prompt, 0.0)
    system = sum(block.section != "messages" for block in prompt.blocks)
    assert [fence(prompt, pool, now) for now in (300.0, 300.1, 3600.0, 3600.1)] == [
        len(prompt.blocks),
        system,
        system,
        0,
    ]


def test_an_entry_that_a_request_in_flight_writes_protects_already() -> None:
    prompt, pool = read(talk(marks=TAIL)), Pool()
    pool.send(prompt, 0.0, answered=False)
    assert not any(entry.live(1.0) for entry in pool.known(prompt.keys))
    assert fence(prompt, pool, 1.0) == len(prompt.blocks)
    assert fence(prompt, pool, 301.0) == 0


def test_three_parallel_results_are_all_under_it() -> None:
    """Where an index over messages and one over blocks differ, a stored one protects the wrong ones."""
    prompt, pool = read(talk(rounds=4, parallel=3, marks=TAIL)), Pool()
    pool.send(prompt, 0.0)
    longer = read(talk(rounds=6, parallel=3))
    results = [index for index, block in enumerate(longer.blocks) if block.kind == "tool_result"]
    assert [index < fence(longer, pool, 1.0) for index in results] == [True] * 12 + [False] * 6


def test_trimmed_history_is_under_no_entry_beyond_its_system_text() -> None:
    said, pool = talk(rounds=6, marks=(("system", "1h"), ("last", "1h"))), Pool()
    whole = read(said)
    pool.send(whole, 0.0)
    trimmed = copy.deepcopy(said)
    trimmed.turns = said.turns[:1] + said.turns[5:]
    prompt = read(trimmed)
    kept = next(i for i, block in enumerate(prompt.blocks) if block.kind == "tool_use")
    assert fence(prompt, pool, 1.0) == kept - 1  # the last live entry is at the end of the system text
    assert fence(whole, pool, 1.0) == len(whole.blocks)  # and a client that sends the whole again has it again
    pool.send(prompt, 10.0)
    assert fence(prompt, pool, 11.0) == len(prompt.blocks)


def test_openai_entries_are_found_under_their_cache_key() -> None:
    sol = facts.model("openai:gpt-6.1-sol")
    pool = Pool(sol)
    prompt = read(talk(), sol, "openai_chat")
    keyed = replace(prompt, route="lane-1")
    pool.send(keyed, 0.0)
    assert fence(keyed, pool, 1_800.0) == len(keyed.blocks)
    assert fence(keyed, pool, 1_800.1) == 0
    assert fence(prompt, pool, 1.0) == 0
    assert fence(replace(prompt, route="lane-2"), pool, 1.0) == 0


@pytest.mark.parametrize(
    ("model", "dialect", "seconds"),
    [("openai:gpt-5.5", "openai_chat", 600.0), ("gemini:gemini-2.5-pro", "gemini", 300.0)],
)
def test_caches_that_match_by_token_are_believed_warm_for_as_long_as_they_may_be(
    model: str, dialect: str, seconds: float
) -> None:
    known = facts.model(model)
    before, longer = read(talk(rounds=2), known, dialect), read(talk(rounds=4), known, dialect)
    last = sent(before, at=100.0)
    assert believed(longer, last, known, 100.0 + seconds) == len(before.blocks)
    assert believed(longer, last, known, 100.1 + seconds) == 0
    assert believed(longer, None, known, 100.0) == 0
    other = read(talk(rounds=4, words=61), known, dialect)
    assert believed(other, last, known, 100.0) < len(before.blocks)


def test_a_cache_of_unknown_lifetime_is_believed_warm_for_ever() -> None:
    vllm = facts.model("vllm:any")
    prompt = read(talk(), vllm, "openai_chat")
    assert believed(prompt, sent(prompt), vllm, 1e9) == len(prompt.blocks)


def test_where_entries_are_known_nothing_is_merely_believed() -> None:
    prompt = read(talk())
    assert believed(prompt, sent(prompt), OPUS, 0.0) == 0
