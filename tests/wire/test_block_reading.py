"""A block that is read at once gives what the dialect says of it piece by piece."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.wire import DIALECTS, Body, block_reader
from holdfast.wire.block_reader import ReadBlock, read_block

_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_KINDS = st.sampled_from(
    ["text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "x_tool_result", "Odd!"]
)
_MEMBERS = {
    "type": _KINDS | _VALUES,
    "text": st.text(max_size=20) | _VALUES,
    "thinking": st.text(max_size=20) | _VALUES,
    "content": st.text(max_size=20) | st.lists(st.fixed_dictionaries({"type": _KINDS, "text": st.text(max_size=9)})),
    "source": st.just({"type": "base64", "media_type": "image/png", "data": "iVBOR"}),
    "citations": st.just({"enabled": True}),
    "cache_control": st.sampled_from([None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}]),
}
_BLOCKS = st.fixed_dictionaries({}, optional=_MEMBERS).flatmap(lambda known: st.permutations(list(known.items())))


def read(raw: bytes, *, at_once: bool) -> ReadBlock:
    """The only block of a message, by the quick way where there is one or by the dialect alone."""
    dialect = DIALECTS["anthropic"]
    body = dialect.parse(b'{"model":"claude-sonnet-4-5","messages":[{"role":"user","content":[' + raw + b"]}]}")
    assert isinstance(body, Body)
    with pytest.MonkeyPatch.context() as patch:
        if not at_once:
            patch.setattr(block_reader, "_at_once", lambda *_: None)
        return read_block(body, dialect, 0, True, False)


def written(members: list[tuple[str, Any]], *, compact: bool, ascii_only: bool) -> bytes:
    spaces = (",", ":") if compact else (", ", ": ")
    return json.dumps(dict(members), separators=spaces, ensure_ascii=ascii_only).encode("utf-8", "replace")


@given(_BLOCKS, st.booleans(), st.booleans())
def test_both_ways_give_the_same(members: list[tuple[str, Any]], compact: bool, ascii_only: bool) -> None:
    raw = written(members, compact=compact, ascii_only=ascii_only)
    assert read(raw, at_once=True) == read(raw, at_once=False)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"text","text":"hi"}',
        b'{"type":"text","text":""}',
        b'{"type":"thinking","thinking":"hm","signature":"s"}',
        b'{"type":"tool_use","id":"1","name":"read","input":{"path":"a.py","lines":[1,2.5]}}',
        b'{"type":"tool_result","tool_use_id":"1","content":"a \\"word\\"\\n"}',
        b'{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"data":"x"}}]}',
        b'{"tool_use_id":"1","content":"first","type":"tool_result"}',
        b'{"type":"tool_result","a,\\"content":"x","content":"y"}',
        b'{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"a"}],"is_error":false}',
        b'{"type":"text","text":"\\u001b[0m"}',
    ],
)
def test_the_usual_blocks_are_read_at_once(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = read(raw, at_once=False)
    monkeypatch.setattr(type(DIALECTS["anthropic"]), "content", None)  # would be asked otherwise
    assert read(raw, at_once=True) == slow


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"text","text":"a","text":"b"}',
        b'{"type":"text","text":"\\ud83d"}',
        b'{"type":"text","text":"caf\\u00e9"}',
        b'{"type":"tool_use","id":"1","name":"n","input":{"n":1E5}}',
        b'{"type":"tool_use","id":"1","name":"n","input":{"cache_control":1}}',
        b'{"type":"tool_result","content":[{"type":"image","url":"u"}]}',
        b'{"type":"tool_result","content":[{"type":"text","text":"a","cache_control":null}]}',
        b'{"type":"text","text":"\\u001B"}',
        b'{"type":"text", "text":"spaced"}',
        b"{}",
    ],
)
def test_whatever_has_another_spelling_is_left_to_the_dialect(raw: bytes) -> None:
    assert read(raw, at_once=True) == read(raw, at_once=False)
