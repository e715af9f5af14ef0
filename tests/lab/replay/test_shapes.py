"""Shape traces as blocks, and the texts that fill them: every block exactly as large as it was."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.facts import estimate, model
from holdfast.lab import Shape, ShapeBlock, Trace, TraceStep, lanes, shape_blocks
from holdfast.records import ToolResult, validate
from holdfast.simulator import HttpRequest, checks
from holdfast.wire import DIALECTS
from holdfast.wire.prompts import PromptReader
from tests.lab.recordings import needs_recordings, own, recorded
from tests.lab.replay.coding_sessions import coding_session

OPUS = model("anthropic:claude-opus-4-6")
ANTHROPIC = DIALECTS["anthropic"]


def check(trace: Trace) -> None:
    """What is written is what was laid out, block by block, and the provider would take it."""
    for steps in lanes(trace).values():
        parts = list(shape_blocks.laid_out(steps))
        reader = PromptReader()
        for prompt, request in zip(
            shape_blocks.prompts(parts, OPUS), shape_blocks.filler_requests(parts, OPUS.name), strict=True
        ):
            body = reader.parse(ANTHROPIC, ANTHROPIC.encode(request))
            read = reader.read(body, OPUS).prompt
            about = [(b.section, b.kind, b.role, b.message, b.tokens, b.markable) for b in prompt.blocks]
            assert about == [(b.section, b.kind, b.role, b.message, b.tokens, b.markable) for b in read.blocks]
            assert not validate(request)
            call = HttpRequest(
                "POST", "/v1/messages", {"x-api-key": "k", "anthropic-version": "2023-06-01"}, {}, body.raw
            )
            assert checks.check("anthropic", body, OPUS, call) is None


@pytest.mark.parametrize("name", ["made-1", "made-2"])
def test_filler_is_exactly_as_large_as_the_shape(name: str) -> None:
    check(own(name))


def test_a_made_session_too() -> None:
    check(coding_session(agent=True))


@needs_recordings
@pytest.mark.slow
@pytest.mark.parametrize("name", ["coding-1", "coding-2"])
def test_a_recorded_session_too(name: str) -> None:
    check(recorded(name))


def test_a_request_is_as_large_as_it_was_billed() -> None:
    trace = coding_session()
    for step, parts in zip(trace.steps, shape_blocks.laid_out(trace.steps), strict=True):
        assert sum(part.tokens for part in parts) == step.usage.read + step.usage.written


def test_a_block_stays_the_same_until_a_reset() -> None:
    trace = coding_session()
    before: tuple[shape_blocks.Part, ...] = ()
    for step, parts in zip(trace.steps, shape_blocks.laid_out(trace.steps), strict=True):
        if step.reset is None:
            assert parts[: len(before)] == before
        else:
            assert [part.section for part in parts if part in before] == ["tools"] * 12 + ["system"] * 2
        before = parts


def test_words_are_one_token_each_and_four_characters_long() -> None:
    assert len(set(shape_blocks.WORDS)) == 256
    text = shape_blocks.words("any name", 5_000)
    assert estimate(text) == 5_000
    assert len(text) == 4 * 5_000 - 1
    assert text == shape_blocks.words("any name", 5_000) != shape_blocks.words("another", 5_000)


def steps_of(*requests: tuple[ShapeBlock, ...]) -> tuple[TraceStep, ...]:
    """Requests nobody was billed for."""
    first = coding_session(1).steps[0]
    return tuple(
        replace(first, number=n, content=Shape(added), usage=None, at=10.0 * n, first_token_at=10.0 * n + 1)
        for n, added in enumerate(requests, 1)
    )


def test_calls_without_results_and_results_without_calls_are_text() -> None:
    steps = steps_of(
        (ShapeBlock("assistant", "text", 400), ShapeBlock("user", "text", 400)),
        (
            ShapeBlock("assistant", "tool_use", 400),
            ShapeBlock("assistant", "tool_use", 400),
            ShapeBlock("user", "text", 400),
            ShapeBlock("user", "tool_result", 400),
        ),
        (ShapeBlock("user", "tool_result", 400), ShapeBlock("system", "reminder", 400)),
        (ShapeBlock("assistant", "tool_use", 400),),
    )
    check(Trace("odd", "odd", steps))
    last = list(shape_blocks.laid_out(steps))[-1]
    assert [(part.role, part.kind) for part in last] == [
        ("user", "text"),  # a conversation begins with its user
        ("user", "text"),
        ("assistant", "tool_use"),
        ("assistant", "text"),
        ("user", "tool_result"),  # results come first in their message
        ("user", "text"),
        ("user", "text"),
        ("user", "text"),
        ("assistant", "text"),
    ]


def test_small_blocks_take_what_they_need_from_the_others() -> None:
    """A call takes thirty tokens to spell; what a request grew by stays what it was."""
    first, second, third = steps_of(
        (ShapeBlock("user", "text", 4_000),),
        (ShapeBlock("assistant", "tool_use", 1), ShapeBlock("user", "tool_result", 2_000)),
        (ShapeBlock("assistant", "tool_use", 1), ShapeBlock("user", "tool_result", 1)),
    )
    parts = list(shape_blocks.laid_out((first, second, third)))
    sizes = [[part.tokens for part in request] for request in parts]
    assert sizes[0] == [1_005]
    assert sizes[1] == [1_005, shape_blocks.CALL + 1, 515 - shape_blocks.CALL - 6]
    assert sizes[2][-2:] == [shape_blocks.CALL + 1, shape_blocks.RESULT + 1]  # no room to take anything from
    check(Trace("small", "small", (first, second, third)))


def test_what_was_owed_is_paid_back_later() -> None:
    steps = steps_of(
        (ShapeBlock("user", "text", 4_000),),
        (ShapeBlock("assistant", "tool_use", 1), ShapeBlock("user", "tool_result", 1)),
        (ShapeBlock("assistant", "text", 100), ShapeBlock("user", "text", 4_000)),
    )
    parts = list(shape_blocks.laid_out(steps))
    assert sum(part.tokens for part in parts[1]) > 1_005 + 10
    assert sum(part.tokens for part in parts[2]) == 1_005 + 10 + 30 + 1_005


def test_a_text_too_long_to_be_counted_becomes_several() -> None:
    steps = steps_of((ShapeBlock("user", "text", 400_000),))
    parts = next(shape_blocks.laid_out(steps))
    assert [part.tokens for part in parts] == [40_000, 40_000, 20_005]
    check(Trace("long", "long", steps))


def test_requests_without_messages_have_one_all_the_same() -> None:
    steps = steps_of((), ())
    assert [[part.kind for part in parts] for parts in shape_blocks.laid_out(steps)] == [["text"], ["text"]]
    check(Trace("empty", "empty", steps))


def test_every_result_answers_the_call_before_it() -> None:
    trace = coding_session(12)
    request = list(shape_blocks.filler_requests(shape_blocks.laid_out(trace.steps), OPUS.name))[-1]
    answers = [b.tool_use_id for m in request.messages for b in m.content if isinstance(b, ToolResult)]
    assert len(answers) == len(set(answers)) > 10
