"""Gemini's calls have no ids of their own: those that are made up come again on every turn."""

from __future__ import annotations

import json
from itertools import pairwise

from holdfast.records import Message, Request, Text, ToolResult, ToolUse
from holdfast.wire import DIALECTS

WIRE = DIALECTS["gemini"]


def test_a_later_call_with_the_same_id_changes_nothing_that_was_sent() -> None:
    messages, contents = [Message("user", (Text("Begin."),))], []
    for tool in ("read_file", "skill_load", "read_file", "skill_search"):
        messages.append(Message("assistant", (ToolUse("gemini-call-1", tool, b"{}"),)))
        messages.append(Message("user", (ToolResult("gemini-call-1", (Text("fine"),)),)))
        contents.append(json.loads(WIRE.encode(Request(model="gemini-2.5-pro", messages=tuple(messages))))["contents"])
    for before, now in pairwise(contents):
        assert now[: len(before)] == before
    named = [
        part["functionResponse"]["name"]
        for each in contents[-1]
        for part in each["parts"]
        if "functionResponse" in part
    ]
    assert named == ["read_file", "skill_load", "read_file", "skill_search"]
