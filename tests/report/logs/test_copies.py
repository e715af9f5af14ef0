"""An older copy of a session, read before it: what follows in the longer one is still told of a compaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.report.logs.discovery import LogReader, sources
from holdfast.report.logs.records import LoggedRequest
from tests.report.logs import claude_logs, codex_logs, pi_logs
from tests.report.logs.claude_logs import START


def claude(top: Path) -> None:
    talk = claude_logs.Talk()
    talk.asks(START)
    talk.answers(START + 2, claude_logs.used(read=17_000, write_5m=9_000, output=5))
    talk.write(top / "backup" / "s.jsonl")
    talk.compacts(START + 20)
    talk.asks(START + 30)
    talk.answers(START + 32, claude_logs.used(read=17_000, write_5m=800, output=5))
    talk.write(top / "now" / "s.jsonl")


def pi(top: Path) -> None:
    session = pi_logs.Session()
    session.asks(START)
    session.answers(START + 1, pi_logs.used(read=17_000, written=9_000, output=5))
    session.save(top / "backup")
    session.compacts(START + 20)
    session.asks(START + 30)
    session.answers(START + 31, pi_logs.used(read=17_000, written=800, output=5))
    session.save(top / "now")


def codex(top: Path) -> None:
    rollout = codex_logs.Rollout()
    rollout.turn(START + 10)
    rollout.answers(START + 15, codex_logs.used(30_000, 20_000, 5))
    rollout.ends()
    rollout.save(top / "backup")
    rollout.turn(START + 60, asks=False)
    rollout.write("compacted", message="")  # by an endpoint of its own, whose use is not logged
    rollout.turn(START + 70)
    rollout.answers(START + 75, codex_logs.used(25_000, 12_000, 5))
    rollout.save(top / "now")


@pytest.mark.parametrize("write", [claude, pi, codex])
def test_a_compaction_after_what_a_copy_had(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    reading = LogReader()
    records = [each for source in sources([tmp_path]) for each in reading.records(source, lambda _: None)]
    assert [each.reset for each in records if isinstance(each, LoggedRequest)] == [None, "compaction"]
