"""What a server says of its tools, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.config.sections.mcp import McpSettings
from holdfast.tools.contract import ToolContext, ToolOutput
from holdfast.tools.mcp.configuration import McpServer
from holdfast.tools.mcp.translation import ListedTool, listed, mended_list, tools_of


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput()


def tools(*found: ListedTool, server: McpServer | None = None, settings: McpSettings | None = None) -> Any:
    server = server or McpServer(name="s", command="prog")
    warnings: list[str] = []
    every = tools_of(server, found, settings or McpSettings(), {one.name: run for one in found}, warnings)
    return list(every.values()), warnings


def listed_of(schema: dict[str, Any]) -> ListedTool | str:
    return listed("t", schema, description="d", title="", read_only=False)


def test_a_schema_keeps_the_order_of_its_keys() -> None:
    found = listed_of({"type": "object", "properties": {"z": {"type": "string"}, "a": {"maximum": 1.5}}, "$id": "x"})
    assert isinstance(found, ListedTool)
    assert found.schema == b'{"type":"object","properties":{"z":{"type":"string"},"a":{"maximum":1.5}},"$id":"x"}'


@pytest.mark.parametrize(
    ("schema", "becomes"),
    [
        (None, {"type": "object"}),
        ({}, {"type": "object"}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "object", "required": None, "properties": None}, {"type": "object"}),
        ({"type": "object", "anyOf": [{"required": ["a"]}], "oneOf": [], "allOf": []}, {"type": "object"}),
    ],
)
def test_a_schema_whose_meaning_is_plain_is_mended(schema: object, becomes: object) -> None:
    left_out: list[str] = []
    (tool,) = mended_list({"tools": [{"name": "t", "inputSchema": schema}]}, left_out)["tools"]
    assert tool["inputSchema"] == becomes
    assert left_out == []


@pytest.mark.parametrize(
    "schema",
    [
        "object",
        [],
        {"type": "array"},
        {"type": ["object", "null"]},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": "string"}},
        {"type": "object", "required": "a"},
        {"type": "object", "required": [1]},
        {"type": "object", "$schema": 7},
    ],
)
def test_a_tool_with_a_schema_that_cannot_be_declared_is_left_out(schema: object) -> None:
    left_out: list[str] = []
    page = {"tools": [{"name": "bad", "inputSchema": schema}, {"name": "good", "inputSchema": {"type": "object"}}]}
    assert [tool["name"] for tool in mended_list(page, left_out)["tools"]] == ["good"]
    (warning,) = left_out
    assert warning.startswith("the tool bad is left out: ")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": 7}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}, "additionalProperties": 5},
        {"type": "object", "description": "x" * 300_000},
        {"type": "object", "maximum": float("nan")},
    ],
)
def test_a_tool_whose_schema_is_none_is_left_out(schema: dict[str, Any]) -> None:
    assert str(listed_of(schema)).startswith("the tool t is left out: ")


def test_whatever_a_server_lists_nothing_breaks() -> None:
    left_out: list[str] = []
    odd = [None, 5, [], {}, {"name": 5}, {"name": ""}, {"name": "a", "description": 5, "annotations": [], "title": {}}]
    (tool,) = mended_list({"tools": odd, "nextCursor": 5}, left_out)["tools"]
    assert tool == {"name": "a", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}}
    assert len(left_out) == 6
    assert mended_list({}, left_out) == {"tools": []}
    assert mended_list({"tools": {}, "nextCursor": "x", "_meta": {}}, left_out) == {
        "_meta": {},
        "tools": [],
        "nextCursor": "x",
    }


def test_a_description_is_cut_at_the_limit_and_says_so() -> None:
    settings = McpSettings(description_chars=100)
    (short, long), _ = tools(
        ListedTool(name="short", description="x" * 100),
        ListedTool(name="long", description="x" * 150),
        settings=settings,
    )
    assert short.description == "x" * 100
    assert long.description == "x" * 100 + "… [50 more characters are left out]"


def test_a_title_stands_in_for_a_description_and_is_a_word_to_be_found_by() -> None:
    ((tool,), _) = tools(ListedTool(name="get.thing", title="Get a thing"))
    assert tool.description == "Get a thing"
    assert tool.hints == ("s", "get.thing", "Get a thing")
    assert (tool.source, tool.server) == ("mcp", "s")


def test_c60_a_server_is_not_believed_that_a_tool_changes_nothing() -> None:
    said = ListedTool(name="get", read_only=True)
    for server, effect in [
        (McpServer(name="s", command="prog"), "execute"),
        (McpServer(name="s", url="http://x"), "network"),
        (McpServer(name="s", command="prog", trust_hints=True), "read"),
        (McpServer(name="s", command="prog", read_only=("g*",)), "read"),
        (McpServer(name="s", command="prog", read_only=("other",)), "execute"),
    ]:
        ((tool,), _) = tools(said, server=server)
        assert tool.effect == effect
        assert tool.confirm is None


def test_of_two_tools_with_one_name_the_first_is_used() -> None:
    found, warnings = tools(ListedTool(name="a", description="one"), ListedTool(name="a", description="two"))
    assert [tool.description for tool in found] == ["one"]
    assert warnings == ["the tool a is left out: another has this name"]


def test_a_list_has_an_end() -> None:
    found, warnings = tools(*(ListedTool(name=f"t{number}") for number in range(1010)))
    assert len(found) == 1000
    assert warnings == ["all tools after the first 1000 are left out"]
