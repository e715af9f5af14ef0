"""What may be moved of a tool: its descriptions and titles, never what the provider enforces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.repairs import tool_texts

NOW = "It is 09:0{0} now."


def compare(tool: Any) -> tool_texts.ToolDifference | None:
    return tool_texts.compare(*(json.dumps(tool).replace("{0}", digit).encode() for digit in "12"))


def schema(**members: Any) -> dict[str, Any]:
    return {"name": "book", "description": "Books a room.", "input_schema": {"type": "object"} | members}


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "book", "description": NOW},
        {"name": "book", "title": NOW},
        {"type": "function", "function": {"name": "book", "description": NOW}},
        schema(description=NOW),
        schema(properties={"day": {"title": NOW}}),
        schema(properties={"description": {"type": "string", "description": NOW}}),
        schema(properties={"days": {"items": {"anyOf": [{"type": "null"}, {"description": NOW}]}}}),
        schema(**{"$defs": {"day": {"description": NOW}}}),
        {"name": "book", "parametersJsonSchema": {"description": NOW}},
    ],
)
def test_prose_may_be_moved(tool: Any) -> None:
    found = compare(tool)
    assert (found.kinds, found.exact) == (("clock",), True)


@pytest.mark.parametrize(
    "tool",
    [
        schema(properties={"day": {"const": "2026-11-1{0}T00:00:00Z"}}),
        schema(properties={"day": {"enum": ["2026-11-1{0}"]}}),
        schema(properties={"day": {"pattern": "^2026-11-1{0}$"}}),
        schema(properties={"day": {"default": {"description": NOW}}}),
        schema(properties={"day": {"const": {"title": NOW}}}),
        schema(properties={"day": {"examples": [{"title": NOW}]}}),
        schema(properties={"2026-11-1{0}": {"type": "string"}}),
        schema(required=["2026-11-1{0}"]),
        {"name": "book", "strict": True, "input_schema": {"properties": {"day": {"enum": ["2026-11-1{0}"]}}}},
        {"name": "book", "input_examples": [{"description": NOW}]},
        {"name": "book_2026-11-1{0}", "description": "Books a room."},
        {"name": "book", "description": NOW, "input_schema": {"const": "2026-11-1{0}"}},
        {"name": "book", "description": "Runs. Rev {0}."},
    ],
)
def test_what_is_enforced_is_not(tool: Any) -> None:
    assert compare(tool) is None


@pytest.mark.parametrize("bound", ["maximum", "minimum", "default", "multipleOf"])
def test_a_number_that_looks_like_a_time_is_not(bound: str) -> None:
    tools = [json.dumps(schema(properties={"n": {bound: 1767225600 + n}})).encode() for n in range(2)]
    assert tool_texts.compare(*tools) is None


@pytest.mark.parametrize(
    "odd",
    [b"{", b"[" * 100_000, b"\xff", b'{"description":"a","description":"It is 09:01 now."}', b'"It is 09:01 now."'],
)
def test_what_is_no_tool_is_not(odd: bytes) -> None:
    assert tool_texts.compare(odd, odd.replace(b"09:01", b"09:02")) is None


def test_of_two_sentences_that_look_alike_in_one_description_neither_is_moved() -> None:
    assert (
        compare({"name": "a", "description": "Server A\nAt 10:0{0}\nServer B\nAt 10:05\n" + "Be brief. " * 20}) is None
    )
    assert compare({"name": "a", "description": "Server A\nAt 10:0{0}\nServer B\nAt 10:05"}) is not None, "told whole"


@pytest.mark.parametrize(
    "text",
    ["## Notes\n- Dentist 2026-11-1{0} 15:00", "## Notes\n- Time: 2026-11-1{0} 15:00", "The review is at 10:0{0}."],
)
def test_memory_and_prose_of_a_tool_are_not_exact(text: str) -> None:
    found = compare({"name": "note", "description": f"Takes notes.\n{text}"})
    assert not found.exact


def test_what_a_schema_says_is_told_with_its_place() -> None:
    tool = schema(title="Room", properties={"day": {"title": "The day", "description": "It is 09:00 now."}})
    tool["description"] = "It is 10:00 now."
    said = tool_texts.in_schema(json.dumps(tool).encode())
    assert said == "input_schema.properties.day.description: It is 09:00 now."
