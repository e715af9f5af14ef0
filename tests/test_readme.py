"""README.md keeps its promises: every block is run as it stands, every link leads somewhere, its figures are those that
the commands print.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.simulator import Simulator
from holdfast.simulator.server import running

from .clients.programs import Place, program

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
SHELL = [block for language, block in BLOCKS if language == "sh"]
PYTHON = [block for language, block in BLOCKS if language == "python"]
MAKING = [line.split()[1] for block in SHELL for line in block.splitlines() if line.startswith("make ")]
OURS = Path(sys.executable).parent
TIMEOUT = 300
STOP = r"""answers() { exec 3<>/dev/tcp/127.0.0.1/8788 && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && read -r -t 5 _ <&3; }
for job in $(jobs -p); do
  until (answers) 2>/dev/null; do kill -0 $job; sleep 0.1; done
  kill -INT $job; wait $job
done"""
"""What a block left running is stopped once it answers; it must end well."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its blocks are for a POSIX shell")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_it_is_short() -> None:
    assert len(README.splitlines()) < 150


def test_every_block_is_run_by_a_test_below() -> None:
    kinds = [kind for block in SHELL for kind in ("make ", "serve", "run --", "") if kind in block]
    assert {language for language, _ in BLOCKS} == {"sh", "python"}
    assert kinds.count("serve") == kinds.count("run --") == 1


@pytest.mark.slow
@pytest.mark.parametrize("code", PYTHON)
def test_python_blocks_run(code: str, place: Place) -> None:
    done = place.end([sys.executable, "-c", code], place.environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in SHELL if not re.search("make |serve|run --", block)])
def test_commands_run(block: str, place: Place) -> None:
    assert _run(block, place).strip()


@pytest.mark.slow
def test_the_demo_runs_and_shows_the_figures_of_the_page(place: Place) -> None:
    said = _run(_block("make demo"), place, cwd=ROOT)
    shown = re.findall(r"\$\d+\.\d+", _row("make demo"))
    assert shown
    assert [figure for figure in shown if figure not in said] == []


@pytest.mark.parametrize(
    ("row", "heading"), [("over no caching", "over no caching"), ("the same over", "over automatic")]
)
def test_figures_are_those_of_the_results(row: str, heading: str) -> None:
    table = re.search(rf"\| {heading}.*?\n\n", (ROOT / "docs" / "results.md").read_text(encoding="utf-8"), re.DOTALL)
    assert table
    found = [float(cell) for cell in re.findall(r" (\d\.\d{3}) ", table[0])]
    (line,) = [line for line in README.splitlines() if line.startswith("| ") and row in line]
    assert f"| {min(found):.2f} to {max(found):.2f} |" in line


@pytest.mark.slow
def test_a_client_is_wrapped(place: Place) -> None:
    """With the real one, and a simulated provider behind."""
    claude = Path(program("claude", "Claude Code"))
    with running(Simulator()) as provider:
        said = _run(
            _block("run --"),
            place,
            PATH=f"{claude.parent}:{os.environ['PATH']}",
            HOLDFAST_UPSTREAM_ANTHROPIC=provider,
            ANTHROPIC_API_KEY="sk-ant-dummy",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
    assert re.search(r"\d+ (call|request)s?", said)


@pytest.mark.slow
def test_a_gateway_is_served_and_asked_about(place: Place) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 8788)) == 0:
            pytest.skip("port 8788 is in use on this machine")
    said = _run(_block("serve"), place)
    assert "http://127.0.0.1:8788" in said


@pytest.mark.parametrize("target", MAKING)
def test_make_targets_exist(target: str) -> None:
    """`make check` and `make test` run this very test."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", README))
def test_links_lead_somewhere(link: str) -> None:
    path, _, anchor = link.partition("#")
    assert (ROOT / path).exists()
    if anchor:
        headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def _block(word: str) -> str:
    (found,) = [block for block in SHELL if word in block]
    return found


def _row(command: str) -> str:
    """The line of the table of figures that this command makes."""
    (found,) = [line for line in README.splitlines() if line.startswith("| ") and f"`{command}`" in line]
    return found


def _run(block: str, place: Place, *, cwd: Path | None = None, **more: str) -> str:
    """A block in a shell and in an empty home; what it leaves running is stopped."""
    script = block.replace(".venv/bin/", f"{OURS}/")
    process = subprocess.Popen(
        ["bash", "-e", "-c", f"{script}\n{STOP}"],
        cwd=cwd or place.work,
        env=place.environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=TIMEOUT)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    return said
