"""Names of MCP tools: legal for every provider, and a function of the server's and the tool's names alone."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.mcp.translation import server_part, tool_name

LEGAL = re.compile(r"mcp__[a-zA-Z0-9_-]+__[a-zA-Z0-9_-]+")
names = st.text(min_size=1, max_size=80)
plain = st.text("abcXYZ019_-", min_size=1, max_size=24)


def test_ordinary_names_stay_as_they_are() -> None:
    assert tool_name("github", "create_issue") == "mcp__github__create_issue"
    assert tool_name("my-server", "get-Thing2") == "mcp__my-server__get-Thing2"
    assert tool_name("s", "__init__") == "mcp__s____init__"


def test_odd_characters_are_replaced_and_a_digest_keeps_names_apart() -> None:
    dotted, spaced = tool_name("fs", "read.file"), tool_name("fs", "read file")
    assert re.fullmatch(r"mcp__fs__read_file_[0-9a-f]{8}", dotted)
    assert re.fullmatch(r"mcp__fs__read_file_[0-9a-f]{8}", spaced)
    assert len({dotted, spaced, tool_name("fs", "read_file")}) == 3


def test_a_name_that_is_too_long_is_cut_and_stays_the_same_for_ever() -> None:
    long = tool_name("server", "x" * 100)
    assert long == tool_name("server", "x" * 100) != tool_name("server", "x" * 101)
    assert len(long) == 64
    assert long.startswith("mcp__server__xxx")


def test_a_server_and_a_tool_cannot_be_read_as_another_pair() -> None:
    assert tool_name("a__b", "c") != tool_name("a", "b__c")
    assert tool_name("a_", "b") != tool_name("a", "_b")
    assert "__" not in server_part("a____b")
    assert not server_part("a_").endswith("_")


@given(names, names)
def test_every_name_is_legal(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert LEGAL.fullmatch(name)
    assert len(name) <= 64


@given(names | plain, names | plain, names | plain, names | plain)
def test_different_tools_have_different_names(server: str, tool: str, other: str, another: str) -> None:
    assert (tool_name(server, tool) == tool_name(other, another)) == ((server, tool) == (other, another))
