"""What the README and the library page show works as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
PAGES = {
    "README.md": "",
    "docs/library.md": "",
    "docs/engine.md": "",
    "docs/tools.md": "",
    "docs/skills.md": "",
    "docs/agent.md": "",
    "docs/memory.md": "",
    "docs/simulator.md": "## In process",
}
"""The pages whose Python is run, and from which heading on."""


def blocks(page: str, heading: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text[text.index(heading) :], re.DOTALL)


PYTHON = [
    pytest.param(code, id=f"{page}-{i}")
    for page, heading in PAGES.items()
    for i, code in enumerate(blocks(page, heading))
]
SERVERS = ("holdfast simulate", "holdfast serve", "holdfast run")  # run until they are stopped: tests/cli does that


def _serves(line: str) -> bool:
    return any(name in line for name in SERVERS)


def test_it_is_short() -> None:
    assert len(README.splitlines()) < 150


@pytest.mark.slow
@pytest.mark.parametrize("code", PYTHON)
def test_python_blocks_run(code: str) -> None:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


@pytest.mark.parametrize("line", [line for line in SHELL if "holdfast " in line and not _serves(line)])
def test_commands_run(line: str, tmp_path: Path) -> None:
    words = shlex.split(line, comments=True)
    settings = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    arguments = [word for word in words if word not in {f"{k}={v}" for k, v in settings.items()}][1:]
    environment = {**os.environ, "HOME": str(tmp_path), **settings}
    result = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


@pytest.mark.parametrize("target", [line.split()[1] for line in SHELL if line.startswith("make ")])
def test_make_targets_exist(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
