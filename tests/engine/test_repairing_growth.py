"""A lane that only grows is looked at where it grew, with the result of looking at all of it."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.repairs import ByteMemory, history
from holdfast.engine.repairs import order
from holdfast.engine.repairs.request import Work
from tests.engine.repair_lane import TOOLS, Lane, clock, names, talk, turned

MARKER = {"type": "ephemeral"}


class Careful(ByteMemory):
    """A memory that takes nothing for whole: every request is looked at from its beginning to its end."""

    def found_whole(self, name: bytes, period: int, note: list[int] | None = None) -> None:
        pass


def as_list(request: dict[str, Any], message: int) -> None:
    """A text alone as a list of one block."""
    content = request["messages"][message]["content"]
    if isinstance(content, str):
        request["messages"][message]["content"] = [{"type": "text", "text": content}]


def change(request: dict[str, Any], how: str, message: int) -> dict[str, Any]:
    messages = request["messages"]
    message %= len(messages)
    match how:
        case "list":
            as_list(request, message)
        case "turned list":
            as_list(request, message)
            for block in messages[message]["content"]:
                block |= {key: block.pop(key) for key in reversed([*block])}
        case "turned":
            return turned(request)
        case "marker":
            as_list(request, message)
            messages[message]["content"][-1]["cache_control"] = MARKER
        case "inner marker" | "two markers":
            for block in messages[message]["content"]:
                if isinstance(block, dict) and block["type"] == "tool_result":
                    block["content"] = [{"type": "text", "text": block["content"], "cache_control": MARKER}]
                    block |= {"cache_control": MARKER} if how == "two markers" else {}
        case "automatic marker":
            request["cache_control"] = MARKER
        case "named":
            for each in messages:
                for block in each["content"]:
                    if isinstance(block, dict) and block["type"] == "tool_use":
                        block["input"]["cache_control"] = 1
        case "other":
            as_list(request, message)
            messages[message]["content"] = [{"type": "text", "text": "other"}]
        case "tools":
            request["tools"] = TOOLS[::-1]
        case "clock":
            request["system"] = clock(message)
    return request


HOW = ("", "list", "turned list", "turned", "marker", "inner marker", "two markers", "automatic marker", "named")
steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from((*HOW, "other", "tools", "clock")), st.integers(-6, 6)), max_size=6
)


def compact(request: dict[str, Any]) -> bytes:
    return json.dumps(request, separators=(",", ":")).encode()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(steps)
def test_what_is_sent_is_what_a_look_at_all_of_it_gives(steps: list[tuple[int, str, int]]) -> None:
    quick, careful = Lane(), Lane(memory=Careful())
    turns = 1
    for more, how, message in steps:
        request = compact(change(talk(turns), how, message))
        turns = max(1, turns + more - 1)
        done = quick.send(request)
        with patch.object(Work, "marked_inside", lambda *_: True):
            assert done == careful.send(request)
        assert quick.state == careful.state


def test_of_a_lane_that_grows_only_the_new_blocks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    remember = order.remember

    def counted(work: Work, number: int) -> bool:
        seen.append(number)
        return remember(work, number)

    monkeypatch.setattr(order, "remember", counted)
    lane = Lane().after(talk(20))
    seen.clear()
    for turns in range(21, 25):
        assert json.loads(lane.send(talk(turns)).raw) == talk(turns)
    assert len(seen) == 4 * 4
    lane.send(turned(talk(25)))
    assert lane.breaks() == []


def test_a_text_that_became_a_list_is_put_back_when_its_keys_are_turned() -> None:
    lane = Lane().after(talk(1), change(talk(2), "list", 0))
    done = lane.send(change(talk(3), "turned list", 0))
    assert [item.name for item in done.repairs] == ["key-order"]
    assert lane.breaks() == []


def listed(turns: int, message: int) -> dict[str, Any]:
    """A result of a tool as a list of blocks."""
    made = talk(turns)
    made["messages"][message]["content"][0]["content"] = [{"type": "text", "text": "done"}]
    return made


@pytest.mark.parametrize("markers", ["inner marker", "two markers"])
@pytest.mark.parametrize("message", [2, 10])
def test_a_block_is_put_back_once_the_marker_inside_it_is_gone(message: int, markers: str) -> None:
    lane = Lane().after(compact(talk(2)) if message > 8 else compact(change(talk(2), markers, message)))
    lane.send(compact(change(talk(3), markers, message)))
    lane.send(compact(listed(4, message)))
    other = listed(5, message)
    block = other["messages"][message]["content"][0]
    block |= {key: block.pop(key) for key in reversed([*block])}
    done = lane.send(compact(other))
    assert [item.name for item in done.repairs] == ["key-order"]
    assert done.raw == compact(listed(5, message))
    assert lane.breaks() == []


def test_the_marker_a_block_was_first_sent_with_does_not_come_back_with_it() -> None:
    lane = Lane().after(compact(change(talk(1), "marker", 4)), compact(change(change(talk(2), "list", 4), "marker", 8)))
    done = lane.send(compact(change(change(talk(3), "turned list", 4), "marker", 12)))
    assert [item.name for item in done.repairs] == ["key-order"]
    assert done.raw == compact(change(change(talk(3), "list", 4), "marker", 12))


def test_lanes_of_one_memory_keep_their_own_orders() -> None:
    memory = ByteMemory()
    one, other = Lane(memory=memory), Lane(memory=memory)
    for turns in (1, 2, 3):
        one.send(talk(turns))
        other.send(talk(turns, tools=TOOLS[::-1]))
    assert names(one.send(talk(4, tools=TOOLS[::-1]))) == ["bash", "edit", "read"]
    assert names(other.send(talk(4))) == ["read", "edit", "bash"]


def test_of_so_many_histories_more_than_their_bytes_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.repairs.memory.MOST_READ", 2)
    monkeypatch.setattr("holdfast.core.repairs.memory._MOST_WHOLE", 2)
    memory = ByteMemory()
    made = [history.BlockHistory([each], [each]) for each in (bytes([number]) * 16 for number in range(5))]
    kept = [history.record(memory, b"", None, each) for each in made]
    assert list(memory.read) == kept[3:]
    assert [history.recall(memory, name) for name in kept] == made, "put together again"
    for name in kept:
        memory.found_whole(name, memory.period)
    assert list(memory.whole) == kept[4:]


@pytest.mark.slow
def test_what_left_the_memory_meanwhile_is_remembered_again() -> None:
    memory = ByteMemory(60_000)
    lane, other = Lane(memory=memory), Lane(memory=memory)
    lane.send(talk(2))
    for turns in range(1, 400, 20):  # a tenant's lanes share a memory
        other.send(talk(turns, system=f"Number {turns}."))
    lane.send(talk(3))
    lane.send(turned(talk(4)))
    assert lane.breaks() == []
