"""What CONTRIBUTING.md and SECURITY.md name is there."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(holdfast.__file__).parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"tests/[\w/]+\.py(?:::\w+)*", CONTRIBUTING + SECURITY)))
PATHS = sorted(set(re.findall(r"`((?:[\w]+/)+[\w.]*|\w+\.py)`", CONTRIBUTING)))
TREE = [
    f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}"
    for folder in ("src", "tests", "scripts", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*")
    if "__pycache__" not in path.parts
]
STANDS_FOR = {"PROVIDER": "anthropic", "NAME": "clock"}
"""Names that the guide leaves open, and one that is there."""


def test_the_guide_is_short() -> None:
    assert len(CONTRIBUTING.splitlines()) < 200


@pytest.mark.parametrize("named", TESTS)
def test_a_named_test_exists(named: str) -> None:
    path, *names = named.split("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    for name in names:
        assert re.search(rf"(?:def|class) {name}\b", text)


@pytest.mark.parametrize("named", PATHS)
def test_a_named_file_exists(named: str) -> None:
    for open_name, one in STANDS_FOR.items():
        named = named.replace(open_name, one)
    assert any(f"/{named}" in path for path in TREE)


def test_its_python_shows_what_was_mended() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", CONTRIBUTING, re.DOTALL)
    code = textwrap.dedent(block)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Opaque(kind='tool_use'" in done.stdout
    assert "arguments" not in done.stdout


def test_every_package_is_in_the_table() -> None:
    table = CONTRIBUTING.partition("## Where things are")[2].partition("\n\nDependencies")[0]
    first = " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("|"))
    named = set(re.findall(r"`(\w+)`", first))
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} <= named


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", CONTRIBUTING + SECURITY))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
