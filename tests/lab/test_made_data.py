"""The sessions under benchmarks/data are what their generator makes: nobody has touched them, nothing recorded is in
them."""

from __future__ import annotations

import pytest

from benchmarks import make_data
from holdfast.lab import lanes, read

MADE = make_data.made()


@pytest.mark.parametrize("name", MADE)
def test_the_committed_file_is_the_generated_one(name: str) -> None:
    assert (make_data.DATA / name).read_bytes() == MADE[name]


def test_nothing_else_is_there() -> None:
    assert {path.name for path in make_data.DATA.iterdir() if path.is_file()} == set(MADE)


def test_the_sessions_are_read_with_their_lanes() -> None:
    coding = read(make_data.DATA / "coding.jsonl")
    assert len(coding) == make_data.CODING
    assert all(trace.timed for trace in coding)
    assert any(len(lanes(trace)) > 1 for trace in coding)
    assert len(read(make_data.DATA / "dialogues.jsonl")) == make_data.DIALOGUES


def test_made_again_it_is_the_same() -> None:
    assert make_data.made() == MADE
