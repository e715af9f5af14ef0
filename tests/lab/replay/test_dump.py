"""Dumped bodies: everything as it was sent, so that an outsider comes to the same figures."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.lab import ReplayOptions, Trace, playback, run
from holdfast.lab.playback import ReplayedCall
from holdfast.lab.sessions import TimedRequest
from tests.lab.recordings import needs_recordings, own, recorded
from tests.lab.replay import outside_prices
from tests.lab.replay.coding_sessions import coding_session

OPUS = "claude-opus-4-6"


def reprice(traces: list[Trace], strategies: list[str], path: Path, *, near: float) -> None:
    """An outsider's costs are near ours, in their ratio to the optimum and in their order."""
    report = run(traces, [*strategies, "optimal"], [OPUS], ReplayOptions(dump=path))
    with path.open(encoding="utf-8") as lines:
        theirs = outside_prices.costs(lines)
    ours = {result.strategy: result.over_optimal for result in report.results if result.kind != "billed"}
    assert set(theirs) == set(ours)
    for name, ratio in ours.items():
        assert theirs[name] / theirs["optimal"] == pytest.approx(ratio, rel=near), name
    order = list(ours)
    for cheaper, dearer in pairwise(order):
        one, other = ours[cheaper], ours[dearer]
        assert one is not None
        assert other is not None
        if other > one * (1 + near):
            assert theirs[cheaper] < theirs[dearer]


@pytest.mark.slow
def test_an_outsider_comes_to_the_same_figures(tmp_path: Path) -> None:
    strategies = ["economic", "rolling", "rolling-1h", "two-point", "claude-code", "opencode", "automatic", "none"]
    traces = [coding_session(), coding_session(name="second", compaction=13)]
    reprice(traces, strategies, tmp_path / "bodies.jsonl", near=0.005)


@needs_recordings
@pytest.mark.slow
def test_on_recorded_sessions_too(tmp_path: Path) -> None:
    reprice([recorded("coding-2")], ["economic", "rolling-1h", "automatic"], tmp_path / "bodies.jsonl", near=0.005)


def test_a_line_says_what_was_sent_and_what_was_foreseen(tmp_path: Path) -> None:
    path = tmp_path / "bodies.jsonl"
    report = run([coding_session(6, agent=True)], ["rolling", "none"], [OPUS], ReplayOptions(dump=path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 12
    for name in ("rolling", "none"):
        mine = [line for line in lines if line["strategy"] == name]
        result = next(result for result in report.results if result.strategy == name)
        assert sum(line["predicted"]["read"] for line in mine) == result.read
        assert sum(line["predicted"]["write_5m"] for line in mine) == result.writes.get("5m", 0)
        assert sum(line["predicted"]["output"] for line in mine) == result.output
    first = lines[0]
    assert (first["session"], first["lane"], first["model"], first["seed"]) == ("own", OPUS, f"anthropic:{OPUS}", 11)
    assert first["body"]["model"] == OPUS
    assert first["at"] == 0.0
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert lines[6]["at"] == 2 * 86_400.0  # another strategy: nothing that was cached is left


def test_the_body_stands_there_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, sent, kept = tmp_path / "bodies.jsonl", list[bytes](), playback.Dump.sent

    def sending(self: playback.Dump, turn: TimedRequest, prepared: ReplayedCall) -> None:
        sent.append(prepared.raw)
        kept(self, turn, prepared)

    monkeypatch.setattr(playback.Dump, "sent", sending)
    run([own("session")], ["automatic", "economic"], [OPUS], ReplayOptions(dump=path))
    lines = path.read_bytes().splitlines()
    assert len(lines) == len(sent) > 10
    assert all(line.endswith(b'"body":' + raw + b"}") for line, raw in zip(lines, sent, strict=True))
    assert json.loads(sent[0])["cache_control"] == {"type": "ephemeral"}


def test_line_breaks_between_values_become_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bodies.jsonl"
    monkeypatch.setattr(ReplayedCall, "raw", b'{\n "a": 1\r\n}')
    run([coding_session(2)], ["none"], [OPUS], ReplayOptions(dump=path))
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2
    assert all(line.endswith(b'"body":{  "a": 1  }}') for line in lines)


def test_the_same_seed_writes_the_same_file(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        run(
            [coding_session(6)],
            ["economic", "opencode"],
            [OPUS],
            ReplayOptions(gaps="minutes", seeds=(11, 23), dump=path),
        )
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="cannot be written"):
        run([coding_session(2)], ["none"], [OPUS], ReplayOptions(dump=tmp_path / "missing" / "bodies.jsonl"))
