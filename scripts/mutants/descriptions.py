"""Mutants as they are described: read from TOML and checked against the repository, without running anything."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FIELDS = {"name": str, "rows": list, "file": str, "find": str, "replace": str, "tests": list}


class Malformed(Exception):
    """A description that is no mutant: one sentence."""


@dataclass(frozen=True)
class Mutant:
    name: str  # what the broken program does
    rows: tuple[str, ...]  # statements of docs/conformance.md that it breaks
    file: str  # the source file, from the root of the repository
    find: str  # occurs exactly once in it
    replace: str
    tests: tuple[str, ...]  # pytest ids, each of which must pass without the mutant
    source: str  # the description's file, without `.toml`

    @property
    def is_python(self) -> bool:
        """Data can be broken too; there is nothing to compile or to import then."""
        return self.file.endswith(".py")

    @property
    def module(self) -> str:
        """The module of the source file, as it is imported."""
        parts = Path(self.file).with_suffix("").parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def mutated(self, text: str) -> str:
        return text.replace(self.find, self.replace, 1)


def load(folder: Path = FOLDER) -> list[Mutant]:
    return [mutant for path in sorted(folder.glob("*.toml")) for mutant in _read(path)]


def _read(path: Path) -> Iterable[Mutant]:
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise Malformed(f"{path.name} is no TOML: {error}") from error
    if set(entries) - {"mutant"}:
        raise Malformed(f"{path.name} holds something else than [[mutant]]: {', '.join(sorted(entries))}")
    for number, entry in enumerate(entries.get("mutant", ()), 1):
        name = entry.get("name", f"number {number}")
        if entry.keys() != FIELDS.keys():
            odd = ", ".join(sorted(entry.keys() ^ FIELDS.keys()))
            raise Malformed(f"{path.name}, {name}: a mutant has exactly {', '.join(FIELDS)}; look at {odd}")
        wrong = [key for key, type_ in FIELDS.items() if not isinstance(entry[key], type_)]
        if wrong:
            raise Malformed(f"{path.name}, {name}: {', '.join(wrong)} is of the wrong type")
        lists = {"rows": tuple(entry["rows"]), "tests": tuple(entry["tests"])}
        yield Mutant(**{**entry, **lists}, source=path.stem)


def chosen(mutants: Sequence[Mutant], only: Sequence[str]) -> list[Mutant]:
    """Those that one of the words names: a row, a description's file, a source file or a part of a name."""

    def names(word: str, mutant: Mutant) -> bool:
        exact = {*mutant.rows, mutant.source, f"{mutant.source}.toml", mutant.file, Path(mutant.file).name}
        return word in exact or word.lower() in mutant.name.lower() or mutant.file.endswith(f"/{word}")

    return [mutant for mutant in mutants if not only or any(names(word, mutant) for word in only)]


def problems(mutant: Mutant, root: Path = ROOT) -> list[str]:
    """Why a mutant cannot be applied; empty if it can. Its tests are not looked at."""
    path = root / mutant.file
    if not mutant.file.startswith("src/") or not path.is_file():
        return [f"there is no source file {mutant.file}"]
    text = path.read_text(encoding="utf-8")
    count = text.count(mutant.find) if mutant.find else 0
    if count != 1:
        return [f"`find` occurs {count} times in {mutant.file}, not once"]
    if mutant.find == mutant.replace:
        return ["`replace` is what is found"]
    if not mutant.is_python:
        return []
    try:
        before, after = (ast.dump(ast.parse(each)) for each in (text, mutant.mutated(text)))
    except SyntaxError as error:
        return [f"{mutant.file} is no Python after it: {error.msg}, line {error.lineno}"]
    return ["nothing but layout or comments changes"] if before == after else []
