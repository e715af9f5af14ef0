"""Skills that other agents use and Holdfast is not told of: where they are, and the line that names them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli import tables
from holdfast.cli.tables import counted, printable
from holdfast.config import ROOTS, Config, Origin
from holdfast.config import printable as printable_path
from holdfast.skills import FILE

from .access import InstalledSkills

USUAL = (".agents/skills", ".claude/skills", "~/.agents/skills", "~/.claude/skills")


def advice(installed: InstalledSkills, room: int | None) -> Iterator[str]:
    """Lines about roots with skills that no setting names; none where there is nothing to say."""
    unused = {name: number for name in USUAL if (number := _unused(installed, name))}
    if not unused:
        return
    yield ""
    what = ", ".join(f"{counted(number, 'skill')} in {name}" for name, number in unused.items())
    place, line = _place(installed.config, _toml((*_written(installed.config), *unused)))
    yield from tables.wrapped(f"Not used: {what}. To have them too, {place}:", room)
    yield printable(f"  {line}")


def _unused(installed: InstalledSkills, name: str) -> int:
    """How many skills are in a root that is not among the configured ones."""
    try:
        path = (installed.config.workspace or Path()) / Path(name).expanduser()
        if any(_same(path, root.path) for root in installed.roots):
            return 0
        return sum((child / FILE).is_file() for child in path.iterdir() if not child.name.startswith("."))
    except OSError:  # there is none, or it cannot be read
        return 0


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other


def _place(config: Config, value: str) -> tuple[str, str]:
    """Where the list is to be written, in the file that has it or in the user's own, and the line."""
    origin = config.origin(ROOTS)
    if origin.kind == "environment":
        return "set this variable", f"{origin.where}={shlex.quote(value)}"
    if origin.line is not None:
        return f"replace {ROOTS} in line {origin.line} of {origin.where}", f"{_key(origin)} = {value}"
    file = str(config.home / "holdfast.toml")
    others = (each.origin for name, each in config.values().items() if name.startswith("skills."))
    if any(other.where == printable_path(file) for other in others):
        return f"put this line below [skills] in {file}", f"roots = {value}"
    return f"put this line at the top of {file}", f"{ROOTS} = {value}"


def _key(origin: Origin) -> str:
    """The key as its line has it, which may stand in a table or not."""
    try:
        line = Path(origin.where).read_text("utf-8").splitlines()[(origin.line or 1) - 1]
    except (OSError, ValueError, IndexError):
        return ROOTS
    return line.partition("=")[0].strip() or ROOTS


def _written(config: Config) -> Iterator[str]:
    """The configured roots as a file has them, without this machine's own directories."""
    for root in config.settings.skills.roots:
        for directory, sign in ((config.home, "HOLDFAST_HOME"), (Path.home(), "~")):
            if root.startswith(f"{directory}/"):
                root = sign + root[len(str(directory)) :]
                break
        yield root


def _toml(names: tuple[str, ...]) -> str:
    return f"[{', '.join(json.dumps(name, ensure_ascii=False) for name in names)}]"
