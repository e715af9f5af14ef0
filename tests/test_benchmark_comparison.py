"""`python -m benchmarks --against CHECKOUT`: the same figures of two checkouts, from runs that take turns."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

OTHER = """
from pathlib import Path
import sys

runs = Path("runs")
runs.write_text(runs.read_text() + sys.argv[1] + "\\n" if runs.exists() else sys.argv[1] + "\\n")
print(sys.argv[1])
print(f"  {'canonical content of every block':<58} {0.5:>9.3f} ms")
print(f"  {'a figure that only the other one has':<58} {2:>9.3f} ms")
"""


def other_checkout(folder: Path) -> Path:
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "__init__.py").touch()
    (folder / "benchmarks" / "__main__.py").write_text(OTHER)
    return folder


def against(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--against", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_folder_without_benchmarks_is_refused(tmp_path: Path) -> None:
    ended = against(tmp_path, "start")
    assert ended.returncode == 2
    assert f"{tmp_path} is no checkout with benchmarks" in ended.stderr


@pytest.mark.slow
def test_both_run_in_turn_and_what_both_report_is_compared(tmp_path: Path) -> None:
    folder = other_checkout(tmp_path)
    ended = against(folder, "wire", "--rounds", "2")
    assert ended.returncode == 0, ended.stderr
    header, name, figure = ended.stdout.splitlines()
    assert (header[:5], name) == ("ratio", "wire")
    assert figure.startswith("  canonical content of every block ")
    assert figure.endswith("| 0.500 0.500)")
    assert (folder / "runs").read_text() == "wire\nwire\n"


def test_a_benchmark_that_fails_there_is_named(tmp_path: Path) -> None:
    folder = other_checkout(tmp_path)
    (folder / "benchmarks" / "__main__.py").write_text("raise SystemExit(3)")
    ended = against(folder, "wire")
    assert ended.returncode == 1
    assert f"the benchmark wire failed in {folder} (exit 3)" in ended.stderr
