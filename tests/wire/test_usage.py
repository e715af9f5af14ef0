"""Usage as each provider reports it, in JSON and in streams cut at any byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.records import UNSPLIT, Usage, usage
from holdfast.wire import DIALECTS, Tap
from holdfast.wire.usage import counts_of


def sse(*events: tuple[str | None, Any], newline: str = "\n") -> bytes:
    lines = []
    for name, data in events:
        if name is not None:
            lines.append(f"event: {name}{newline}")
        lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}{newline}{newline}")
    return "".join(lines).encode()


START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "claude-opus-5-5",
        "usage": {
            "input_tokens": 7,
            "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 60,
            "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 20},
            "output_tokens": 1,
        },
    },
}
STREAMS: dict[str, tuple[bytes, Usage, str]] = {
    "anthropic": (
        sse(
            ("message_start", START),
            ("content_block_start", {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}),
            ("content_block_delta", {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "é😀"}}),
            ("message_delta", {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 50}}),
            ("message_stop", {"type": "message_stop"}),
        ),
        usage(input=7, read=900, writes={"5m": 40, "1h": 20}, output=50),
        "msg_1",
    ),
    "openai_chat": (
        sse(
            (None, {"id": "c1", "model": "gpt-5.5", "choices": [{"delta": {"content": "é😀"}}], "usage": None}),
            (
                None,
                {
                    "id": "c1",
                    "choices": [],
                    "usage": {
                        "prompt_tokens": 2000,
                        "completion_tokens": 9,
                        "prompt_tokens_details": {"cached_tokens": 1536},
                    },
                },
            ),
            (None, "[DONE]"),
        ),
        usage(input=464, read=1536, output=9),
        "c1",
    ),
    "openai_responses": (
        sse(
            ("response.created", {"type": "response.created", "response": {"id": "r1", "usage": None}}),
            ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "é😀"}),
            (
                "response.completed",
                {
                    "type": "response.completed",
                    "response": {
                        "id": "r1",
                        "model": "gpt-6.1-sol",
                        "usage": {
                            "input_tokens": 3000,
                            "input_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 900},
                            "output_tokens": 11,
                        },
                    },
                },
            ),
        ),
        usage(input=100, read=2000, writes={"30m": 900}, output=11),
        "r1",
    ),
    "gemini": (
        sse(
            (None, {"responseId": "g1", "candidates": [{"content": {}}], "usageMetadata": {"promptTokenCount": 5000}}),
            (
                None,
                {
                    "responseId": "g1",
                    "candidates": [{"finishReason": "STOP"}],
                    "usageMetadata": {
                        "promptTokenCount": 5000,
                        "cachedContentTokenCount": 4096,
                        "candidatesTokenCount": 20,
                        "thoughtsTokenCount": 5,
                    },
                },
            ),
        ),
        usage(input=904, read=4096, output=25),
        "g1",
    ),
}
STREAMS["openrouter"] = STREAMS["openai_chat"]


def tapped(dialect: str, chunks: list[bytes]) -> Tap:
    tap = DIALECTS[dialect].tap()
    for chunk in chunks:
        tap.feed(chunk)
    tap.close()
    return tap


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_streams_are_read_at_any_chunk_boundary(dialect: str, size: int, newline: bytes) -> None:
    stream, expected, response = STREAMS[dialect]
    stream = stream.replace(b"\n", newline)
    tap = tapped(dialect, [stream[i : i + size] for i in range(0, len(stream), size)])
    assert tap.usage == expected
    assert (tap.report.response_id, tap.report.finished, tap.report.error) == (response, True, None)


def test_every_single_cut_of_a_stream_gives_the_same() -> None:
    stream, expected, _ = STREAMS["anthropic"]
    assert all(tapped("anthropic", [stream[:i], stream[i:]]).usage == expected for i in range(len(stream)))


def test_message_delta_replaces_and_never_adds() -> None:
    delta = {"type": "message_delta", "usage": {"input_tokens": 3, "cache_read_input_tokens": 950, "output_tokens": 8}}
    tap = tapped("anthropic", [sse((None, START), (None, delta), (None, delta))])
    assert tap.usage == usage(input=3, read=950, writes={"5m": 40, "1h": 20}, output=8)


def test_a_stream_cut_before_its_end_is_not_finished() -> None:
    stream, _, _ = STREAMS["anthropic"]
    tap = tapped("anthropic", [stream[: stream.index(b"event: message_delta")]])
    assert not tap.report.finished
    assert tap.report.started
    assert tap.usage == usage(input=7, read=900, writes={"5m": 40, "1h": 20}, output=1)


def test_the_last_event_counts_without_a_blank_line_after_it() -> None:
    stream, expected, _ = STREAMS["openai_responses"]
    assert tapped("openai_responses", [stream.rstrip()]).usage == expected


@pytest.mark.parametrize(
    ("dialect", "response", "expected"),
    [
        ("anthropic", {"type": "message", "id": "m", "usage": START["message"]["usage"]}, (7, 900, 60, 1)),  # type: ignore[index]
        ("openai_chat", {"id": "c", "usage": {"prompt_tokens": 10, "completion_tokens": 2}}, (10, 0, 0, 2)),
        ("openai_responses", {"object": "response", "usage": {"input_tokens": 10, "output_tokens": 2}}, (10, 0, 0, 2)),
        ("gemini", {"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2}}, (10, 0, 0, 2)),
    ],
)
def test_responses_that_are_not_streamed(dialect: str, response: Any, expected: tuple[int, ...]) -> None:
    found = tapped(dialect, [json.dumps(response, indent=2).encode()]).usage
    assert (found.input, found.read, found.written, found.output) == expected


def test_gemini_streams_a_json_array_too() -> None:
    chunks = [{"usageMetadata": {"promptTokenCount": n}} for n in (5, 6)]
    assert tapped("gemini", [json.dumps(chunks).encode()]).usage == usage(input=6)


def test_a_sum_without_split_is_not_guessed() -> None:
    raw = b'{"type":"message","usage":{"input_tokens":1,"cache_creation_input_tokens":30}}'
    assert tapped("anthropic", [raw]).usage == usage(input=1, writes={UNSPLIT: 30})


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (
            {"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36},
            usage(input=36, read=64),
        ),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": None}}, usage(input=100)),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 400}}, usage(read=100)),
        ({"prompt_tokens": "many", "completion_tokens": -4, "prompt_tokens_details": []}, usage()),
        ({"prompt_tokens": 10.0, "prompt_tokens_details": {"cached_tokens": True}}, usage(input=10)),
    ],
)
def test_inclusive_counts_are_made_disjoint(counts: Any, expected: Usage) -> None:
    """DeepSeek's names, SGLang's nulls, and numbers that cannot be."""
    assert tapped("openai_chat", [json.dumps({"usage": counts}).encode()]).usage == expected


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize(
    "junk", [b"", b"<html>", b"\x1f\x8b\x08", b"data: {oops\n\n", b"{", b"[1,2]", b"data: 5\n\n", b"null"]
)
def test_junk_gives_no_usage_and_no_exception(dialect: str, junk: bytes) -> None:
    assert tapped(dialect, [junk]).usage is None


@pytest.mark.parametrize(
    ("dialect", "event", "message"),
    [
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "Overloaded"),
        ("openai_chat", {"error": {"message": "slow down", "code": "rate_limit"}}, "slow down"),
        ("openai_responses", {"type": "error", "message": "slow down"}, "slow down"),
        (
            "openai_responses",
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "broke"}}},
            "broke",
        ),
        ("gemini", {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}, "busy"),
    ],
)
def test_errors_inside_a_stream_are_seen(dialect: str, event: Any, message: str) -> None:
    assert tapped(dialect, [sse(("error", event))]).report.error == message


def test_a_line_without_end_is_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.wire import stream

    monkeypatch.setattr(stream, "LONGEST_LINE", 1000)
    raw, expected, _ = STREAMS["openai_chat"]
    tap = tapped("openai_chat", [b"data: ", *([b"x" * 600] * 5), b"\n\n", raw])
    assert (tap.usage, tap.skipped_lines) == (expected, 1)
    plain = tapped("openai_chat", [b'{"usage":', b" " * 2000, b'{"prompt_tokens":1}}'])
    assert (plain.usage, plain.skipped_lines) == (None, 1)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("before", [b"", b"\n  \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b": keep-alive\n\n"])
def test_what_comes_before_the_first_event_hides_nothing(dialect: str, size: int, before: bytes) -> None:
    stream, expected, _ = STREAMS[dialect]
    stream = before + stream
    assert tapped(dialect, [stream[i : i + size] for i in range(0, len(stream), size)]).usage == expected


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_lines_may_end_with_a_carriage_return_alone(size: int) -> None:
    stream, expected, _ = STREAMS["anthropic"]
    stream = stream.replace(b"\n", b"\r")
    assert tapped("anthropic", [stream[i : i + size] for i in range(0, len(stream), size)]).usage == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_an_event_may_have_several_data_lines(newline: str) -> None:
    stream = newline.join(['data: {"usage":', 'data: {"prompt_tokens": 5}}', "", ""]).encode()
    assert tapped("openai_chat", [stream[i : i + 1] for i in range(len(stream))]).usage == usage(input=5)


def test_padding_before_a_plain_response_hides_nothing() -> None:
    tap = tapped("openrouter", [b"\n", b"   \n", b'{"usage":{"prompt_tokens":5}}'])
    assert (tap.usage, tap.report.finished) == (usage(input=5), True)


@pytest.mark.parametrize(
    ("dialect", "raw", "expected"),
    [
        ("gemini", b'[{"usageMetadata":{"promptTokenCount":5}},{"usageMeta', usage(input=5)),
        ("gemini", b'[{"usageMetadata":{"promptTokenCount":5}}', usage(input=5)),
        ("openai_chat", b'{"usage":{"prompt_tokens":5}', None),
        ("anthropic", b"\x1f\x8b\x08\x00binary", None),
        ("anthropic", b"<html>502</html>", None),
    ],
)
def test_a_response_that_breaks_off_is_not_finished(dialect: str, raw: bytes, expected: Usage | None) -> None:
    tap = tapped(dialect, [raw])
    assert (tap.usage, tap.report.finished) == (expected, False)
    assert tap.report.error


def test_a_lone_surrogate_in_a_response_hides_nothing() -> None:
    raw = rb'[{"candidates":[{"content":"\ud83d","finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5}}]'
    assert tapped("gemini", [raw]).usage == usage(input=5)


def test_a_later_sum_replaces_an_older_split() -> None:
    delta = {"type": "message_delta", "usage": {"cache_creation_input_tokens": 0, "output_tokens": 5}}
    found = tapped("anthropic", [sse((None, START), (None, delta))]).usage
    assert found.written == 0


@pytest.mark.parametrize("number", [b"1e999", b"9" * 400, b"1e308", b"-5", b'"x"'])
def test_an_absurd_number_costs_only_itself(number: bytes) -> None:
    raw = b'{"usage":{"prompt_tokens":100,"completion_tokens":' + number + b"}}"
    assert tapped("openai_chat", [raw]).usage == usage(input=100)


def test_openrouter_writes_have_the_backing_providers_ttl() -> None:
    raw = b'{"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":40,"cache_write_tokens":50}}}'
    assert tapped("openrouter", [raw]).usage == usage(input=10, read=40, writes={UNSPLIT: 50})


def test_names_that_look_like_events_do_not_hide_the_last_one() -> None:
    done = {"type": "response.completed", "response": {"model": "tuned.delta", "usage": {"input_tokens": 4}}}
    assert tapped("openai_responses", [sse((None, done))]).usage == usage(input=4)


def test_a_failed_response_that_is_not_streamed_is_an_error() -> None:
    failed = {"object": "response", "status": "failed", "error": {"code": "server_error", "message": "broke"}}
    assert tapped("openai_responses", [json.dumps(failed).encode()]).report.error == "broke"


def test_gemini_is_finished_only_when_a_candidate_says_so() -> None:
    call = {"functionCall": {"name": "f", "args": {"finishReason": "no"}}}
    chunk = {"candidates": [{"content": {"parts": [call]}}], "usageMetadata": {"promptTokenCount": 5}}
    tap = DIALECTS["gemini"].tap()
    tap.feed(sse((None, chunk)))
    assert not tap.report.finished


def test_events_without_end_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.wire import stream

    monkeypatch.setattr(stream, "LONGEST_LINE", 1000)
    tap = DIALECTS["openai_chat"].tap()
    for _ in range(100):
        tap.feed(b"data: " + b"x" * 90 + b"\n")
    assert tap.skipped_lines > 0
    assert tap.held <= 1000


def test_nothing_before_an_answer_does_not_grow() -> None:
    tap = DIALECTS["anthropic"].tap()
    for piece in (b"\xef", b"\xbb", b"\xbf", *[b"  \r\n\t"] * 100):
        tap.feed(piece)
    assert tap.held == 0
    tap.feed(b'{"type":"message","usage":{"input_tokens":3,"output_tokens":1}}')
    tap.close()
    assert tap.usage is not None


def test_a_repeated_sum_of_writes_keeps_its_split() -> None:
    """The API's own `message_delta` repeats the sum of `message_start`, without saying again how it splits by TTL."""
    delta = {"type": "message_delta", "usage": {"cache_creation_input_tokens": 60, "output_tokens": 5}}
    found = tapped("anthropic", [sse((None, START), (None, delta))]).usage
    assert found == usage(input=7, read=900, writes={"5m": 40, "1h": 20}, output=5)
    null = {"type": "message_delta", "usage": {"cache_creation_input_tokens": None, "output_tokens": 5}}
    assert tapped("anthropic", [sse((None, START), (None, null))]).usage == found


def test_another_sum_of_writes_has_no_split() -> None:
    delta = {"type": "message_delta", "usage": {"cache_creation_input_tokens": 50}}
    found = tapped("anthropic", [sse((None, START), (None, delta))]).usage
    assert found.writes == ((UNSPLIT, 50),)


@pytest.mark.parametrize(
    "odd", [{"id": 7}, {"model": None}, {"id": None, "model": ["m"]}, {"message": 3}, {"type": "message"}]
)
def test_a_member_of_an_odd_type_costs_only_itself(odd: dict[str, Any]) -> None:
    tap = DIALECTS["anthropic"].tap()
    tap.feed(json.dumps({"type": "message", "id": "i", "model": "m", "usage": {"input_tokens": 5}, **odd}).encode())
    report = tap.close()
    assert (report.error, tap.usage) == (None, usage(input=5))
    assert report.response_id == (None if "id" in odd else "i")
    assert report.model == (None if "model" in odd else "m")


@pytest.mark.parametrize("counts", [5, "many", None, [1]])
def test_usage_that_is_no_object_is_none(counts: Any) -> None:
    tap = DIALECTS["anthropic"].tap()
    tap.feed(json.dumps({"type": "message", "id": "i", "usage": counts}).encode())
    assert (tap.close().response_id, tap.usage) == ("i", None)


def test_keys_that_are_not_utf8_are_no_usage() -> None:
    assert counts_of(b'{"input_tokens":5,"\xff":1}') is None
