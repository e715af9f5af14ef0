"""Lets packages import from each other through their `__init__` only, and renews what each `__init__` offers.

    python -m scripts.facades           # names what goes past a facade; exit 1 if anything does
    python -m scripts.facades --write   # rewrites such imports, and adds what they need to the package's `__init__`

A package offers its names lazily (`holdfast.lazy_exports`): once for type checkers, once as a table of modules. Both
are written here. A package inside a package (`report.logs`) is a facade of its own.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "holdfast"
SOURCE = Path(__file__).parents[1] / "src"
# These stand above or below all packages.
SINGLE_MODULES = frozenset({"errors", "notices", "wording", "lru", "lazy_exports", "version", "__main__"})

# These are imported by users, whose type checkers do not know our settings.
PUBLIC = frozenset({f"{PACKAGE}.facts", f"{PACKAGE}.simulator", f"{PACKAGE}.pytest_plugin"})


@dataclass
class Facade:
    """What one package offers: public name to its module (relative, or absolute outside the package) and name there."""

    package: str
    path: Path
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)  # in the __init__ itself


@dataclass(frozen=True)
class Passing:
    """An import past a facade: where it stands, and what it takes from which module."""

    module: str
    path: Path
    node: ast.ImportFrom
    target: str
    facade: str
    names: tuple[tuple[str, str | None, bool], ...]  # name, alias, whether it is a module


def module_names(source: Path = SOURCE) -> dict[str, Path]:
    names = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def top(name: str) -> str:
    return ".".join(name.split(".")[:2])


def resolve(node: ast.ImportFrom, module: str, path: Path) -> str:
    """The absolute name of the module that an import names."""
    if not node.level:
        return node.module or ""
    base = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    start = base[: len(base) - node.level + 1]
    return ".".join([*start, *([node.module] if node.module else [])])


def facades(modules: dict[str, Path]) -> dict[str, Facade]:
    found = {}
    for name, path in modules.items():
        if path.name != "__init__.py" or name == PACKAGE:
            continue
        facade = Facade(name, path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                facade.defined.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                facade.defined |= {each.id for each in targets if isinstance(each, ast.Name)}
            elif isinstance(node, ast.ImportFrom):
                target = resolve(node, name, path)
                if target.split(".")[0] != PACKAGE or target in (f"{PACKAGE}.lazy_exports", f"{PACKAGE}.errors"):
                    continue
                inside = target == name or target.startswith(name + ".")
                relative = target[len(name) :] if inside else target
                for alias in node.names:
                    facade.names[alias.asname or alias.name] = (relative, alias.name)
        found[name] = facade
    return found


def passing(modules: dict[str, Path]) -> Iterator[Passing]:
    """Every import from another package that does not come from an `__init__` which offers it."""
    offered = facades(modules)
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    for module, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom):
                continue
            target = resolve(node, module, path)
            if target.split(".")[0] != PACKAGE:
                continue
            if path.name == "__init__.py" and module != PACKAGE and top(target) != top(module):
                continue  # a re-export
            if top(target) == top(module) and target != PACKAGE:
                continue
            if target == PACKAGE or target.split(".")[1] in SINGLE_MODULES:
                continue
            facade = target
            while facade not in packages:
                facade = facade.rpartition(".")[0]
            names = tuple((a.name, a.asname, f"{target}.{a.name}" in modules) for a in node.names)
            if facade == target and all(
                _is_offered(name, is_module, offered[facade], packages) for name, _, is_module in names
            ):
                continue
            yield Passing(module, path, node, target, facade, names)


def _is_offered(name: str, is_module: bool, facade: Facade, packages: set[str]) -> bool:
    return name in facade.names or name in facade.defined or (is_module and f"{facade.package}.{name}" in packages)


def rewrite(found: list[Passing], offered: dict[str, Facade]) -> None:
    """Moves the imports, and adds what they need to the facades."""
    by_path: dict[Path, list[Passing]] = defaultdict(list)
    for one in found:
        by_path[one.path].append(one)
        facade = offered[one.facade]
        relative = one.target[len(one.facade) :]
        for name, _, is_module in one.names:
            if name not in facade.names:
                facade.names[name] = (".", name) if is_module and not relative else (relative, name)
    for path, imports in by_path.items():
        lines = path.read_text().splitlines(keepends=True)
        for one in sorted(imports, key=lambda one: one.node.lineno, reverse=True):
            if one.facade == one.target:
                continue
            first = lines[one.node.lineno - 1]
            end = one.node.end_lineno or one.node.lineno
            dots = "." * one.node.level
            if one.node.level:
                suffix = one.target[len(one.facade) :]
                module = (one.node.module or "")[: -len(suffix)] if suffix else one.node.module
                where = f"{dots}{module}"
            else:
                where = one.facade
            indent = re.match(r"\s*", first).group() if first else ""  # type: ignore[union-attr]
            names = ", ".join(f"{name} as {alias}" if alias else name for name, alias, _ in one.names)
            lines[one.node.lineno - 1 : end] = [f"{indent}from {where} import ({names})\n"]
        path.write_text("".join(lines))


def write(facade: Facade) -> None:
    """Writes a package's `__init__` anew: its docstring, what else it holds, and its exports."""
    text = facade.path.read_text()
    tree = ast.parse(text)
    lines = text.splitlines()
    rest = []
    docstring = ""
    for node in tree.body:
        chunk = "\n".join(lines[_start(node) - 1 : node.end_lineno])
        if node is tree.body[0] and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docstring = chunk
        elif isinstance(node, ast.ImportFrom) and resolve(node, facade.package, facade.path).startswith(PACKAGE):
            if resolve(node, facade.package, facade.path) == f"{PACKAGE}.errors":
                rest.append(chunk)
        elif (
            (isinstance(node, ast.ImportFrom) and node.module == "typing" and node.names[0].name == "TYPE_CHECKING")
            or (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id == "__all__"
            )
            or (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        ):
            continue
        else:
            rest.append(chunk)
    if rest:
        print(f"{facade.package}: has code of its own; left alone: {sorted(facade.names)}", file=sys.stderr)
        return
    by_module: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for public, (module, attribute) in facade.names.items():
        by_module[module].append((attribute, public))
    checked, table = [], []
    for module in sorted(by_module):
        names = sorted(by_module[module])
        checked += _imports(module or ".", names, explicit=facade.package in PUBLIC)
        key = "" if module == "." else module
        words = " ".join(attribute if attribute == public else f"{attribute}:{public}" for attribute, public in names)
        table += _wrapped(key, words)
    facade.path.write_text(
        "\n".join(
            [
                docstring,
                "",
                "from typing import TYPE_CHECKING",
                "",
                f"from {PACKAGE}.lazy_exports import lazy_exports",
                "",
                "if TYPE_CHECKING:",
                *checked,
                "else:",
                "    __getattr__, __dir__, __all__ = lazy_exports(",
                "        __name__,",
                "        {",
                *table,
                "        },",
                "    )",
                "",
            ]
        )
    )


def _imports(module: str, names: list[tuple[str, str]], *, explicit: bool) -> list[str]:
    """The imports for type checkers. Those of users take only what is imported under its own name for re-exported."""
    renamed = [(attribute, public) for attribute, public in names if explicit or attribute != public]
    plain = [attribute for attribute, public in names if (attribute, public) not in renamed]
    lines = [f"    from {module} import ({', '.join(plain)})"] if plain else []
    return lines + [f"    from {module} import {attribute} as {public}" for attribute, public in renamed]


def _wrapped(key: str, words: str) -> list[str]:
    line = f'            "{key}": "{words}",'
    if len(line) <= 120:
        return [line]
    parts, current = [], ""
    for word in words.split():
        if len(current) + len(word) > 90:
            parts.append(current)
            current = ""
        current += word + " "
    parts.append(current.rstrip())
    return [f'            "{key}": (', *(f'                "{part}"' for part in parts), "            ),"]


def _start(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def problems(found: list[Passing], offered: dict[str, Facade], modules: dict[str, Path]) -> list[str]:
    """Names that a facade cannot offer: two of one name, one that is a module's too, private ones."""
    wanted: dict[tuple[str, str], set[str]] = defaultdict(set)
    for facade in offered.values():
        for name, (module, _) in facade.names.items():
            wanted[facade.package, name].add(module or ".")
    for one in found:
        for name, _, is_module in one.names:
            relative = one.target[len(one.facade) :]
            wanted[one.facade, name].add("." if is_module and not relative else relative or "?")
    told = []
    for (package, name), places in sorted(wanted.items()):
        places.discard("?")
        if len(places) > 1:
            told.append(f"{package}.{name}: in {', '.join(sorted(places))}")
        if f"{package}.{name}" in modules and places != {"."}:
            told.append(f"{package}.{name}: is a module too ({', '.join(sorted(places))})")
        if name.startswith("_"):
            told.append(f"{package}.{name}: is private")
    return told


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.facades", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="rewrite the imports and the packages' __init__")
    parser.add_argument("--problems", action="store_true", help="only what keeps facades from offering a name")
    options = parser.parse_args(arguments)
    modules = module_names()
    found = list(passing(modules))
    offered = facades(modules)
    if options.problems:
        print("\n".join(problems(found, offered, modules)))
        return 0
    if not options.write:
        for one in found:
            print(f"{one.path.relative_to(SOURCE.parent)}:{one.node.lineno}: {one.target} past {one.facade}")
        return int(bool(found))
    rewrite(found, offered)
    for facade in offered.values():
        if facade.names:
            write(facade)
    subprocess.run([sys.executable, "-m", "ruff", "check", "-q", "--fix", "--select", "I", "src"], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", "src"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
