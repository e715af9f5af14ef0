"""Law 8 on the wire: untouched bytes stay untouched, and only planned blocks change."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.records import NotJson, Request, canonical_json, validate
from holdfast.wire import DIALECTS, Body, Unreadable
from holdfast.wire.gemini import Gemini
from tests.properties.bodies import ANYTHING, BODIES, LAX, SHAPES, write
from tests.shapes import Shape

pytestmark = pytest.mark.slow


def parsed(dialect: str, raw: bytes, model: str = "gemini-2.5-pro") -> Body:
    body = DIALECTS[dialect].parse(raw, model=model)
    assert isinstance(body, Body), body.reason
    return body


def check_addresses(name: str, body: Body) -> None:
    """Every block lies inside the body, apart from the others, and is the JSON value its path names."""
    spans = sorted((block.start, block.end) for block in body.blocks)
    assert all(end <= following for (_, end), (following, _) in pairwise(spans))
    for block in body.blocks:
        text = body.text(block)
        assert text[:1] == (b'"' if block.form == "string" else b"{"), block.path
    assert len({block.path for block in body.blocks}) == len(body.blocks)


def check_plan(name: str, body: Body, indices: list[int]) -> None:
    """Mark some blocks: the others keep their bytes, all keep their content; unmark: the old bytes are back."""
    dialect = DIALECTS[name]
    chosen = [i for i in indices if dialect.markable(body, i)]
    before = dialect.markers(body)
    planned = body.apply(splice for i in chosen for splice in dialect.place(body, i, "1h"))
    after = parsed(name, planned, body.model)
    assert [b.path for b in after.blocks] == [b.path for b in body.blocks]
    for i, (old, new) in enumerate(zip(body.blocks, after.blocks, strict=True)):
        assert dialect.content(after, i) == dialect.content(body, i)
        if i not in chosen:
            assert after.text(new) == body.text(old)
    assert outside(body, chosen, {}) == outside(after, chosen, wrappers(body, chosen))
    assert {m.block for m in dialect.markers(after)} == {m.block for m in before} | set(chosen)
    fresh = set(chosen) - {m.block for m in before}
    restored = after.apply(s for m in dialect.markers(after) if m.block in fresh for s in dialect.remove(after, m))
    again = parsed(name, restored, body.model)
    wrapped = [i for i in chosen if body.blocks[i].form == "string" or dialect.kind(body, i).endswith("_output")]
    named = [i for i in chosen if b"ache_control" in body.text(body.blocks[i])]  # null is lost when it is replaced
    if not wrapped and not named and fresh == set(chosen):
        assert restored == body.raw
    assert [dialect.content(again, i) for i in range(len(again.blocks))] == [
        dialect.content(body, i) for i in range(len(body.blocks))
    ]


def outside(body: Body, chosen: list[int], wrapped: dict[int, tuple[bytes, bytes]]) -> bytes:
    """The bytes outside the chosen blocks; what was put around a bare string counts as its own."""
    out, at = [], 0
    for i in sorted(chosen, key=lambda i: body.blocks[i].start):
        head, tail = wrapped.get(i, (b"", b""))
        start, end = body.blocks[i].start - len(head), body.blocks[i].end + len(tail)
        assert body.raw[start:].startswith(head)
        assert body.raw[:end].endswith(tail)
        out.append(body.raw[at:start])
        at = end
    return b"|".join([*out, body.raw[at:]])


def wrappers(body: Body, chosen: list[int]) -> dict[int, tuple[bytes, bytes]]:
    """What a marker on a bare string needs around the new part."""
    whole_input = body.members["input"].start if "input" in body.members else -1
    message = (b'[{"type":"message","role":"user","content":[', b"]}]")
    strings = [i for i in chosen if body.blocks[i].form == "string"]
    return {i: message if body.blocks[i].start == whole_input else (b"[", b"]") for i in strings}


@pytest.mark.parametrize("name", BODIES)
@LAX
@given(data=st.data())
def test_generated_bodies_keep_their_bytes(name: str, data: st.DataObject) -> None:
    raw = data.draw(BODIES[name])
    body = parsed(name, raw)
    assert body.apply([]) is raw
    check_addresses(name, body)


@pytest.mark.parametrize("name", [n for n in BODIES if n != "gemini"])
@LAX
@given(data=st.data())
def test_a_plan_changes_only_planned_blocks(name: str, data: st.DataObject) -> None:
    body = parsed(name, data.draw(BODIES[name]))
    indices = list(range(len(body.blocks)))
    chosen = data.draw(st.lists(st.sampled_from(indices), unique=True, max_size=4)) if indices else []
    check_plan(name, body, chosen)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_recorded_bodies_keep_their_bytes(shape: Shape) -> None:
    assert shape.body is not None
    assert shape.dialect is not None
    body = parsed(shape.dialect, shape.body)
    assert body.apply([]) is shape.body
    check_addresses(shape.dialect, body)
    check_plan(shape.dialect, body, list(range(len(body.blocks))))


def reading(name: str, raw: bytes) -> list[object]:
    """What a body says by its addresses, without the offsets."""
    dialect, body = DIALECTS[name], parsed(name, raw)
    blocks = [(b.path, b.section, b.role, b.form, dialect.content(body, i)) for i, b in enumerate(body.blocks)]
    return [*blocks, *((m.block, m.ttl, m.nested) for m in dialect.markers(body))]


@pytest.mark.parametrize("shape", SHAPES[::3], ids=lambda shape: shape.id)
def test_recorded_bodies_say_the_same_in_another_spacing(shape: Shape) -> None:
    """The quick walk of compact messages and the walk of any spacing read the same."""
    assert shape.dialect is not None
    tree = json.loads(shape.body or b"")
    spellings = [json.dumps(tree, indent=1), json.dumps(tree, separators=(" ,", ": ")), json.dumps(tree)]
    expected = reading(shape.dialect, json.dumps(tree, separators=(",", ":")).encode())
    assert all(reading(shape.dialect, text.encode()) == expected for text in spellings)


@pytest.mark.parametrize("name", BODIES)
@LAX
@given(data=st.data())
def test_many_changes_at_once_mean_what_each_means(name: str, data: st.DataObject) -> None:
    """Markers set and taken away and members set, in any order: all of it is there, and nothing else has changed."""
    dialect, body = DIALECTS[name], parsed(name, data.draw(BODIES[name]))
    places = [i for i in range(len(body.blocks)) if dialect.markable(body, i)]
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True, max_size=4)) if places else []
    own = [marker for marker in dialect.markers(body) if marker.block not in chosen]
    gone = data.draw(st.lists(st.sampled_from(own), unique=True)) if own else []
    asked = data.draw(st.dictionaries(st.sampled_from(["x_new", "store", "prompt_cache_key", "é"]), st.just(b"[1]")))
    changes = [*(dialect.place(body, i, "1h") for i in chosen), *(dialect.remove(body, m) for m in gone)]
    changes += [body.set_member(key, value) for key, value in asked.items()]
    after = parsed(name, body.apply(s for change in data.draw(st.permutations(changes)) for s in change), body.model)

    assert all(after.member(key) == value for key, value in asked.items())
    kept = {marker.block for marker in dialect.markers(body) if marker not in gone}
    assert {marker.block for marker in dialect.markers(after)} == kept | set(chosen)
    for i, (old, new) in enumerate(zip(body.blocks, after.blocks, strict=True)):
        assert dialect.content(after, i) == dialect.content(body, i)
        assert i in chosen or i in {m.block for m in gone} or after.text(new) == body.text(old)
    parts = {"tools", "system", "messages", "input", "cache_control", *asked}
    assert all(after.member(key) == body.member(key) for key in body.members.keys() - parts)


@given(data=st.data())
@LAX
def test_a_cached_object_takes_the_place_of_what_it_holds(data: st.DataObject) -> None:
    body, contents = parsed("gemini", data.draw(BODIES["gemini"])), data.draw(st.integers(-1, 5))
    before, after = (
        json.loads(body.raw),
        json.loads(body.apply(Gemini().use_cached(body, "cachedContents/1", contents))),
    )
    assert after.pop("cachedContent") == "cachedContents/1"
    assert after.pop("contents") == before.pop("contents")[max(contents, 0) :]
    assert after == {key: value for key, value in before.items() if key not in ("systemInstruction", "tools")}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_recorded_bodies_are_valid_conversations(shape: Shape) -> None:
    assert shape.dialect is not None
    dialect = DIALECTS[shape.dialect]
    request = dialect.decode(parsed(shape.dialect, shape.body or b""))
    continues_elsewhere = "previous_response_id" in dict(request.rest)
    problems = [v for v in validate(request) if not (continues_elsewhere and v.rule == "orphan_tool_result")]
    assert problems == []


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_recorded_bodies_survive_canonical_form(shape: Shape) -> None:
    """Bytes to canonical and back to bytes says the same thing."""
    assert shape.dialect is not None
    dialect = DIALECTS[shape.dialect]
    first = dialect.decode(parsed(shape.dialect, shape.body or b""))
    second = dialect.decode(parsed(shape.dialect, dialect.encode(first)))
    assert flat(second) == flat(first)


def flat(request: Request) -> tuple[object, ...]:
    """A request without the border between system segments, which only a marker shows on the wire."""
    segments = (request.system_prompt, request.system_prompt_volatile)
    texts = [
        t
        for s in segments
        if s is not None
        for t in ([s] if isinstance(s, str) else [getattr(b, "text", b) for b in s])
    ]
    return (request.model, request.tools, request.messages, request.output_limit, dict(request.rest), texts)


@pytest.mark.parametrize("name", BODIES)
@LAX
@given(data=st.data())
def test_no_input_raises(name: str, data: st.DataObject) -> None:
    """Cut, flipped and foreign bytes are Unreadable or a Body that can be decoded; never an exception."""
    raw = bytearray(data.draw(BODIES[data.draw(st.sampled_from(list(BODIES)))]))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, max(0, len(raw) - 1)))
        raw[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=3))
    dialect = DIALECTS[name]
    body = dialect.parse(bytes(raw))
    if isinstance(body, Unreadable):
        assert body.raw == bytes(raw)
        assert body.reason
        return
    validate(dialect.decode(body))
    for index in range(len(body.blocks)):
        dialect.content(body, index)
        if dialect.markable(body, index):
            assert body.apply(dialect.place(body, index, "5m"))
    for marker in dialect.markers(body):
        body.apply(dialect.remove(body, marker))


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"null", "unexpected shape"),
        (b"[]", "unexpected shape"),
        (b'"text"', "unexpected shape"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"x":1,"x":2}', "twice"),
        (b'{"x":"\\q"}', "not JSON"),
        (b'{"x":01}', "not JSON"),
        (b"\x1f\x8b\x08\x00", "not JSON"),
    ],
)
def test_unreadable_bodies_say_why_and_stay_forwardable(name: str, raw: bytes, reason: str) -> None:
    body = DIALECTS[name].parse(raw)
    assert isinstance(body, Unreadable)
    assert reason in body.reason
    assert body.raw is raw


TWICE = {
    "anthropic": rb'{"model":"m","messages":[{"role":"user","content":["aaaaa]}]}","x"],"content":["bbbb"]}]}',
    "openai_chat": rb'{"messages":[{"role":"user","content":"a","content":"b"}]}',
    "openai_responses": rb'{"input":[{"role":"user","content":["a"],"content":["b"]}]}',
    "gemini": rb'{"contents":[{"role":"user","parts":[{"text":"a"}],"parts":[{"text":"b"}]}]}',
}


@pytest.mark.parametrize("name", TWICE)
def test_a_message_that_names_a_key_twice_is_unreadable(name: str) -> None:
    """Also where the text is made so that the lengths of the one value seem to fit the other."""
    body = DIALECTS[name].parse(TWICE[name])
    assert isinstance(body, Unreadable)
    assert "cannot be addressed" in body.reason


def test_a_block_that_names_a_key_twice_is_carried() -> None:
    """It is nobody's business but the provider's: it keeps its bytes, and is no place for a marker."""
    block = rb'{"type":"text","text":"a","text":"b"}'
    body = parsed("anthropic", rb'{"messages":[{"role":"user","content":[' + block + rb"]}]}")
    assert body.text(body.blocks[0]) == block
    assert DIALECTS["anthropic"].content(body, 0) == block
    assert not DIALECTS["anthropic"].markable(body, 0)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("depth", [2000, 100_000])
def test_deep_nesting_is_carried_or_named(name: str, depth: int) -> None:
    """How deep msgspec reads depends on the interpreter; what it does not read is forwarded as it came."""
    raw = b'{"x":' + b"[" * depth + b"]" * depth + b"}"
    body = DIALECTS[name].parse(raw)
    assert body.raw is raw
    if isinstance(body, Unreadable):
        assert "nested too deeply" in body.reason
    else:
        assert dict(DIALECTS[name].decode(body).rest)["x"] == raw[5:-1]


def test_bytes_that_are_not_utf8_are_carried_or_named() -> None:
    """Where we do not have to read them they pass; where we do, the reason says so."""
    dialect = DIALECTS["anthropic"]
    carried = parsed(
        "anthropic", b'{"x":"\xff","messages":[{"role":"user","content":[{"type":"text","text":"\xff"}]}]}'
    )
    assert b"\xff" in dialect.content(carried, 0)
    assert dialect.encode(dialect.decode(carried))
    named = dialect.parse(b'{"messages":[{"role":"user","content":"\xff"}]}')
    assert isinstance(named, Unreadable)
    assert "UTF-8" in named.reason


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("anthropic", b'{"messages":{}}'),
        ("anthropic", b'{"messages":[{"role":1,"content":[]}]}'),
        ("anthropic", b'{"messages":[{"role":"user","content":5}]}'),
        ("openai_chat", b'{"messages":[{"content":"no role"}]}'),
        ("openai_responses", b'{"input":7}'),
        ("gemini", b'{"contents":[{"parts":"text"}]}'),
    ],
)
def test_wrong_types_are_named_with_their_path(name: str, raw: bytes) -> None:
    body = DIALECTS[name].parse(raw)
    assert isinstance(body, Unreadable)
    assert "$." in body.reason


@pytest.mark.parametrize("name", ["anthropic", "openai_chat"])
def test_lone_surrogates_do_not_hide_a_body(name: str) -> None:
    """JavaScript clients cut emoji in half; the body is addressed all the same and keeps its bytes."""
    raw = rb'{"model":"claude-opus-5-5","messages":[{"role":"user","content":"half \ud83d and \ude00"}]}'
    body = parsed(name, raw)
    assert body.text(body.blocks[0]) == rb'"half \ud83d and \ude00"'
    assert body.raw == raw


@given(data=st.data())
@LAX
def test_spelling_does_not_change_content(data: st.DataObject) -> None:
    """The same tree written twice, with other spacing and escapes, has the same canonical text."""
    tree = data.draw(ANYTHING)
    one = write(tree, Random(data.draw(st.integers(0, 999)))).encode()
    other = write(tree, Random(data.draw(st.integers(0, 999)))).encode()
    assert canonical_json(one) == canonical_json(other)
    assert canonical_json(canonical_json(one)) == canonical_json(one)


@given(st.binary(max_size=60))
def test_canonical_json_refuses_or_agrees_with_the_standard_library(raw: bytes) -> None:
    try:
        text = canonical_json(raw)
    except NotJson:
        return
    assert json.loads(text) == json.loads(raw)
