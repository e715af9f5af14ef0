"""In whatever form a block comes, with whatever marker, it gets its edit; what is signed never does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from holdfast import facts
from holdfast.caches.entries import Entries
from holdfast.core.edits import EditRef
from holdfast.engine.edits import consider, is_signed, unfit
from holdfast.store import SqliteStore, open_store
from holdfast.wire import DIALECTS, Body
from tests.core.warm_pool import body_of, situation, talk
from tests.engine.edits import (
    MODELS,
    TEXT,
    body_for,
    digest_at,
    none,
    prompt_of,
    put,
    result_blocks,
    send,
    shortened,
    through,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_store(path) as opened:
        yield opened


def content(body: Body, message: int = 0) -> Any:
    return json.loads(body.raw)["messages"][message]["content"]


STRING = b'{"model":"claude-opus-5-5","max_tokens":9,"messages":[{"role":"user","content":"a long text"}]}'
PART = STRING.replace(b'"a long text"', b'[{"type":"text","text":"a long text"}]')
MARKED = PART.replace(b'text"}]}', b'text","cache_control":{"type":"ephemeral","ttl":"1h"}}]}')


@pytest.mark.parametrize("replacement", [b'"short"', b'{"type":"text","text":"short"}'])
def test_string_and_list_are_one_block_with_one_edit(replacement: bytes) -> None:
    """Clients flip between the two from turn to turn."""
    bodies = [body_of(raw) for raw in (STRING, PART, MARKED)]
    (digest,) = {digest_at(body, 0) for body in bodies}
    ref = EditRef(digest, sha256(replacement).digest(), 0.0)
    outs = [send(body, {digest: ref}, lambda name: replacement)[0] for body in bodies]
    assert content(outs[0]) == "short"
    assert content(outs[1]) == [{"type": "text", "text": "short"}]
    assert content(outs[2]) == [{"type": "text", "text": "short", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    assert len({prompt_of(out).keys for out in outs}) == 1
    exact = outs[0] if replacement[:1] == b'"' else outs[1]
    assert exact.text(exact.blocks[0]) == replacement


def test_a_text_with_its_keys_in_another_order_is_the_same_in_both_forms() -> None:
    replacement = b'{"text":"short","type":"text"}'
    bodies = [body_of(raw) for raw in (STRING, PART)]
    ref = EditRef(digest_at(bodies[0], 0), sha256(replacement).digest(), 0.0)
    outs = [send(body, {ref.block: ref}, lambda name: replacement)[0] for body in bodies]
    assert [out.text(out.blocks[0]) for out in outs] == [replacement, replacement]
    assert len({prompt_of(out).keys for out in outs}) == 1


def test_a_block_that_is_more_than_text_takes_the_place_of_a_string_as_a_list() -> None:
    document = b'{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"}}'
    body = body_of(STRING)
    ref = EditRef(digest_at(body, 0), sha256(document).digest(), 0.0)
    out, _ = send(body, {ref.block: ref}, lambda name: document)
    assert content(out) == [json.loads(document)]


@pytest.mark.parametrize(
    ("raw", "replacement", "expected"),
    [
        (b'{"model":"gpt-6.1-sol","input":"a long text"}', b'"short"', {"input": "short"}),
        (
            b'{"model":"gpt-6.1-sol","input":"a long text"}',
            b'{"type":"input_file","file_id":"f"}',
            {"input": [{"type": "message", "role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        ),
        (
            b'{"model":"gpt-6.1-sol","input":[{"role":"assistant","content":[{"type":"output_text","text":"a"}]}]}',
            b'"short"',
            {"input": [{"role": "assistant", "content": [{"type": "output_text", "text": "short"}]}]},
        ),
    ],
)
def test_the_forms_of_a_responses_input(raw: bytes, replacement: bytes, expected: dict[str, Any]) -> None:
    body = body_of(raw, "openai_responses")
    ref = EditRef(digest_at(body, 0), sha256(replacement).digest(), 0.0)
    out, _ = send(body, {ref.block: ref}, lambda name: replacement)
    assert json.loads(out.raw) == {"model": "gpt-6.1-sol", **expected}


def test_a_place_that_takes_only_a_string_gets_nothing_else() -> None:
    body = body_of(b'{"model":"gpt-6.1-sol","instructions":"a long text","input":"b"}', "openai_responses")
    replacement = b'{"type":"input_file","file_id":"f"}'
    ref = EditRef(digest_at(body, 0), sha256(replacement).digest(), 0.0)
    out, done = send(body, {ref.block: ref}, lambda name: replacement)
    assert (out.raw, done.reset) == (body.raw, "repair_forgotten")


def marked(body: Body, index: int) -> Body:
    dialect = DIALECTS[body.dialect]
    return body_of(body.apply(dialect.place(body, index, "1h")), body.dialect, body.model)


@pytest.mark.parametrize("dialect", [name for name in MODELS if name != "gemini"])
def test_a_marker_of_the_client_stays_on_the_edited_block(dialect: str, store: SqliteStore) -> None:
    plain = body_for(talk(2), dialect)
    index = result_blocks(plain)[-1]
    put(store, digest_at(plain, index), shortened(plain, index))
    body = marked(plain, index)
    assert digest_at(body, index) == digest_at(plain, index)
    out, _ = through(store, body)
    (before,), (after,) = (DIALECTS[dialect].markers(each) for each in (body, out))
    assert (before.block, before.ttl) == (after.block, after.ttl)
    unmarked, _ = through(store, plain)
    assert prompt_of(out).keys == prompt_of(unmarked).keys


def test_a_marker_nested_in_a_result_stays_too(store: SqliteStore) -> None:
    plain = body_for(talk(2), "anthropic")
    index = result_blocks(plain)[-1]
    put(store, digest_at(plain, index), shortened(plain, index))
    inner = {"type": "text", "text": json.loads(plain.text(plain.blocks[index]))["content"]}
    value = json.loads(plain.text(plain.blocks[index])) | {
        "content": [inner | {"cache_control": {"type": "ephemeral"}}]
    }
    span = plain.blocks[index]
    body = body_of(plain.raw[: span.start] + json.dumps(value).encode() + plain.raw[span.end :])
    out, done = through(store, body)
    assert done.edited == (index,)
    assert [marker.block for marker in DIALECTS["anthropic"].markers(out)] == [index]


def test_markers_are_planned_on_the_body_with_its_edits(store: SqliteStore) -> None:
    body = body_for(talk(2), "anthropic")
    index = result_blocks(body)[-1]
    put(store, digest_at(body, index), shortened(body, index))
    out, _ = through(store, body)
    value = json.loads(marked(out, index).raw)["messages"][-1]["content"][-1]
    assert value["content"] == TEXT
    assert value["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


THINKING = [
    ("anthropic", {"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
    ("anthropic", {"type": "redacted_thinking", "data": "c2ln"}),
    ("anthropic", {"type": "web_search_tool_result", "tool_use_id": "a", "content": [{"encrypted_content": "x"}]}),
    ("openai_responses", {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}),
    ("gemini", {"text": "hm", "thought": True}),
    ("gemini", {"functionCall": {"name": "bash", "args": {}}, "thoughtSignature": "c2ln"}),
]


@pytest.mark.parametrize(("dialect", "block"), THINKING)
def test_thinking_and_signatures_are_never_touched(dialect: str, block: dict[str, Any]) -> None:
    body = body_of(
        json.dumps(
            {
                "anthropic": {"model": "claude-opus-5-5", "messages": [{"role": "assistant", "content": [block]}]},
                "openai_responses": {"model": "gpt-6.1-sol", "input": [block]},
                "gemini": {"contents": [{"role": "model", "parts": [block]}]},
            }[dialect]
        ).encode(),
        dialect,
        "gemini-2.5-pro",
    )
    assert is_signed(DIALECTS[dialect], body, 0)
    new = b'{"type":"text","text":"hm"}'
    assert "signed" in (unfit(DIALECTS[dialect], body, {0: new}) or "")
    ref = EditRef(digest_at(body, 0), sha256(new).digest(), 0.0)
    out, done = send(body, {ref.block: ref}, lambda name: new)
    assert (out.raw, done.reset) == (body.raw, None)
    asked = situation(prompt_of(body), Entries(), 0.0, model=facts.model(MODELS[dialect]))
    proposal, refs = consider(body, asked, {ref.block: new}, none, prompt_of, further=9)
    assert (proposal.made, refs) == (False, ())


def test_a_result_that_speaks_of_signatures_is_not_signed() -> None:
    said = talk(1)
    said.turns[-1] = ("results", 1, ['{"signature": "int main()"}'])
    body = body_for(said, "anthropic")
    assert not is_signed(DIALECTS["anthropic"], body, result_blocks(body)[0])


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (b'{"type":"tool_result","tool_use_id":"another","content":"x"}', "tool"),
        (b'{"type":"text","text":"no answer"}', "tool"),
        (b'"no answer"', "tool"),
        (b'{"type":"tool_result","tool_use_id":"1.0","content":"x","cache_control":{"type":"ephemeral"}}', "marker"),
        (b'{"type":"thinking","thinking":"x","signature":"y"}', "marker"),
    ],
)
def test_an_edit_keeps_calls_answered_and_brings_no_marker(new: bytes, why: str) -> None:
    body = body_for(talk(1), "anthropic")
    index = result_blocks(body)[0]
    refused = unfit(DIALECTS["anthropic"], body, {index: new})
    assert refused is not None
    assert why in refused
    assert unfit(DIALECTS["anthropic"], body, {index: shortened(body, index)}) is None
