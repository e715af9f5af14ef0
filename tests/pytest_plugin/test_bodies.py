"""What may be handed in, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic.types
import httpx
import httpx2
import pytest
import requests as requests_library
from anthropic import omit
from openai.types.chat import ChatCompletionMessage

from holdfast.errors import HoldfastError
from holdfast.pytest_plugin import RecordedRequest, assert_prefix_stable
from holdfast.pytest_plugin.bodies import dialect_by_body, recorded, without_credentials
from tests import shapes

from .sessions import turn

FIRST, SECOND = turn("one"), turn("one", "two", "three")
URL = "https://api.anthropic.com/v1/messages?key=secret"
KEYS = {"x-api-key": "sk-ant-secret", "user-agent": "tests/1"}


@pytest.mark.parametrize(
    "given",
    [
        dict,
        json.dumps,
        lambda body: json.dumps(body).encode(),
        lambda body: bytearray(json.dumps(body, indent=1).encode()),
        lambda body: RecordedRequest(number=7, body=json.dumps(body).encode(), dialect="anthropic"),
        lambda body: httpx.Request("POST", URL, json=body, headers=KEYS),
        lambda body: httpx2.Request("POST", URL, json=body, headers=KEYS),
        lambda body: requests_library.Request("POST", URL, json=body, headers=KEYS).prepare(),
    ],
    ids=["dict", "str", "bytes", "bytearray", "recorded", "httpx", "httpx2", "requests"],
)
def test_requests_in_every_form(given: Any) -> None:
    found = recorded([given(FIRST), given(SECOND)])
    assert [(one.number, one.dialect, one.json()["model"]) for one in found] == [
        (1, "anthropic", "claude-opus-5-5"),
        (2, "anthropic", "claude-opus-5-5"),
    ]
    assert "secret" not in repr([(one.path, one.headers) for one in found])
    assert assert_prefix_stable([given(FIRST), given(SECOND)]).compared == 1


def test_calls_that_generate_nothing_are_left_out() -> None:
    listing = httpx2.Request("GET", "https://api.anthropic.com/v1/models")
    counting = httpx2.Request("POST", "https://api.anthropic.com/v1/messages/count_tokens", json=FIRST)
    assert len(recorded([listing, httpx2.Request("POST", URL, json=FIRST), counting])) == 1


def test_a_stream_that_nobody_read_is_said() -> None:
    unread = httpx2.Request("POST", URL, content=iter([b"{}"]))
    with pytest.raises(HoldfastError, match=r"the body of request 1 cannot be read \(.*\); record its bytes"):
        recorded([unread])


def test_arguments_of_an_sdk_become_what_it_sends() -> None:
    """What a mocked client was called with: the SDK's own values, and arguments that were not given."""
    answer = anthropic.types.TextBlock(type="text", text="Yes.", citations=None)
    said = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": [answer]}]
    first = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": said[:1], "tools": omit}
    second = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [*said, said[0]], "tools": omit}
    found = recorded([first, second])
    assert found[1].json()["messages"][1]["content"] == [{"type": "text", "text": "Yes.", "citations": None}]
    assert "tools" not in found[1].json()
    message = ChatCompletionMessage(role="assistant", content="Yes.")
    assert recorded([{"model": "gpt-5", "messages": [message]}])[0].json()["messages"] == [
        {"role": "assistant", "content": "Yes."}
    ]


def test_a_list_that_two_requests_share_is_refused() -> None:
    """Otherwise a history that was rewritten would look as if it had always been so."""
    messages: list[dict[str, str]] = [{"role": "user", "content": "one"}]
    bodies = []
    for answer in ("two", "three"):
        bodies.append({"model": "claude-opus-5-5", "max_tokens": 9, "system": "Hi.", "messages": messages})
        messages.append({"role": "assistant", "content": answer})
    with pytest.raises(HoldfastError, match="requests 1 and 2 hold the same list as `messages`"):
        recorded(bodies)


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([FIRST, 7], "request 2 is of type int; give bytes, a text, a dict or a recorded request."),
        ([b"["], "request 1 is not a JSON object; name its dialect or leave it out."),
        ([{"prompt": "Hi."}], "request 1 has none of the members that a model call has"),
        ([{"messages": [object()]}], "request 1 has no form in JSON (object is no JSON value)"),
        (FIRST, "requests must be a sequence of request bodies"),
        (b"{}", "requests must be a sequence of request bodies"),
        (None, "requests must be a sequence of request bodies"),
        ([{"messages": "Hi.", "system": ""}], "request 1 cannot be read as anthropic: "),
    ],
)
def test_what_cannot_be_read_is_said(items: Any, sentence: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        assert_prefix_stable(items)
    assert str(caught.value).startswith(sentence)


def test_wrong_words_are_refused_with_the_nearest_known() -> None:
    for options, sentence in (
        ({"dialect": "anthropc"}, "there is no dialect 'anthropc'; "),
        ({"resets": {9: "compaction"}}, "resets names request 9, but there are requests 1 to 2."),
        ({"resets": {2: "compacting"}}, "resets gives the reason 'compacting'; "),
        ({"allow": ["model"]}, "allow names 'model'; "),
    ):
        with pytest.raises(HoldfastError) as caught:
            assert_prefix_stable([FIRST, SECOND], **options)
        assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "shape", [shape for shape in shapes.load() if shape.dialect and shape.body], ids=lambda s: s.id
)
def test_a_body_tells_its_dialect(shape: shapes.Shape) -> None:
    """Without its path, for every request that real clients were seen to send."""
    assert shape.body is not None
    assert dialect_by_body(shape.body) == shape.dialect


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        ({"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "Hi."}]}, "anthropic"),
        ({"model": "gpt-5.6", "messages": [{"role": "user", "content": "Hi."}]}, "openai_chat"),
        ({"model": "mine", "messages": [{"role": "user", "content": "Hi."}]}, "openai_chat"),
        ({"model": "claude-opus-5-5", "messages": [{"role": "system", "content": "Hi."}]}, "openai_chat"),
        ({"model": "mine", "input": "Hi."}, "openai_responses"),
        ({"contents": []}, "gemini"),
        ({"text": "Hi."}, None),
    ],
)
def test_small_bodies_tell_their_dialect_too(body: dict[str, Any], dialect: str | None) -> None:
    assert dialect_by_body(json.dumps(body).encode()) == dialect


def test_credentials_are_not_kept() -> None:
    secret = (
        "Authorization",
        "X-Api-Key",
        "x-goog-api-key",
        "api-key",
        "Cookie",
        "Proxy-Authorization",
        "x-auth-token",
    )
    assert without_credentials([*((name, "secret") for name in secret), ("User-Agent", "tests")]) == {
        "user-agent": "tests"
    }


def test_bodies_that_nobody_keeps_share_no_list() -> None:
    """A generator's lists are gone when the next one is made, perhaps in the same place of memory."""

    def sent() -> Iterator[dict[str, Any]]:
        for length in (1, 3, 5, 7, 9):
            yield turn(*"abcdefghi"[:length])

    assert assert_prefix_stable(sent()).compared == 4
