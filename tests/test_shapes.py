"""The recorded shapes: they load, they are whole, and they relate to each other as the recordings did."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from scripts import make_shapes
from tests.shapes import FIXTURES, SOURCE, Shape, conversations, load, needs_recordings

BODIES = [shape for shape in load() if shape.body]


def _walk(value: Any) -> Any:
    yield value
    if isinstance(value, dict):
        for item in value.values():
            yield from _walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item)


def _source() -> dict[tuple[str, str, int], Any]:
    lines = [line for path in sorted(SOURCE.glob("*.jsonl")) for line in path.read_text().splitlines()]
    records = [json.loads(line) for line in lines]
    return {(record["client"], record["run"], record["n"]): record for record in records}


def _messages(body: Any) -> list[Any]:
    found = body.get("messages") or body.get("input") or body.get("contents") or []
    return found if isinstance(found, list) else [found]


def _leading_equal(first: list[Any], second: list[Any]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


# The files


def test_fifteen_clients_and_every_dialect_are_there() -> None:
    assert len({shape.client for shape in load()}) == 15
    assert {shape.dialect for shape in BODIES} == {"anthropic", "openai_chat", "openai_responses", "gemini"}


def test_the_variants_that_clients_send_are_there() -> None:
    text = "\n".join(shape.body.decode() for shape in BODIES if shape.body)
    wanted = ['"tool_use"', '"tool_calls"', '"function_call"', '"functionCall"', '"thinking"', '"ttl":"1h"']
    wanted += ['"previous_response_id"', '"json_schema"', '"role":"system"', '"encrypted_content"']
    assert [sign for sign in wanted if sign not in text] == []
    headers = {name.lower() for shape in load() for name, _ in shape.headers}
    assert {"x-claude-code-agent-id", "x-parent-session-id", "session-id", "x-session-id"} <= headers


def test_they_stay_small() -> None:
    assert sum(path.stat().st_size for path in FIXTURES.glob("*.jsonl")) < 1_500_000


@pytest.mark.parametrize("shape", BODIES, ids=lambda shape: shape.id)
def test_every_body_is_json(shape: Shape) -> None:
    assert shape.body is not None
    assert isinstance(json.loads(shape.body), dict)


def test_json_in_strings_stays_json() -> None:
    arguments = [
        value["arguments"]
        for shape in BODIES
        for value in _walk(json.loads(shape.body or b""))
        if isinstance(value, dict) and isinstance(value.get("arguments"), str)
    ]
    assert arguments
    assert all(isinstance(json.loads(text), dict) for text in arguments)


@pytest.mark.parametrize("shape", BODIES, ids=lambda shape: shape.id)
def test_tool_results_answer_calls_of_the_same_request(shape: Shape) -> None:
    body = json.loads(shape.body or b"")
    calls: set[str] = set()
    answers: set[str] = set()
    for value in _walk(_messages(body)):
        if not isinstance(value, dict):
            continue
        if value.get("type") in ("tool_use", "function_call", "function", "custom_tool_call"):
            calls.add(value.get("call_id") or value.get("id", ""))
        elif isinstance(value.get("functionCall"), dict):
            calls.add(value["functionCall"].get("id", ""))
        elif isinstance(value.get("functionResponse"), dict):
            answers.add(value["functionResponse"].get("id", ""))
        elif value.get("type") in ("tool_result", "function_call_output", "custom_tool_call_output"):
            answers.add(value.get("tool_use_id") or value["call_id"])
        elif value.get("role") == "tool":
            answers.add(value["tool_call_id"])
    if "previous_response_id" not in body:
        assert answers <= calls
        assert "" not in calls


def test_no_credential_and_no_absolute_path_is_kept() -> None:
    secret = {"authorization", "x-api-key", "x-goog-api-key"}
    assert {value for shape in load() for name, value in shape.headers if name.lower() in secret} == {"dummy"}
    text = "".join(path.read_text() for path in FIXTURES.glob("*.jsonl"))
    assert re.findall(r"/(?:home|root|tmp|Users|work|var)/\w+", text) == []


# The loader


def test_a_run_begins_at_zero_and_counts_upwards() -> None:
    for requests in conversations().values():
        assert requests[0].at == 0
        assert [shape.n for shape in requests] == sorted(shape.n for shape in requests)
        assert [shape.at for shape in requests] == sorted(shape.at for shape in requests)


def test_an_unknown_client_is_refused() -> None:
    with pytest.raises(LookupError, match="no recorded client 'nobody'"):
        load("nobody")


def test_the_path_tells_the_dialect() -> None:
    hello = next(shape for shape in load("claude-code-tui") if shape.method == "HEAD")
    assert (hello.dialect, hello.body) == (None, None)
    assert {shape.dialect for shape in load("gemini-cli-0.61")} == {"gemini"}


def test_headers_are_found_in_any_case() -> None:
    shape = load("claude-code-2.1.325")[0]
    assert shape.header("x-claude-code-session-id") == shape.header("X-Claude-Code-Session-Id") is not None
    assert shape.header("x-none") is None


# The relation to the recordings


@needs_recordings
def test_consecutive_requests_share_as_many_leading_messages_as_in_the_recordings() -> None:
    source = _source()
    compared = 0
    for requests in conversations().values():
        with_body = [shape for shape in requests if shape.body]
        for before, after in itertools.pairwise(with_body):
            ours = [_messages(json.loads(shape.body or b"")) for shape in (before, after)]
            theirs = [
                _messages(json.loads(source[shape.client, shape.run, shape.n]["body"])) for shape in (before, after)
            ]
            assert _leading_equal(*ours) == _leading_equal(*theirs), after.id
            assert [len(side) for side in ours] == [len(side) for side in theirs]
            compared += 1
    assert compared > 80


@needs_recordings
def test_only_strings_differ_from_the_recordings() -> None:
    def shape_of(raw: str) -> str:
        return re.sub(r'"(?:[^"\\]|\\.)*"(\s*:)?', lambda match: match[0] if match[1] else '""', raw)

    source = _source()
    for shape in BODIES:
        recorded = source[shape.client, shape.run, shape.n]["body"]
        assert shape_of((shape.body or b"").decode()) == shape_of(recorded), shape.id


@needs_recordings
@pytest.mark.parametrize("key", ["role", "type", "model", "name", "ttl", "required", "enum"])
def test_structural_values_are_those_of_the_recordings(key: str) -> None:
    def values(raw: str) -> list[str]:
        return [json.dumps(v[key]) for v in _walk(json.loads(raw)) if isinstance(v, dict) and key in v]

    def flat(found: list[str]) -> list[str]:
        return [value for value in found if not value.startswith("{")]

    source = _source()
    for shape in BODIES:
        recorded = source[shape.client, shape.run, shape.n]["body"]
        assert flat(values((shape.body or b"").decode())) == flat(values(recorded)), shape.id


@needs_recordings
def test_no_text_and_no_id_of_the_recordings_survives() -> None:
    ours = "".join(path.read_text() for path in FIXTURES.glob("*.jsonl"))
    prose: set[str] = set()
    ids: set[str] = set()
    for record in _source().values():
        if record["body"]:
            texts = {value for value in _walk(json.loads(record["body"])) if isinstance(value, str)}
            prose |= {t for t in texts if len(t) > 3 and " " in t and not t.startswith("x-anthropic-billing")}
        everything = json.dumps(record["headers"]) + (record["body"] or "")
        ids |= set(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?:toolu|call|resp|ses)_\w{12,}|[0-9a-f]{32,}", everything))
    assert len(prose) > 500
    assert len(ids) > 50
    assert [text for text in prose if json.dumps(json.dumps(text))[1:-1] in ours or text in ours] == []
    assert [id_ for id_ in ids if id_ in ours] == []


@needs_recordings
def test_the_generator_makes_exactly_these_files(tmp_path: Path) -> None:
    assert make_shapes.main([str(SOURCE), str(tmp_path)]) == 0
    made = {path.name: path.read_text() for path in tmp_path.glob("*.jsonl")}
    assert made == {path.name: path.read_text() for path in FIXTURES.glob("*.jsonl")}


# The generator


def _rewritten(body: str) -> str:
    result = make_shapes.Rewriter(make_shapes.Disguise()).json(body)
    assert isinstance(result, str)
    return result


def test_spacing_order_and_numbers_stay_as_sent() -> None:
    body = '{ "b" :1E5, "a":[1.0,  12345678901234567890 ], "text":"some words" ,"x":null}'
    assert re.sub(r'"text":"[^"]*"', '"text":"some words"', _rewritten(body)) == body


@pytest.mark.parametrize("escape", ["\\n", "\\t", "\\u00e9", "\\u00E9", "é", '\\"', "\\\\", "\\ud800", "\\u0000"])
def test_escapes_stay_escapes(escape: str) -> None:
    made = _rewritten(f'{{"text":"one two {escape} three four"}}')
    assert escape in made
    assert "two" not in made
    json.loads(made)


def test_equal_texts_stay_equal_and_different_ones_different() -> None:
    body = json.dumps({"messages": [{"text": text} for text in ("ls", "ls", "cd", "a b c", "a b d")]})
    texts = [message["text"] for message in json.loads(_rewritten(body))["messages"]]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 4


def test_long_texts_are_cut_with_every_kind_of_escape_left() -> None:
    text = json.loads(_rewritten(json.dumps({"text": ("word\n" * 300) + "\t" + 'q"' * 20 + "😀"})))["text"]
    assert len(text) <= 2 * make_shapes.CAP
    assert set('\n\t"😀') <= set(text)


def test_what_a_model_wrote_is_content_even_under_structural_keys() -> None:
    body = '{"type":"tool_use","name":"Read","input":{"name":"secret","type":"private"}}'
    made = json.loads(_rewritten(body))
    assert (made["type"], made["name"]) == ("tool_use", "Read")
    assert "secret" not in json.dumps(made)
    assert "private" not in json.dumps(made)


def test_a_schema_property_called_input_keeps_its_type() -> None:
    body = '{"properties":{"input":{"type":"string","description":"what to read"}}}'
    assert json.loads(_rewritten(body))["properties"]["input"]["type"] == "string"


def test_ids_keep_their_form_and_match_each_other() -> None:
    disguise = make_shapes.Disguise()
    made = disguise.id("toolu_255ca33a76964369b0dcb1")
    assert re.fullmatch(r"toolu_[0-9a-f]{22}", made)
    assert made == disguise.id("toolu_255ca33a76964369b0dcb1") != "toolu_255ca33a76964369b0dcb1"
    uuid = "01a1ddcb-9fe2-7a30-ba66-158d15897906"
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-b[0-9a-f]{3}-[0-9a-f]{12}", disguise.id(uuid))
    assert disguise.id(f"msg_{uuid}") == "msg_" + disguise.id(uuid)
    assert disguise.id("run_shell_command_1794722471970_0").startswith("run_shell_command_")


def test_the_attribution_line_keeps_its_form() -> None:
    line = "x-anthropic-billing-header: cc_version=2.1.325.52d; cc_entrypoint=sdk-cli;"
    made = json.loads(_rewritten(json.dumps({"text": line})))["text"]
    assert made != line
    assert re.fullmatch(r"x-anthropic-billing-header: cc_version=2\.1\.325\.[0-9a-f]{3}; cc_entrypoint=sdk-cli;", made)


def test_credentials_go_and_unknown_headers_are_left_out() -> None:
    rewriter = make_shapes.Rewriter(make_shapes.Disguise())
    assert rewriter.header("Authorization", "Bearer abc") == "dummy"
    assert rewriter.header("Cookie", "a=b") is None
    assert rewriter.header("User-Agent", "x/1") == "x/1"
    assert rewriter.header("X-Session-Id", "ses_e2233567dffevKjmYwoLwfeZrk") not in (
        None,
        "ses_e2233567dffevKjmYwoLwfeZrk",
    )


def test_an_empty_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_shapes.main([str(tmp_path), str(tmp_path / "out")])
    assert "holds no *.jsonl file" in capsys.readouterr().err
