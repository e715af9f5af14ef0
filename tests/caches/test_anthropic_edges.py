"""Anthropic's rules where two of them meet: runs and borders, several markers, two lifetimes, writers side by side."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.prompts import Block, Outcome, Prompt
from holdfast.facts import ModelFacts, model

from .prompts import OPUS, block, prompt, texts

HOUR = 3600.0
START = tuple(texts("abc", 2_000))


def send(cache: AnthropicCache, asked: Prompt, at: float, *, first_token: float = 1.0) -> Outcome:
    outcome = cache.begin(asked, at)
    cache.first_token(outcome, at + first_token)
    return outcome


def counts(outcome: Outcome) -> tuple[int, dict[str, int], int]:
    return outcome.read, dict(outcome.writes), outcome.input


def with_knobs(**knobs: object) -> ModelFacts:
    return replace(OPUS, knobs=replace(OPUS.knobs, **knobs))


@pytest.fixture
def cache() -> AnthropicCache:
    return AnthropicCache(OPUS)


def run(kind: str, count: int, message: int, name: str = "r") -> list[Block]:
    return [block(f"{name}{message}.{i}", 5, kind=kind, message=message) for i in range(count)]


class TestLookbackAndRuns:
    """A4."""

    def reads(self, *more: Block, facts: ModelFacts = OPUS) -> bool:
        cache = AnthropicCache(facts)
        send(cache, prompt(START, (-1, "5m"), model=facts), 0)
        return cache.begin(prompt([*START, *more], (-1, "5m"), model=facts), 5).read == 6_000

    def test_a_run_goes_on_across_a_message_border(self):
        assert self.reads(*run("tool_result", 15, 1), *run("tool_result", 15, 2), *texts("uvw", 5))

    def test_calls_and_results_in_turns_are_a_position_each(self):
        turns = [b for i in range(10) for b in (*run("tool_use", 3, 2 * i), *run("tool_result", 3, 2 * i + 1))]
        assert self.reads(*turns[:-3])  # 19 positions
        assert not self.reads(*turns)  # 20

    def test_other_blocks_of_tools_are_no_run(self):
        assert not self.reads(*run("server_tool_use", 20, 1))
        assert not self.reads(*run("text", 20, 1))

    def test_an_entry_inside_the_last_run_reached_is_found(self, cache):
        """The whole run is one position, so every block of it is looked at."""
        results = run("tool_result", 6, 1)
        send(cache, prompt([*START, *results[:2]], (-1, "5m")), 0)
        more = [block(f"n{i}", 5, message=2 + i) for i in range(19)]
        assert cache.begin(prompt([*START, *results, *more], (-1, "5m")), 5).read == 6_010

    def test_a_run_is_not_joined_over_another_block(self):
        parts = [b for i in range(10) for b in (*run("tool_use", 1, i), block(f"t{i}", 5, message=i))]
        assert not self.reads(*parts)
        assert self.reads(*parts[1:])

    def test_bedrock_counts_raw_blocks(self):
        bedrock = model("bedrock:anthropic.claude-opus-4-6-v1:0")
        assert self.reads(*run("tool_result", 19, 1), facts=bedrock)
        assert not self.reads(*run("tool_result", 20, 1), facts=bedrock)

    def test_a_route_that_does_not_walk_back_looks_at_the_marker_itself(self):
        qwen = model("openrouter:qwen/qwen3-max")
        assert self.reads(facts=qwen)
        assert not self.reads(block("d", 5), facts=qwen)


class TestSeveralMarkers:
    def test_each_marker_walks_back_on_its_own_and_the_longest_match_wins(self, cache):
        """Neither marker alone reaches both entries; the later one reaches none."""
        more = [block(f"n{i}", 10) for i in range(60)]
        send(cache, prompt([*START, *more[:5]], (-1, "5m")), 0)
        asked = prompt([*START, *more], (2, "5m"), (20, "5m"), (-1, "5m"))
        assert counts(cache.begin(asked, 5)) == (6_050, {"5m": 550}, 0)

    def test_a_shorter_match_of_a_later_marker_does_not_win(self, cache):
        send(cache, prompt(texts("abcd", 2_000), (1, "5m"), (3, "5m")), 0)
        assert cache.begin(prompt(texts("abcde", 2_000), (3, "5m"), (4, "5m")), 5).read == 8_000
        assert cache.begin(prompt(texts("abcdf", 2_000), (4, "5m"), (1, "5m")), 5).read == 8_000

    def test_a_marker_below_the_floor_does_nothing_and_the_next_writes_all(self, cache):
        """A9: what lies under it is written by the one above, in that one's lifetime."""
        first = send(cache, prompt(texts("abc", 2_000), (0, "1h"), (2, "5m")), 0)
        assert counts(first) == (0, {"5m": 6_000}, 0)
        assert [entry.tokens for entry in cache.entries(2)] == [6_000]

    def test_markers_at_and_before_the_hit_write_nothing(self, cache):
        """A12."""
        send(cache, prompt(texts("abcd", 2_000), (3, "1h")), 0)
        asked = prompt(texts("abcde", 2_000), (2, "1h"), (3, "1h"))
        assert counts(cache.begin(asked, 5)) == (8_000, {}, 2_000)

    def test_b_is_the_last_1h_marker_beyond_the_hit_and_not_one_before_it(self, cache):
        send(cache, prompt(texts("abcd", 2_000), (2, "1h"), (3, "5m")), 0)
        asked = prompt(texts("abcdef", 2_000), (2, "1h"), (4, "5m"))
        assert counts(cache.begin(asked, 5)) == (8_000, {"5m": 2_000}, 2_000)
        late = prompt(texts("abcdef", 2_000), (2, "1h"), (3, "1h"), (4, "1h"), (5, "5m"))
        assert counts(cache.begin(late, 400)) == (6_000, {"1h": 4_000, "5m": 2_000}, 0)

    def test_the_order_in_which_markers_are_given_does_not_matter(self, cache):
        asked = prompt(texts("abcd", 2_000), (3, "5m"), (2, "1h"))
        assert counts(cache.begin(asked, 0)) == (0, {"1h": 6_000, "5m": 2_000}, 0)


class TestLifetimes:
    """A10."""

    def test_without_raise_nothing_in_a_chain_of_1h_tails_outlives_its_5m_base(self, cache):
        send(cache, prompt(texts("abc", 2_000), (-1, "5m")), 0)
        send(cache, prompt(texts("abcd", 2_000), (-1, "1h")), 60)
        send(cache, prompt(texts("abcde", 2_000), (-1, "1h")), 120)
        assert cache.begin(prompt(texts("abcde", 2_000), (-1, "1h")), 120 + 300).read == 10_000
        later = AnthropicCache(OPUS)
        send(later, prompt(texts("abc", 2_000), (-1, "5m")), 0)
        send(later, prompt(texts("abcd", 2_000), (-1, "1h")), 60)
        send(later, prompt(texts("abcde", 2_000), (-1, "1h")), 120)
        assert later.begin(prompt(texts("abcde", 2_000), (-1, "1h")), 120 + 301).read == 0

    def test_a_5m_tail_over_a_1h_prefix_lives_five_minutes_and_the_prefix_an_hour(self, cache):
        send(cache, prompt(texts("abcd", 2_000), (2, "1h"), (3, "5m")), 0)
        asked = prompt(texts("abcd", 2_000), (2, "1h"), (3, "5m"))
        assert cache.begin(asked, 301).read == 6_000
        assert cache.begin(asked, 301 + HOUR).read == 6_000  # refreshed for the hour it was written with
        assert cache.begin(asked, 301 + 2 * HOUR + 1).read == 0

    def test_an_expired_prefix_is_written_anew_with_a_new_clock(self, cache):
        asked = prompt(texts("abc", 2_000), (-1, "5m"))
        send(cache, asked, 0)
        again = send(cache, asked, 301)
        assert counts(again) == (0, {"5m": 6_000}, 0)
        assert cache.begin(asked, 601).read == 6_000

    def test_an_expired_entry_is_written_anew_in_the_lifetime_then_asked_for(self, cache):
        send(cache, prompt(texts("abc", 2_000), (-1, "5m")), 0)
        send(cache, prompt(texts("abc", 2_000), (-1, "1h")), 400)
        assert cache.begin(prompt(texts("abc", 2_000), (-1, "1h")), 400 + HOUR).read == 6_000

    def test_a_read_does_not_refresh_what_lies_beyond_it(self, cache):
        send(cache, prompt(texts("abcd", 2_000), (2, "5m"), (3, "5m")), 0)
        send(cache, prompt(texts("abcd", 2_000), (2, "5m")), 200)  # the same text, read only so far
        assert cache.begin(prompt(texts("abcd", 2_000), (2, "5m"), (3, "5m")), 400).read == 6_000

    def test_a_read_refreshes_the_very_first_block_too(self, cache):
        blocks = [block("system", 5_000, section="system"), *texts("ab")]
        send(cache, prompt(blocks, (0, "5m"), (2, "5m")), 0)
        send(cache, prompt(blocks, (2, "5m")), 200)
        assert cache.begin(prompt(blocks[:1], (0, "5m")), 400).read == 5_000

    def test_knob_raise_is_for_what_lies_beyond_the_hit(self):
        """A 1h marker on the entry that is read writes nothing, so there is nothing to live longer."""
        facts = with_knobs(ttl_raise="yes")
        cache = AnthropicCache(facts)
        send(cache, prompt(texts("abc", 2_000), (2, "5m"), model=facts), 0)
        again = send(cache, prompt(texts("abc", 2_000), (2, "1h"), model=facts), 60)
        assert again.new == ()
        assert cache.begin(prompt(texts("abc", 2_000), (2, "1h"), model=facts), 361).read == 0

    def test_knob_what_is_written_over_an_upgraded_entry_lives_an_hour_too(self):
        facts = with_knobs(upgrade_5m_by_1h=True)
        cache = AnthropicCache(facts)
        send(cache, prompt(texts("abc", 2_000), (2, "5m"), model=facts), 0)
        send(cache, prompt(texts("abcd", 2_000), (2, "1h"), (3, "1h"), model=facts), 60)
        assert cache.begin(prompt(texts("abcd", 2_000), (3, "1h"), model=facts), HOUR).read == 8_000


class TestSideBySide:
    """A11."""

    ASKED = prompt(texts("abc", 2_000), (-1, "5m"))
    LONG = prompt(texts("abc", 2_000), (-1, "1h"))

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_of_two_lifetimes_the_longer_one_stays(self, cache, order):
        running = [cache.begin(self.ASKED, 0.0), cache.begin(self.LONG, 0.0)]
        assert [counts(each) for each in running] == [(0, {"5m": 6_000}, 0), (0, {"1h": 6_000}, 0)]
        for at, which in enumerate(order, 1):
            cache.first_token(running[which], float(at))
        assert cache.begin(self.ASKED, 2_000.0).read == 6_000

    def test_an_entry_that_is_to_begin_later_is_not_taken_away_by_one_that_begins_sooner(self, cache):
        one = cache.begin(self.ASKED, 0.0)
        cache.first_token(one, 50.0)
        two = cache.begin(self.ASKED, 10.0)
        assert two.read == 0
        cache.first_token(two, 20.0)
        assert [cache.begin(self.ASKED, at).read for at in (19.0, 20.0)] == [0, 6_000]

    def test_an_entry_that_will_be_dead_by_then_does_not_make_the_next_one_readable(self, cache):
        """The first answer begins at 290 and its entry dies at 300; the second begins at 305."""
        one = cache.begin(self.ASKED, 0.0)
        cache.first_token(one, 290.0)
        two = cache.begin(self.ASKED, 10.0)
        cache.first_token(two, 305.0)
        assert [cache.begin(self.ASKED, at).read for at in (302.0, 305.0)] == [0, 6_000]

    def test_both_cut_before_they_begin_write_nothing(self, cache):
        running = [cache.begin(self.ASKED, 0.0) for _ in range(2)]
        for each in running:
            cache.abandon(each, 1.0)
        assert cache.begin(self.ASKED, 2.0).read == 0

    @pytest.mark.parametrize("cut", [0, 1])
    def test_one_cut_leaves_the_other_to_write(self, cache, cut):
        running = [cache.begin(self.ASKED, 0.0) for _ in range(2)]
        cache.abandon(running[cut], 1.0)
        cache.first_token(running[1 - cut], 2.0)
        assert cache.begin(self.ASKED, 2.0).read == 6_000
