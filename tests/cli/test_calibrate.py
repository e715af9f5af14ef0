"""`holdfast simulate calibrate` as a user sees it."""

from __future__ import annotations

import json

import pytest

from holdfast.cli import run


def line(number: int, at: float, read: int, written: int) -> str:
    usage = {"input": 3, "read": read, "write_5m": written, "write_1h": 0, "output": 40}
    added = [{"role": "user", "type": "text", "chars": 40}]
    about = {"session": "own", "request": number, "at": at, "first_token_at": at + 1, "model": "claude-opus-4-6"}
    return json.dumps(about | {"sidechain": False, "reset": None, "added": added, "usage": usage}) + "\n"


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text(line(1, 0, 6_000, 1_000) + line(2, 30, 7_000, 500) + line(3, 400, 0, 8_000))
    return path


def test_it_prints_what_agrees(trace, capsys):
    assert run(["simulate", "calibrate", str(trace)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "own: 2 of 2 requests agree within 1% (100.0%)",
        "  claude-opus-4-6: tools and system text end at 6,000 tokens (taken from the first request)",
        "  not compared, because what they read is where the rules start from: 1",
    ]


def test_without_a_rule_it_fails(trace, capsys):
    assert run(["simulate", "calibrate", "--without", "ttl", str(trace)]) == 1
    out, err = capsys.readouterr()
    assert "without ttl, these disagree in addition: 3" in out
    assert "3  foreseen     7,500  read         0  the lane had been idle for 370 s, longer than 5m" in out
    assert err == ("holdfast: own: fewer than 95% of the requests agree; the rules were compared without ttl.\n")


def test_nothing_to_compare_is_no_success(trace, capsys):
    trace.write_text(line(1, 0, 6_000, 1_000))
    assert run(["simulate", "calibrate", str(trace)]) == 1
    assert "no request is left to compare" in capsys.readouterr().err


def test_json(trace, capsys):
    assert run(["simulate", "calibrate", "--json", str(trace), str(trace)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["trace"], one["share"], one["compared"]) for one in found] == [("own", 1.0, 2)] * 2


def test_a_broken_line_is_named(trace, capsys):
    trace.write_text(trace.read_text() + "{\n")
    assert run(["simulate", "calibrate", str(trace)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("holdfast: ")
    assert "own.jsonl:4:" in err
    assert err.count("\n") == 1


def test_it_needs_a_trace(capsys):
    assert run(["simulate", "calibrate"]) == 2
    assert run(["simulate", "calibrate", "--help"]) == 0
    assert "holdfast simulate calibrate session.jsonl" in capsys.readouterr().out
