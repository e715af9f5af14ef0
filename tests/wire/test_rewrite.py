"""Splices of repairs: what is exchanged, added or cut stays a body that parses and that the provider accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.wire import DIALECTS, Body, rewrite
from tests import shapes


def parse(members: dict[str, Any] | bytes, dialect: str = "anthropic") -> Body:
    raw = members if isinstance(members, bytes) else json.dumps(members).encode()
    body = DIALECTS[dialect].parse(raw, model="gemini-3-pro")
    assert isinstance(body, Body)
    return body


def result(body: Body, splices: list[Any]) -> Any:
    raw = body.apply(splices)
    parse(raw, body.dialect)
    return json.loads(raw)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":{"c":[1,2],"d":null}}', '{ "b": {"d": null, "c": [1, 2]}, "a": 1 }'),
        ('{"arguments":"{\\"a\\":1,\\"b\\":2}"}', '{"arguments":"{\\"b\\": 2, \\"a\\": 1}"}'),
        ('"\\u00e9"', '"é"'),
    ],
)
def test_order_of_keys_and_spelling_do_not_count(one: str, other: str) -> None:
    assert rewrite.unordered(one.encode()) == rewrite.unordered(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[1,2]", "[2,1]"),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":1}', '{"a":1.0}'),
        ('{"a":1e2}', '{"a":100}'),
        ('{"text":"{\\"a\\":1,\\"b\\":2}"}', '{"text":"{\\"b\\":2,\\"a\\":1}"}'),
        ('{"arguments":"{\\"a\\":1}"}', '{"arguments":{"a":1}}'),
        ('{"arguments":"{a"}', '{"arguments":"{ a"}'),
    ],
)
def test_everything_else_counts(one: str, other: str) -> None:
    assert rewrite.unordered(one.encode()) != rewrite.unordered(other.encode())


@pytest.mark.parametrize("raw", [b'{"a":1,"a":1}', b"{", b"[" * 100_000, b'"\xff"'])
def test_what_no_two_readers_read_alike_has_no_form(raw: bytes) -> None:
    assert rewrite.unordered(raw) is None


def test_lone_surrogates_have_a_form() -> None:
    assert rewrite.unordered(b'"\\ud800"') == b'"\\ud800"'


MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def test_a_marker_stays_while_texts_move() -> None:
    body = parse({"tools": [{"name": "a"}, {"name": "b", **MARK, "x": 1}], "messages": []})
    one, other = rewrite.plain(body, 0), rewrite.plain(body, 1)
    assert json.loads(other) == {"name": "b", "x": 1}
    swapped = result(body, rewrite.replaced(body, 0, other) + rewrite.replaced(body, 1, one))
    assert swapped["tools"] == [{"name": "b", "x": 1}, {"name": "a", **MARK}]


@pytest.mark.parametrize(
    ("dialect", "tools", "own"),
    [
        ("anthropic", [{"name": "a"}, {"type": "custom", "name": "b"}, {"type": "bash_20250124"}], [True, True, False]),
        ("openai_chat", [{"type": "function"}, {"type": "custom"}], [True, True]),
        ("openai_responses", [{"type": "function"}, {"type": "web_search"}, {"type": "mcp"}], [True, False, False]),
        ("gemini", [{"functionDeclarations": [{"name": "a"}]}, {"googleSearch": {}}], [True, False]),
    ],
)
def test_tools_of_the_provider_are_told_from_the_clients(dialect: str, tools: Any, own: list[bool]) -> None:
    body = parse({"tools": tools, "messages": [], "input": [], "contents": []}, dialect)
    assert [rewrite.own_tool(body, index) for index in range(len(own))] == own


def test_a_tool_with_members_around_it_is_not_moved() -> None:
    body = parse({"tools": [{"functionDeclarations": [{"name": "a"}], "x": 1}], "contents": []}, "gemini")
    assert not rewrite.own_tool(body, 0)


def test_a_system_text_is_cut_in_two() -> None:
    whole = {"type": "text", "text": "stable\nnot é", "citations": None, **MARK}
    body = parse({"system": [{"type": "text", "text": "first"}, whole], "messages": []})
    (first, head, rest) = result(body, rewrite.split(body, 1, whole["text"], 7))["system"]
    assert head == {"type": "text", "text": "stable\n", **MARK}
    assert rest == {"type": "text", "text": "not é", "citations": None}
    assert first["text"] == "first"


def test_a_system_text_is_exchanged_in_both_forms() -> None:
    for system in ("old", [{"type": "text", "text": "old", **MARK}]):
        body = parse({"system": system, "messages": []})
        after = result(body, rewrite.with_text(body, 0, b'"new"'))["system"]
        assert after == ("new" if system == "old" else [{"type": "text", "text": "new", **MARK}])
    picture = parse({"system": [{"type": "image"}], "messages": []})
    assert rewrite.with_text(picture, 0, b'"new"') == []


def chat(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(messages)}


@pytest.mark.parametrize(
    ("dialect", "members", "tail"),
    [
        (
            "anthropic",
            chat({"role": "user", "content": "q"}),
            {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "text", "text": "now"}]},
        ),
        (
            "anthropic",
            chat({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]}),
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "r"},
                    {"type": "text", "text": "now"},
                ],
            },
        ),
        (
            "openai_chat",
            chat({"role": "user", "content": "q"}),
            {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "text", "text": "now"}]},
        ),
        (
            "openai_chat",
            chat({"role": "user", "content": "q"}, {"role": "tool", "tool_call_id": "c", "content": "r"}),
            {"role": "user", "content": "now"},
        ),
        (
            "openai_responses",
            {"input": "q"},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "q"}, {"type": "input_text", "text": "now"}],
            },
        ),
        (
            "openai_responses",
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "r"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "now"}]},
        ),
        (
            "gemini",
            {"contents": [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}, {"text": "now"}]},
        ),
    ],
)
def test_a_text_follows_the_newest_turn(dialect: str, members: dict[str, Any], tail: dict[str, Any]) -> None:
    body = parse(members, dialect)
    index = rewrite.newest(body)
    assert index is not None
    after = result(body, rewrite.appended(body, {index: [b'"now"']}))
    assert (after.get("messages") or after.get("input") or after["contents"])[-1] == tail


@pytest.mark.parametrize(
    ("dialect", "members"),
    [
        ("anthropic", chat({"role": "user", "content": "q"}, {"role": "assistant", "content": "It"})),
        ("anthropic", chat({"role": "user", "content": []})),
        ("anthropic", {"system": "s", "messages": []}),
        ("openai_responses", {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]}),
    ],
)
def test_where_no_text_can_follow_there_is_no_place(dialect: str, members: dict[str, Any]) -> None:
    body = parse(members, dialect)
    assert rewrite.newest(body) is None
    with pytest.raises(ValueError, match="no text can follow"):
        rewrite.appended(body, {len(body.blocks) - 1: [b'"now"']})


def test_a_system_message_at_the_end_is_passed_over() -> None:
    body = parse(chat({"role": "user", "content": "q"}, {"role": "system", "content": "s"}))
    assert rewrite.newest(body) == 0


CALLS = [shape for shape in shapes.load() if shape.dialect is not None and shape.body is not None]


@pytest.mark.unmeasured
@pytest.mark.parametrize("shape", CALLS, ids=lambda shape: shape.id)
def test_recorded_requests_take_every_rewrite(shape: shapes.Shape) -> None:
    assert shape.body is not None
    assert shape.dialect is not None
    dialect = DIALECTS[shape.dialect]
    body = parse(shape.body, shape.dialect)
    same = [s for index in range(len(body.blocks)) for s in rewrite.replaced(body, index, rewrite.plain(body, index))]
    after = parse(body.apply(same), shape.dialect)
    for index in range(len(body.blocks)):
        assert dialect.content(after, index) == dialect.content(body, index)
    assert [(m.block, m.ttl) for m in dialect.markers(after)] == [(m.block, m.ttl) for m in dialect.markers(body)]
    index = rewrite.newest(body)
    if index is not None:
        longer = parse(body.apply(rewrite.appended(body, {index: [b'"one"', b'"two"']})), shape.dialect)
        assert len(longer.blocks) == len(body.blocks) + 2
        assert [dialect.content(longer, i) for i in range(index + 1)] == [
            dialect.content(body, i) for i in range(index + 1)
        ]
