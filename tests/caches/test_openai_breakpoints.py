"""OpenAI's cache from GPT-5.6 on, rule by rule (B1 to B9 of `caches.openai_breakpoints`)."""

from __future__ import annotations

import pytest

from holdfast import facts
from holdfast.caches.openai_breakpoints import (
    AFFECTING,
    OpenAIBreakpoints,
    breakpoints,
    candidates,
    developer_end,
    endings,
    latest_eligible,
)
from holdfast.caches.prompts import Block, Prompt

from .token_prompts import ask, block, marks, prompt, run

FACTS = facts.model("openai:gpt-6.1-sol")
MINUTE = 60.0


def system(number: int = 0, count: int = 1_500) -> Block:
    return block(run(number * 10_000, count), "developer", number, "system")


def said(role: str, number: int, count: int = 100) -> Block:
    return block(run(100_000 + number * 1_000, count), role, number)


def talk(turns: int, **more: object) -> Prompt:
    """A developer message, then user and assistant in turns, the user last."""
    roles = ["user" if i % 2 == 0 else "assistant" for i in range(2 * turns - 1)]
    return prompt(system(), *(said(role, i + 1) for i, role in enumerate(roles)), **more)  # type: ignore[arg-type]


def test_B1_implicit_mode_writes_at_the_latest_eligible_message() -> None:
    outcome = OpenAIBreakpoints(FACTS).begin(talk(2), 0.0)
    assert [entry.tokens for entry in outcome.new] == [1_800]
    assert outcome.writes == (("30m", 1_800),)


def test_B1_implicit_mode_adds_the_latest_three_explicit_breakpoints() -> None:
    assert breakpoints(talk(4, marks=marks(0, 1, 3, 5)), FACTS) == [1, 3, 5, 7]


def test_B1_explicit_mode_writes_at_the_latest_four() -> None:
    assert breakpoints(talk(4, marks=marks(0, 1, 2, 3, 5), mode="explicit"), FACTS) == [1, 2, 3, 5]


def test_B1_explicit_mode_without_breakpoints_caches_nothing() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(2))
    outcome = ask(cache, talk(2, mode="explicit"))
    assert (outcome.read, outcome.writes, outcome.input) == (0, (), 1_800)
    assert "B1" in outcome.why[0]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (["user"], 1),
        (["user", "assistant"], 1),
        (["user", "assistant", "tool", "tool"], 4),
        (["user", "assistant", "tool", "assistant"], 3),
        (["assistant"], 0),
    ],
)
def test_B2_eligible_messages(roles: list[str], expected: int) -> None:
    blocks = [system(), *(said(role, i + 1) for i, role in enumerate(roles))]
    assert latest_eligible(blocks) == expected


def test_B2_tool_outputs_of_the_responses_api_are_eligible() -> None:
    blocks = [said("user", 1), block(run(5, 10), "assistant", 2, kind="function_call_output")]
    assert latest_eligible(blocks) == 1


def test_B2_the_initial_developer_messages_end_with_their_last_one() -> None:
    blocks = [system(0), system(1), said("user", 2), said("developer", 3)]
    assert developer_end(blocks) == 1
    assert latest_eligible([system(0), system(1)]) == 1
    assert latest_eligible([]) is None


def test_B2_tools_stand_between_without_being_messages() -> None:
    tool = block(run(7, 300), "tools", 0, "tools", kind="tool")
    assert developer_end([system(), tool, said("user", 1)]) == 0
    assert latest_eligible([system(), tool]) == 0
    assert list(endings([system(0), system(1), tool, said("user", 1), said("user", 1)])) == [4, 1, 0]


def test_B3_nothing_below_the_floor() -> None:
    cache = OpenAIBreakpoints(FACTS)
    small = prompt(system(count=900), said("user", 1))
    outcome = ask(cache, small)
    assert (outcome.read, outcome.writes, outcome.input) == (0, (), 1_000)
    assert cache.entries(0.0) == []
    assert "B3" in outcome.why[0]
    assert ask(cache, small).read == 0


def test_B3_the_floor_itself_is_enough() -> None:
    cache = OpenAIBreakpoints(FACTS)
    exact = prompt(system(count=924), said("user", 1))
    assert ask(cache, exact).writes == (("30m", 1_024),)
    assert ask(cache, exact).read == 1_024


def test_B4_a_growing_conversation_reads_all_of_the_last_request() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(2))
    outcome = ask(cache, talk(3))
    assert (outcome.read, outcome.writes, outcome.input) == (1_800, (("30m", 200),), 0)
    assert outcome.hit == 3


@pytest.mark.parametrize(("messages", "read"), [(20, 1_600), (21, 0)])
def test_B4_twenty_message_endings_before_the_latest_are_looked_up(messages: int, read: int) -> None:
    """The entry ends at a user message that lies that many endings back."""
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, prompt(system(), said("user", 1)))
    later = prompt(system(), said("user", 1), *(said("user", i + 2) for i in range(messages)))
    assert ask(cache, later).read == read


def test_B4_the_end_of_the_developer_block_is_looked_up_from_any_distance() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, prompt(system()))
    far = prompt(system(), *(said("user", i + 1) for i in range(60)))
    assert ask(cache, far).read == 1_500


def test_B4_the_first_two_and_the_latest_fifty_explicit_breakpoints_are_looked_up() -> None:
    blocks = [system(), *(said("user", i + 1, 10) for i in range(59))]
    marked = prompt(*blocks, marks=marks(*range(60)), mode="explicit")
    assert candidates(marked, FACTS) == [*range(59, 9, -1), 1, 0]


def test_B4_in_explicit_mode_message_endings_are_not_looked_up() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(2))
    assert ask(cache, talk(3, marks=marks(0), mode="explicit")).read == 0


def test_B4_the_longest_live_entry_wins_to_the_token() -> None:
    cache = OpenAIBreakpoints(FACTS)
    odd = prompt(system(count=1_501), said("user", 1, 33), marks=marks(0))
    ask(cache, odd)
    assert ask(cache, odd).read == 1_534
    changed = prompt(system(count=1_501), said("user", 2), marks=marks(0))
    assert ask(cache, changed).read == 1_501


def test_B5_a_message_that_grows_is_a_miss() -> None:
    cache = OpenAIBreakpoints(FACTS)
    first, more = said("user", 1), block(run(900_000, 50), "user", 1)
    ask(cache, prompt(system(), first))
    assert ask(cache, prompt(system(), first, more)).read == 0


def test_B5_an_explicit_breakpoint_at_the_old_end_saves_it() -> None:
    cache = OpenAIBreakpoints(FACTS)
    first, more = said("user", 1), block(run(900_000, 50), "user", 1)
    ask(cache, prompt(system(), first))
    assert ask(cache, prompt(system(), first, more, marks=marks(1))).read == 1_600


def test_B6_an_entry_lives_thirty_minutes_from_its_last_use() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(2), 0.0)
    assert ask(cache, talk(2), 30 * MINUTE).read == 1_800
    assert ask(cache, talk(2), 60 * MINUTE).read == 1_800
    assert ask(cache, talk(2), 90 * MINUTE + 1).read == 0


def test_B6_an_entry_is_readable_once_the_answer_has_begun() -> None:
    cache = OpenAIBreakpoints(FACTS)
    first = cache.begin(talk(2), 0.0)
    assert cache.begin(talk(2), 1.0).read == 0
    cache.first_token(first, 2.0)
    assert cache.begin(talk(2), 2.0).read == 1_800


def test_B6_an_abandoned_request_has_written_nothing() -> None:
    cache = OpenAIBreakpoints(FACTS)
    cache.abandon(cache.begin(talk(2), 0.0), 1.0)
    assert cache.begin(talk(2), 2.0).read == 0


def test_B7_the_cache_key_separates_entries() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(2, route="one"))
    assert ask(cache, talk(2, route="two")).read == 0
    assert ask(cache, talk(2)).read == 0
    assert ask(cache, talk(2, route="one")).read == 1_800


def test_B8_what_follows_the_last_breakpoint_is_plain_input() -> None:
    cache = OpenAIBreakpoints(FACTS)
    prefilled = prompt(system(), said("user", 1), said("assistant", 2, 40))
    outcome = ask(cache, prefilled)
    assert (outcome.read, outcome.writes, outcome.input) == (0, (("30m", 1_600),), 40)
    again = ask(cache, prefilled)
    assert (again.read, again.writes, again.input) == (1_600, (), 40)
    assert outcome.usage(5).prompt == again.usage(5).prompt == 1_640


@pytest.mark.parametrize("setting", AFFECTING)
def test_B9_a_changed_setting_loses_the_prefix(setting: str) -> None:
    cache = OpenAIBreakpoints(FACTS)
    section = AFFECTING[setting]
    ask(cache, talk(2, salts={section: b"low"}))
    assert ask(cache, talk(2, salts={section: b"high"})).read == 0
    assert ask(cache, talk(2, salts={section: b"low"})).read == 1_800


@pytest.mark.parametrize(
    "kind", ["function_call_output", "custom_tool_call_output", "shell_call_output", "computer_call_output"]
)
def test_B2_every_kind_of_tool_output_is_eligible(kind) -> None:
    blocks = [system(), said("user", 1), block(run(5, 10), "", 2, kind="function_call")]
    outputs = [block(run(900 + i, 10), "", 3 + i, kind=kind) for i in range(2)]
    assert latest_eligible([*blocks, *outputs]) == 4
    assert latest_eligible(blocks) == 1


def test_B6_of_writers_side_by_side_the_first_answer_makes_it_readable() -> None:
    """And a late answer takes nothing away: neither what is readable nor what a read has refreshed."""
    cache = OpenAIBreakpoints(FACTS)
    one, two = cache.begin(talk(2), 0.0), cache.begin(talk(2), 1.0)
    assert one.read == two.read == 0
    cache.first_token(two, 3.0)
    assert cache.begin(talk(2), 100.0).read == 1_800
    cache.first_token(one, 110.0)
    assert cache.begin(talk(2), 100.0 + 30 * MINUTE).read == 1_800


def test_B6_an_answer_that_will_begin_later_does_not_hide_one_that_begins_sooner() -> None:
    cache = OpenAIBreakpoints(FACTS)
    one, two = cache.begin(talk(2), 0.0), cache.begin(talk(2), 1.0)
    cache.first_token(one, 5.0)
    cache.first_token(two, 50.0)
    assert [cache.begin(talk(2), at).read for at in (4.0, 5.0)] == [0, 1_800]


def test_B6_an_expired_entry_is_written_anew() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(2))
    again = cache.begin(talk(2), 30 * MINUTE + 1)
    assert (again.read, again.writes) == (0, (("30m", 1_800),))
    cache.first_token(again, 31 * MINUTE)
    assert cache.begin(talk(2), 60 * MINUTE).read == 1_800


def test_B4_explicit_mode_reads_at_its_breakpoints_and_nowhere_else() -> None:
    """Entries at message endings are there, from a request in implicit mode; only a breakpoint finds one."""
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(2))  # an entry at the end of block 3
    assert cache.begin(talk(3, mode="explicit", marks=marks(5)), 1.0).read == 0
    found = cache.begin(talk(3, mode="explicit", marks=marks(3, 4)), 1.0)
    assert (found.read, found.writes, found.input) == (1_800, (("30m", 100),), 100)


def test_B4_implicit_mode_finds_what_explicit_mode_wrote_at_a_message_ending() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(3, mode="explicit", marks=marks(2)))
    assert cache.begin(talk(3), 1.0).read == 1_700


def test_B8_a_prompt_read_whole_writes_nothing() -> None:
    cache = OpenAIBreakpoints(FACTS)
    ask(cache, talk(2))
    again = cache.begin(talk(2), 1.0)
    assert (again.read, again.writes, again.input, again.new) == (1_800, (), 0, ())
