"""When compaction is due, what a provider says when it is too late, and what it costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.compaction.compactor import done_notice, in_vain_notice
from holdfast.agent.compaction.sizes import due, estimate_payback, limit_of, message_tokens, reserve_of, sizes
from holdfast.agent.contract import CompactionResult
from holdfast.agent.costs import summed
from holdfast.agent.window.entries import Entry, Static
from holdfast.config.sections.agent import CompactionSettings as Settings
from holdfast.facts import IMAGE_TOKENS, estimate, rates
from holdfast.records import Document, Image, Message, Opaque, RedactedThinking, Text, Thinking, ToolResult, ToolUse
from holdfast.wire import is_too_long
from tests.agent.histories import CONTEXT, tool_turn, user, windows

CONTEXT_LIMIT = 200_000
SONNET = "anthropic:claude-sonnet-5-5"


def test_it_is_due_at_85_percent_of_the_context() -> None:
    assert limit_of(Settings(), CONTEXT_LIMIT) == 170_000
    assert due(Settings(), context_limit=CONTEXT_LIMIT, used=169_999) is None
    found = due(Settings(), context_limit=CONTEXT_LIMIT, used=170_000)
    assert (found.tokens, found.limit, found.must) == (170_000, 170_000, False)


@pytest.mark.parametrize(
    ("given", "context", "answer", "limit"),
    [
        ({"limit_tokens": 50_000}, CONTEXT_LIMIT, 0, 50_000),  # the user's limit counts where it is lower
        ({"limit_tokens": 500_000}, CONTEXT_LIMIT, 0, 170_000),
        ({"trigger_at": 1.0}, CONTEXT_LIMIT, 0, CONTEXT_LIMIT - 16_384),  # or the summary would not fit
        ({"trigger_at": 0.99, "reserve_tokens": 40_000}, CONTEXT_LIMIT, 0, 160_000),
        ({}, 32_768, 0, 24_576),  # a small model reserves a quarter at most
        ({}, 32_768, 12_000, 20_768),  # a long answer needs room of its own, but no more than half
        ({}, 32_768, 64_000, 16_384),
    ],
)
def test_from_which_length_on_it_is_due(given: dict[str, Any], context: int, answer: int, limit: int) -> None:
    assert limit_of(Settings(**given), context, answer) == limit


def test_a_small_model_reserves_a_quarter_at_most() -> None:
    assert reserve_of(Settings(), 32_768) == 8_192


def test_what_the_next_request_adds_counts_where_it_would_not_fit() -> None:
    asked = {"context_limit": CONTEXT_LIMIT, "used": 150_000}
    assert due(Settings(), **asked, pending=30_000) is None
    found = due(Settings(), **asked, pending=34_000)
    assert found.must


@pytest.mark.parametrize(("turns", "is_due"), [(None, True), (0, False), (4, False), (5, True), (9, True)])
def test_five_turns_lie_between_two_compactions(turns: int | None, is_due: bool) -> None:
    assert (due(Settings(), context_limit=CONTEXT_LIMIT, used=175_000, turns_since=turns) is not None) is is_due


def test_the_cool_down_is_ignored_where_the_next_request_would_not_fit_at_all() -> None:
    asked = {"context_limit": CONTEXT_LIMIT, "used": 175_000, "turns_since": 0}
    assert due(Settings(), **asked, output_limit=25_000) is None
    found = due(Settings(), **asked, output_limit=25_001)
    assert found.must


@given(
    st.builds(
        Settings,
        trigger_at=st.floats(0.01, 1),
        limit_tokens=st.none() | st.integers(1, 10**6),
        reserve_tokens=st.integers(0, 10**6),
    ),
    st.integers(1, 2 * 10**6),
    st.integers(0, 10**6),
)
def test_at_the_limit_there_is_always_room_for_the_summary(settings: Settings, context: int, output: int) -> None:
    limit, reserve = limit_of(settings, context, output), reserve_of(settings, context)
    assert limit >= 1
    assert reserve <= max(1, context // 4)
    assert limit + reserve <= max(context, 2)


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        '{"error":{"code":"context_length_exceeded"}}',
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130012 tokens.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This endpoint's maximum context length is 163840 tokens. However, you requested about 200000 tokens",
        "request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "Input is too long for requested model.",
    ],
)
def test_the_providers_words_for_a_conversation_that_does_not_fit_are_known(text: str) -> None:
    for status in (0, 200, 400, 413):
        assert is_too_long(status, f"anthropic:x answered {status}: {text}")


def test_a_request_that_is_too_large_to_be_taken_is_too_long_whatever_is_said() -> None:
    assert is_too_long(413, "<html>Request Entity Too Large</html>")
    assert not is_too_long(414, "<html>Request Entity Too Large</html>")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "messages.3.content: Input should be a valid list"),
        (429, "Request too large for gpt-4 on tokens per min (TPM): maximum context length"),
        (401, "invalid x-api-key"),
        (500, "prompt is too long"),
        (400, "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens"),
    ],
)
def test_other_refusals_are_not_taken_for_it(status: int, text: str) -> None:
    assert not is_too_long(status, text)


def test_a_compaction_says_what_it_costs_and_when_it_pays_back() -> None:
    price = rates(SONNET)
    found = estimate_payback(SONNET, before=170_000, after=50_000, behind=34_000, cost=Decimal("0.10"))
    assert found.rewrite == 34_000 * (price.write() - price.read)
    assert found.saved == 120_000 * price.read
    assert found.payback is not None
    assert found.rewrite is not None
    assert found.saved is not None
    assert (found.payback - 1) * found.saved <= Decimal("0.10") + found.rewrite < found.payback * found.saved


def test_without_a_price_nothing_is_reckoned() -> None:
    found = estimate_payback("nobody:knows-this", before=100, after=10, behind=5, cost=None)
    assert (found.rewrite, found.saved, found.payback) == (None, None, None)
    assert summed([Decimal(1), None]) is None
    assert summed([Decimal(1), Decimal(2)]) == 3


def test_a_price_cliff_counts_in_what_is_saved() -> None:
    found = estimate_payback("anthropic:claude-haiku-5-5", before=120_000, after=60_000, behind=1_000, cost=Decimal(0))
    low = rates("anthropic:claude-haiku-5-5", prompt_tokens=60_000)
    assert found.saved is not None
    assert found.saved > 60_000 * low.read


def test_what_saves_nothing_never_pays_back() -> None:
    found = estimate_payback(SONNET, before=100, after=100, behind=50, cost=Decimal(1))
    assert (found.saved, found.payback) == (0, None)
    told = done_notice(
        CompactionResult(
            why="user", tokens_before=9, tokens_after=9, elided=True, attempts=0, saved_per_request=found.saved
        )
    )
    assert "outlined without the model" in told
    assert "does not pay for itself" in told
    assert "$" not in told


def test_the_user_is_told_the_price_and_the_payback() -> None:
    made = CompactionResult(
        why="limit",
        tokens_before=170_000,
        tokens_after=50_000,
        elided=False,
        attempts=1,
        cost=Decimal("0.1"),
        rewrite_cost=Decimal("0.08"),
        saved_per_request=Decimal("0.012"),
        payback=16,
    )
    told = done_notice(made)
    assert "170,000 tokens became 50,000" in told
    assert "$0.1000" in told
    assert "$0.0800 more" in told
    assert "after 16 of them" in told
    assert "keep_recent_tokens" in in_vain_notice(5, "limit")
    assert "keep_recent_tokens" not in in_vain_notice(5, "user")


@given(windows, st.integers(0, 10**6))
def test_sizes_add_up_to_what_the_provider_counted(entries: tuple[Entry, ...], used: int) -> None:
    found = sizes(entries, Static(), before=("system text " * 50,), used=used)
    plain = sizes(entries, Static(), before=("system text " * 50,))
    assert len(found.entries) == len(entries)
    assert found.total > 0
    if plain.total / 3 < used < plain.total * 3:
        assert found.total == pytest.approx(used, abs=len(entries) + 1)


def test_what_came_after_the_last_count_is_not_taken_for_counted() -> None:
    entries = (CONTEXT, user("a " * 500), tool_turn(("read_file", "x " * 2_000)))
    results = entries[2].results  # type: ignore[union-attr]
    plain = sizes(entries, Static())
    counted = plain.total - message_tokens(results)
    assert sizes(entries, Static(), used=counted, pending=results).ratio == 1.0
    assert sizes(entries, Static(), used=counted).ratio < 1.0


def test_every_kind_of_block_has_a_size() -> None:
    blocks = (
        Text("one two"),
        Thinking("one two"),
        RedactedThinking("abc"),
        Image(media_type="image/png", data="A" * 4_000),
        Document(media_type="text/plain", data="one two"),
        Document(media_type="application/pdf", data="A" * 4_000),
        ToolUse("c", "read_file", b'{"path":"a"}'),
        ToolResult("c", (Text("one two"),)),
        Opaque("odd", b'{"type":"odd"}'),
    )
    each = [message_tokens((Message("user", (block,)),)) for block in blocks]
    assert all(found > 4 for found in each)
    assert each[0] == 4 + estimate("one two")
    assert each[3] == each[5] == 4 + IMAGE_TOKENS
