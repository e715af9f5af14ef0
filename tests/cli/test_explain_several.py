"""`holdfast explain` on several files: copies are told and counted once; `--quiet` says nothing but the report."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from holdfast.cli.explain.command import command
from tests.cli.commands import invoke
from tests.cli.shape_logs import log, report, shape


def test_a_copied_log_is_counted_once_and_told(tmp_path: Path) -> None:
    alone = report(str(log(tmp_path / "a.jsonl")))
    (tmp_path / "backup").mkdir()
    shutil.copy(tmp_path / "a.jsonl", tmp_path / "backup" / "a.jsonl")
    found = report(str(tmp_path))
    assert len(found["read"]) == 2
    assert found["totals"] == alone["totals"]
    assert [one["request"] for one in found["sessions"][0]["breaks"]] == [2, 3]
    assert "holdfast: 4 requests in two files, counted once" in invoke(command, str(tmp_path)).stderr.splitlines()


def test_quiet_is_quiet_about_models_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(shape(1, 5, 5, model="nobody-knows-it") + "\n", "utf-8")
    run = [sys.executable, "-m", "holdfast", "explain", str(path)]
    assert "nobody-knows-it" in subprocess.run(run, capture_output=True, text=True, check=True).stderr
    assert subprocess.run([*run, "--quiet"], capture_output=True, text=True, check=True).stderr == ""


def test_more_tokens_than_any_prompt_has(tmp_path: Path) -> None:
    """A line that is counted as broken; no form of the report fails on it."""
    path = tmp_path / "a.jsonl"
    path.write_text(f"{shape(1, 5, 10**30)}\n{shape(2, 5, 10**400)}\n{shape(3, 5, 5)}\n", "utf-8")
    for form in ("table", "md", "html", "json"):
        done = invoke(command, str(path), "--format", form)
        assert done.exit_code == 0
        assert "2 lines could not be read" in done.stderr
