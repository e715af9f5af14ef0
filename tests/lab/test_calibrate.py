"""The rules against billed usage: they agree where they should, and the comparison notices when a rule is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.lab import read
from holdfast.lab.calibration import TraceCalibration, calibrate
from holdfast.lab.rebuild import head_of, rebuild
from tests.lab.recordings import RECORDED, needs_recordings

HEAD, SHARED_HEAD = 9_000, 6_000


class Session:
    """A session as a provider would bill it, written line by line; the figures are said, not computed by our rules."""

    def __init__(self, ttl: str = "5m") -> None:
        self.lines: list[dict[str, object]] = []
        self.at, self.total, self.ttl = 0.0, HEAD, ttl

    def ask(self, read: int, grown: int = 500, *, after: float = 20.0, **more: object) -> Session:
        self.at += after
        self.total = int(str(more.pop("total", self.total + grown)))
        usage = {"input": 3, "read": read, "write_5m": 0, "write_1h": 0, "output": 40}
        usage[f"write_{self.ttl}"] = self.total - read
        added = more.pop("added", None) or [
            {"role": "assistant", "type": "tool_use", "chars": 60, "tool": "Bash"},
            {"role": "user", "type": "tool_result", "chars": 900, "error": False},
        ]
        line = {"session": "own", "request": len(self.lines) + 1, "at": self.at, "first_token_at": self.at + 2}
        model = {"model": "claude-opus-4-6", "sidechain": False, "reset": None}
        self.lines.append(line | model | {"added": added, "usage": usage} | more)
        return self

    def next(self, **more: object) -> Session:
        """A request that reads all that was covered before."""
        return self.ask(self.total, **more)  # type: ignore[arg-type]

    def calibrate(self, tmp_path: Path, *without: str) -> TraceCalibration:
        path = tmp_path / "own.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return calibrate(read(path)[0], without=without)  # type: ignore[arg-type]


def numbers(found: TraceCalibration) -> list[int]:
    return [each.number for each in found.disagreements]


@pytest.fixture
def session() -> Session:
    """Three requests, an expiry before the fourth, a compaction before the sixth."""
    session = Session().ask(SHARED_HEAD).next().next()
    session.ask(0, after=400).next()
    return session.ask(
        HEAD, total=HEAD + 2_000, reset="compaction", added=[{"role": "user", "type": "text", "chars": 9}]
    )


def test_a_session_that_keeps_the_rules_agrees(session, tmp_path):
    found = session.next().calibrate(tmp_path)
    assert (found.compared, found.agreed, found.share, found.enough) == (5, 5, 1.0, True)
    assert [(head.shared, head.whole, head.told_by) for _, head in found.heads] == [(SHARED_HEAD, HEAD, 6)]


def test_without_lifetimes_the_expiry_disagrees(session, tmp_path):
    found = session.calibrate(tmp_path, "ttl")
    assert numbers(found) == [4]
    assert found.disagreements[0].why == "the lane had been idle for 400 s, longer than 5m"
    assert not found.enough


def test_without_resets_the_compaction_disagrees_and_nothing_after_it(session, tmp_path):
    found = session.next().next().calibrate(tmp_path, "resets")
    assert numbers(found) == [6]
    assert "shorter" in found.disagreements[0].why


def test_a_history_that_changed_unseen_is_out_of_reach(session, tmp_path):
    found = session.ask(HEAD).next().calibrate(tmp_path)
    assert [(each.number, each.billed, each.unknowable) for each in found.disagreements] == [(7, HEAD, True)]


def test_a_read_nobody_wrote_is_no_excuse(tmp_path):
    found = Session().ask(SHARED_HEAD).ask(HEAD + 490, grown=600).calibrate(tmp_path)
    assert numbers(found) == []  # within one per cent of what was written
    found = Session().ask(0).ask(HEAD + 500).ask(HEAD + 1_500, grown=1_000, after=400).calibrate(tmp_path)
    assert [(each.number, each.unknowable) for each in found.disagreements] == [(3, False)]


def test_the_hour_is_told_from_the_writes(tmp_path):
    found = Session("1h").ask(SHARED_HEAD).next(after=3_500.0).ask(0, after=3_700.0).calibrate(tmp_path)
    assert found.agreed == 2
    assert numbers(Session("5m").ask(SHARED_HEAD).next(after=3_500.0).calibrate(tmp_path)) == [2]


def test_more_than_twenty_positions_miss(tmp_path):
    """Text blocks, which are a position each; the rules fall back on the head."""
    many = [{"role": "user", "type": "text", "chars": 10}] * 20
    session = Session().ask(SHARED_HEAD)
    covered = session.total
    assert numbers(session.ask(covered, added=many).calibrate(tmp_path)) == [2]


def test_lanes_are_apart(tmp_path):
    session = Session().ask(SHARED_HEAD).next()
    side = Session()
    side.at, side.total = 5.0, 4_000
    side.ask(0, model="claude-haiku-4-5").next(model="claude-haiku-4-5")
    session.lines = sorted([*session.lines, *side.lines], key=lambda line: float(str(line["at"])))
    for number, line in enumerate(session.lines, 1):
        line["request"] = number
    found = session.calibrate(tmp_path)
    assert (found.lanes, found.compared, found.agreed) == (2, 2, 2)


def test_a_lane_without_a_reset_takes_its_head_from_the_first_request(tmp_path):
    path = tmp_path / "own.jsonl"
    lines = Session().ask(SHARED_HEAD).next().lines
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    steps = read(path)[0].steps
    assert (head_of(steps).whole, head_of(steps).told_by) == (SHARED_HEAD, None)
    for request in rebuild(steps):
        assert sum(block.tokens for block in request.blocks) == request.step.usage.prompt


def test_the_request_that_told_where_the_head_ends_confirms_nothing(session, tmp_path):
    """Requests 1 and 6 went into the rebuilt lane; without resets nothing was taken from 6, and it is compared."""
    assert session.calibrate(tmp_path).compared == 4
    assert session.calibrate(tmp_path, "resets").compared == 5


def test_what_was_not_sent_at_the_start_is_no_head(tmp_path):
    """A compaction that keeps some of the history reads more than the head; it must not be taken for one."""
    session = Session().ask(SHARED_HEAD).next(grown=20_000).next()
    found = session.ask(HEAD + 4_000, total=HEAD + 5_000, reset="compaction").next().calibrate(tmp_path)
    assert [(head.whole, head.told_by) for _, head in found.heads] == [(SHARED_HEAD, None)]
    assert [(each.number, each.unknowable) for each in found.disagreements] == [(4, False)]


def test_two_lifetimes_tell_where_the_head_ends(tmp_path):
    """A12: what a first request writes for the hour is its head, and outlives the rest."""
    session = Session().ask(0).next()
    session.lines[0]["usage"] = {"input": 3, "read": 0, "write_1h": HEAD, "write_5m": 500, "output": 4}
    found = session.ask(HEAD, after=400.0).calibrate(tmp_path)
    assert [(head.whole, head.told_by) for _, head in found.heads] == [(HEAD, 1)]
    assert (found.compared, numbers(found)) == (2, [])


def test_a_request_that_was_not_billed_takes_no_part(tmp_path):
    nothing = {"input": 0, "read": 0, "write_5m": 0, "write_1h": 0, "output": 0}
    session = Session().ask(SHARED_HEAD).next()
    covered = session.total
    session.ask(0, usage=nothing)
    session.total = covered
    found = session.next().calibrate(tmp_path)
    assert (found.compared, numbers(found)) == (2, [])
    empty = Session().ask(0, usage=nothing).ask(0, usage=nothing).calibrate(tmp_path)
    assert (empty.compared, empty.share, empty.enough, empty.heads) == (0, None, False, ())


def test_what_has_not_begun_cannot_be_read_at_the_same_moment(tmp_path):
    """A11: two requests at once, the second billed as if it had read the first."""
    found = Session().ask(SHARED_HEAD).next(after=0.0).calibrate(tmp_path)
    assert [(each.number, each.unknowable, each.why) for each in found.disagreements] == [
        (2, False, "more was read than any live entry holds")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"first_token_at": 1.0},
        {"at": None},
        {"at": -1.0},
        {"usage": None},
        {"usage": {"input": 1}},
        {"usage": {"input": 1, "read": -1, "write_5m": 0, "write_1h": 0, "output": 0}},
        {"usage": {"input": 1, "read": 1.5, "write_5m": 0, "write_1h": 0, "output": 0}},
        {"added": [{"role": "nobody", "type": "text", "chars": 1}]},
        {"added": [{"role": "user", "type": "text", "chars": -1}]},
        {"model": ""},
        {"model": "gpt-5.5"},
        {"request": 0},
    ],
    ids=str,
)
def test_a_wrong_figure_is_one_sentence_with_its_line(tmp_path, change):
    session = Session().ask(SHARED_HEAD).next()
    session.lines[1] |= change
    with pytest.raises(HoldfastError, match=r"^own\.jsonl:[12]: .*[^.]\.$") as error:
        session.calibrate(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("figure", [2**53 + 1, 2**62], ids=str)
def test_huge_figures_are_figures(tmp_path, figure):
    found = Session().ask(figure, total=figure + 1).next(added=[{"role": "user", "type": "text", "chars": figure}])
    assert found.calibrate(tmp_path).agreed == 1


def test_a_trace_without_usage_is_refused(tmp_path):
    path = tmp_path / "airline.jsonl"
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    path.write_text(json.dumps({"session": "a", "messages": messages}) + "\n")
    with pytest.raises(HoldfastError, match=r"airline\.jsonl:1: request 1 has no shape"):
        calibrate(read(path)[0])


def test_another_providers_trace_is_refused(tmp_path):
    with pytest.raises(HoldfastError, match="only Anthropic sessions"):
        Session().ask(0, model="gpt-5.5").calibrate(tmp_path)


REAL = {
    "coding-1": {(): [32, 150], ("resets",): [32, 103, 150], ("ttl",): [32, 150]},
    "coding-2": {(): [138], ("resets",): [62, 138], ("ttl",): [19, 114, 138]},
}


@needs_recordings
@pytest.mark.parametrize("name", sorted(REAL))
def test_real_sessions_agree_within_one_per_cent(name):
    trace = read(RECORDED / f"{name}.jsonl")[0]
    for without, expected in REAL[name].items():
        found = calibrate(trace, without=without)
        assert numbers(found) == expected
    found = calibrate(trace)
    assert found.enough
    assert all(each.unknowable for each in found.disagreements)
