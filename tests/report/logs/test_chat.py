"""Conversations as chat JSON: every answer was a request, and what stands before it was its body."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.lab import Trace, read
from holdfast.records import Usage
from holdfast.report.logs import bodies, chat
from holdfast.report.logs.lines import LONGEST
from holdfast.report.logs.records import BrokenSource, LoggedRequest
from holdfast.wire import DIALECTS, Unreadable
from tests.lab.recordings import OWN, RECORDED, needs_recordings
from tests.report.logs.request_logs import AS_BILLED, BILLED, is_mine, lanes, records, requests, talk, write

DIALOGUES = [json.loads(line) for line in (OWN / "dialogues.jsonl").read_text(encoding="utf-8").splitlines()]
TOOLS = json.loads((OWN / "dialogues-tools.json").read_text(encoding="utf-8"))
SESSION = json.loads((OWN / "session.json").read_text(encoding="utf-8"))


def same_as_traces(file: Path, traces: list[Trace]) -> None:
    """The bodies say what the steps of the traces say, call by call."""
    found = requests(chat, file)
    assert len(found) == sum(len(trace.steps) for trace in traces)
    steps = [(trace, step) for trace in traces for step in trace.steps]
    for record, (trace, step) in zip(found, steps, strict=True):
        assert record.session.rpartition("/")[2] == trace.name
        assert (record.model, record.usage, record.at) == (step.model, None, None)
        if step.number % 20 and step is not trace.steps[-1]:  # the bodies between grow from one to the next
            continue
        body = DIALECTS[record.dialect].parse(record.body or b"")
        assert not isinstance(body, Unreadable)
        assert DIALECTS[record.dialect].decode(body) == step.content


@pytest.mark.parametrize("name", ["dialogues.jsonl", "session.json"])
def test_the_requests_are_those_that_are_replayed(name: str) -> None:
    assert is_mine(chat, OWN / name)
    assert not is_mine(bodies, OWN / name)
    same_as_traces(OWN / name, read(OWN / name))


@needs_recordings
@pytest.mark.parametrize(("name", "count"), [("airline.jsonl", None), ("session-60.json", 60)])
def test_so_are_those_of_recorded_sessions(name: str, count: int | None) -> None:
    assert is_mine(chat, RECORDED / name)
    traces = read(RECORDED / name)
    assert count is None or [len(trace.steps) for trace in traces] == [count]
    same_as_traces(RECORDED / name, traces)


def test_each_body_begins_with_the_one_before(tmp_path: Path) -> None:
    found = requests(chat, write(tmp_path / "chat.jsonl", DIALOGUES[:1]))
    texts = [record.body or b"" for record in found]
    assert len(texts) > 2
    for before, after in pairwise(texts):
        assert before.endswith(b"]}")
        assert after.startswith(before[:-2])


@pytest.mark.parametrize("indent", [None, 1])
def test_one_conversation_or_many_in_whatever_form(tmp_path: Path, indent: int | None) -> None:
    whole = {"tools": TOOLS, "model": "gpt-5", **DIALOGUES[0]}
    several = [{"tools": TOOLS, "model": "gpt-5", **each} for each in DIALOGUES]
    expected = requests(chat, write(tmp_path / "lines.jsonl", several))

    def document(value: Any) -> list[LoggedRequest]:
        path = tmp_path / "chat.json"
        path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
        assert is_mine(chat, path)
        assert not is_mine(bodies, path)
        return requests(chat, path)

    def same(found: list[LoggedRequest], others: list[LoggedRequest]) -> bool:
        return [(one.session, one.model, json.loads(one.body or b"")) for one in found] == [
            (one.session, one.model, json.loads(one.body or b"")) for one in others
        ]

    first = [record for record in expected if record.session == DIALOGUES[0]["session"]]
    assert same(document(whole), first)
    assert same(document(several), expected)
    assert same(document({"object": "list", "data": several}), expected)
    assert same(document({"conversations": several}), expected)
    alone = document(DIALOGUES[0]["messages"])
    assert [len(json.loads(record.body or b"")["messages"]) for record in alone] == [
        len(json.loads(record.body or b"")["messages"]) for record in first
    ]
    assert {record.session for record in alone} == {f"{tmp_path.name}/chat"}


def test_tools_stand_beside_the_dialogues_or_in_them(tmp_path: Path) -> None:
    path = write(tmp_path / "chat.jsonl", DIALOGUES)
    assert b'"tools"' not in (requests(chat, path)[0].body or b"")
    (tmp_path / "chat-tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    assert json.loads(requests(chat, path)[0].body or b"")["tools"] == TOOLS
    assert not is_mine(chat, tmp_path / "chat-tools.json")
    (tmp_path / "chat-tools.json").write_text("nothing", encoding="utf-8")
    [broken, *rest] = records(chat, path)
    assert isinstance(broken, BrokenSource)
    assert broken.source == "chat-tools.json"
    assert len(rest) == sum(len(trace.steps) for trace in read(OWN / "dialogues.jsonl"))


def test_what_an_export_says_of_answers_is_no_part_of_the_requests(tmp_path: Path) -> None:
    counted = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}
    messages = [
        {"role": "user", "content": "One?", "timestamp": "2026-09-21T14:13:20Z"},
        {"role": "assistant", "content": "1", "id": "a", "usage": counted, "model": "gpt-5-mini", "timestamp": 9},
        {"role": "user", "content": "Two?", "created_at": 1_790_000_100},
        {"role": "assistant", "content": "2", "metadata": {"usage": counted}},
    ]
    found = requests(chat, write(tmp_path / "chat.jsonl", [{"id": "c", "model": "gpt-5", "messages": messages}]))
    billed = Usage(input=40, read=60, output=5)
    assert [(record.usage, record.model, record.at) for record in found] == [
        (billed, "gpt-5-mini", 1_790_000_000.0),
        (billed, "gpt-5", 1_790_000_100.0),
    ]
    assert json.loads(found[1].body or b"")["messages"] == [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "Two?"},
    ]


def test_usage_may_be_a_list_with_one_for_each_answer(tmp_path: Path) -> None:
    talked = talk(2)
    answers = [*talked["messages"], {"role": "assistant", "content": "The end."}]
    line = {"session": "s", **talked, "messages": answers, "usage": [BILLED, {}, BILLED]}
    found = requests(chat, write(tmp_path / "chat.jsonl", [line]))
    assert is_mine(chat, tmp_path / "chat.jsonl")
    assert [record.usage for record in found] == [AS_BILLED, None, AS_BILLED]
    assert {record.dialect for record in found} == {"anthropic"}


def test_completions_with_their_requests_are_requests(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}
    stored = {"id": "c", "object": "chat.completion", "created": 1_790_000_000, "choices": [], "usage": usage}
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}]}
    for item in ({"request": body, "response": stored}, {**stored, **body}):
        path = tmp_path / "completions.json"
        path.write_text(json.dumps([item, item], indent=2), encoding="utf-8")
        assert is_mine(chat, path)
        found = requests(chat, path)
        assert [record.usage for record in found] == [Usage(input=36, read=64, output=5)] * 2
        assert [record.at for record in found] == [1_790_000_000.0] * 2
        assert json.loads(found[0].body or b"") == body


def test_what_follows_the_last_answer_was_asked_in_anthropics_form_only(tmp_path: Path) -> None:
    asked = {"role": "user", "content": "And now?"}
    for messages, form, calls in (
        ([{"role": "system", "content": "S"}, *talk(2)["messages"]], "openai_chat", 2),
        (talk(2)["messages"], "anthropic", 3),
    ):
        system = {"system": "S"} if form == "anthropic" else {}
        path = tmp_path / "chat.json"
        path.write_text(json.dumps({**system, "messages": [*messages[:-1], asked]}), encoding="utf-8")
        found = requests(chat, path)
        assert {record.dialect for record in found} == {form}
        assert len(found) == calls


def test_one_that_begins_with_an_answer_was_not_asked_for_it(tmp_path: Path) -> None:
    greeted = [{"role": "assistant", "content": "Hello!"}, *talk(1)["messages"][:2]]
    [record] = requests(chat, write(tmp_path / "chat.jsonl", [{"session": "s", "messages": greeted}]))
    assert json.loads(record.body or b"")["messages"] == greeted[:2]


BROKEN = [
    b"{",
    b"17",
    b'{"session": "s", "messages": [{"role": "user", "content": "x"}, {"role": "robot"}, {"role": "assistant"}]}',
    b'{"session": "s", "messages": [{"role": "user", "content": 5}, {"role": "assistant", "content": "x"}]}',
    b'{"session": "s", "messages": [5, {"role": "assistant", "content": "x"}]}',
    b'{"session": "s", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"session": "s", "messages": 5}',
    b"\xff\xfe",
]


def test_a_broken_dialogue_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = DIALOGUES[0]
    path = write(tmp_path / "chat.jsonl", [line for bad in BROKEN for line in (good, bad)])
    broken = [record for record in records(chat, path) if isinstance(record, BrokenSource)]
    assert [record.source for record in broken] == [f"chat.jsonl:{2 * number}" for number in range(1, len(BROKEN) + 1)]
    assert all(0 < len(record.why) < 300 for record in broken)


@pytest.mark.parametrize(
    ("text", "places", "calls"),
    [
        (b"[%b, 5, %b]", ["chat.json[1]"], 2),
        (b'[%b, {"messages": 5}, %b]', ["chat.json[1]"], 2),
        (b"[%b, %b", ["chat.json[2]"], 2),
        (b'[%b, %b, {"mess', ["chat.json[2]"], 2),
        (b"[%b %b}", ["chat.json[2]"], 2),
        (b"\xef\xbb\xbf \r\n[%b,\r\n%b\r\n]\r\n", [], 2),
        (b"{%b: %b}", ["chat.json"], 0),
    ],
)
def test_a_broken_document_is_read_as_far_as_it_goes(
    tmp_path: Path, text: bytes, places: list[str], calls: int
) -> None:
    item = json.dumps({"session": "s", "messages": [*talk(0)["messages"], {"role": "assistant", "content": "1"}]})
    path = tmp_path / "chat.json"
    path.write_bytes(text % (item.encode(), item.encode()))
    found = records(chat, path)
    assert [record.source for record in found if isinstance(record, BrokenSource)] == places
    assert len(lanes(found)) == calls


def test_a_long_list_is_read_item_by_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.report.logs.documents._BLOCK", 100)
    monkeypatch.setattr("holdfast.report.logs.documents.LONGEST", 20_000)
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(DIALOGUES * 10, indent=1), encoding="utf-8")
    assert path.stat().st_size > 60_000
    assert len(requests(chat, path)) == 10 * len(requests(chat, OWN / "dialogues.jsonl"))
    long = {"session": "long", "messages": [{"role": "user", "content": "x" * 30_000}]}
    path.write_text(json.dumps([DIALOGUES[0], long, DIALOGUES[0]]), encoding="utf-8")
    found = records(chat, path)
    assert isinstance(found[-1], BrokenSource)
    assert "longer" in found[-1].why
    assert LONGEST > 2**20


def test_packed_files_are_read(tmp_path: Path) -> None:
    for name in ("dialogues.jsonl", "session.json"):
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress((OWN / name).read_bytes()))
        assert is_mine(chat, path)
        assert len(requests(chat, path)) == len(requests(chat, OWN / name))


def test_other_documents_are_not_taken_for_conversations(tmp_path: Path) -> None:
    others: list[Any] = [
        {"name": "package", "version": "1"},
        {"role": "user", "id": "msg_1", "sessionID": "ses_1"},
        {"messages": {"hello": "Hello"}},
        {"messages": ["Hello", "Goodbye"]},
        {"data": [1, 2, 3]},
        [],
        [{"type": "function", "function": {"name": "f"}}],
        [{"role": "admin", "user": "x"}],
        5,
    ]
    path = tmp_path / "other.json"
    for value in others:
        for indent in (None, 2):
            path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
            assert not is_mine(chat, path), value
    path.write_bytes(b"\x00\x01")
    assert not is_mine(chat, path)
    assert not chat.is_mine(tmp_path, b"")
    [record] = chat.read(tmp_path / "none.json", lambda _: None)
    assert isinstance(record, BrokenSource)
