"""A function with hints becomes a tool: its schema, its description, what it is given and what it returns."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import pytest
from msgspec import Meta, Struct

from holdfast.errors import HoldfastError
from holdfast.records import Image, Text, canonical_json
from holdfast.tools.contract import Tool, ToolContext, ToolOutput, Touch
from holdfast.tools.function_tools import tool
from tests.tools.dispatch_bench import Bench, text


class Point(Struct):
    x: int
    title: str = ""


@dataclass
class Line:
    points: list[Point]


class Options(TypedDict, total=False):
    deep: bool


class Tree(Struct):
    below: list[Tree]


def schema(made: Tool) -> Any:
    return json.loads(made.input_schema)


def test_hints_become_a_schema_without_references() -> None:
    @tool(effect="read", hints=("shape",), timeout_s=5)
    def draw(
        where: Annotated[str, Meta(description="Where to", min_length=1)],
        line: Line,
        context: ToolContext,
        how: Literal["thin", "thick"] = "thin",
        options: Options = {},  # noqa: B006
        near: Optional[Point] = None,  # noqa: UP045
        times: Annotated[int, Meta(ge=1, le=5)] = 1,
        tags: tuple[str, ...] = (),
    ) -> str:
        """Draw a line.

        It stays until it is erased.
        """
        return where

    assert isinstance(draw, Tool)
    assert (draw.name, draw.effect, draw.hints, draw.timeout_s) == ("draw", "read", ("shape",), 5)
    assert draw.description == "Draw a line.\n\nIt stays until it is erased."
    point = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "title": {"type": "string", "default": ""}},
        "required": ["x"],
        "additionalProperties": False,
    }
    found = schema(draw)
    assert list(found["properties"]) == ["where", "line", "how", "options", "near", "times", "tags"]
    assert found["properties"]["where"] == {"type": "string", "minLength": 1, "description": "Where to"}
    assert found["properties"]["line"]["properties"]["points"]["items"] == point
    assert found["properties"]["near"]["anyOf"] == [point, {"type": "null"}]
    assert found["properties"]["how"] == {"enum": ["thick", "thin"], "default": "thin"}
    assert found["required"] == ["where", "line"]
    assert found["additionalProperties"] is False
    assert b"$ref" not in draw.input_schema
    assert draw.input_schema == canonical_json(draw.input_schema)


def test_values_come_as_hinted_and_defaults_are_never_shared(tmp_path: Path) -> None:
    seen: list[Any] = []

    @tool(effect="read")
    async def mark(line: Line, n: int, either: int | str, names: list[str] = ["a"]) -> None:  # noqa: B006
        """Mark."""
        names.append("more")
        seen.append((line, n, either, names))

    bench = Bench(tmp_path, mark)
    for _ in range(2):
        answer = bench.one("mark", {"line": {"points": [{"x": 1}]}, "n": 5.0, "either": "7"})
        assert text(answer) == "(no output)"
    assert seen == [(Line([Point(1)]), 5, "7", ["a", "more"])] * 2
    assert type(seen[0][1]) is int
    wrong = text(bench.one("mark", {"line": {"points": [{"x": "1"}]}, "n": 1, "either": 1, "z": 0}))
    assert "line.points[0].x: '1' is not of type 'integer'" in wrong
    assert "'z' was unexpected" in wrong


def test_a_plain_function_runs_in_a_thread_and_gets_the_context(tmp_path: Path) -> None:
    @tool(effect="none", name="where-am-i", description="Says where.")
    def where(ctx: ToolContext) -> str:
        return f"{ctx.tool_use_id} {threading.current_thread() is threading.main_thread()}"

    assert schema(where)["properties"] == {}
    assert text(Bench(tmp_path, where).one("where-am-i")) == "toolu_where-am-i False"


def test_a_function_can_be_given_directly_and_be_any_callable(tmp_path: Path) -> None:
    class Adder:
        async def __call__(self, a: int, b: int = 2) -> int:
            return a + b

    def gives_awaitable(a: int) -> Any:
        return asyncio.sleep(0, result=a)

    add = tool(Adder(), effect="none", name="add", description="Add.")
    later = tool(gives_awaitable, effect="none", description="Later.")
    plain = tool(lambda: "x", effect="none", name="plain", description="Plain.")
    more = tool(partial(Adder(), b=9), effect="none", name="more", description="Add more.")
    bench = Bench(tmp_path, add, more, later, plain)
    assert text(bench.one("add", {"a": 1})) == "3"
    assert schema(more)["required"] == ["a"]
    assert text(bench.one("more", {"a": 1})) == "10"
    assert text(bench.one("gives_awaitable", {"a": 3})) == "3"
    assert text(bench.one("plain")) == "x"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "text"),
        ({"b": 1, "a": [True, None]}, '{"b": 1, "a": [true, null]}'),
        (Point(1, "é"), '{"x": 1, "title": "é"}'),
        (1.5, "1.5"),
        ([], "[]"),
        ({1: "x"}, '{"1": "x"}'),
        (Text("block"), "block"),
        ((Text("a"), Text("b")), "a\nb"),
        ([Text("a")], "a"),
        (ToolOutput(content="out"), "out"),
    ],
)
def test_what_a_function_returns_is_its_output(tmp_path: Path, value: Any, said: str) -> None:
    def give() -> Any:
        return value

    answer = Bench(tmp_path, tool(give, effect="none", description="Give.")).one("give")
    assert (text(answer), answer.result.is_error) == (said, False)


@pytest.mark.parametrize("value", [b"x", {"a": b"x"}, object(), float("nan"), [lambda: 0]])
def test_what_is_neither_text_nor_json_is_an_error(tmp_path: Path, value: Any) -> None:
    def give() -> Any:
        return value

    answer = Bench(tmp_path, tool(give, effect="none", description="Give.")).one("give")
    assert answer.result.is_error
    assert text(answer).startswith("give ran, but what it returned is neither text nor JSON")


def test_blocks_and_trace_fields_are_passed_on(tmp_path: Path) -> None:
    @tool(effect="write", paths=(Touch("path", "write"),), subject=lambda given: given["path"])
    def paint(path: str) -> ToolOutput:
        """Paint."""
        return ToolOutput(content=(Image("image/png", "AA"),), files_modified=(path,))

    bench = Bench(tmp_path, paint)
    answer = bench.one("paint", {"path": "a.png"})
    assert answer.result.content == (Image("image/png", "AA"),)
    assert answer.output.files_modified == ("a.png",)
    assert "outside the workspace" in text(bench.one("paint", {"path": "../a.png"}))


def no_hint(a) -> str:  # type: ignore[no-untyped-def]
    """X."""
    return a


def many(*a: int) -> str:
    """X."""
    return ""


def options(**a: int) -> str:
    """X."""
    return ""


def first(a: int, /) -> str:
    """X."""
    return ""


def tree(a: Tree) -> str:
    """X."""
    return ""


def odd(a: threading.Thread) -> str:
    """X."""
    return ""


def unknown_name(a: Missing) -> str:  # type: ignore[name-defined]  # noqa: F821
    """X."""
    return ""


def silent() -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "fields", "why"),
    [
        (no_hint, {}, "the parameter a of the tool no_hint has no type; add a hint"),
        (many, {}, r"takes \*a: "),
        (options, {}, r"takes \*\*a: "),
        (first, {}, "takes a: "),
        (tree, {}, "Tree contains itself"),
        (odd, {}, "has a parameter without a schema"),
        (unknown_name, {}, "its hints cannot be read"),
        (silent, {}, "says nothing about itself; give it a docstring or a description"),
        (silent, {"description": "X.", "colour": 1}, "see Tool for its fields"),
        (silent, {"description": "X.", "name": "a b"}, "a tool cannot be named 'a b'"),
        (silent, {"description": "X.", "paths": (Touch("path", "read"),)}, "has no parameter 'path'"),
    ],
)
def test_what_cannot_be_a_tool_says_why(function: Any, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(HoldfastError, match=why):
        tool(function, effect="read", **fields)
