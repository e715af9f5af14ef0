"""Every example runs as a user would run it, in an empty home and directory, and says what it is about."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
SAID = {command: lines.splitlines() for command, lines in re.findall(r"```text\n\$ (.*?)\n(.*?)```", README, re.DOTALL)}
"""What the page says an example prints, by the command that it says to run."""
OF_THIS_MACHINE = ("agent_with_tools.py", "fan_out.py")
"""An agent's prompt names its directory and the date: its figures differ from machine to machine."""


def run(*words: str, place: Path, code: int = 0) -> str:
    """What a program says on its standard output. Nothing of this machine's configuration reaches it, no key either."""
    for name in ("home", "empty", "tmp"):
        (place / name).mkdir()
    ours = re.compile(r"HOLDFAST_|.*_(API_KEY|BASE_URL|AUTH_TOKEN|proxy)$", re.IGNORECASE)
    kept = {name: value for name, value in os.environ.items() if not ours.match(name)}
    kept |= {
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "HOLDFAST": str(BIN / "holdfast"),
        "COLUMNS": "200",
    }
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=place / "empty", env=kept)
    assert done.returncode == code, done.stdout + done.stderr
    assert not list((place / "tmp").iterdir())  # what an example makes for itself it takes away
    return done.stdout


def figures(pattern: str, text: str) -> list[tuple[int, ...]]:
    """The numbers of every line that fits."""
    return [
        tuple(int(part.replace(",", "")) for part in found.groups())
        for found in re.finditer(pattern, text, re.MULTILINE)
    ]


def before_and_after(output: str) -> None:
    (before, all_before), (after, all_after) = figures(r"([\d,]+) of ([\d,]+) tokens read", output)
    assert before == 0 < all_before
    assert after > all_after / 2


def curl(output: str) -> None:
    (first,), (second,), (third,) = figures(r'"cache_read_input_tokens":(\d+)', output)
    assert first == 0 < second < third
    assert "x-holdfast-plan: economic" in output
    assert "1 session." in output


def agent(output: str) -> None:
    (first, all_first), (second, all_second) = figures(r"([\d,]+) of ([\d,]+) tokens read", output)
    assert first > all_first / 2
    assert second > all_second * 0.9
    assert re.findall(r"calls (\w+) ", output) == ["skill_load", "weather", "memory_add"]


def fan_out(output: str) -> None:
    (wrote, nothing), *others = figures(r"wrote ([\d,]+), read ([\d,]+)", output)
    assert nothing == 0 < wrote
    assert len(others) == 3
    assert all(read > 10 * written for written, read in others)


def gate(output: str) -> None:
    assert "1 failed, 1 passed" in output
    assert "a year" in output


def explained(output: str) -> None:
    assert output.count("messages_rewritten at messages[0].content[0]") == 2
    assert "sliding_window (2 breaks" in output


def replayed(output: str) -> None:
    cost = {(gaps, name): float(usd) for gaps, name, usd in re.findall(r"^(\w+) +(\w+) +\$([\d.]+)", output, re.M)}
    assert len(cost) == 6
    assert cost["office", "optimal"] <= cost["office", "economic"] < cost["office", "rolling"]


def over_mcp(output: str) -> None:
    assert r"ttl\_expired\_5m" in output


PYTHON = str(BIN / "python")
CASES: dict[str, tuple[tuple[str, ...], int, Callable[[str], None]]] = {
    "anthropic_sdk.py": ((PYTHON,), 0, before_and_after),
    "openai_gateway.py": ((PYTHON,), 0, before_and_after),
    "gateway_curl.sh": (("bash",), 0, curl),
    "agent_with_tools.py": ((PYTHON,), 0, agent),
    "fan_out.py": ((PYTHON,), 0, fan_out),
    "ci_gate": ((PYTHON, "-m", "pytest", "-p", "no:cacheprovider"), 1, gate),
    "explain_own_log.py": ((PYTHON,), 0, explained),
    "replay_two_strategies.py": ((PYTHON,), 0, replayed),
    "mcp_client.py": ((PYTHON,), 0, over_mcp),
}
"""How each is run, its exit code, and what it has to say."""


def promised(name: str) -> list[str]:
    (lines,) = [lines for command, lines in SAID.items() if command.split()[-1] == f"examples/{name}"]
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_runs_and_says_what_it_is_about(name: str, tmp_path: Path) -> None:
    program, code, says = CASES[name]
    if name.endswith(".sh") and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    output = run(*program, str(EXAMPLES / name), place=tmp_path, code=code)
    says(output)
    assert promised(name)
    loosely = name in OF_THIS_MACHINE
    there = [re.sub(r"[\d.,]+", "0", line) if loosely else line for line in output.splitlines()]
    for line in promised(name):
        wanted = re.sub(r"[\d.,]+", "0", line) if loosely else line
        assert any(each.startswith(wanted) for each in there), (line, output)


def test_every_file_is_listed_and_run() -> None:
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name} - {"README.md"}
    assert {name for name in files if f"]({name})" in README} == files
    used = {"mcp.json": "mcp_client.py"}  # read by an example
    assert {used.get(name, name.split("/")[0]) for name in files} == set(CASES)


def test_what_is_listed_is_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (EXAMPLES / link).exists(), link


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.[ps][yh]")), ids=lambda path: path.name)
def test_it_is_small_and_begins_with_what_it_shows(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 75
    first = lines[1] if path.suffix == ".sh" else lines[0]
    assert first.startswith(('"""', "# "))
    assert len(first) > 40
