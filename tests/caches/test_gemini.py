"""Gemini's caches, rule by rule (G1 to G6 of `caches.gemini`, C1 to C5 of `caches.gemini_contents`)."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdfast import facts
from holdfast.caches.gemini import GeminiCache
from holdfast.caches.gemini_contents import CachedContents
from holdfast.caches.noise import chance
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts

from .token_prompts import ask, block, prompt, run, tokens

FACTS = facts.model("gemini:gemini-2.5-pro")
HOUR = 3_600.0
LONG = run(0, 5_000)


def certain(found: ModelFacts = FACTS, probability: float = 1.0) -> ModelFacts:
    return structs.replace(found, knobs=structs.replace(found.knobs, implicit_hit_probability=probability))


def test_G1_the_longest_common_prefix_to_the_token() -> None:
    cache = GeminiCache(certain())
    ask(cache, tokens(LONG))
    assert ask(cache, tokens([*LONG[:3_333], *run(50_000, 100)])).read == 3_333
    assert ask(cache, tokens([*LONG[:4_001], *run(60_000, 100)])).read == 4_001


@pytest.mark.parametrize(("name", "floor"), [("gemini-2.5-flash", 2_048), ("gemini-3-pro", 4_096)])
def test_G2_a_hit_has_at_least_the_floor(name: str, floor: int) -> None:
    cache = GeminiCache(certain(facts.model(f"gemini:{name}")))
    ask(cache, tokens(LONG))
    assert ask(cache, tokens([*LONG[: floor - 1], *run(50_000, 5_000)])).read == 0
    assert ask(cache, tokens([*LONG[:floor], *run(60_000, 5_000)])).read == floor


def test_G3_hits_come_with_a_probability_from_the_seed() -> None:
    def reads(seed: int) -> list[int]:
        cache = GeminiCache(FACTS, seed=seed)
        return [ask(cache, tokens(LONG)).read for _ in range(400)][1:]

    assert reads(1) == reads(1)
    assert reads(1) != reads(2)
    assert set(reads(1)) == {0, 5_000}
    share = sum(map(bool, reads(1))) / 399
    assert abs(share - (FACTS.knobs.implicit_hit_probability or 0)) < 0.08


def test_G3_without_probability_no_hit_and_a_reason() -> None:
    cache = GeminiCache(certain(probability=0.0))
    ask(cache, tokens(LONG))
    assert "G3" in ask(cache, tokens(LONG)).why[0]


def test_chance_depends_on_seed_and_purpose_only() -> None:
    assert chance(1, "a", 2) == chance(1, "a", 2)
    assert len({chance(1, "a", 2), chance(1, "b", 2), chance(2, "a", 2), chance(1, "a", 3)}) == 4
    assert all(0 <= chance(7, i) < 1 for i in range(100))


def test_G4_an_earlier_prompt_counts_for_a_while_and_use_refreshes_it() -> None:
    cache = GeminiCache(certain())
    seconds = float(FACTS.knobs.implicit_seconds or 0)
    ask(cache, tokens(LONG), 0.0)
    assert ask(cache, tokens(LONG), seconds).read == 5_000
    assert ask(cache, tokens(LONG), 2 * seconds).read == 5_000
    assert ask(cache, tokens(LONG), 3 * seconds + 1).read == 0


def test_G5_readable_once_the_answer_has_begun_and_free() -> None:
    cache = GeminiCache(certain())
    first = cache.begin(tokens(LONG), 0.0)
    assert first.writes == ()
    assert cache.begin(tokens(LONG), 1.0).read == 0
    cache.first_token(first, 1.0)
    assert cache.begin(tokens(LONG), 1.0).read == 5_000
    cache.abandon(cache.begin(tokens(run(90_000, 5_000)), 1.0), 1.0)
    assert cache.begin(tokens(run(90_000, 5_000)), 2.0).read == 0


def test_G6_a_named_content_is_read_exactly_every_time() -> None:
    cache = GeminiCache(certain(probability=0.0))
    made = cache.contents.create(FACTS, "us", [block(LONG)], 0.0)
    for now in (1.0, 2.0, 3.0):
        outcome = ask(cache, tokens(run(90_000, 70), mode=made.name), now)
        assert (outcome.read, outcome.input, outcome.writes) == (5_000, 70, ())
        assert outcome.usage(3).prompt == 5_070
    assert [entry.tokens for entry in cache.entries(4.0)] == [5_000]


def test_G6_naming_what_is_gone_is_an_error() -> None:
    cache = GeminiCache(FACTS)
    made = cache.contents.create(FACTS, "us", [block(LONG)], 0.0, ttl=60.0)
    with pytest.raises(HoldfastError, match=f"`{made.name}` does not exist or has expired; create it again"):
        cache.begin(tokens([1], mode=made.name), 61.0)
    with pytest.raises(HoldfastError, match="cachedContents/never"):
        cache.begin(tokens([1], mode="cachedContents/never"), 0.0)


def test_G6_a_content_is_bound_to_its_model() -> None:
    contents = CachedContents()
    made = contents.create(FACTS, "us", [block(LONG)], 0.0)
    other = GeminiCache(facts.model("gemini:gemini-2.5-flash"), contents=contents)
    with pytest.raises(HoldfastError, match=r"bound to gemini-2\.5-pro, not gemini-2\.5-flash"):
        other.begin(tokens([1], mode=made.name), 1.0)
    assert other.entries(1.0) == []


def test_G6_a_model_without_implicit_caching_reads_only_named_contents() -> None:
    cache = GeminiCache(facts.model("gemini:gemini-2.0-flash"))
    ask(cache, tokens(LONG))
    outcome = ask(cache, tokens(LONG))
    assert (outcome.read, cache.entries(0.0)) == (0, [])
    assert "G6" in outcome.why[0]


def test_G6_another_scope_does_not_see_a_content() -> None:
    cache = GeminiCache(FACTS)
    made = cache.contents.create(FACTS, "us", [block(LONG)], 0.0)
    with pytest.raises(HoldfastError, match="does not exist"):
        cache.begin(tokens([1], scope="them", mode=made.name), 1.0)


def test_tool_configuration_is_part_of_the_prefix() -> None:
    cache = GeminiCache(certain())
    blocks = block(LONG[:3_000], "system", section="system"), block([1], section="tools"), block(LONG[3_000:])
    ask(cache, prompt(*blocks, salts={"tools": b"AUTO"}))
    assert ask(cache, prompt(*blocks, salts={"tools": b"NONE"})).read == 3_000


# Cached contents


def test_C2_a_content_below_the_floor_is_refused() -> None:
    contents = CachedContents()
    with pytest.raises(HoldfastError, match=r"2047 tokens is below the minimum of 2048 for gemini-2\.5-pro"):
        contents.create(FACTS, "us", [block(run(0, 2_047))], 0.0)
    assert contents.create(FACTS, "us", [block(run(0, 2_048))], 0.0).tokens == 2_048


def test_C3_one_hour_by_default() -> None:
    contents = CachedContents()
    made = contents.create(FACTS, "us", [block(LONG)], 100.0)
    assert (made.created, made.expires) == (100.0, 100.0 + HOUR)
    assert contents.get("us", made.name, 100.0 + HOUR) == made
    assert contents.get("us", made.name, 100.1 + HOUR) is None


def test_C3_the_end_can_be_moved_and_nothing_else() -> None:
    contents = CachedContents()
    made = contents.create(FACTS, "us", [block(LONG)], 0.0, expires=50.0)
    assert made.expires == 50.0
    longer = contents.patch("us", made.name, 40.0, ttl=100.0)
    assert longer == structs.replace(made, expires=140.0, updated=40.0)
    assert contents.patch("us", made.name, 41.0, expires=60.0).expires == 60.0


@pytest.mark.parametrize("end", [{}, {"ttl": 1.0, "expires": 5.0}])
def test_C3_either_ttl_or_expire_time(end: dict[str, float]) -> None:
    contents = CachedContents()
    made = contents.create(FACTS, "us", [block(LONG)], 0.0)
    with pytest.raises(HoldfastError, match="either ttl or expire_time"):
        contents.patch("us", made.name, 1.0, **end)


@pytest.mark.parametrize("end", [{"ttl": 0.0}, {"expires": 1.0}])
def test_C3_an_end_lies_ahead(end: dict[str, float]) -> None:
    with pytest.raises(HoldfastError, match="cannot end before it begins"):
        CachedContents().create(FACTS, "us", [block(LONG)], 1.0, **end)


def test_C4_a_deleted_content_is_gone() -> None:
    contents = CachedContents()
    made = contents.create(FACTS, "us", [block(LONG)], 0.0)
    other = contents.create(FACTS, "us", [block(LONG)], 0.0)
    assert contents.list("us", 1.0) == (made, other)
    assert contents.list("them", 1.0) == ()
    contents.delete("us", made.name, 1.0)
    assert contents.get("us", made.name, 1.0) is None
    assert contents.list("us", 1.0) == (other,)
    with pytest.raises(HoldfastError, match="create it again"):
        contents.delete("us", made.name, 2.0)
    with pytest.raises(HoldfastError, match="create it again"):
        contents.patch("us", made.name, 2.0, ttl=5.0)


def test_C5_storage_in_tokens_and_hours() -> None:
    contents = CachedContents()
    made = contents.create(FACTS, "us", [block(LONG)], 0.0)
    assert contents.token_hours("us", HOUR / 2) == pytest.approx(2_500)
    contents.delete("us", made.name, HOUR / 2)
    contents.create(FACTS, "us", [block(LONG)], HOUR, ttl=2 * HOUR)
    assert contents.token_hours("us", 2 * HOUR) == pytest.approx(7_500)
    assert contents.token_hours("us", 100 * HOUR) == pytest.approx(12_500)
    assert contents.token_hours("them", HOUR) == 0
    assert contents.stored(100 * HOUR) == {"us": contents.token_hours("us", 100 * HOUR)}
