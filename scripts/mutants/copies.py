"""Copies of the repository in which files may be broken, each with an environment of its own.

The environment is a small one: its interpreter finds the copy's `src` first and the packages of the running one after
it. Programs that tests start by `sys.executable`, or by name beside it, are thus the copy's too, whatever they make of
`PYTHONPATH`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.mutants.descriptions import ROOT, Malformed, Mutant

LINKED = (".clients", ".peers")
"""What is installed beside the sources; tests only run it."""


class Copy:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.python = place / ".venv" / "bin" / "python"

    @classmethod
    def of_repository(cls, place: Path, root: Path = ROOT) -> Copy:
        """What is tracked, and what is new and not ignored, as it stands."""
        asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(asked, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in listed:
            if name and (root / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, place / name)
        for name in LINKED:
            if (root / name).exists():
                (place / name).symlink_to((root / name).resolve())
        copy = cls(place)
        copy._make_environment()
        return copy

    def again(self, place: Path) -> Copy:
        """Another copy, with what has been compiled."""
        shutil.copytree(self.place, place, symlinks=True, ignore=shutil.ignore_patterns(".venv"))
        copy = Copy(place)
        copy._make_environment()
        return copy

    def _make_environment(self) -> None:
        environment = self.place / ".venv"
        scripts = environment / "bin"
        packages = environment / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        for folder in (scripts, packages):
            folder.mkdir(parents=True)
        base = Path(sys.base_prefix) / "bin"
        (environment / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\n", "utf-8")
        self.python.symlink_to(Path(sys.executable).resolve())
        for alias in ("python3", f"python{sysconfig.get_python_version()}"):
            (scripts / alias).symlink_to("python")
        paths = [str(self.place / "src"), *(each for each in sys.path if Path(each).name.endswith("-packages"))]
        (packages / "copy.pth").write_text("\n".join(paths) + "\n", "utf-8")
        here = Path(sys.executable).parent
        for program in here.iterdir():
            if not (scripts / program.name).exists():
                _place_program(program, scripts / program.name, shebang=f"#!{self.python}\n".encode())

    @contextmanager
    def broken_by(self, mutant: Mutant) -> Iterator[None]:
        path = self.place / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.find) != 1:
            raise Malformed(f"`find` does not occur once in {mutant.file}")
        try:
            self._write(path, mutant.mutated(text))
            yield
        finally:
            self._write(path, text)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # What was compiled counts by second and size: two texts of one second could be taken for each other.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


def _place_program(program: Path, place: Path, *, shebang: bytes) -> None:
    """A script of the running environment for this one; what is no Python script is the same in all."""
    content = program.read_bytes() if program.is_file() and program.stat().st_size < 65_536 else b""
    first, _, rest = content.partition(b"\n")
    if first.startswith(b"#!") and b"python" in first:
        place.write_bytes(shebang + rest)
        place.chmod(0o755)
    else:
        place.symlink_to(program)
