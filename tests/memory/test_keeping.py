"""Several processes at the same files, and processes that are killed while they write."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.config.sections.agent import MemorySettings
from holdfast.memory import MemoryFiles
from holdfast.memory.files import load_at, locked, put

ROOMY = MemorySettings(user_soft=1 << 20, user_hard=1 << 20, notes_soft=1 << 20, notes_hard=1 << 20)

ADDING = """
import sys
from pathlib import Path
from holdfast.config.sections.agent import MemorySettings
from holdfast.memory import MemoryFiles
files = MemoryFiles(Path(sys.argv[1]), MemorySettings(notes_soft=1 << 20, notes_hard=1 << 20))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    files.add("memory", f"{sys.argv[2]} {number}")
"""

REWRITING = """
import sys
from pathlib import Path
from holdfast.config.sections.agent import MemorySettings
from holdfast.memory import MemoryFiles
files = MemoryFiles(Path(sys.argv[1]), MemorySettings(user_soft=1 << 20, user_hard=1 << 20))
number = 0
while True:
    number += 1
    files.consolidate("user", f"{number % 10}\\n" * 5_000)
    print(number, flush=True)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    first = locked(tmp_path, ".holdfast")
    second = locked(tmp_path, ".holdfast", timeout=0)
    with first, pytest.raises(OSError, match="for too long"), second:
        pytest.fail("two at once")
    with locked(tmp_path, ".holdfast", timeout=0) as at:
        put(at, "x", b"1")
        assert load_at(at, "x", 10) == (b"1", 1)


def test_a_lock_that_was_tidied_away_is_made_anew(tmp_path: Path) -> None:
    files = MemoryFiles(tmp_path / ".holdfast", ROOMY)
    files.add("user", "one")
    (tmp_path / ".holdfast" / "memory.lock").unlink()
    assert files.add("user", "two").text == "- one\n- two"


@pytest.mark.slow
def test_two_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    place, each = tmp_path / ".holdfast", 60
    with ExitStack() as stack:
        writers = [stack.enter_context(start(ADDING, place, name, each)) for name in ("left", "right")]
        for writer in writers:
            assert writer.stdout.readline() == b"ready\n"
        for writer in writers:
            writer.communicate(b"go\n", timeout=60)
            assert writer.returncode == 0
    lines = MemoryFiles(place, ROOMY).read("memory").split("\n")
    assert sorted(lines) == sorted(f"- {name} {number}" for name in ("left", "right") for number in range(each))
    for name in ("left", "right"):
        assert [line for line in lines if name in line] == [f"- {name} {number}" for number in range(each)]


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_a_whole_file_and_no_lock(tmp_path: Path) -> None:
    place, moments = tmp_path / ".holdfast", random.Random(9)
    files = MemoryFiles(place, ROOMY)
    place.mkdir()
    (place / "USER.md").write_bytes(b"0\n" * 5_000)
    for _ in range(12):
        with start(REWRITING, place) as writer:
            assert writer.stdout is not None
            for _ in range(moments.randint(1, 8)):
                assert writer.stdout.readline()
            for _ in range(200):
                seen = files.read("user").split("\n")  # also while it is being written
                assert (len(seen), len(set(seen))) == (5_000, 1)
            time.sleep(moments.uniform(0, 0.004))  # somewhere in the middle of the next one
            writer.kill()
        lines = files.read("user").split("\n")
        assert len(lines) == 5_000
        assert len(set(lines)) == 1
        assert files.replace("user", "\n".join(lines), "\n".join(["x"] * 5_000)).text.count("x") == 5_000
        assert {each.name for each in place.iterdir()} == {"USER.md", "memory.lock"}
