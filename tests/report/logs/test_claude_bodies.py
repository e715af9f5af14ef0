"""Newer transcripts have the requests in parts: where one read too little, it and the one before come back whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.report.logs import claude_bodies
from holdfast.report.logs.claude_code import reading
from holdfast.report.logs.records import LoggedRequest
from tests.report.logs.claude_logs import START, Talk, used


def bodies(talk: Talk, folder: Path) -> list[Any]:
    records = list(reading()(talk.write(folder / "s.jsonl"), lambda _: None))
    assert all(isinstance(record, LoggedRequest) for record in records)
    return [
        json.loads(record.body) if isinstance(record, LoggedRequest) and record.body else None for record in records
    ]


def session(reads: list[int], **options: Any) -> tuple[Talk, list[dict[str, Any]]]:
    """A talk of so many requests, each written down as an addition to the one before; and what was sent."""
    talk, sent = Talk(), []
    for number, tokens in enumerate(reads):
        at = START + 10 * number
        talk.asks(at)
        if not number:  # what the client adds to the first message is in no line
            talk.sent[0]["content"].insert(0, {"type": "text", "text": "Today is a day."})
        keep = len(talk.sent) - 2 if number else 0
        blobs = [0] if not number else []
        sent.append(talk.records(f"r{number}", at, f"r{number - 1}" if number else "", keep, blobs=blobs, **options))
        blocks = ["text", "tool_use", "tool_use"] if number % 2 else ["thinking", "text"]
        talk.answers(at + 1, used(read=tokens, write_5m=10, output=9), blocks, requestRef=f"r{number}")
    return talk, sent


def test_only_a_request_that_read_too_little_and_the_one_before_have_bodies(tmp_path: Path) -> None:
    talk, sent = session([0, 10, 20, 15, 25, 35, 3, 2, 12])
    assert bodies(talk, tmp_path) == [None, None, *sent[2:4], None, *sent[5:8], None]


def test_a_request_that_goes_back_names_an_earlier_base(tmp_path: Path) -> None:
    talk, sent = session([0, 10, 20])
    del talk.sent[2:]
    talk.asks(START + 100, chars=333)
    sent.append(talk.records("r9", START + 100, "r1", 2, system="Be long.", blobs=[2]))
    talk.answers(START + 101, used(read=5), requestRef="r9")
    assert bodies(talk, tmp_path) == [None, None, *sent[2:]]


def test_without_all_its_parts_there_is_no_body(tmp_path: Path) -> None:
    for missing in ("api-request-shape", "api-request-blob", '"id":"r0"', '"id":"r1"'):
        talk, _ = session([0, 10, 5])
        talk.lines = [line for line in talk.lines if missing not in line]
        assert bodies(talk, tmp_path) == [None] * 3, missing
    talk, _ = session([0, 10, 5], cut={"kind": "tool-mark-address"})
    assert bodies(talk, tmp_path) == [None] * 3
    talk, _ = session([0, 10, 5])
    talk.lines = [line.replace('["messages",', '["messages",7,') for line in talk.lines]
    assert bodies(talk, tmp_path) == [None] * 3
    talk, _ = session([0, 10, 5])
    talk.lines = [line.replace('"tail":[', '"tail":[7,') for line in talk.lines]
    assert bodies(talk, tmp_path) == [None] * 3


def test_after_a_compaction_requests_are_written_down_anew(tmp_path: Path) -> None:
    talk, _ = session([0, 10])
    talk.compacts(START + 50)
    after: list[Any] = []
    for number, tokens in enumerate((5, 15, 7)):
        talk.asks(START + 60 + number)
        keep = len(talk.sent) - 2 if number else 0
        base = f"n{number - 1}" if number else ""
        after.append(talk.records(f"n{number}", START + 60 + number, base, keep, blobs=[0] if not number else []))
        talk.answers(START + 61 + number, used(read=tokens, write_5m=10), requestRef=f"n{number}")
    # The compaction is the reason of the first; the last has none.
    assert bodies(talk, tmp_path) == [None, None, None, *after[1:]]


def test_a_request_of_another_model_is_compared_with_none(tmp_path: Path) -> None:
    talk, _ = session([0, 10])
    talk.asks(START + 30)
    talk.records("r2", START + 30, "r1", len(talk.sent) - 2, model="small")
    talk.answers(START + 31, used(read=1), model="small", requestRef="r2")
    assert bodies(talk, tmp_path) == [None] * 3


def test_what_is_kept_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk, sent = session([0, 10, 5])
    assert bodies(talk, tmp_path)[1:] == sent[1:]
    monkeypatch.setattr(claude_bodies, "MOST", 2000)
    assert bodies(talk, tmp_path) == [None] * 3
    monkeypatch.undo()

    monkeypatch.setattr(claude_bodies, "ASKED", 3)
    many, sent = session([0, 9, 8, 7, 6])
    assert bodies(many, tmp_path) == [*sent[:3], None, None]
    monkeypatch.undo()

    monkeypatch.setattr(claude_bodies, "UNTIL", 100)
    recorded = claude_bodies.RecordedRequests()
    for line in talk.lines[:2]:
        recorded.keep("user", line.encode() * 10)
    assert not recorded.waiting
    assert recorded.body("r0") is None
