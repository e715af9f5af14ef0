"""How much is installed with `pip install holdfast`, without extras: a wheel of this tree in an environment of its own.

Packages come from the package index that pip is configured for; where it cannot be reached nothing is measured.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Result

ROOT = Path(__file__).parents[1]
LIMIT_MB = 110
_TOOLS = ("pip", "setuptools", "wheel", "_distutils_hack", "pkg_resources", "distutils-precedence.pth")
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")


def run(*, quick: bool) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="holdfast-install-") as folder:
        place = Path(folder)
        try:
            packages = install(place)
        except subprocess.CalledProcessError as problem:
            said = (problem.stderr or "").strip().splitlines()
            yield Result("install without extras: skipped", 0.0, "MB", None, "lower", said[-1][:120] if said else "")
            return
        sizes = {path.name: size(path) for path in packages.iterdir()}
        tools = sum(each for name, each in sizes.items() if name.startswith(_TOOLS))
        ours = sum(sizes.values()) - tools
        largest = sorted((name for name in sizes if not name.startswith(_TOOLS)), key=lambda name: -sizes[name])[:4]
        note = "largest: " + ", ".join(f"{name} {sizes[name] / 1e6:.1f}" for name in largest)
        yield Result("install without extras", ours / 1e6, "MB", LIMIT_MB, "lower", note)
        yield Result("the same with pip itself", (ours + tools) / 1e6, "MB", None, "lower")


def install(place: Path) -> Path:
    """A wheel of this tree and what it needs, in a new environment; its site-packages."""
    python = place / "env" / "bin" / "python"
    _call(sys.executable, "-m", "venv", str(place / "env"))
    _call(str(python), *_PIP, "wheel", "--no-deps", "--wheel-dir", str(place), str(ROOT))
    (wheel,) = place.glob("holdfast-*.whl")
    _call(str(python), *_PIP, "install", str(wheel))
    _call(str(python), "-m", "holdfast", "--version")
    (packages,) = (place / "env" / "lib").glob("python*/site-packages")
    return packages


def size(path: Path) -> int:
    """Bytes of a file or of all files under a directory, as pip left them."""
    if not path.is_dir():
        return path.lstat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if not each.is_dir())


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=tempfile.gettempdir())
