"""What is built can be installed by somebody who has nothing of ours, and works there.

The source archive is built from the tree and the wheel from the archive, so that what the archive lacks is noticed. The
wheel is installed in an environment of its own: first bare, then with extras. Dependencies come from the package index,
in the versions of requirements.lock; where it cannot be reached these tests are skipped.
"""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import __version__
from holdfast.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "tests/fixtures/traces/shapes.jsonl"
IN_WHEEL = (
    "holdfast/py.typed",
    "holdfast/core/operating_context.md",
    "holdfast/facts/data/anthropic.toml",
    "holdfast/facts/data/overrides/seed-floors.toml",
    "holdfast/facts/vendor/o200k_base.tiktoken.gz",
    "holdfast/facts/vendor/LICENSE.tiktoken",
    "holdfast/report/pages/style.css",
    "holdfast/report/pages/script.js",
)
IN_ARCHIVE = ("src", "tests", "examples", "benchmarks", "scripts", "docs")
"""Folders of which the archive has every file that the tree has."""
BESIDE = ("LICENSE", "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "mkdocs.yml")
BESIDE += ("pyproject.toml", "requirements.lock")
OPTIONAL = {"rich", "markdown_it", "prompt_toolkit", "numpy", "pytest", "mcp", "mcp_types"}
"""What modules may lack in a bare install: the libraries of extras, and pytest for its plugin."""
DOORS = (
    "holdfast.engine",
    "holdfast.agent",
    "holdfast.tools",
    "holdfast.tools.mcp",
    "holdfast.skills",
    "holdfast.memory",
)
"""What programs import without an extra; using what needs one says so."""
IMPORTS = """
import importlib, json, pkgutil, holdfast
lacking, count = {}, 0
for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
    if module.name.endswith("__main__"):
        continue
    count += 1
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        lacking[module.name] = error.name.split(".")[0]
print(json.dumps([holdfast.__file__, count, lacking]))
"""


def run(*words: str | Path, place: Path, code: int | None = 0) -> str:
    """What a program says, in a home and a directory of its own, with nothing of ours in its environment."""
    ours = ("HOLDFAST_", "PYTHON", "COV_", "COVERAGE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    kept |= {"HOME": str(place), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, cwd=place, env=kept
    )
    assert code is None or done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive, and the wheel made from it. The tools are those of this environment: no network."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, place=out)
    (archive,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return archive, wheel


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
        about = f"holdfast-{__version__}.dist-info"
        assert {name.split("/")[0] for name in names} == {"holdfast", about}
        assert set(IN_WHEEL) <= names
        tree = {path.relative_to(ROOT / "src").as_posix() for path in files(ROOT / "src")}
        assert {name for name in names if name.startswith("holdfast/")} == tree
        assert not [name for name in names if str(ROOT).encode() in wheel.read(name)]
        assert {f"{about}/licenses/LICENSE", f"{about}/licenses/src/holdfast/facts/vendor/LICENSE.tiktoken"} <= names
        entries = wheel.read(f"{about}/entry_points.txt").decode()
        metadata = email.message_from_bytes(wheel.read(f"{about}/METADATA"))
    assert re.findall(r"\[(.*)\]\nholdfast = (.*)", entries) == [
        ("console_scripts", "holdfast.cli:main"),
        ("pytest11", "holdfast.pytest_plugin"),
    ]
    assert (metadata["Name"], metadata["Version"]) == ("holdfast", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Summary"]
    assert set(metadata.get_all("Provides-Extra") or ()) == {"agent", "mcp", "embeddings", "dev"}
    assert str(metadata.get_payload()).startswith("# Holdfast")


@pytest.mark.slow
def test_the_source_archive_has_all_that_the_tests_need(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tree = {path.relative_to(ROOT).as_posix() for folder in IN_ARCHIVE for path in files(ROOT / folder)}
    assert not (tree | set(BESIDE)) - names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


def files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


@pytest.mark.slow
def test_it_works_in_a_clean_environment(built: tuple[Path, Path], tmp_path: Path) -> None:
    """One test, so that the environment is made once whatever workers there are."""
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    versions = tmp_path / "versions.txt"  # without hashes, which pip would demand of the wheel too
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    versions.write_text("\n".join(re.findall(r"^[A-Za-z0-9_.-]+==[^\\\n]*", lock, re.MULTILINE)))
    one = (programs / "pip", "download", "--no-deps", "-q", "-d", tmp_path, "-c", versions, "click")
    told = run(*one, place=tmp_path, code=None)
    if not list(tmp_path.glob("click*")):
        pytest.skip(f"the package index cannot be reached: {told.strip().splitlines()[-1:]}")

    run(programs / "pip", "install", "-q", "-c", versions, built[1], place=tmp_path)
    assert "No broken requirements" in run(programs / "pip", "check", place=tmp_path)
    _works_bare(programs / "holdfast", tmp_path)
    _imports_without_extras(programs, tmp_path)

    run(programs / "pip", "install", "-q", "-c", versions, f"{built[1]}[agent,mcp]", place=tmp_path)
    assert "No broken requirements" in run(programs / "pip", "check", place=tmp_path)
    said = run(programs / "holdfast", "chat", "--simulate", "hello", place=tmp_path)
    assert said.startswith("hello")
    assert "without cache" in said
    assert "No MCP servers are configured" in run(programs / "holdfast", "mcp", "--list", place=tmp_path)


def _works_bare(holdfast: Path, place: Path) -> None:
    assert __version__ in run(holdfast, "--version", place=place)
    assert "holdfast demo" in run(holdfast, place=place)
    for command in COMMANDS:
        assert f"Usage: holdfast {command}" in run(holdfast, command, "--help", place=place)
    assert "1 break lost" in run(holdfast, "explain", LOG, "--quiet", place=place)
    assert "<style>" in run(holdfast, "explain", LOG, "--format", "html", place=place)
    assert "Holdfast" in run(holdfast, "demo", "--once", "--turns", "2", place=place)
    told = run(holdfast, "chat", "--simulate", "hello", place=place, code=1)
    assert "pip install 'holdfast[agent]'" in told
    assert len(told.strip().splitlines()) == 1
    assert "pip install 'holdfast[mcp]'" in run(holdfast, "mcp", "--list", place=place, code=1)


def _imports_without_extras(programs: Path, place: Path) -> None:
    where, count, lacking = json.loads(run(programs / "python", "-c", IMPORTS, place=place))
    assert str(programs.parent) in where
    assert count > 500
    assert set(lacking.values()) <= OPTIONAL
    assert set(DOORS).isdisjoint(lacking)
