"""Noise around a cache (N1 to N4 of `caches.noise`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import facts
from holdfast.caches.deepseek import DeepSeek
from holdfast.caches.gemini import GeminiCache
from holdfast.caches.llama import Llama
from holdfast.caches.noise import Noise, Noisy
from holdfast.caches.openai import OpenAIPrefix
from holdfast.caches.openai_breakpoints import OpenAIBreakpoints
from holdfast.caches.prompts import Cache, Prompt
from holdfast.caches.vllm import Vllm

from .token_prompts import ask, block, prompt, run, tokens

MAKERS: dict[str, Callable[[], Cache]] = {
    "openai from 5.6": lambda: OpenAIBreakpoints(facts.model("openai:gpt-6.1-sol")),
    "openai before": lambda: OpenAIPrefix(facts.model("openai:gpt-5.5")),
    "gemini": lambda: GeminiCache(facts.model("gemini:gemini-2.5-pro"), seed=3),
    "deepseek": lambda: DeepSeek(facts.model("deepseek:deepseek-chat")),
    "vllm": lambda: Vllm(facts.model("vllm:any")),
    "llama": lambda: Llama(facts.model("llama:any"), slots=2, host_tokens=20_000),
}
DEEPSEEK = MAKERS["deepseek"]


def conversation(requests: int = 40, start: int = 0) -> list[Prompt]:
    """A system text of 2,900 tokens and a message of 100 more with every request."""
    system = block(run(start, 2_900), "system", section="system")
    messages = [block(run(start + 2_900 + 100 * i, 100), message=i + 1) for i in range(requests)]
    return [prompt(system, *messages[: i + 1]) for i in range(requests)]


def reads(cache: Cache, asked: list[Prompt]) -> list[int]:
    return [ask(cache, one, float(i)).read for i, one in enumerate(asked)]


@pytest.mark.parametrize("name", MAKERS)
def test_N4_without_noise_nothing_changes(name: str) -> None:
    make = MAKERS[name]
    bare, noisy = make(), Noisy(make, Noise(seed=1))
    for i, asked in enumerate([*conversation(12), *conversation(12, 50_000)]):
        mine, theirs = ask(bare, asked, float(i)), ask(noisy, asked, float(i))
        assert mine == theirs
    assert bare.entries(5.0) == noisy.entries(5.0)


ALL = Noise(seed=1, eviction=0.2, replicas=3, bounce=0.3, small_tokens=4_000, small_miss=0.5)


@pytest.mark.parametrize("name", MAKERS)
def test_N4_the_same_seed_the_same_result(name: str) -> None:
    make = MAKERS[name]
    first = reads(Noisy(make, ALL), conversation())
    assert first == reads(Noisy(make, ALL), conversation())
    assert sum(first) < sum(reads(make(), conversation()))


def test_N4_another_seed_another_result() -> None:
    other = Noise(seed=2, eviction=0.2)
    assert reads(Noisy(DEEPSEEK, Noise(seed=1, eviction=0.2)), conversation()) != reads(
        Noisy(DEEPSEEK, other), conversation()
    )


@pytest.mark.parametrize("name", MAKERS)
def test_N2_an_evicted_beginning_is_read_by_nobody(name: str) -> None:
    assert set(reads(Noisy(MAKERS[name], Noise(eviction=1.0)), conversation(8))) == {0}


def test_N2_after_an_eviction_the_next_request_reads_what_was_written_again() -> None:
    cache = Noisy(DEEPSEEK, Noise(seed=5, eviction=0.25))
    outcomes = [ask(cache, one, float(i)) for i, one in enumerate(conversation())]
    evicted = [any("N2" in why for why in outcome.why) for outcome in outcomes]
    assert 3 < sum(evicted) < 20
    for i in range(1, 40):
        assert outcomes[i].read == (0 if evicted[i] else 3_000 + 100 * (i - 1))


def test_N2_other_beginnings_are_spared() -> None:
    cache = Noisy(DEEPSEEK, Noise(seed=5, eviction=0.25))
    both = [one for pair in zip(conversation(), conversation(40, 50_000), strict=True) for one in pair]
    found = [ask(cache, one, float(i)) for i, one in enumerate(both)]
    for i in range(2, 80):
        evicted = any("N2" in why for why in found[i].why)
        assert (found[i].read == 0) == evicted


def test_N1_a_bounced_request_finds_what_that_replica_knows() -> None:
    cache = Noisy(DEEPSEEK, Noise(seed=4, replicas=2, bounce=0.3))
    known = {True: 0, False: 0}
    for i, asked in enumerate(conversation()):
        outcome = ask(cache, asked, float(i))
        bounced = any("N1" in why for why in outcome.why)
        assert outcome.read == known[bounced]
        known[bounced] = asked.tokens
    assert all(known.values())
    assert len(cache.entries(50.0)) > 40


def test_N1_many_replicas_are_all_visited() -> None:
    made: list[Cache] = []

    def make() -> Cache:
        made.append(DEEPSEEK())
        return made[-1]

    reads(Noisy(make, Noise(replicas=4, bounce=0.6)), conversation())
    assert [bool(cache.entries(50.0)) for cache in made] == [True] * 4


def test_N3_small_prompts_are_missed_with_a_probability() -> None:
    same = [tokens(run(0, 2_000))] * 200
    found = reads(Noisy(DEEPSEEK, Noise(seed=9, small_tokens=2_001, small_miss=0.5)), same)
    assert set(found) == {0, 2_000}
    assert 60 < found.count(0) < 140
    assert reads(Noisy(DEEPSEEK, Noise(seed=9, small_tokens=2_000, small_miss=0.5)), same)[1:] == [2_000] * 199


def test_the_outcome_shows_the_prompt_that_was_asked() -> None:
    asked = tokens(run(0, 2_000))
    assert ask(Noisy(DEEPSEEK, Noise(eviction=1.0)), asked).prompt is asked


def test_an_abandoned_request_writes_nothing() -> None:
    cache = Noisy(DEEPSEEK, ALL)
    outcome = cache.begin(tokens(run(0, 5_000)), 0.0)
    cache.abandon(outcome, 1.0)
    cache.first_token(outcome, 1.0)
    cache.finish(outcome, [], 1.0)
    cache.abandon(outcome, 1.0)
    assert cache.entries(1.0) == []


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.caches.noise.REMEMBERED", 3)
    cache = Noisy(DEEPSEEK, Noise(eviction=1.0))
    started = [cache.begin(tokens(run(10_000 * i, 2_000)), 0.0) for i in range(5)]
    for outcome in started:
        cache.first_token(outcome, 0.0)
    assert len(cache.lost) == 3
    assert len(cache.entries(1.0)) == 3
