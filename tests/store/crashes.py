"""Programs that write to a store and are killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

WRITER = Path(__file__).with_name("crash_writer.py")


def run_and_kill(
    path: Path, run: int, answers: int, pause: float, *, writer_as: Sequence[str] = (str(WRITER),)
) -> list[tuple[str, int]]:
    """Start a writer, let it answer some writes, kill it without warning; gives what it had answered."""
    lines: list[bytes] = []
    with subprocess.Popen([sys.executable, *writer_as, str(path), str(run)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            lines.append(line)
            if len(lines) == answers:
                time.sleep(pause)
                writer.kill()
        # What was still in the pipe had been answered, too; a last line may be cut.
    assert writer.returncode == -9
    whole = [line.decode().split() for line in lines if line.endswith(b"\n")]
    return [(kind, int(number)) for kind, number in whole]
