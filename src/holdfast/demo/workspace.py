"""The demo's workspace: real files that the coding session reads, searches, patches and tests, the same every time.

Both clients of the demo work in one: the careless one with tools of its own, which are here, Holdfast's agent with its
built-in ones.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from .session import NOUNS, PARTS, SEED, DemoTurn, result

_PYTHON = (sys.executable, "-I", "-S", "-B")
_CASES = 12
_CHECK = f'''\
"""Runs the functions of one part on each of its cases and says what came of it."""

import importlib
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parent))
part = sys.argv[1]
cases = importlib.import_module("tests.test_" + part).CASES
failed = 0
for name, function in inspect.getmembers(importlib.import_module(part), inspect.isfunction):
    key = name.partition("_")[2]
    for rows, limit in cases:
        made = [SimpleNamespace(**dict.fromkeys({NOUNS!r}, 37 * row % 1009)) for row in range(rows)]
        kept = [getattr(each, key) for each in function(made, limit=limit)]
        right = kept == sorted(kept, reverse=True) and all(0 < each < limit for each in kept)
        failed += not right
        word = "ok" if right else "FAILED"
        print(f"{{part}}.{{name}}: {{rows}} rows below {{limit}}, {{len(kept)}} kept, {{word}}")
print("all passed" if not failed else f"{{failed}} failed")
sys.exit(failed > 0)
'''


def lay_out(folder: Path, turns: Sequence[DemoTurn]) -> None:
    """The files, as they are before the session."""
    files = {"check.py": _CHECK, "check": f'exec {shlex.join(_PYTHON)} check.py "$1"\n', "AGENTS.md": _rules()}
    for number, part in enumerate(PARTS):
        files[f"{part}.py"] = result(number, "read_file") + "\n"
        files[f"tests/test_{part}.py"] = _cases(part)
    for name, arguments in (call for turn in turns for call in turn.calls):
        if name == "patch_file":
            files[arguments["path"]] += f"\n{arguments['old']}\n"
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def carried_out(folder: Path, turns: Sequence[DemoTurn]) -> list[str]:
    """What the careless client's tools return to the calls of a session, one after the other."""
    return [_called(folder, name, arguments) for turn in turns for name, arguments in turn.calls]


def is_done(folder: Path, turns: Sequence[DemoTurn]) -> bool:
    """Whether everything was changed that the session changes, and the tests pass."""
    patches = [arguments for turn in turns for name, arguments in turn.calls if name == "patch_file"]
    changed = {arguments["path"] for arguments in patches}
    return all(arguments["new"] in (folder / arguments["path"]).read_text() for arguments in patches) and all(
        _checked(folder, path.removesuffix(".py")).endswith("all passed\n") for path in sorted(changed)
    )


def _called(folder: Path, name: str, arguments: dict[str, Any]) -> str:
    if name == "run_tests":
        return _checked(folder, arguments["match"])
    if name == "grep_files":
        return "\n".join(_found(folder, arguments["pattern"])) or "Nothing was found."
    place = folder / arguments["path"]
    if name == "patch_file":
        place.write_text(place.read_text().replace(arguments["old"], arguments["new"]))
        return f"{arguments['path']} was changed."
    return "".join(place.read_text().splitlines(keepends=True)[arguments["first"] - 1 : arguments["last"]])


def _found(folder: Path, pattern: str) -> list[str]:
    matches = re.compile(pattern).search
    return [
        f"{place.relative_to(folder)}:{number}: {line}"
        for place in sorted(folder.rglob("*.py"))
        for number, line in enumerate(place.read_text().splitlines(), 1)
        if matches(line)
    ]


def _checked(folder: Path, part: str) -> str:
    ran = subprocess.run([*_PYTHON, "check.py", part], cwd=folder, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def _cases(part: str) -> str:
    rng = Random(f"{SEED} cases {part}")
    cases = [f"    ({10 + int(rng.random() * 90)}, {100 + int(rng.random() * 900)})," for _ in range(_CASES)]
    return "\n".join(
        (f'"""Cases of {part}: how many rows there are, and the limit."""', "", "CASES = (", *cases, ")\n")
    )


def _rules() -> str:
    lines = [f"- `{part}.py` has its cases in `tests/test_{part}.py`; `sh check {part}` runs them." for part in PARTS]
    return "\n".join(("# Project", "", *lines, "- Every function gives the newest first.", ""))
