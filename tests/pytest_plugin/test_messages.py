"""What a failure says, word for word."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from holdfast import facts
from holdfast.config.keys import KEYS
from holdfast.core.cures import NAMES
from holdfast.core.cures.library import IN_YOUR_CODE
from holdfast.lab import FAULTS
from holdfast.pytest_plugin import PrefixUnstable, assert_prefix_stable
from holdfast.pytest_plugin.findings import dollars

from .sessions import MANUAL, MODELS, bodies, recorded, turn


def message(requests: list[Any], **options: Any) -> str:
    with pytest.raises(PrefixUnstable) as caught:
        assert_prefix_stable(requests, **options)
    return str(caught.value)


def first(told: str) -> str:
    """The first departure, which is told in full."""
    return told.split("\n\n")[1]


def lost(model: str, tokens: int) -> str:
    """What it costs to write so many tokens again instead of reading them."""
    rates = facts.rates(model)
    return dollars(tokens * (rates.write() - rates.read))


def in_a_year(model: str, tokens: int, requests: int) -> tuple[str, str]:
    rates = facts.rates(model)
    year = tokens * (rates.write() - rates.read) * 1000 * 365 / requests
    return dollars(year), dollars(year / 12)


def test_a_clock_in_the_system_text() -> None:
    """The whole message: what, where, both sides, cause, cure, cost, the others and the sum."""
    told = message([turn(*"abcdefg"[: 2 * n + 1], system=f"{MANUAL}Now: 12:00:0{n}\nBe brief.") for n in range(3)])
    opus = "anthropic:claude-opus-5-5"
    year, month = in_a_year(opus, 1_333 + 1_335, 3)
    prices = facts.rates(opus)
    assert told.split("\n") == [
        "the prompt prefix is not stable: 2 of 3 requests do not begin with what was sent before.",
        "",
        "Request 2 of 3 (anthropic, claude-opus-5-5) departs from request 1",
        "  at       system[0], byte 6,306 of the body, 6,252 of the block",
        "  before   …t does not know. Now: 12:00:00\\nBe brief.",
        "  after    …t does not know. Now: 12:00:01\\nBe brief.",
        "                                         ^",
        "  cause    system_prompt_changed",
        "  cure     clock: Your program puts a clock into system[0]: build that",
        "           text once for the conversation, and put the time into the",
        "           newest user message.",
        f"  cost     1,333 tokens billed again instead of read: {lost(opus, 1_333)} each time",
        "",
        "The others:",
        "  request 3: system_prompt_changed at system[0], byte 6,306: 1,335",
        f"      tokens, {lost(opus, 1_335)} (clock)",
        "",
        f"Together {lost(opus, 2_668)} in these 3 requests. At 1,000 requests a day that is",
        f"{year} a year ({month} a month); claude-opus-5-5, prices of {prices.version.split()[0]}",
        f"{prices.version.split()[1]}.",
    ]
    assert all(len(line) <= 72 for line in told.split("\n")[1:])  # pytest takes eight columns of a terminal's eighty


def test_tools_in_another_order() -> None:
    told = message(recorded(bodies("openai_chat", "tools-shuffled"), "openai_chat"))
    price = lost(MODELS["openai_chat"], 689)
    assert first(told).split("\n") == [
        "Request 2 of 18 (openai_chat, gpt-5.6) departs from request 1",
        "  at       tools[0], byte 1,327 of the body, 39 of the block",
        '  before   …unction","function":{"name":"read","description":"read-0 r…',
        '  after    …unction","function":{"name":"bash","description":"bash-0 b…',
        "                                         ^",
        "  cause    tools_changed",
        "  cure     tool_order: Your program declares the same tools in another",
        "           order from tools[0] on: sort them by name, or keep them in a",
        "           list instead of a set.",
        "  cost     nothing today: gpt-5.6 caches nothing below 1,024 tokens and",
        "           this prompt has 689; otherwise 689 tokens would be billed",
        f"           again instead of read: {price} each time",
    ]
    others = told.split("\n\n")[2].split("\n")
    assert others[0] == "The others:"
    assert sum(line.startswith("  request ") for line in others) == 10
    assert others[-1] == "  … and 5 more"


def test_history_that_was_rewritten() -> None:
    told = message(recorded(bodies("openai_responses", "results-pruned"), "openai_responses"))
    assert first(told).split("\n") == [
        "Request 9 of 18 (openai_responses, gpt-5.6) departs from request 8",
        "  at       input[5], byte 1,750 of the body, 63 of the block",
        '  before   …ll_id":"toolu_1_0","output":"result1-0-0 result1-0-4 resul…',
        '  after    …ll_id":"toolu_1_0","output":"[old tool result removed]"}',
        "                                         ^",
        "  cause    messages_rewritten",
        "  cure     old_result_replaced: Your program shortens the tool result at",
        "           input[5] after it was sent: shorten results before they are",
        "           sent for the first time.",
        f"  cost     1,822 tokens billed again instead of read: {lost(MODELS['openai_responses'], 1_822)} each time",
    ]


def test_a_memory_in_the_system_text() -> None:
    told = message(recorded(bodies("gemini", "memory-in-system"), "gemini"))
    assert first(told).split("\n")[:11] == [
        "Request 7 of 18 (gemini, gemini-2.5-flash) departs from request 6",
        "  at       systemInstruction.parts[0], byte 942 of the body, 902 of the",
        "           block",
        "  before   …# Memory\\n- fact 1 of session",
        "  after    …# Memory\\n- fact 1 of session\\n- fact 2 of session",
        "                                         ^",
        "  cause    system_prompt_changed",
        "  cure     memory_in_prefix: Your program changes a memory at",
        "           systemInstruction.parts[0], in front of the conversation:",
        "           leave what was sent as it is, and append what is new to the",
        "           newest user message.",
    ]


def test_a_window_that_slides() -> None:
    told = message(recorded(bodies("gemini", "sliding-window"), "gemini"))
    assert first(told).split("\n")[:9] == [
        "Request 7 of 18 (gemini, gemini-2.5-flash) departs from request 6",
        "  at       contents[0].parts[0], byte 2,189 of the body, 3 of the block",
        "  before   ask0-0 ask0-4 ask0-10 ask0-18 as…",
        "  after    ask1-0 ask1-4 ask1-10 ask1-18 as…",
        "              ^",
        "  cause    messages_rewritten",
        "  cure     sliding_window: Your program drops the oldest messages at",
        "           contents[0].parts[0]: send the whole history, or drop many at",
        "           once and rarely.",
    ]


def test_a_setting_that_changed() -> None:
    told = message([turn("a"), turn("a", "b", "c", tool_choice={"type": "any"})])
    assert first(told).split("\n") == [
        "Request 2 of 2 (anthropic, claude-opus-5-5) departs from request 1",
        "  at       tool_choice, byte 6,530",
        "  before   (not set)",
        '  after    {"type":"any"}',
        "  cause    parameters_changed",
        "  cure     parameters_changed: Your program changes the parameter",
        "           tool_choice, and what is cached from the messages on depends",
        "           on it: keep it fixed for the conversation.",
        f"  cost     1,322 tokens billed again instead of read: {lost('claude-opus-5-5', 1_322)} each time",
    ]
    thinking = [{"type": "enabled", "budget_tokens": tokens} for tokens in (1024, 2048)]
    told = message([turn("a", thinking=thinking[0]), turn("a", "b", "c", thinking=thinking[1])])
    assert first(told).split("\n")[1:5] == [
        "  at       thinking, byte 6,527",
        '  before   …e":"enabled","budget_tokens":1024}',
        '  after    …e":"enabled","budget_tokens":2048}',
        "                                         ^",
    ]


def test_another_model() -> None:
    sonnet = "claude-sonnet-4-5"
    told = message([turn("a"), turn("a", "b", "c", model=sonnet)])
    assert first(told).split("\n") == [
        "Request 2 of 2 (anthropic, claude-sonnet-4-5) departs from request 1",
        "  at       model, byte 9",
        "  before   claude-opus-5-5",
        "  after    claude-sonnet-4-5",
        "                  ^",
        "  cause    model_changed",
        "  cure     model_changed: Your program changes the model in the middle",
        "           of a conversation, and another model has its own cache: stay",
        "           with one, or begin another conversation for the side task.",
        f"  cost     1,322 tokens billed again instead of read: {lost(sonnet, 1_322)} each time",
    ]


def test_what_is_gone_has_no_other_side() -> None:
    tools = [{"name": name, "input_schema": {}} for name in ("bash", "read")]
    told = message([turn("a", tools=tools), turn("a", "b", "c", tools=tools[:1])])
    assert first(told).split("\n")[1:5] == [
        "  at       tools[1] (gone)",
        '  before   {"name":"read","input_schema"…',
        "  after    (nothing)",
        "  cause    tools_changed",
    ]


def test_several_conversations_are_named() -> None:
    told = message([turn("a"), turn("x", "y", "z"), turn("a", "b", "c", tool_choice={"type": "any"})])
    assert first(told).startswith(
        "Request 3 of 3 (conversation 1, anthropic, claude-opus-5-5) departs from request 1\n"
    )
    told = message([turn("a"), turn("a", "b", "c", tool_choice={"type": "any"})], lane="main")
    assert first(told).startswith("Request 2 of 2 (main, anthropic, claude-opus-5-5) departs from request 1\n")


def test_markers_that_end_before_it() -> None:
    """Nothing behind the divergence was ever cached: it costs nothing today, and nothing can be saved either."""
    system = [{"type": "text", "text": MANUAL, "cache_control": {"type": "ephemeral"}}]
    said = ["one " * 20, "two", "three"]
    told = message(
        [
            turn(*said, system=system, markers=False),
            turn("One " * 20, *said[1:], "four", "five", system=system, markers=False),
        ]
    )
    assert "nothing today: the cache markers end before it, so the 2" in first(told).replace("\n           ", " ")
    assert "Together $0.00 in these 2 requests." in told


def test_a_model_that_nobody_knows() -> None:
    told = message([turn("a", model="my-model"), turn("a", "b", "c", model="my-model", system=MANUAL + "Hi.")])
    assert "no price is known for my-model" in told.replace("\n", " ")
    known = message([turn("a", model="mine"), turn("a", "b", "c", model="mine", system="Hi.")], model="gpt-5.6")
    assert "gpt-5.6, prices of" in known.replace("\n", " ")


def test_texts_are_shown_without_credentials_and_masked_on_request() -> None:
    secret = "sk-ant-api03-" + "a1b2c3d4" * 4
    bodies = [turn("a", system=f"Key {secret}, room 1."), turn("a", "b", "c", system=f"Key {secret}, room 2.")]
    told = message(bodies)
    assert "room 2." in told
    assert secret not in told
    assert "x9" * 10 + ", room 2." in told
    masked = message(bodies, redact=True)
    assert "room 2." not in masked
    assert "xxxx 9." in masked


def test_characters_that_a_terminal_would_obey_are_not_printed() -> None:
    evil = "\x9b31mred \u202etxet\u2028"
    told = message([turn("a", system=f"{evil} 1"), turn("a", "b", "c", system=f"{evil} 2")])
    assert "before   ?31mred ?txet? 1" in told
    assert all(char.isprintable() or char == "\n" for char in told)


def test_a_byte_inside_a_character_is_its_beginning() -> None:
    told = message([turn("thrée"), turn("thrèe", "b", "c")])
    assert "\n  before   thrée\n  after    thrèe\n              ^\n" in told


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.00"),
        ("0.0000114", "$0.0000114"),
        ("0.00894", "$0.00894"),
        ("0.10", "$0.100"),
        ("0.999", "$1.00"),
        ("1.5", "$1.50"),
        ("999.99", "$999.99"),
        ("3421.4", "$3,421"),
    ],
)
def test_dollars_for_people(amount: str, text: str) -> None:
    assert dollars(Decimal(amount)) == text


NAMES_OF_OURS = re.compile(
    r"\b(?:" + "|".join(sorted(re.escape(name) for name in KEYS)) + r")\b|holdfast\.toml|HOLDFAST_"
)
"""Every setting of ours, and where settings stand."""


@pytest.mark.parametrize("dialect", sorted(MODELS))
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_no_failure_names_a_setting_of_ours(dialect: str, fault: str) -> None:
    """Its reader has a program of their own, not a gateway."""
    told = ""
    try:
        assert_prefix_stable(recorded(bodies(dialect, fault), dialect), at_least=0, require_markers=True)
    except PrefixUnstable as unstable:
        told = str(unstable).replace("\n           ", " ")
    assert not NAMES_OF_OURS.search(told), told
    assert "  cure     " not in told or "Your program " in told


def test_a_departure_of_every_cause_names_none_either() -> None:
    tools = [{"name": name, "input_schema": {}} for name in ("bash", "read")]
    for changed in (
        {"model": "claude-sonnet-4-5"},
        {"tools": tools[::-1]},
        {"tools": tools[:1]},
        {"tools": [*tools, {"name": "late", "input_schema": {}}]},
        {"tools": [{"name": "bash", "input_schema": {"type": "object"}}, tools[1]]},
        {"system": f"{MANUAL}Something else."},
        {"tool_choice": {"type": "any"}},
    ):
        told = message([turn("a", tools=tools), turn("a", "b", "c", **({"tools": tools} | changed))])
        assert not NAMES_OF_OURS.search(told), told
        assert "Your program " in told


def test_every_cure_has_its_form_for_programs_without_a_setting_of_ours() -> None:
    assert set(IN_YOUR_CODE) >= set(NAMES)
    for sentence in IN_YOUR_CODE.values():
        assert not NAMES_OF_OURS.search(sentence), sentence
