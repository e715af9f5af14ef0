"""A text alone and the list of that one text are the same block: it is put back in whichever form it comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.repair_lane import Lane, clock

MARK = {"cache_control": {"type": "ephemeral"}}
MEMBERS: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "claude-opus-4-6", "max_tokens": 9},
    "openai_chat": {"model": "gpt-6.1-sol"},
    "openai_responses": {"model": "gpt-6.1-sol"},
}
KINDS = {"anthropic": "text", "openai_chat": "text", "openai_responses": "input_text"}
FURTHER = {"anthropic": {"x_effort": {"a": 1}}, "openai_chat": {"name": "n"}, "openai_responses": {"x_effort": 1}}
"""Members of a message that hang on its first block: only then is a text alone looked at when it is new."""


def request(dialect: str, content: Any, more: int = 0, further: bool = True) -> dict[str, Any]:
    said = [{"role": "user", "content": content} | (FURTHER[dialect] if further else {})]
    for number in range(more):
        said += [{"role": "assistant", "content": f"answer {number}"}, {"role": "user", "content": f"and {number}"}]
    return MEMBERS[dialect] | {"input" if dialect == "openai_responses" else "messages": said}


def first_said(raw: bytes) -> Any:
    body = json.loads(raw)
    said = body.get("messages", body.get("input"))
    return said if isinstance(said, str) else said[0]["content"]


def forms(dialect: str, text: str = "question") -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """A list of one text, as a text alone stands for, and with its keys the other way round."""
    block = {"type": KINDS[dialect], "text": text}
    return [block], [dict(reversed(block.items()))]


@pytest.mark.parametrize("further", [True, False])
@pytest.mark.parametrize("dialect", MEMBERS)
def test_a_list_that_was_put_back_is_put_back_when_it_comes_as_a_text(dialect: str, further: bool) -> None:
    usual, other = forms(dialect)
    lane = Lane(dialect).after(request(dialect, other, further=further), request(dialect, usual, 1, further))
    done = lane.send(request(dialect, "question", 2, further))
    assert json.dumps(first_said(done.raw)) == json.dumps(other)
    assert [repair.name for repair in done.repairs] == ["key-order"]
    assert (lane.breaks(), done.reset) == ([], None)


@pytest.mark.parametrize("dialect", MEMBERS)
def test_a_text_that_comes_as_a_turned_list_is_put_back_whatever_form_it_was_first_sent_in(dialect: str) -> None:
    lane = Lane(dialect).after(request(dialect, "question"))
    done = lane.send(request(dialect, forms(dialect)[1], 1))
    assert json.dumps(first_said(done.raw)) == json.dumps(forms(dialect)[0])
    assert (lane.breaks(), done.reset) == ([], None)


def test_an_input_that_is_a_text_becomes_the_list_it_first_was() -> None:
    usual, other = forms("openai_responses")
    lane = Lane("openai_responses").after(request("openai_responses", other, further=False))
    lane.send(request("openai_responses", usual, further=False))
    done = lane.send(MEMBERS["openai_responses"] | {"input": "question"})
    assert json.dumps(first_said(done.raw)) == json.dumps(other)
    assert lane.breaks() == []


@pytest.mark.parametrize("further", [True, False])
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_what_is_told_stands_behind_a_text_that_became_a_list(dialect: str, further: bool) -> None:
    def said(minute: int, content: Any, more: int = 0) -> dict[str, Any]:
        made = request(dialect, content, more, further)
        if dialect == "anthropic":
            return made | {"system": clock(minute)}
        return made | {"messages": [{"role": "system", "content": clock(minute)}, *made["messages"]]}

    usual, other = forms(dialect)
    lane = Lane(dialect)
    for minute, content in enumerate((other, usual, "question")):
        done = lane.send(said(minute, content))
    told = json.loads(done.raw)["messages"][-1]["content"]
    assert json.dumps(told[:1]) == json.dumps(other)
    assert [block["type"] for block in told] == ["text", "text", "text"]  # the second and the third minute
    sent = json.loads(lane.send(said(3, "question", 1)).raw)["messages"]
    assert told in [message["content"] for message in sent]
    assert lane.breaks() == []


def test_a_list_takes_first_bytes_that_came_as_a_text() -> None:
    """Lanes of one tenant share what is remembered: here another lane was the first to send these bytes."""
    usual, other = forms("anthropic")
    neighbour = Lane().after(request("anthropic", "question"))
    lane = Lane(memory=neighbour.memory).after(request("anthropic", usual))
    done = lane.send(request("anthropic", [other[0] | MARK], 1))
    assert json.dumps(first_said(done.raw)) == json.dumps([usual[0] | MARK])
    assert lane.breaks() == []


def test_an_item_that_is_put_back_keeps_the_id_it_has_now() -> None:
    """Ids say nothing to the model, so that items with others are the same block."""
    first = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "fc_1"}
    turned = dict(reversed(first.items()))
    lane = Lane("openai_responses")

    def send(item: dict[str, str]) -> str:
        said = [
            {"role": "user", "content": "go"},
            item,
            {"type": "function_call_output", "call_id": "c", "output": "r"},
        ]
        return json.dumps(json.loads(lane.send(MEMBERS["openai_responses"] | {"input": said}).raw)["input"][1])

    send(first)
    assert send(turned) == json.dumps(first)
    assert send(turned | {"id": "fc_2"}) == json.dumps(first | {"id": "fc_2"})
    assert send(turned | {"id": "fc_2", "status": "completed"}) == json.dumps(
        first | {"id": "fc_2", "status": "completed"}
    )
    del turned["id"], first["id"]
    assert send(turned) == json.dumps(first)
    assert lane.breaks() == []


def test_the_same_text_from_somebody_else_is_another_block() -> None:
    usual, other = forms("openai_chat")
    lane = Lane("openai_chat").after(request("openai_chat", usual))
    made = request("openai_chat", other)
    made["messages"][0]["role"] = "assistant"
    raw = json.dumps(made).encode()
    done = lane.send(raw)
    assert (done.raw, done.repairs) == (raw, ())


ODD = b"a\\n\xed\xa0\x80"
"""A text that is not UTF-8, though not every reader of JSON says so."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"type":"text","text":"q ODD"}', b'{"text":"q ODD","type":"text"}'),
        (b'"name":"bash","description":"ODD"', b'"description":"ODD","name":"bash"'),
        (b"Current time: 2026-11-02T09:01:00Z ODD", b"Current time: 2026-11-02T09:02:00Z ODD"),
    ],
    ids=["message", "tool", "system"],
)
def test_first_bytes_that_are_not_utf8_are_never_put_into_a_body_that_is(before: bytes, after: bytes) -> None:
    whole = {
        "message": b'"messages":[{"role":"user","content":[{"type":"text","text":"q ODD"}]}]',
        "tool": b'"tools":[{"name":"bash","description":"ODD","input_schema":{"type":"object"}}]',
        "system": b'"system":[{"type":"text","text":"Current time: 2026-11-02T09:01:00Z ODD"}]',
    }
    raw = b'{"model":"claude-opus-4-6","max_tokens":9,%b}' % b",".join(whole.values())
    lane = Lane().after(raw.replace(before, before.replace(b"ODD", ODD)).replace(b"ODD", b"plain"))
    second = raw.replace(before, after.replace(b"ODD", b"a\\n\\ud800")).replace(b"ODD", b"plain")
    assert lane.send(second).raw == second


def test_what_is_a_marker_elsewhere_stays_in_its_place() -> None:
    """`cache_control` is a marker for one provider and a member like others for the next."""
    tool = {"type": "function", "cache_control": {"type": "ephemeral"}, "name": "f", "parameters": {"type": "object"}}
    lane = Lane("openai_responses")
    for each in (tool, dict(reversed(tool.items()))):
        done = lane.send(request("openai_responses", "question") | {"tools": [each]})
    assert json.dumps(json.loads(done.raw)["tools"]) == json.dumps([tool])
    assert lane.breaks() == []
