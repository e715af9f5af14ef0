"""Tool results and what the user says with them in one message: each dialect has a form that its provider takes."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.records import Block, Image, Message, Request, Text, ToolResult, ToolUse
from holdfast.simulator.messages import Words
from holdfast.wire import DIALECTS

from .simulator_client import NAMES, answered, asking, simulator


@pytest.mark.parametrize("dialect", NAMES)
def test_results_and_what_the_user_says_may_share_a_message(dialect: str) -> None:
    """The answers stand before the words and pictures, and the provider takes them."""
    picture = Image("image/png", data="aGk=")
    asked = Message("assistant", (ToolUse("a", "clock", b"{}"), ToolUse("b", "clock", b"{}")))
    content: tuple[Block, ...] = (ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"),)), Text("And?"), picture)
    request = asking(dialect, Message("user", (Text("x"),)), asked, Message("user", content))
    assert answered(simulator((Words("ok"),)), request).whole
    body = DIALECTS[dialect].encode(request)
    assert body.index(b"And?") > body.index(b'"2"')


def test_responses_answers_come_before_words_wherever_they_stand_in_a_message() -> None:
    content = (Text("first"), ToolResult("a", (Text("1"),)))
    request = Request(model="openai:gpt-5.6", messages=(Message("user", content),))
    kinds = [item["type"] for item in msgspec.json.decode(DIALECTS["openai_responses"].encode(request))["input"]]
    assert kinds == ["function_call_output", "message"]
