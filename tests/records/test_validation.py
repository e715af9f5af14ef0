"""The rules of a conversation: roles, places of blocks, and tool calls answered exactly once."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.records import (
    Block,
    Document,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Request,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
    kind_of,
    usage,
    validate,
)

ASK = Message("user", (Text("list the files"),))
CALL = ToolUse("t1", "ls", b"{}")
ANSWER = ToolResult("t1", (Text("a.py"),))


def rules(*messages: Message) -> list[tuple[str, str]]:
    return [(v.rule, v.path) for v in validate(Request(model="anthropic:claude-opus-5-5", messages=messages))]


def test_a_valid_conversation_has_no_violations() -> None:
    thinking = Message("assistant", (Thinking("hm", "sig"), RedactedThinking("xx"), Text("I look"), CALL))
    late = Message("system", (Text("the budget is spent"),))
    assert (
        rules(ASK, thinking, Message("user", (ANSWER, Text("and now?"))), late, Message("assistant", (Text("done"),)))
        == []
    )


def test_results_may_come_as_tool_messages_in_any_order() -> None:
    calls = Message("assistant", (CALL, ToolUse("t2", "ls", b"{}")))
    assert rules(ASK, calls, Message("tool", (ToolResult("t2"),)), Message("tool", (ANSWER,))) == []


@pytest.mark.parametrize(
    ("role", "block"),
    [
        ("user", CALL),
        ("user", Thinking("hm")),
        ("user", RedactedThinking("x")),
        ("assistant", ANSWER),
        ("assistant", Document(url="https://example.org/a.pdf")),
        ("system", Image(url="https://example.org/a.png")),
        ("tool", Text("loose")),
    ],
)
def test_blocks_have_their_places(role: str, block: Block) -> None:
    message = Message(role, (block,))  # type: ignore[arg-type]
    assert ("place", "messages[0].content[0]") in rules(message)


def test_a_tool_result_holds_only_what_a_model_reads() -> None:
    found = rules(ASK, Message("assistant", (CALL,)), Message("user", (ToolResult("t1", (Thinking("no"),)),)))
    assert found == [("place", "messages[2].content[0].content[0]")]


def test_unknown_roles_are_named() -> None:
    violations = validate(Request(model="m", messages=(Message("robot", (Text("x"),)),)))  # type: ignore[arg-type]
    assert violations[0].rule == "role"
    assert "'robot'" in violations[0].message
    assert "user, assistant, system, tool" in violations[0].message


def test_a_message_without_content_is_named() -> None:
    assert rules(Message("user", ())) == [("empty", "messages[0]")]


def test_unknown_kinds_may_stand_anywhere() -> None:
    strange = Opaque("server_tool_use", b'{"type":"server_tool_use"}')
    assert rules(ASK, Message("assistant", (strange,)), Message("user", (strange,))) == []
    assert kind_of(strange) == "server_tool_use"


def test_a_call_without_answer_is_found_at_the_next_turn() -> None:
    assert rules(ASK, Message("assistant", (CALL,)), ASK, Message("assistant", (Text("?"),))) == [
        ("unanswered_tool_use", "messages[1].content[0]")
    ]


def test_a_call_without_answer_is_found_at_the_end() -> None:
    assert rules(ASK, Message("assistant", (CALL,))) == [("unanswered_tool_use", "messages[1].content[0]")]


def test_a_call_is_answered_once() -> None:
    found = rules(ASK, Message("assistant", (CALL,)), Message("user", (ANSWER, ANSWER)))
    assert found == [("answered_twice", "messages[2].content[1]")]


def test_an_answer_needs_its_call() -> None:
    assert rules(Message("user", (ANSWER,))) == [("orphan_tool_result", "messages[0].content[0]")]


def test_an_answer_cannot_wait_for_a_later_turn() -> None:
    late = rules(
        ASK, Message("assistant", (CALL,)), ASK, Message("assistant", (Text("so"),)), Message("user", (ANSWER,))
    )
    assert late == [("unanswered_tool_use", "messages[1].content[0]"), ("orphan_tool_result", "messages[4].content[0]")]


def test_ids_are_unique_within_a_turn() -> None:
    found = rules(ASK, Message("assistant", (CALL, CALL)), Message("user", (ANSWER,)))
    assert found == [("duplicate_tool_use", "messages[1].content[1]")]


def test_values_are_frozen_and_survive_storage() -> None:
    request = Request(model="anthropic:x", messages=(ASK, Message("assistant", (CALL,)), Message("user", (ANSWER,))))
    with pytest.raises(AttributeError):
        request.model = "other"  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(request), type=Request) == request


def test_signatures_are_part_of_a_thought() -> None:
    assert Thinking("hm", "a") != Thinking("hm", "b")


def test_usage_counts_are_disjoint() -> None:
    spent = usage(input=5, read=100, writes={"5m": 20, "1h": 7, "30m": 0}, output=3)
    assert spent == Usage(input=5, read=100, writes=(("1h", 7), ("5m", 20)), output=3)
    assert (spent.written, spent.prompt) == (27, 132)
    assert (spent.written_for("1h"), spent.written_for("30m")) == (7, 0)
