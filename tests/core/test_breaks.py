"""Breaks against the simulator: every cause on both sides, thresholds, precedence, resets, money."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.caches import anthropic
from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.entries import Entries
from holdfast.caches.openai_breakpoints import OpenAIBreakpoints
from holdfast.caches.prompts import Outcome, Prompt
from holdfast.caches.providers import prompt as prompt_of
from holdfast.config.sections.cache import BreaksSettings
from holdfast.core.breaks import Expectation, Finding, agrees, expect, judge
from holdfast.core.divergence import compare
from holdfast.core.plan import Sent
from holdfast.facts import ModelFacts
from holdfast.facts import model as facts_of
from holdfast.facts.prices import rates
from holdfast.records import usage
from tests import shapes
from tests.caches.prompts import OPUS, block, prompt, texts
from tests.core.break_lane import Judged, Lane, sent, text
from tests.properties.sessions import session

PART = "All that was said in this part is needed later on. " * 150  # some 1,600 tokens
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("bash", "edit", "read")]


def body(turns: int, *, system: str = PART * 3, ttl: str | None = "5m", **more: Any) -> dict[str, Any]:
    """A conversation of so many turns with markers at the end of the system text and at its own end."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": [text(f"question {turn} {PART}")]})
        messages.append({"role": "assistant", "content": [text(f"answer {turn}")]})
    messages = messages[:-1]
    messages[-1]["content"][-1] = text(messages[-1]["content"][-1]["text"], ttl)
    known = {"model": "claude-opus-4-6", "max_tokens": 16, "tools": TOOLS, "messages": messages}
    return known | {"system": [text(system, ttl)]} | more


def edited(turns: int, message: int, words: str = "something else") -> dict[str, Any]:
    changed = body(turns)
    changed["messages"][message]["content"][0]["text"] = words + PART
    return changed


def warm(turns: int = 4) -> Lane:
    """A lane that has sent a few growing requests, each reading all of the one before."""
    lane = Lane()
    for turn in range(1, turns + 1):
        assert lane.send(body(turn)).finding is None
    return lane


def broken(judged: Judged) -> Finding:
    assert judged.finding is not None, judged.usage
    return judged.finding


def test_a_growing_lane_has_no_break_and_every_prediction_holds() -> None:
    lane = Lane()
    for turn in range(1, 9):
        judged = lane.send(body(turn))
        assert judged.finding is None
        assert judged.explained
        assert judged.expectation.outcome.usage() == replace(judged.usage, output=0)


@pytest.mark.parametrize(
    ("change", "cause", "setting"),
    [
        ({"model": "claude-opus-4-5"}, "model_changed", "model"),
        ({"tools": TOOLS[:2]}, "tools_changed", None),
        ({"tools": [*TOOLS, {"name": "late", "input_schema": {}}]}, "tools_changed", None),
        ({"system": [text("Today. " + PART * 3, "5m")]}, "system_prompt_changed", None),
        ({"tool_choice": {"type": "any"}}, "parameters_changed", "tool_choice"),
        ({"thinking": {"type": "adaptive"}}, "parameters_changed", "thinking"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "parameters_changed", None),
    ],
)
def test_what_changed_is_the_cause(change: dict[str, Any], cause: str, setting: str | None) -> None:
    lane = warm()
    judged = lane.send(body(5) | change)
    found = broken(judged)
    assert (found.cause, found.reason) == (cause, None)
    assert found.expected == found.tokens + judged.usage.read
    assert found.divergence is not None
    if setting is not None:
        assert found.divergence.setting == setting
    assert judged.explained


@pytest.mark.parametrize("change", [{"max_tokens": 99}, {"stream": True}, {"temperature": 1}, {"metadata": {"a": 1}}])
def test_what_the_cache_does_not_depend_on_is_no_break(change: dict[str, Any]) -> None:
    assert warm().send(body(5) | change).finding is None


def test_a_message_that_changed_loses_what_comes_after_it() -> None:
    judged = warm().send(edited(5, 2))
    found = broken(judged)
    assert found.cause == "messages_rewritten"
    assert judged.path == "messages[2].content[0]"
    assert (found.divergence.what, found.divergence.section) == ("changed", "messages")
    assert found.divergence.block == 6  # three tools, the system text, a question and its answer
    assert found.divergence.kept == judged.prompt.ends[5]
    assert found.divergence.behind == found.expected - judged.prompt.ends[5]
    assert judged.place.offset == len('{"type":"text","text":"')


def test_a_change_behind_the_last_marker_costs_nothing() -> None:
    lane = Lane()
    first = body(2)
    first["messages"][-1]["content"].append(text("a note behind the marker"))
    lane.send(first)
    second = body(3)
    second["messages"][2]["content"].append(text("another note"))
    assert lane.send(second).finding is None


def test_a_change_behind_the_last_marker_is_not_blamed_for_an_expiry() -> None:
    lane = Lane()
    first = body(2)
    first["messages"][-1]["content"].append(text("a note behind the marker"))
    lane.send(first)
    second = body(3)
    second["messages"][2]["content"].append(text("another note"))
    found = broken(lane.send(second, after=301))
    assert (found.cause, found.also) == ("ttl_expired_5m", ())


@pytest.mark.parametrize(("ttl", "cause"), [("5m", "ttl_expired_5m"), ("1h", "ttl_expired_1h")])
def test_a_pause_up_to_the_lifetime_is_fine_and_a_longer_one_is_named(ttl: str, cause: str) -> None:
    seconds = {"5m": 300.0, "1h": 3_600.0}[ttl]
    lane = Lane()
    lane.send(body(2, ttl=ttl))
    assert lane.send(body(3, ttl=ttl), after=seconds).finding is None
    found = broken(lane.send(body(4, ttl=ttl), after=seconds + 1))
    assert (found.cause, found.idle) == (cause, 1.0)
    assert found.entry.ttl == ttl


def test_an_expiry_is_seen_without_the_pool() -> None:
    """A restart loses the pool; what the lane itself has sent is enough."""
    lane = Lane()
    lane.send(body(2))
    lane.entries.__init__()  # type: ignore[misc]
    assert broken(lane.send(body(3), after=301)).cause == "ttl_expired_5m"


def appended(count: int) -> dict[str, Any]:
    """The conversation of two turns with so many blocks more, the last of them marked."""
    longer = body(2)
    longer["messages"][-1]["content"][-1].pop("cache_control")
    longer["system"][-1].pop("cache_control")
    longer["messages"][-1]["content"] += [text(f"note {number}") for number in range(count)]
    longer["messages"][-1]["content"][-1] = text("the last note", "5m")
    return longer


def test_nineteen_appended_positions_are_read_and_twenty_are_beyond_the_lookback() -> None:
    within, beyond = Lane(), Lane()
    for lane in (within, beyond):
        lane.send(body(2))
    assert within.send(appended(19)).finding is None
    judged = beyond.send(appended(20))
    assert broken(judged).cause == "lookback_exceeded"
    assert judged.cure.name == "marker_beyond_lookback"


def test_a_request_without_a_marker_reaches_nothing() -> None:
    judged = warm().send(body(5, ttl=None))
    assert broken(judged).cause == "lookback_exceeded"
    assert judged.cure.name == "no_marker"


def expected(before: Sent, outcome: Outcome, entries: Entries, model: ModelFacts = OPUS) -> Expectation:
    return expect(before, compare(before, outcome.prompt, (), model), outcome, entries, model)


@pytest.mark.parametrize(("size", "cause"), [(3_000, "below_minimum"), (5_000, "lookback_exceeded")])
def test_markers_below_the_floor_do_nothing(size: int, cause: str) -> None:
    """The floor of this model is 4,096 tokens: at the same place above it, the marker is too far away instead."""
    blocks = [block("s", size, section="system"), *texts("abcdef", 2_000)]
    first = prompt(blocks, (-1, "5m"))
    entries, now = Entries(), 100.0
    cache = AnthropicCache(OPUS, entries)
    cache.first_token(cache.begin(first, 0.0), 0.0)
    second = prompt([*blocks, block("g", 10)], (0, "5m"))
    outcome = anthropic.decide(second, entries, now, OPUS)
    expectation = expected(sent(first), outcome, entries, OPUS)
    found = judge(expectation, outcome.usage(), None)
    assert found.cause == cause


@pytest.mark.parametrize("begun", [True, False])
def test_an_answer_that_has_not_begun_leaves_nothing_to_read(begun: bool) -> None:
    blocks = texts("abcdefgh", 2_000)
    first, second = prompt(blocks, (-1, "5m")), prompt([*blocks, block("i")], (-1, "5m"))
    entries = Entries()
    cache = AnthropicCache(OPUS, entries)
    written = cache.begin(first, 0.0)
    if begun:
        cache.first_token(written, 0.5)
    outcome = anthropic.decide(second, entries, 1.0, OPUS)
    past = sent(first, first_token=0.5 if begun else None)
    found = judge(expected(past, outcome, entries, OPUS), outcome.usage(), None)
    assert (found.cause if found else None) == (None if begun else "parallel_race")


def test_an_entry_that_should_live_and_is_not_read_is_likely_the_provider() -> None:
    lane = warm()
    lane.simulator.reset()
    judged = lane.send(body(5))
    assert broken(judged).cause == "likely_server_side"
    assert not judged.explained


def test_a_read_beyond_the_place_where_the_bytes_part_contradicts_and_is_unknown() -> None:
    blocks = texts("abcdefgh", 10_000)
    entries = Entries()
    cache = AnthropicCache(OPUS, entries)
    cache.first_token(cache.begin(prompt(blocks, (0, "5m"), (-1, "5m")), 0.0), 0.0)
    second = prompt([*blocks[:1], block("other"), *blocks[2:]], (0, "5m"), (-1, "5m"))
    outcome = anthropic.decide(second, entries, 1.0, OPUS)
    past = sent(prompt(blocks, (0, "5m"), (-1, "5m")))
    expectation = expected(past, outcome, entries, OPUS)
    fits = judge(expectation, usage(read=10_000, writes={"5m": 70_000}), None)
    beyond = judge(expectation, usage(read=40_000, writes={"5m": 40_000}), None)
    assert (fits.cause, beyond.cause) == ("messages_rewritten", "unknown")
    assert beyond.also == ("messages_rewritten",)


def test_nothing_known_of_a_loss_is_unknown() -> None:
    first, second = prompt(texts("abc", 5_000)), prompt(texts("abcd", 5_000), (-1, "5m"))
    outcome = anthropic.decide(second, Entries(), 1.0, OPUS)
    expectation = expected(sent(first), outcome, Entries(), OPUS)
    found = judge(expectation, outcome.usage(), None)
    assert found.cause == "unknown"


def expecting(tokens: int) -> Expectation:
    whole = prompt([block("a", tokens)], (0, "5m"))
    return Expectation(outcome=Outcome(whole, 0.0, tokens, 0), at=0.0, expected=tokens)


@pytest.mark.parametrize(
    ("expected", "read", "found"),
    [
        (100_000, 95_000, False),  # five per cent exactly
        (100_000, 94_999, True),
        (41_000, 38_950, False),  # the share is exact: no rounding of 0.05 x 41,000
        (41_000, 38_949, True),
        (10_000, 8_000, False),  # 2,000 tokens exactly
        (10_000, 7_999, True),
        (2_000, 0, False),  # all of it, but not enough
        (2_001, 0, True),
    ],
)
def test_both_thresholds_have_to_be_passed(expected: int, read: int, found: bool) -> None:
    judged = judge(expecting(expected), usage(read=read, input=expected - read), None)
    assert (judged is not None) == found
    assert agrees(expecting(expected), usage(read=read, input=expected - read)) != found


def test_the_thresholds_are_settings() -> None:
    billed = usage(read=60_000, input=40_000)
    assert judge(expecting(100_000), billed, None, BreaksSettings(min_drop=0.4, min_tokens=0)) is None
    assert judge(expecting(100_000), billed, None, BreaksSettings(min_drop=0.3, min_tokens=40_000)) is None
    assert judge(expecting(100_000), billed, None, BreaksSettings(min_drop=0.39, min_tokens=39_999)) is not None
    assert judge(expecting(10), usage(input=10), None, BreaksSettings(min_drop=0.0, min_tokens=0)) is not None


def test_more_read_than_predicted_is_no_break_and_no_agreement() -> None:
    predicted = replace(expecting(50_000), expected=10_000, outcome=Outcome(expecting(50_000).outcome.prompt, 0, 0, 0))
    billed = usage(read=50_000)
    assert judge(predicted, billed, None) is None
    assert not agrees(predicted, billed)


def test_estimates_are_scaled_to_what_the_provider_counted() -> None:
    """The prompt was estimated at 50,000 tokens and counted as 75,000; all of it read is as predicted."""
    assert agrees(expecting(50_000), usage(read=75_000))
    assert not agrees(expecting(50_000), usage(read=50_000, input=25_000))


def test_the_price_of_a_break_is_what_was_billed_beyond_a_read() -> None:
    price = rates("anthropic:claude-opus-4-6")  # read 0.50, 5m 6.25, 1h 10, input 5 for a million
    billed = usage(read=10_000, input=20_000, writes={"1h": 30_000, "5m": 40_000})
    costs = {
        20_000: Decimal("0.19"),  # all of it written for an hour
        50_000: Decimal("0.285") + Decimal("0.115"),
        90_000: Decimal("0.285") + Decimal("0.23") + Decimal("0.09"),
        500_000: Decimal("0.285") + Decimal("0.23") + Decimal("0.09"),  # what was not sent costs nothing
    }
    for lost, dollars in costs.items():
        found = judge(replace(expecting(100_000), expected=10_000 + lost), billed, price)
        assert (found.tokens, found.dollars) == (lost, dollars)
    unpriced = judge(expecting(100_000), billed, None)
    assert unpriced.dollars == 0


def test_what_changed_goes_before_what_expired_when_each_alone_explains_it() -> None:
    found = broken(warm().send(body(5, system="Today. " + PART * 3), after=301))
    assert (found.cause, found.also) == ("system_prompt_changed", ())
    lane = Lane()  # a late edit explains little of it, the pause all of it
    lane.send(body(6))
    lane.send(body(6) | {"max_tokens": 17})
    found = broken(lane.send(edited(7, 10), after=301))
    assert found.cause == "ttl_expired_5m"
    assert found.also == ("messages_rewritten",)


def test_of_two_changes_the_first_in_the_prefix_is_named() -> None:
    lane = warm()
    found = broken(lane.send(edited(5, 2) | {"tool_choice": {"type": "any"}}))
    assert found.cause == "parameters_changed"
    found = broken(lane.send(body(6, system="Other. " + PART * 3)))
    assert found.cause == "system_prompt_changed"
    found = broken(lane.send(body(7, system="More. " + PART * 3) | {"tools": TOOLS[1:]}))
    assert found.cause == "tools_changed"


def test_a_resend_and_a_fork_are_no_breaks() -> None:
    lane = warm(5)
    assert lane.send(body(5)).finding is None
    fork = lane.send(edited(3, 4, "let us try another way "))
    assert fork.finding is None
    assert fork.expectation.comparison.course == "fork"
    assert fork.usage.read > 0
    assert lane.send(body(2)).finding is None  # back to an earlier request


def test_a_fork_of_what_has_expired_says_so() -> None:
    assert broken(warm(5).send(edited(3, 4), after=301)).cause == "ttl_expired_5m"


@pytest.mark.parametrize(
    ("reset", "change", "counted"),
    [
        ("compaction", edited(5, 2), True),
        ("history_trimmed", edited(5, 2), True),
        ("priced_edit", edited(5, 2), True),
        ("compaction", body(5, system="Today. " + PART * 3), False),
        ("volatile_system_changed", body(5, system="Today. " + PART * 3), True),
        ("memory_block_changed", body(5, system="Today. " + PART * 3), True),
        ("volatile_system_changed", body(5) | {"tools": TOOLS[1:]}, False),
        ("tools_changed_by_user", body(5) | {"tools": TOOLS[1:]}, True),
        ("model_switch", body(5) | {"model": "claude-opus-4-5"}, True),
        ("bypassed", body(5) | {"tools": TOOLS[1:]}, True),
    ],
)
def test_an_announced_reset_counts_where_its_reason_speaks_of_it(
    reset: str, change: dict[str, Any], counted: bool
) -> None:
    found = broken(warm().send(change, reset=reset))
    assert (found.reason == reset, found.cause is None) == (counted, counted)
    assert found.tokens > 2_000  # and its price is told either way
    assert found.dollars > 0


def test_a_reset_does_not_hide_an_expiry() -> None:
    found = broken(warm().send(body(5), after=301, reset="priced_edit"))
    assert (found.cause, found.reason) == ("ttl_expired_5m", None)


def test_a_first_request_has_nothing_to_break() -> None:
    judged = Lane().send(body(3))
    assert judged.finding is None
    assert judged.expectation.expected == 0


def conversations() -> list[Any]:
    runs = shapes.conversations().items()
    return [
        pytest.param(run, id="/".join(key)) for key, run in runs if key[0] in ("claude-code-2.1.325", "pi-0.73") and run
    ]


@pytest.mark.parametrize("run", conversations())
def test_recorded_clients_that_only_grow_have_no_breaks(run: list[shapes.Shape]) -> None:
    """Claude Code flips content between list and string as its marker moves on: no break."""
    lanes: dict[tuple[str, str | None], Lane] = {}
    for shape in run:
        if shape.dialect != "anthropic" or shape.body is None:
            continue
        model = json.loads(shape.body)["model"]
        lane = lanes.setdefault(
            (model, shape.header("x-claude-code-agent-id")), Lane(model, thresholds=BreaksSettings(0.0, 0))
        )
        judged = lane.send(shape.body)
        assert judged.finding is None, judged.finding
        assert judged.explained


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_in_any_session_what_is_lost_has_a_known_cause(seed: int) -> None:
    """Where the provider keeps to its rules, a loss is never unexplained and never blamed on it."""
    lane = Lane("claude-sonnet-5-5", thresholds=BreaksSettings(min_drop=0.05, min_tokens=50))
    at = None
    for request in session(Random(seed), "anthropic", "claude-sonnet-5-5", 6):
        judged = lane.send(request.body, after=0.0 if at is None else request.at - at)
        at = request.at
        assert judged.explained
        found = judged.finding
        if found is None:
            continue
        assert found.cause not in (None, "unknown", "likely_server_side"), found
        assert found.tokens == found.expected - judged.usage.read > 50
        assert judged.cure is not None


def test_an_edit_far_back_is_no_lookback_although_older_entries_are_out_of_reach() -> None:
    """The lane's own entry lay within reach and was lost to the edit; that the next one before it is more than twenty
    positions away is a consequence."""
    names = [f"m{number}" for number in range(60)]
    blocks = texts(names, 1_000)
    entries = Entries()
    cache = AnthropicCache(OPUS, entries)
    for end in (10, 30, 59):
        cache.first_token(cache.begin(prompt(blocks[:end], (-1, "5m")), 0.0), 0.0)
    past = sent(prompt(blocks[:59], (-1, "5m")))
    second = prompt([*blocks[:35], block("edited"), *blocks[36:]], (-1, "5m"))
    outcome = anthropic.decide(second, entries, 1.0, OPUS)
    assert outcome.read == 0
    found = judge(expected(past, outcome, entries, OPUS), outcome.usage(), None)
    assert (found.cause, found.also) == ("messages_rewritten", ())
    unmarked = replace(second, marks=())  # with no marker at all, the bytes would not have mattered
    outcome = anthropic.decide(unmarked, entries, 1.0, OPUS)
    found = judge(expected(past, outcome, entries, OPUS), outcome.usage(), None)
    assert (found.cause, found.also) == ("lookback_exceeded", ("messages_rewritten",))


def test_an_hour_on_five_minutes_is_gone_after_five_minutes_whatever_was_edited() -> None:
    """The pool knows how long the lane's entry really lived; the late edit would have cost little."""
    blocks = texts("abcdefgh", 4_000)
    entries = Entries()
    cache = AnthropicCache(OPUS, entries)
    cache.first_token(cache.begin(prompt(blocks[:6], (-1, "5m")), 0.0), 0.0)
    first = prompt(blocks, (-1, "1h"))
    cache.first_token(cache.begin(first, 1.0), 1.0)
    edited = [*blocks[:7], block("edited"), block("B", role="assistant", message=1), block("j", message=2)]
    third = prompt(edited, (-1, "1h"))
    outcome = anthropic.decide(third, entries, 302.0, OPUS)
    past = sent(first, at=1.0, first_token=1.0)
    found = judge(expected(past, outcome, entries, OPUS), outcome.usage(), None)
    assert (found.cause, found.also) == ("ttl_expired_5m", ("messages_rewritten",))
    early = anthropic.decide(third, entries, 301.0, OPUS)  # a second earlier it lives
    found = judge(expected(past, early, entries, OPUS), early.usage(), None)
    assert (found.cause, found.tokens) == ("messages_rewritten", 8_000)


SOL = facts_of("openai:gpt-6.1-sol")


@pytest.mark.parametrize(
    ("pause", "system", "cause"),
    [(1_800, "s", None), (1_801, "s", "ttl_expired_1h"), (60, "other", "system_prompt_changed")],
)
def test_a_provider_with_one_lifetime_of_half_an_hour(pause: float, system: str, cause: str | None) -> None:
    """Of the two names for an expiry, the one for lifetimes beyond minutes; the report has the entry's own."""

    def asked(name: str, messages: str) -> Prompt:
        said = [
            block(each, 2_000, message=number, role="assistant" if each.isupper() else "user")
            for number, each in enumerate(messages)
        ]
        return prompt_of(SOL, [block(name, 3_000, section="system"), *said])

    cache = OpenAIBreakpoints(SOL)
    cache.first_token(cache.begin(asked("s", "aBc"), 0.0), 0.0)
    second = asked(system, "aBcDe")
    outcome = cache.begin(second, pause)
    found = judge(expected(sent(asked("s", "aBc")), outcome, Entries(), SOL), outcome.usage(), None)
    assert (found.cause if found else None) == cause
    if found is not None and found.entry is not None:
        assert found.entry.ttl == "30m"


@pytest.mark.parametrize("ref", ["openai:gpt-5.5", "gemini:gemini-2.5-pro", "anthropic:claude-sonnet-4-5"])
def test_an_empty_prompt_of_which_something_was_read_expects_as_much_again(ref: str) -> None:
    """Providers bill what they add themselves."""
    model = facts_of(ref)
    nothing = prompt_of(model, [])
    before = Sent("c", 0.0, nothing.model, b"", b"", b"", covered=3_000)
    found = expected(before, Outcome(nothing, 1.0, 0, 0), Entries(), model)
    assert (found.expected, found.suspects) == (3_000, ())
