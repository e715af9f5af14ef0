"""kill -9 at every write of a session: of its log, of the store, of the files beside them. It always goes on.

Each time another process takes it up: the history is sound, nothing that was sent is missing on disk, what is sent next
extends it or has a reason, and turns can be finished. See `killing`, which does it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")]


def killed(place: Path, kind: str, when: str) -> list[dict[str, Any]]:
    """What became of a session that was killed at its first, second… write of a kind, up to the last one."""
    command = [sys.executable, "-m", "tests.agent.killed_session", str(place), kind, when]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(found: list[dict[str, Any]], *, least: int) -> None:
    """All of them died but the last, for which there was no such write any more; nothing was wrong with any."""
    wrong = [f"at write {each['at']}:\n{each['problem']}" for each in found if each["problem"]]
    assert not wrong, "\n".join(wrong)
    assert [each["died"] for each in found] == [True] * (len(found) - 1) + [False]
    assert len(found) > least, "a session that makes so few writes shows little"


@pytest.mark.parametrize("when", ["half", "after"])  # half a line is cut off again: as before the write
def test_killed_at_every_write_of_the_log(tmp_path: Path, when: str) -> None:
    check(killed(tmp_path, "log", when), least=30)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_every_commit_of_the_store(tmp_path: Path, when: str) -> None:
    check(killed(tmp_path, "store", when), least=8)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_every_file_that_is_put_in_its_place(tmp_path: Path, when: str) -> None:
    check(killed(tmp_path, "file", when), least=1)
