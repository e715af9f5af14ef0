"""Keys of objects in history go out in their first order, in every block that is no provider's own."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from holdfast.core.repairs import ByteMemory, state
from holdfast.engine.repairs import first_bytes, order
from holdfast.wire import rewrite
from tests.engine.repair_lane import TOOLS, Lane, talk, turned


def reversed_keys(value: Any) -> Any:
    """Every object in a value with its keys the other way round."""
    if isinstance(value, dict):
        return {key: reversed_keys(inner) for key, inner in reversed(value.items())}
    return [reversed_keys(inner) for inner in value] if isinstance(value, list) else value


def sized(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is canonicalised without the order of its keys."""
    sizes: list[int] = []
    kept = rewrite.unordered

    def counted(raw: bytes) -> bytes | None:
        sizes.append(len(raw))
        return kept(raw)

    monkeypatch.setattr(rewrite, "unordered", counted)
    return sizes


PICTURE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "a text with é and \n"},
    {"type": "image", "source": PICTURE},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "title": "t"},
    {"type": "tool_result", "tool_use_id": "t0", "content": [{"type": "text", "text": "r"}], "is_error": False},
    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["type"])
def test_every_block_of_a_message_comes_back_in_its_first_order(block: dict[str, Any]) -> None:
    def request(turns: int, block: dict[str, Any]) -> dict[str, Any]:
        made = talk(turns)
        made["messages"][2]["content"] = [{"type": "tool_result", "tool_use_id": "t0", "content": "done"}, block]
        if block["type"] == "tool_result":
            made["messages"][2]["content"] = [block]
        return made

    lane = Lane(mode="suggest").after(request(1, block))
    done = lane.send(request(2, reversed_keys(block)))
    assert [(item.name, item.applied) for item in done.repairs] == [("key-order", True)]
    assert json.dumps(json.loads(done.raw)) == json.dumps(request(2, block))
    assert (lane.breaks(), done.reset, done.new) == ([], None, {})


CHAT = [
    {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": "u"}}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1,"b":2}'}}],
    },
    {"role": "tool", "name": "f", "tool_call_id": "c", "content": "r"},
]
RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1,"b":2}'},
    {"type": "function_call_output", "call_id": "c", "output": "r"},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "q"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]},
    {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1, "b": 2}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1, "s": 2}}}]},
]


@pytest.mark.parametrize(
    ("dialect", "name", "said"),
    [("openai_chat", "messages", CHAT), ("openai_responses", "input", RESPONSES), ("gemini", "contents", GEMINI)],
)
def test_keys_hold_in_the_other_dialects(dialect: str, name: str, said: list[dict[str, Any]]) -> None:
    lane, members = Lane(dialect, "suggest"), {} if dialect == "gemini" else {"model": "gpt-6.1-sol"}
    before = members | {name: said}
    lane.send(before)
    done = lane.send(members | {name: reversed_keys(said)})
    assert lane.breaks() == []
    sent = json.loads(done.raw)[name]
    for one, other in zip(sent, said, strict=True):
        # A message is no block: the order of its own members says nothing. Other items of Responses are blocks.
        message = "role" in other
        assert json.dumps({key: one[key] for key in other} if message else one) == json.dumps(other)


def test_a_marker_inside_a_block_is_not_moved_with_its_bytes() -> None:
    def request(inner: dict[str, Any]) -> dict[str, Any]:
        made = talk(1)
        made["messages"][2]["content"][0]["content"] = [inner]
        return made

    mark = {"cache_control": {"type": "ephemeral"}}
    lane = Lane(mode="suggest").after(request({"type": "text", "text": "r"} | mark))
    for inner in ({"text": "r", "type": "text"} | mark, {"text": "r", "type": "text"}, {"type": "text", "text": "r"}):
        done = lane.send(request(inner))
        (sent,) = json.loads(done.raw)["messages"][2]["content"][0]["content"]
        assert ("cache_control" in sent) == ("cache_control" in inner)


def test_a_text_in_which_a_name_is_escaped_is_not_signed() -> None:
    lane = Lane(mode="suggest")
    made = talk(1)
    made["messages"][3]["content"][0]["text"] = "über das Maß"  # json.dumps writes \\u00fc
    lane.send(made)
    made["messages"][3]["content"][0] = reversed_keys(made["messages"][3]["content"][0])
    lane.send(made)
    assert lane.breaks() == []


def test_a_request_that_only_grows_is_not_canonicalised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sized(monkeypatch)
    lane = Lane(mode="suggest").after(talk(0))
    known = len(sizes)  # the tools
    for turn in range(1, 20):
        lane.send(talk(turn))
    assert len(sizes) == known


def test_what_was_put_back_once_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane(mode="suggest").after(talk(3), turned(talk(4)))
    sizes = sized(monkeypatch)
    done = lane.send(turned(talk(5)))
    assert (sizes, len(done.repairs), lane.breaks()) == ([], 3, [])


def test_a_history_that_was_rewritten_is_not_canonicalised(monkeypatch: pytest.MonkeyPatch) -> None:
    lane, before = Lane(mode="suggest"), talk(3)
    for message in before["messages"][2::4]:
        message["content"][0]["content"] = "a long result " * 1_000
    lane.send(before)
    sizes = sized(monkeypatch)
    lane.send(talk(3))
    assert sizes == []


@pytest.mark.slow
def test_a_lane_keeps_little_of_what_it_puts_back() -> None:
    """Five calls a turn, for a thousand turns, all of them turned."""
    lane = Lane(mode="suggest", memory=ByteMemory(64_000_000))

    def request(turns: int, keys: tuple[str, str]) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        for turn in range(turns):
            ids = [f"{turn}-{n}" for n in range(5)]
            calls = [{"type": "tool_use", "id": i, "name": "bash", "input": dict.fromkeys(keys, 1)} for i in ids]
            results = [{"type": "tool_result", "tool_use_id": i, "content": "r"} for i in ids]
            messages += [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        return talk(0) | {"messages": messages}

    lane.send(request(999, ("a", "b")))
    done = lane.send(request(1_000, ("b", "a")))
    assert (len(done.repairs), lane.breaks()) == (4_995, [])
    assert len(msgspec.msgpack.encode(lane.state)) < 10_000


def test_a_call_with_another_value_or_number_is_not_the_same_call() -> None:
    lane = Lane(mode="suggest").after(talk(1))
    for change in ({"b": {"x": 1.5}, "a": 2}, {"b": {"x": 1.5}, "a": "1"}, {"b": {"x": 1.5}, "a": 1.0}):
        request = talk(1)
        request["messages"][1]["content"][0]["input"] = change
        raw = json.dumps(request).encode()
        assert lane.send(raw).raw == raw


def test_a_marker_on_a_call_stays_and_signed_blocks_are_never_touched() -> None:
    request = talk(1)
    request["messages"][1]["content"].insert(0, {"type": "thinking", "thinking": "so", "signature": "s"})
    lane = Lane(mode="suggest").after(request)
    other = turned(request)
    other["messages"][1]["content"][1]["cache_control"] = {"type": "ephemeral"}
    other["messages"][1]["content"][0] = {"signature": "s", "thinking": "so", "type": "thinking"}
    sent = json.loads(lane.send(other).raw)["messages"][1]["content"]
    assert list(sent[0]) == ["signature", "thinking", "type"]
    assert list(sent[1]["input"]) == ["a", "b"]
    assert sent[1]["cache_control"] == {"type": "ephemeral"}


def test_after_a_restart_keys_go_on_in_their_first_order() -> None:
    lane = Lane(mode="suggest").after(talk(1))
    assert lane.send(turned(talk(2))).ordered
    for turns in (3, 4, 5):
        lane.restart()
        done = lane.send(turned(talk(turns)))
        assert ([item.name for item in done.repairs], done.reset) == (["key-order"], None)
    lane.send(talk(6))
    lane.restart()
    lane.send(turned(talk(7)))
    assert lane.breaks() == []


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block["type"])
def test_after_a_restart_every_block_is_made_again(block: dict[str, Any]) -> None:
    first, other = asked_in(False), asked_in(False)
    first["messages"].insert(1, {"role": "user", "content": [block]})
    other["messages"].insert(1, {"role": "user", "content": [reversed_keys(block)]})
    lane = Lane(mode="suggest").after(first, other)
    lane.restart()
    assert (lane.send(other).reset, lane.breaks()) == (None, [])


@pytest.mark.parametrize(
    ("dialect", "name", "said"),
    [("openai_chat", "messages", CHAT), ("openai_responses", "input", RESPONSES), ("gemini", "contents", GEMINI)],
)
def test_after_a_restart_keys_hold_in_the_other_dialects(dialect: str, name: str, said: list[dict[str, Any]]) -> None:
    lane, members = Lane(dialect, "suggest"), {} if dialect == "gemini" else {"model": "gpt-6.1-sol"}
    arguments = json.loads(json.dumps(said).replace('{\\"a\\":1,\\"b\\":2}', '{\\"b\\":2,\\"a\\":1}'))
    lane.send(members | {name: said})
    lane.send(members | {name: reversed_keys(arguments)})
    lane.restart()
    done = lane.send(members | {name: reversed_keys(arguments)})
    assert (lane.breaks(), done.reset) == ([], None)
    assert b'{\\"a\\":1,\\"b\\":2}' in done.raw or dialect == "gemini"


def test_after_a_restart_the_keys_of_tools_hold() -> None:
    def tools(turned: bool) -> list[dict[str, Any]]:
        return [reversed_keys(tool) if turned else tool for tool in TOOLS]

    lane = Lane(mode="suggest").after(talk(0), talk(1, tools=tools(True)))
    for turns in (2, 3):
        lane.restart()
        assert lane.send(talk(turns, tools=tools(True)[::-1])).reset is None
    assert lane.breaks() == []


def test_what_is_kept_of_an_order_holds_no_word_of_the_client() -> None:
    lane, request = Lane(mode="suggest"), talk(1)
    request["messages"][1]["content"][0]["input"] = {"password": "hunter2", "user": {"name": "ada", "mail": "a@b"}}
    lane.send(request)
    lane.send(request | {"messages": reversed_keys(request["messages"]), "tools": reversed_keys(request["tools"])})
    kept = msgspec.msgpack.encode(lane.state)
    assert lane.state.key_orders.orders
    assert lane.state.key_orders.tools
    for word in (b"password", b"hunter2", b"user", b"ada", b"mail", b"bash", b"question"):
        assert word not in kept


def test_after_a_restart_another_value_is_not_put_back() -> None:
    lane = Lane(mode="suggest").after(talk(1), turned(talk(2)))
    lane.restart()
    request = turned(talk(2))
    request["messages"][1]["content"][0]["input"]["a"] = 2
    done = lane.send(request)
    assert list(json.loads(done.raw)["messages"][1]["content"][0]["input"].items()) == [("b", {"x": 1.5}), ("a", 2)]
    assert done.reset is None, "that is the client's doing"


def asked_in(*turned: bool) -> dict[str, Any]:
    """Questions with their keys in the one or the other order, each with its answer."""
    messages: list[dict[str, Any]] = []
    for number, other in enumerate(turned):
        block = {"type": "text", "text": f"question {number}"}
        messages += [
            {"role": "user", "content": [reversed_keys(block) if other else block]},
            {"role": "assistant", "content": [{"type": "text", "text": f"answer {number}"}]},
        ]
    return talk(0) | {"messages": [*messages, {"role": "user", "content": "go on"}]}


@pytest.mark.parametrize(("again", "reason"), [((False, True), "repair_forgotten"), ((False, False), None)])
def test_of_a_block_without_an_order_it_is_known_that_it_was_put_back(
    again: tuple[bool, bool], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes as it was first sent says nothing of the other."""
    monkeypatch.setattr(first_bytes, "order_of", lambda _parts: None)
    lane = Lane().after(asked_in(False, False))
    assert len(lane.send(asked_in(True, True, False)).repairs) == 2
    lane.restart()
    assert lane.send(asked_in(*again, False)).reset == reason


@pytest.mark.parametrize(("again", "reason"), [((False, True), "repair_forgotten"), ((False, False), None)])
def test_of_more_blocks_than_are_kept_those_that_were_put_back_are_known(
    again: tuple[bool, bool], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MOST_BLOCKS", 2)
    lane = Lane().after(asked_in(False, False), asked_in(True, True, False))
    assert lane.state.key_orders.blocks == b""
    lane.restart()
    assert lane.send(asked_in(*again, False)).reset == reason


def test_after_a_restart_too_many_to_be_known_one_by_one_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_BYTES", 2)
    lane, many = Lane(), order.MOST_REKEYED + 2
    lane.send(asked_in(*[False] * many))
    assert len(lane.send(asked_in(*[True] * many, False)).repairs) == many
    assert len(lane.state.rekeyed) <= 16 * (order.MOST_REKEYED + 1)
    lane.restart()
    assert lane.send(asked_in(*[False] * many, False)).reset == "repair_forgotten"


def test_a_request_is_held_up_by_so_many_comparisons_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MOST_COMPARED", 2)
    lane = Lane().after(asked_in(False, False, False, False))
    done = lane.send(asked_in(True, True, True, True, False))
    assert (len(done.repairs), done.reset) == (2, None), "the others go out as the client turned them"
    assert len(lane.send(asked_in(True, True, True, True, False, False)).repairs) == 2
    assert lane.prompts[-1].keys[: len(lane.prompts[-2].keys) - 1] == lane.prompts[-2].keys[:-1]


def test_after_a_restart_a_client_that_turns_its_keys_for_the_first_time_did_it_itself() -> None:
    lane = Lane(mode="suggest").after(talk(1))
    lane.restart()
    raw = json.dumps(turned(talk(2))).encode()
    done = lane.send(raw)
    assert (done.raw, done.reset) == (raw, None)
    came_back = Lane(mode="suggest").after(talk(1), turned(talk(1)))
    came_back.restart()
    assert (came_back.send(talk(2)).reset, came_back.breaks()) == (None, [])


def test_after_a_restart_bytes_that_come_again_are_first_bytes_again() -> None:
    lane = Lane(mode="suggest").after(talk(1))
    lane.restart()
    lane.send(talk(2))
    done = lane.send(turned(talk(3)) | {"tools": list(reversed(TOOLS))})
    assert (lane.breaks(), done.reset) == ([], None)
