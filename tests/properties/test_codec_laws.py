"""What a client said comes back from canonical form in its own dialect: no name and no value is lost on the way.

The codecs' docstrings list what is spelled in one way; the checks know those and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.records import Request
from holdfast.wire import DIALECTS, Body
from tests.properties.bodies import BODIES, LAX, SHAPES
from tests.shapes import Shape

MARKERS = ("cache_control", "prompt_cache_breakpoint")
LIMITS = ("max_tokens", "max_completion_tokens")
SPELLED_ONE_WAY = (None, "", False)
KINDS_OF_TEXT = ("text", "input_text", "output_text", "developer", "system", "message")


def decoded(name: str, raw: bytes) -> Request:
    body = DIALECTS[name].parse(raw, model="m")
    assert isinstance(body, Body), body.reason
    return DIALECTS[name].decode(body)


def said(value: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of a tree; a text that is JSON (a call's arguments) says what its tree says."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in MARKERS or inner in SPELLED_ONE_WAY:
                continue
            yield "name", "limit" if key in LIMITS else key
            if key == "arguments" and isinstance(inner, str):
                inner = inner.strip(" \t\r\n")  # spaces in a call's arguments may go
            yield from said(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from said(inner)
    elif isinstance(value, str) and value[:1] in ("{", "["):
        try:
            yield from said(json.loads(value))
        except ValueError:
            yield "text", value
    elif value not in SPELLED_ONE_WAY:
        yield type(value).__name__, value


def lost(name: str, raw: bytes) -> Counter[tuple[str, Any]]:
    """What the body says and its way through canonical form does not."""
    tree = json.loads(raw)
    if isinstance(tree.get("max_completion_tokens"), int):
        tree.pop("max_tokens", None)  # of two limits one counts
    elif isinstance(tree.get("max_tokens"), int):
        tree.pop("max_completion_tokens", None)
    if "systemInstruction" in tree:
        tree["systemInstruction"] = tree["systemInstruction"]["parts"]
    if tree.get("tools") == []:
        del tree["tools"]
    before, after = Counter(said(tree)), Counter(said(json.loads(DIALECTS[name].encode(decoded(name, raw)))))
    regrouped = {("str", word) for word in KINDS_OF_TEXT}
    regrouped |= {("name", key) for key in ("content", "role", "type", "text", "input", "instructions", "system")}
    regrouped |= {("name", key) for key in ("systemInstruction", "functionDeclarations", "output")}
    return Counter({key: n for key, n in (before - after).items() if key not in regrouped})


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_nothing_of_a_recorded_body_is_lost(shape: Shape) -> None:
    assert shape.dialect is not None
    assert lost(shape.dialect, shape.body or b"") == Counter()


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
@LAX
@given(data=st.data())
def test_nothing_of_a_generated_body_is_lost(name: str, data: st.DataObject) -> None:
    raw = data.draw(BODIES[name])
    assert lost(name, raw) == Counter()
    once = decoded(name, raw)
    again = decoded(name, DIALECTS[name].encode(once))
    assert (again.tools, again.messages, again.rest) == (once.tools, once.messages, once.rest)
