"""Logs of request bodies: whatever people call things, the same requests come out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.records import Usage, usage
from holdfast.report.logs import bodies, chat
from holdfast.wire import DIALECTS, Unreadable
from tests.report.logs.request_logs import (
    AS_BILLED,
    BILLED,
    START,
    answered,
    asked,
    body_of,
    is_mine,
    requests,
    talk,
    write,
)
from tests.shapes import FIXTURES, load

PYDANTIC = asked("pydantic-ai-2.66", "anthropic-cache")


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_recorded_requests_of_real_clients_are_a_log_by_themselves(file: Path) -> None:
    assert is_mine(bodies, file)
    assert not is_mine(chat, file)
    found = requests(bodies, file)
    sent = [shape for shape in load(file.stem) if shape.dialect is not None and shape.body]
    assert [record.source for record in found] == [
        f"{file.name}:{number}"
        for number, shape in enumerate(load(file.stem), 1)
        if shape.dialect is not None and shape.body
    ]
    for record, shape in zip(found, sent, strict=True):
        assert record.at == shape.at
        assert record.usage is None
        if b'"previous_response_id"' in (shape.body or b""):
            assert record.body is None
            continue
        assert (record.body, record.dialect) == (shape.body, shape.dialect)
        parsed = DIALECTS[record.dialect].parse(record.body or b"", model=record.model)
        assert not isinstance(parsed, Unreadable)
        assert parsed.model == record.model


def events(text: str) -> list[Any]:
    """The events of a stream as a program that reads it sees them."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in data if each != "[DONE]"]


@pytest.mark.parametrize(
    ("client", "runs"),
    [
        ("claude-code-2.1.325", ("basic",)),
        ("codex-0.166", ("basic",)),
        ("deepagents-0.7", ("chat",)),
        ("deepagents-0.7", ("responses",)),
        ("gemini-cli-0.61", ("basic",)),
        ("pydantic-ai-2.66", ("anthropic-cache",)),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_usage_is_what_the_provider_billed_however_the_response_was_kept(
    tmp_path: Path, client: str, runs: tuple[str, ...]
) -> None:
    exchanges = list(answered(asked(client, *runs)))
    expected = [billed for *_, billed in exchanges]

    def read(**response: Any) -> list[Usage | None]:
        lines = [
            {"path": shape.path, "body": body_of(shape), **{name: make(text) for name, make in response.items()}}
            for shape, text, _ in exchanges
        ]
        return [record.usage for record in requests(bodies, write(tmp_path / "log.jsonl", lines))]

    assert read(response=lambda text: text) == expected
    assert read(response=lambda text: {"status_code": 200, "body": text}) == expected
    assert client != "claude-code-2.1.325" or any(billed.read for billed in expected)
    if exchanges[0][1].startswith(("event:", "data:")):
        assert read(response=events) == expected
    if exchanges[0][1].startswith("{"):
        assert read(response=json.loads) == expected
        assert read(response_body=json.loads) == expected
        key = "usageMetadata" if client.startswith("gemini") else "usage"
        assert read(usage=lambda text: json.loads(text)[key]) == expected
        assert read(response=lambda text: {"usage": json.loads(text)[key]}) == expected


def test_the_same_request_is_found_wherever_it_stands(tmp_path: Path) -> None:
    body, text = body_of(PYDANTIC[1]), (PYDANTIC[1].body or b"").decode()
    told = {"usage": BILLED, "session": "s", "at": 5}
    lines = [
        {"body": body, **told},
        {"body": text, **told},
        {"request": body, **told},
        {"request": text, **told},
        {"request_body": body, **told},
        {"requestBody": text, **told},
        {"payload": body, **told},
        {"params": body, **told},
        {"json": body, **told},
        {"input": body, **told},
        {"request": {"method": "POST", "url": "https://host/v1/messages", "headers": {}, "body": text}, **told},
        {"request": {"url": "https://host/v1/messages", "json": body}, **told},
        {**body, **told},
        {**told, **body},
    ]
    for line in lines:
        [record] = requests(bodies, write(tmp_path / "log.jsonl", [line]))
        assert is_mine(bodies, tmp_path / "log.jsonl")
        assert json.loads(record.body or b"") == body
        assert record.usage == AS_BILLED
        assert (record.session, record.at, record.model) == ("s", 5.0, body["model"])
        assert record.dialect == "anthropic"


def test_bytes_are_those_of_the_log(tmp_path: Path) -> None:
    odd = b'{ "model" : "claude-opus-5-5",\t"messages":[ {"role":"user","content":"\\u00e9\\ud83d\\ude00 \xc3\xa9"} ] }'
    write(tmp_path / "log.jsonl", [b'{"at": 1, "body": ' + odd + b"}", json.dumps({"body": odd.decode()}).encode()])
    assert [record.body for record in requests(bodies, tmp_path / "log.jsonl")] == [odd, odd]


def test_what_the_log_says_beside_a_body_is_no_part_of_it(tmp_path: Path) -> None:
    body = body_of(PYDANTIC[0])
    line = {"timestamp": "2026-09-21T14:13:20Z", **body, "usage": BILLED, "trace_id": "t", "status": 200, "id": "x"}
    [record] = requests(bodies, write(tmp_path / "log.jsonl", [line]))
    assert list(json.loads(record.body or b"")) == list(body)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (BILLED, AS_BILLED),
        ({"input_tokens": 5, "output_tokens": 1}, usage(input=5, output=1)),
        (
            {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 64}},
            usage(input=36, read=64, output=9),
        ),
        (
            {"input_tokens": 100, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 64}},
            usage(input=36, read=64, output=9),
        ),
        (
            {"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "completion_tokens": 1},
            usage(input=36, read=64, output=1),
        ),
        (
            {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 64,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 5,
            },
            usage(input=36, read=64, output=9),
        ),
        (
            {"prompt_token_count": 100, "cached_content_token_count": 64, "candidates_token_count": 4},
            usage(input=36, read=64, output=4),
        ),
        (  # LiteLLM
            {
                "prompt_tokens": 953,
                "completion_tokens": 7,
                "cache_read_input_tokens": 900,
                "cache_creation_input_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 900},
            },
            usage(input=3, read=900, output=7, writes={"unsplit": 50}),
        ),
        (  # LangChain
            {
                "input_tokens": 953,
                "output_tokens": 7,
                "input_token_details": {"cache_read": 900, "ephemeral_5m_input_tokens": 50},
            },
            usage(input=3, read=900, output=7, writes={"5m": 50}),
        ),
        ({"input": 3, "read": 900, "write_5m": 40, "write_1h": 10, "output": 7}, AS_BILLED),
        ({"input": 3, "read": 900, "writes": [["1h", 10], ["5m", 40]], "output": 7}, AS_BILLED),
        ({"input": 3, "read": 900, "writes": {"1h": 10, "5m": 40}, "output": 7}, AS_BILLED),
        ({"cost": 5}, None),
        ({}, None),
        ("many", None),
        ([1, 2], None),
        ({"input_tokens": -5, "cache_read_input_tokens": "x", "output_tokens": 1e300}, usage()),
    ],
)
def test_usage_counts_by_its_form(tmp_path: Path, told: Any, expected: Usage | None) -> None:
    [record] = requests(bodies, write(tmp_path / "log.jsonl", [{"body": talk(0), "usage": told}]))
    assert record.usage == expected


def test_what_was_predicted_counts_only_where_nothing_was_billed(tmp_path: Path) -> None:
    predicted = {"input": 1, "read": 2, "write_5m": 3, "write_1h": 0, "output": 4}
    lines: list[Any] = [
        {"at": 0.5, "body": talk(0), "predicted": predicted},
        {"at": 1.5, "body": talk(1), "predicted": predicted, "usage": BILLED},
    ]
    found = requests(bodies, write(tmp_path / "log.jsonl", lines))
    assert [record.usage for record in found] == [usage(input=1, read=2, output=4, writes={"5m": 3}), AS_BILLED]


@pytest.mark.parametrize(
    ("told", "at"),
    [
        ({"at": 12.5}, 12.5),
        ({"time": START}, START),
        ({"timestamp": START * 1e3}, START),
        ({"ts": int(START * 1e6)}, START),
        ({"created_at": int(START * 1e9)}, START),
        ({"created": "1790000000"}, START),
        ({"start_time": "2026-09-21T14:13:20Z"}, START),
        ({"startTime": "2026-09-21T16:13:20+02:00"}, START),
        ({"timestamp": "2026-09-21 14:13:20,000"}, START),
        ({"date": "2026-09-21"}, 1_789_948_800.0),
        ({"at": None, "time": 3}, 3.0),
        ({"at": "soon"}, None),
        ({"at": -1}, None),
        ({"at": True}, None),
        ({}, None),
        ({"request_body": "unused", "request": {"timestamp": 7, "body": talk(0)}, "body": None}, 7.0),
        ({"response": {"created": START, "choices": []}}, START),
    ],
)
def test_times_are_seconds(tmp_path: Path, told: dict[str, Any], at: float | None) -> None:
    line = told if "request" in told else {"body": talk(0), **told}
    [record] = requests(bodies, write(tmp_path / "log.jsonl", [line]))
    assert record.at == at


def test_the_dialect_is_told_by_address_or_form(tmp_path: Path) -> None:
    plain = {"messages": [{"role": "user", "content": "Hi"}]}
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    lines: list[tuple[dict[str, Any], str, str]] = [
        ({"path": "/v1/messages?beta=true", "body": {"model": "m", **plain}}, "anthropic", "m"),
        ({"url": "https://x.test/v1/chat/completions", "body": {"model": "m", **plain}}, "openai_chat", "m"),
        (
            {"url": "https://openrouter.ai/api/v1/chat/completions", "body": {"model": "a/b", **plain}},
            "openrouter",
            "a/b",
        ),
        ({"path": "/v1beta/models/gemini-x:generateContent", "body": {"contents": []}}, "gemini", "gemini-x"),
        ({"dialect": "openai_chat", "body": {"model": "claude-x", **plain}}, "openai_chat", "claude-x"),
        ({"model": "gemini-x", "body": {"contents": [{"parts": [{"text": "Hi"}]}]}}, "gemini", "gemini-x"),
        ({"body": {"model": "gpt-5", "input": "Hi"}}, "openai_responses", "gpt-5"),
        ({"body": {"model": "claude-opus-5-5", **plain}}, "anthropic", "claude-opus-5-5"),
        ({"body": {"model": "gpt-5", **plain}}, "openai_chat", "gpt-5"),
        ({"body": {"model": "anthropic/claude-opus-5-5", **plain}}, "openrouter", "anthropic/claude-opus-5-5"),
        ({"body": {"model": "claude-proxy", "tools": [tool], **plain}}, "openai_chat", "claude-proxy"),
        ({"body": {"model": "m", "system": "S", **plain}}, "anthropic", "m"),
        ({"body": {"model": "m", **plain}, "usage": BILLED}, "anthropic", "m"),
        (
            {"body": {"model": "m", **plain}, "response": {"choices": [], "usage": {"prompt_tokens": 1}}},
            "openai_chat",
            "m",
        ),
        ({"model": "outside", "body": {**plain, "max_completion_tokens": 5}}, "openai_chat", "outside"),
    ]
    for line, dialect, model in lines:
        [record] = requests(bodies, write(tmp_path / "log.jsonl", [line]))
        assert (record.dialect, record.model) == (dialect, model), line


def test_what_is_not_billed_is_left_out(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"path": "/v1/messages/count_tokens", "body": talk(0)},
        {"path": "/v1/embeddings", "body": {"model": "m", "input": "text"}},
        {"method": "GET", "path": "/v1/models", "headers": [], "body": None},
        {"body": talk(0), "status": 529, "response": {"type": "error", "error": {"type": "overloaded_error"}}},
        {"body": talk(0), "response": {"status_code": 429, "body": "slow down"}},
        {"event": "started", "level": "info"},
        {"body": talk(0), "usage": BILLED},
    ]
    [record] = requests(bodies, write(tmp_path / "log.jsonl", lines))
    assert record.source == "log.jsonl:7"
