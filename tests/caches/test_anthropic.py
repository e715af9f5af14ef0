"""Anthropic's cache rules A1 to A15, each by its number, and the worked examples."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.caches import anthropic
from holdfast.caches.anthropic import AnthropicCache, diagnose
from holdfast.caches.entries import Entries
from holdfast.caches.prompts import Block, Outcome, Prompt
from holdfast.facts import ModelFacts, model
from holdfast.records import Usage

from .prompts import OPUS, SMALL, block, prompt, texts

MINUTE = 60.0
HOUR = 3600.0


def send(cache: AnthropicCache, asked: Prompt, at: float, *, first_token: float = 1.0) -> Outcome:
    outcome = cache.begin(asked, at)
    cache.first_token(outcome, at + first_token)
    cache.finish(outcome, (), at + first_token + 1)
    return outcome


def counts(outcome: Outcome) -> tuple[int, dict[str, int], int]:
    return outcome.read, dict(outcome.writes), outcome.input


def with_knobs(facts: ModelFacts, **knobs: object) -> ModelFacts:
    return replace(facts, knobs=replace(facts.knobs, **knobs))


@pytest.fixture
def cache() -> AnthropicCache:
    return AnthropicCache(OPUS)


def blocks_of(names: str, **more: object) -> list[Block]:
    return texts(names, 2_000, **more)


class TestA1Keys:
    def test_a_prefix_is_shared_as_far_as_the_content_is_equal(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "5m")), 0)
        assert send(cache, prompt(blocks_of("abcd"), (-1, "5m")), 10).read == 6_000
        assert send(cache, prompt(blocks_of("xbcd"), (-1, "5m")), 20).read == 0

    def test_sections_are_told_apart(self, cache):
        """A tool and a system text with the same bytes are not the same prefix."""
        send(cache, prompt([block("a", 5_000, section="tools")], (-1, "5m")), 0)
        other = replace(block("a", 5_000, section="tools"), section="system")
        assert send(cache, prompt([other], (-1, "5m")), 10).read == 0

    @pytest.mark.parametrize("change", [{"scope": "another workspace"}, {"model": model("anthropic:claude-opus-4-5")}])
    def test_entries_are_isolated_by_workspace_and_model(self, cache, change):
        send(cache, prompt(blocks_of("abc"), (-1, "5m")), 0)
        assert send(cache, prompt(blocks_of("abc"), (-1, "5m"), **change), 10).read == 0

    def test_sessions_of_one_workspace_share_entries(self, cache):
        system = [block("sys", 6_000, section="system")]
        send(cache, prompt([*system, *blocks_of("a")], (0, "1h"), (-1, "5m")), 0)
        assert send(cache, prompt([*system, *blocks_of("z")], (0, "1h"), (-1, "5m")), 60).read == 6_000


class TestA2Markers:
    def test_four_markers_write_four_entries(self, cache):
        first = send(cache, prompt(texts("abcd", 5_000), (0, "1h"), (1, "1h"), (2, "5m"), (3, "5m")), 0)
        assert [entry.tokens for entry in first.new] == [5_000, 10_000, 15_000, 20_000]


class TestA3Writing:
    def test_an_entry_is_written_only_at_the_marker(self, cache):
        send(cache, prompt(blocks_of("abcde"), (3, "5m")), 0)
        assert [entry.tokens for entry in cache.entries(5)] == [8_000]

    def test_a_prefix_without_an_entry_at_its_end_is_not_read(self, cache):
        """Two prompts share six thousand tokens, but the entry lies beyond them."""
        send(cache, prompt(blocks_of("abcx"), (-1, "5m")), 0)
        assert send(cache, prompt(blocks_of("abcy"), (-1, "5m")), 10).read == 0


class TestA4Lookback:
    def appended(self, count: int, kind: str = "text", *, facts: ModelFacts = OPUS) -> int:
        cache = AnthropicCache(facts)
        start = blocks_of("abc")
        send(cache, prompt(start, (-1, "5m"), model=facts), 0)
        more = [block(f"new{i}", 10, kind=kind) for i in range(count)]
        return send(cache, prompt([*start, *more], (-1, "5m"), model=facts), 10).read

    @pytest.mark.parametrize(("count", "read"), [(0, 6_000), (1, 6_000), (19, 6_000), (20, 0), (35, 0)])
    def test_nineteen_appended_positions_hit_and_twenty_miss(self, count, read):
        assert self.appended(count) == read

    def test_worked_example_marker_at_fifteen_and_thirty_five(self, cache):
        """Written at position 15; a request marked at 35 alone is twenty away and misses; with a second marker at 15 it
        reads; and a marker at 34 would have been near enough."""
        blocks = [block(f"b{i}", 400) for i in range(1, 36)]
        send(cache, prompt(blocks[:15], (-1, "5m")), 0)
        assert send(cache, prompt(blocks, (34, "5m")), 1).read == 0
        again = AnthropicCache(OPUS)
        send(again, prompt(blocks[:15], (-1, "5m")), 0)
        assert again.begin(prompt(blocks, (33, "5m")), 2).read == 15 * 400
        assert again.begin(prompt(blocks, (14, "5m"), (34, "5m")), 2).read == 15 * 400

    @pytest.mark.parametrize("kind", ["tool_use", "tool_result"])
    def test_a_run_of_calls_or_results_is_one_position(self, kind):
        assert self.appended(35, kind) == 6_000

    @pytest.mark.parametrize("kind", ["tool_use", "tool_result"])
    def test_knob_older_deployments_count_raw_blocks(self, kind):
        raw = with_knobs(OPUS, collapse_tool_runs=False)
        assert self.appended(19, kind, facts=raw) == 6_000
        assert self.appended(20, kind, facts=raw) == 0

    def test_runs_of_different_kinds_are_different_positions(self, cache):
        start = blocks_of("abc")
        send(cache, prompt(start, (-1, "5m")), 0)
        turns = [
            b for i in range(9) for b in (block(f"c{i}", 5, kind="tool_use"), block(f"r{i}", 5, kind="tool_result"))
        ]
        assert cache.begin(prompt([*start, *turns, block("t", 5)], (-1, "5m")), 5).read == 6_000  # 19 positions
        longer = [*start, *turns, block("t", 5), block("u", 5)]
        assert cache.begin(prompt(longer, (-1, "5m")), 5).read == 0

    def test_the_longest_live_match_wins(self, cache):
        send(cache, prompt(texts("abcdef", 2_000), (2, "1h"), (4, "5m")), 0)
        outcome = cache.begin(prompt(texts("abcdefg", 2_000), (2, "1h"), (-1, "5m")), 5)
        assert outcome.read == 10_000
        later = cache.begin(prompt(texts("abcdefg", 2_000), (2, "1h"), (-1, "5m")), 10 * MINUTE)
        assert later.read == 6_000


class TestA5AndA6:
    def test_moving_a_marker_changes_nothing(self, cache):
        send(cache, prompt(blocks_of("abcd"), (-1, "5m")), 0)
        assert cache.begin(prompt(blocks_of("abcde"), (0, "5m"), (3, "5m")), 5).read == 8_000

    def test_without_a_marker_nothing_is_read_or_written(self, cache):
        send(cache, prompt(blocks_of("abcd"), (-1, "5m")), 0)
        outcome = cache.begin(prompt(blocks_of("abcd")), 5)
        assert counts(outcome) == (0, {}, 8_000)
        assert "A6" in outcome.why[0]


class TestA7AndA8Automatic:
    def test_the_automatic_marker_goes_to_the_last_block_that_can_carry_one(self):
        blocks = [*blocks_of("abc"), block("think", 500, kind="thinking", markable=False)]
        assert [m.block for m in prompt(blocks, automatic="5m").marks] == [2]

    def test_it_adds_nothing_where_a_marker_stands(self):
        assert len(prompt(blocks_of("abc"), (2, "5m"), automatic="5m").marks) == 1

    def test_worked_example_automatic_caching_follows_the_conversation(self, cache):
        """Each turn reads what the turn before wrote and writes only what is new."""
        assert counts(send(cache, prompt(blocks_of("abc"), automatic="5m"), 0)) == (0, {"5m": 6_000}, 0)
        assert counts(send(cache, prompt(blocks_of("abcde"), automatic="5m"), 60)) == (6_000, {"5m": 4_000}, 0)
        assert counts(send(cache, prompt(blocks_of("abcdefg"), automatic="5m"), 120)) == (10_000, {"5m": 4_000}, 0)

    def test_nothing_can_carry_it(self):
        assert prompt([block("t", 9_000, kind="thinking", markable=False)], automatic="5m").marks == ()


class TestA9Floor:
    @pytest.mark.parametrize(("tokens", "written"), [(4_095, 0), (4_096, 4_096)])
    def test_below_the_floor_both_counters_are_zero(self, cache, tokens, written):
        outcome = send(cache, prompt([block("a", tokens)], (-1, "5m")), 0)
        assert (outcome.read, outcome.usage().written) == (0, written)
        assert bool(cache.entries(5)) == bool(written)

    def test_the_floor_counts_the_prefix_not_the_block(self, cache):
        outcome = send(cache, prompt([block("a", 4_000), block("b", 100)], (0, "5m"), (1, "5m")), 0)
        assert counts(outcome) == (0, {"5m": 4_100}, 0)
        assert len(cache.entries(5)) == 1

    def test_floors_are_the_models_own(self):
        assert AnthropicCache(SMALL).begin(prompt([block("a", 512)], (-1, "5m"), model=SMALL), 0).usage().written == 512


class TestA10Time:
    @pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3600)])
    def test_lifetimes_count_from_the_start_of_the_request(self, cache, ttl, seconds):
        send(cache, prompt(blocks_of("abc"), (-1, ttl)), 0, first_token=90)
        assert cache.begin(prompt(blocks_of("abc"), (-1, ttl)), seconds).read == 6_000
        other = AnthropicCache(OPUS)
        send(other, prompt(blocks_of("abc"), (-1, ttl)), 0, first_token=90)
        assert other.begin(prompt(blocks_of("abc"), (-1, ttl)), seconds + 0.001).read == 0

    def test_a_read_refreshes_at_the_lifetime_it_was_written_with(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "5m")), 0)
        for at in (200, 400, 600):
            assert send(cache, prompt(blocks_of("abc"), (-1, "5m")), at).read == 6_000
        assert cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 901).read == 0

    def test_relabelling_a_warm_block_does_not_lengthen_its_life(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "5m")), 0)
        assert counts(send(cache, prompt(blocks_of("abc"), (-1, "1h")), 100)) == (6_000, {}, 0)
        assert cache.begin(prompt(blocks_of("abc"), (-1, "1h")), 100 + 301).read == 0

    def test_knob_a_1h_marker_may_upgrade_a_live_5m_entry(self):
        facts = with_knobs(OPUS, upgrade_5m_by_1h=True)
        cache = AnthropicCache(facts)
        send(cache, prompt(blocks_of("abc"), (-1, "5m"), model=facts), 0)
        send(cache, prompt(blocks_of("abc"), (-1, "1h"), model=facts), 100)
        assert cache.begin(prompt(blocks_of("abc"), (-1, "1h"), model=facts), 100 + 3000).read == 6_000

    @pytest.mark.parametrize(("knob", "read"), [("no", 0), ("yes", 8_000)])
    def test_knob_ttl_raise(self, knob, read):
        """A 1h tail written over a live 5m prefix, twenty minutes later."""
        facts = with_knobs(OPUS, ttl_raise=knob)
        cache = AnthropicCache(facts)
        send(cache, prompt(blocks_of("abc"), (-1, "5m"), model=facts), 0)
        assert counts(send(cache, prompt(blocks_of("abcd"), (-1, "1h"), model=facts), 60)) == (6_000, {"1h": 2_000}, 0)
        assert cache.begin(prompt(blocks_of("abcde"), (-1, "1h"), model=facts), 60 + 20 * MINUTE).read == read

    def test_without_raise_a_1h_tail_over_a_1h_prefix_lives_an_hour(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "1h")), 0)
        send(cache, prompt(blocks_of("abcd"), (-1, "1h")), 60)
        assert cache.begin(prompt(blocks_of("abcde"), (-1, "1h")), 60 + 59 * MINUTE).read == 8_000

    @pytest.mark.parametrize(("knob", "read"), [(True, 6_000), (False, 0)])
    def test_knob_a_hit_refreshes_every_live_entry_on_the_prefix(self, knob, read):
        facts = with_knobs(OPUS, refresh_whole_prefix=knob)
        cache = AnthropicCache(facts)
        send(cache, prompt(blocks_of("abcd"), (2, "5m"), (3, "5m"), model=facts), 0)
        send(cache, prompt(blocks_of("abcd"), (3, "5m"), model=facts), 200)
        assert cache.begin(prompt(blocks_of("abcz"), (2, "5m"), model=facts), 450).read == read


class TestA11FirstToken:
    def test_worked_example_fan_out(self, cache):
        """N cold parallel requests all pay the write; after the first answer has begun the others read."""
        cold = [cache.begin(prompt(blocks_of("abc"), (-1, "5m")), at) for at in (0.0, 0.1, 0.2)]
        assert [counts(outcome) for outcome in cold] == [(0, {"5m": 6_000}, 0)] * 3
        cache.first_token(cold[0], 2.0)
        assert cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 1.9).read == 0
        warm = [cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 2.0 + i) for i in range(3)]
        assert [outcome.read for outcome in warm] == [6_000] * 3

    def test_the_first_answer_makes_it_readable_whoever_asked_first(self, cache):
        one, two = (cache.begin(prompt(blocks_of("abc"), (-1, "5m")), at) for at in (0.0, 1.0))
        cache.first_token(one, 3.0)
        assert cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 3.0).read == 6_000
        cache.first_token(two, 4.0)
        assert cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 301.0).read == 6_000

    def test_a_request_that_fails_before_its_first_token_has_written_nothing(self, cache):
        outcome = cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 0)
        cache.abandon(outcome, 1)
        again = cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 2)
        assert counts(again) == (0, {"5m": 6_000}, 0)
        assert cache.entries(2) == []

    def test_abandoning_one_of_two_does_not_take_the_other_away(self, cache):
        one, two = (cache.begin(prompt(blocks_of("abc"), (-1, "5m")), at) for at in (0.0, 1.0))
        cache.first_token(one, 2.0)
        cache.abandon(two, 2.5)
        assert cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 3.0).read == 6_000

    def test_it_says_that_the_entry_is_not_readable_yet(self, cache):
        cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 0)
        assert any("A11" in line for line in cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 0.5).why)


class TestA12Billing:
    def test_worked_example_mixed_lifetimes(self, cache):
        """System 1h, conversation 5m: A from the system entry, B where the last 1h marker stands, C at the last one."""
        blocks = [block("tools", 3_000, section="tools"), block("sys", 5_000, section="system"), *blocks_of("abc")]
        first = send(cache, prompt(blocks, (1, "1h"), (-1, "5m")), 0)
        assert counts(first) == (0, {"1h": 8_000, "5m": 6_000}, 0)
        second = send(cache, prompt([*blocks, block("d", 700), block("e", 40)], (1, "1h"), (-2, "5m")), 200)
        assert counts(second) == (14_000, {"5m": 700}, 40)
        after_a_pause = send(cache, prompt([*blocks, block("d", 700)], (1, "1h"), (-1, "5m")), 200 + 20 * MINUTE)
        assert counts(after_a_pause) == (8_000, {"5m": 6_700}, 0)
        next_day = send(cache, prompt([*blocks, block("d", 700)], (1, "1h"), (-1, "5m")), 24 * HOUR)
        assert counts(next_day) == (0, {"1h": 8_000, "5m": 6_700}, 0)

    def test_a_1h_marker_beyond_the_hit_writes_up_to_it(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "1h")), 0)
        outcome = send(cache, prompt(blocks_of("abcdef"), (3, "1h"), (-1, "5m")), 60)
        assert counts(outcome) == (6_000, {"1h": 2_000, "5m": 4_000}, 0)

    def test_the_counts_are_disjoint_and_add_up(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "1h")), 0)
        outcome = send(cache, prompt(blocks_of("abcdefg"), (3, "1h"), (-2, "5m")), 60)
        assert outcome.usage(9) == Usage(input=2_000, read=6_000, writes=(("1h", 2_000), ("5m", 4_000)), output=9)
        assert outcome.usage().prompt == outcome.prompt.tokens


SETTINGS = {
    "output_config.format": (0, 0, 0),
    "speed": (5_000, 0, 0),
    "citations": (5_000, 0, 0),
    "tool_choice": (5_000, 10_000, 0),
    "images": (5_000, 10_000, 0),
    "thinking": (5_000, 10_000, 0),
    "output_config.effort": (5_000, 10_000, 0),
    "max_tokens": (5_000, 10_000, 15_000),
}


class TestA13WhatAChangeCosts:
    BLOCKS = (block("t", 5_000, section="tools"), block("s", 5_000, section="system"), block("m", 5_000))
    MARKS = ((0, "5m"), (1, "5m"), (2, "5m"))

    def read_after(self, blocks, *, facts: ModelFacts = OPUS, **settings: bytes) -> int:
        cache = AnthropicCache(facts)
        send(cache, prompt(self.BLOCKS, *self.MARKS, model=facts), 0)
        marks = [(i, "5m") for i in range(min(4, len(blocks)))]
        return cache.begin(prompt(blocks, *marks, model=facts, settings=settings), 10).read

    @pytest.mark.parametrize("name", sorted(SETTINGS))
    def test_settings(self, name):
        assert self.read_after(self.BLOCKS, **{name: b'"changed"'}) == max(SETTINGS[name])

    def test_knob_effort_may_lose_everything(self):
        facts = with_knobs(OPUS, effort_invalidates="all")
        assert self.read_after(self.BLOCKS, facts=facts, **{"output_config.effort": b'"high"'}) == 0

    def test_a_tool_definition_edited_added_removed_reordered(self):
        tool, system, message = self.BLOCKS
        other = block("t2", 5_000, section="tools")
        assert self.read_after([block("t'", 5_000, section="tools"), system, message]) == 0
        assert self.read_after([other, tool, system, message]) == 0
        assert self.read_after([tool, other, system, message]) == 0
        assert self.read_after([system, message]) == 0

    def test_system_text(self):
        tool, _, message = self.BLOCKS
        assert self.read_after([tool, block("s'", 5_000, section="system"), message]) == 5_000

    def test_a_message_edited_or_removed_loses_from_there_on(self):
        tool, system, _ = self.BLOCKS
        assert self.read_after([tool, system, block("m'", 5_000)]) == 10_000

    def test_web_search_toggled_keeps_the_tools_and_loses_the_rest(self):
        tool, system, message = self.BLOCKS
        search = block("w", 100, section="tools", kind="web_search_20250305")
        assert self.read_after([search, tool, system, message]) == 5_000

    def test_a_mark_on_a_moved_tool_moves_with_it(self):
        tool, system, message = self.BLOCKS
        search = block("w", 100, section="tools", kind="web_search_20250305")
        moved = prompt([search, tool, system, message], (0, "5m"), (1, "5m"))
        assert moved.origin == (1, 0, 2, 3)
        assert sorted(mark.block for mark in moved.marks) == [0, 1]

    def test_a_system_message_appended_keeps_everything(self):
        late = block("now", 50, role="system", message=3)
        assert self.read_after([*self.BLOCKS, late]) == 15_000


class TestA14Thinking:
    def history(self, *, new_turn: bool) -> list[Block]:
        blocks = [
            block("s", 6_000, section="system"),
            block("ask", 100, message=0),
            block("thought", 500, kind="thinking", role="assistant", message=1, markable=False),
            block("call", 50, kind="tool_use", role="assistant", message=1),
            block("result", 3_000, kind="tool_result", message=2),
        ]
        return (
            [*blocks, block("more", 40, role="assistant", message=3), block("next", 20, message=4)]
            if new_turn
            else blocks
        )

    @pytest.mark.parametrize(("name", "read"), [("claude-haiku-4-5", 6_000), ("claude-opus-4-6", 9_650)])
    def test_older_models_lose_from_the_first_stripped_thought_at_a_new_user_turn(self, name, read):
        facts = model(f"anthropic:{name}")
        cache = AnthropicCache(facts)
        on = {"thinking": b'{"type":"enabled","budget_tokens":2000}'}
        send(cache, prompt(self.history(new_turn=False), (0, "5m"), (-1, "5m"), model=facts, settings=on), 0)
        asked = prompt(self.history(new_turn=True), (0, "5m"), (-1, "5m"), model=facts, settings=on)
        assert cache.begin(asked, 10).read == read

    def test_inside_a_tool_loop_thinking_stays(self):
        facts = model("anthropic:claude-haiku-4-5")
        on = {"thinking": b'{"type":"enabled","budget_tokens":2000}'}
        assert len(prompt(self.history(new_turn=False), model=facts, settings=on).blocks) == 5

    @pytest.mark.parametrize("setting", [{}, {"thinking": b'{"type":"disabled"}'}])
    def test_only_while_thinking_is_on(self, setting):
        facts = model("anthropic:claude-haiku-4-5")
        assert len(prompt(self.history(new_turn=True), model=facts, settings=setting).blocks) == 7


class TestA15Diagnostics:
    def test_names_the_section_and_the_tokens_behind_it(self):
        tool, system, message = TestA13WhatAChangeCosts.BLOCKS
        before = prompt([tool, system, message])
        found = [
            diagnose(before, prompt([block("x", 5_000, section="tools"), system, message])),
            diagnose(before, prompt([system, message])),
            diagnose(before, prompt([tool, block("x", 9, section="system"), message])),
            diagnose(before, prompt([tool, system, block("x")])),
            diagnose(before, prompt([tool, system, message], model=SMALL)),
            diagnose(None, before),
            diagnose(before, prompt([tool, system, message], settings={"tool_choice": b'"any"'})),
        ]
        assert [(f.reason, f.missed) for f in found if f is not None] == [
            ("tools_changed", 15_000),
            ("tools_changed", 15_000),
            ("system_changed", 10_000),
            ("messages_changed", 5_000),
            ("model_changed", 15_000),
            ("previous_message_not_found", 0),
            ("unavailable", 0),
        ]

    def test_a_change_of_the_first_block_misses_everything(self):
        found = diagnose(prompt(blocks_of("abc")), prompt(blocks_of("xbc")))
        assert (found.reason, found.missed) == ("messages_changed", 6_000)

    def test_an_extension_is_no_divergence(self):
        assert diagnose(prompt(blocks_of("abc")), prompt(blocks_of("abcd"))) is None


class TestReasons:
    """Every outcome says why, in words that name the rule."""

    def test_expired(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "5m")), 0)
        why = cache.begin(prompt(blocks_of("abc"), (-1, "5m")), 400).why
        assert any("expired 100 s ago" in line and "A10" in line for line in why)

    def test_out_of_reach(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "5m")), 0)
        more = [block(f"n{i}", 10) for i in range(25)]
        why = cache.begin(prompt([*blocks_of("abc"), *more], (-1, "5m")), 10).why
        assert any("more than 20 positions" in line for line in why)

    def test_below_the_floor(self, cache):
        assert "below the floor of 4096" in cache.begin(prompt([block("a", 10)], (-1, "5m")), 0).why[0]

    def test_read_and_written(self, cache):
        send(cache, prompt(blocks_of("abc"), (-1, "5m")), 0)
        why = cache.begin(prompt(blocks_of("abcd"), (-1, "5m")), 10).why
        assert why == (
            "read 6000 tokens: the 5m entry at block 2, written 10 s ago, reached from the marker at block 3 (A4)",
            "wrote 2000 tokens for 5m (A12)",
        )


def test_deciding_changes_nothing():
    entries = Entries()
    cache = AnthropicCache(OPUS, entries)
    send(cache, prompt(blocks_of("abc"), (-1, "5m")), 0)
    before = cache.entries(5)
    anthropic.decide(prompt(blocks_of("abcd"), (-1, "5m")), entries, 5, OPUS)
    assert cache.entries(5) == before
