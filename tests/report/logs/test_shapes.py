"""Shape traces one line at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.lab import read
from holdfast.report.logs import bodies, chat, shapes
from holdfast.report.logs.records import BrokenSource, LoggedRequest
from holdfast.report.logs.traces import lane_name
from tests.lab.recordings import OWN, RECORDED, needs_recordings
from tests.report.logs.request_logs import is_mine, records, requests, write

LINE = json.loads((OWN / "shapes.jsonl").read_text(encoding="utf-8").splitlines()[0])


def same_as_traces(file: Path) -> None:
    assert is_mine(shapes, file)
    assert not is_mine(bodies, file)
    assert not is_mine(chat, file)
    steps = {trace.name: list(trace.steps) for trace in read(file)}
    found = requests(shapes, file)
    assert len(found) == sum(map(len, steps.values()))
    for record in found:
        step = steps[record.session].pop(0)
        assert (record.model, record.at, record.first_token_at) == (step.model, step.at, step.first_token_at)
        assert (record.usage, record.reset) == (step.usage, step.reset)
        assert lane_name(record.model, record.agent == shapes.SIDE_CHAIN) == step.lane
        assert (record.body, record.dialect) == (None, "")


def test_the_requests_are_those_that_are_replayed() -> None:
    same_as_traces(OWN / "shapes.jsonl")


@needs_recordings
@pytest.mark.parametrize("name", ["coding-1.jsonl", "coding-2.jsonl"])
def test_so_are_those_of_recorded_sessions(name: str) -> None:
    same_as_traces(RECORDED / name)


def test_side_chains_and_requests_without_usage(tmp_path: Path) -> None:
    lines = [LINE, {**LINE, "request": 2, "sidechain": True}, {**LINE, "request": 3, "usage": None}]
    del lines[0]["sidechain"]
    found = requests(shapes, write(tmp_path / "log.jsonl", lines))
    assert [(record.agent, record.usage is None) for record in found] == [("", False), ("sidechain", False), ("", True)]
    assert [record.source for record in found] == ["log.jsonl:1", "log.jsonl:2", "log.jsonl:3"]


def test_a_broken_line_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad = [
        b"{",
        b"[]",
        json.dumps({**LINE, "usage": {**LINE["usage"], "read": -1}}).encode(),
        json.dumps({**LINE, "usage": {**LINE["usage"], "read": 2**53}}).encode(),
        json.dumps({**LINE, "usage": {**LINE["usage"], "output": 10**400}}).encode(),
        json.dumps({**LINE, "at": "soon"}).encode(),
        json.dumps({name: value for name, value in LINE.items() if name != "added"}).encode(),
        json.dumps({**LINE, "added": [{"role": "robot", "type": "text", "chars": 1}]}).encode(),
        b'{"session": "\\ud83d"}',
        b"\xff",
        b"[" * 100_000,
    ]
    path = write(tmp_path / "log.jsonl", [line for each in bad for line in (LINE, each)])
    found = records(shapes, path)
    broken = [record for record in found if isinstance(record, BrokenSource)]
    assert [record.source for record in broken] == [f"log.jsonl:{2 * number}" for number in range(1, len(bad) + 1)]
    assert all(0 < len(record.why) < 300 for record in broken)
    assert sum(isinstance(record, LoggedRequest) for record in found) == len(bad)


def test_marks_and_line_ends_of_other_systems_are_no_matter(tmp_path: Path) -> None:
    text = json.dumps(LINE).encode()
    path = write(tmp_path / "log.jsonl", [b"\xef\xbb\xbf" + text + b"\r", text + b"\r", b"\r"])
    assert is_mine(shapes, path)
    assert len(requests(shapes, path)) == 2
