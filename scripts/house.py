"""Measures how the code is built: its size, names, parameters and imports, as a table or as JSON.

    python -m scripts.house                     # the table that docs/architecture.md quotes
    python -m scripts.house --write docs/architecture.md  # renew it there, between its two markers
    python -m scripts.house --list participles  # what stands behind one line of it
    python -m scripts.house --trace             # the modules that a request, a turn and a report run through

The figures are signs and not aims. Two checks read them: `tests/test_house.py` allows no import past a package's
`__init__`, and `tests/docs/test_architecture.py` compares the page with what is measured, but for what grows with every
change.
"""

import argparse
import ast
import json
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scripts.facades import Facade, facades, module_names, passing
from scripts.module_trace import traces

PACKAGE = "holdfast"
MANY_PARAMETERS = 8
MANY_CLASSES_OF_ONE_NAME = 3
BLOCK = re.compile(r"(?<=<!-- house -->\n\n).*?(?=\n<!-- end of house -->)", re.DOTALL)
"""Where a page quotes the table."""

# Names that end like a participle and are nouns of the field.
_NOUNS = """
bed embed encoding encodings feed findings heading headings landing listing logging masking packaging padding ping pings
pricing rolling routing saving savings seed serving setting settings speed string strings surroundings thing timing
timings tracing warning warnings
"""
NOUNS = frozenset(_NOUNS.split())


@dataclass(frozen=True)
class Module:
    """One source file."""

    name: str  # dotted, such as holdfast.engine.lane
    path: Path
    tree: ast.Module
    nodes: list[ast.AST]  # every node of the tree
    lines: int
    code_lines: int  # without blanks, comments and docstrings

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@dataclass
class House:
    """Everything that was measured of one tree; lists name what is counted."""

    files: int = 0
    lines: int = 0
    code_lines: int = 0
    test_lines: int = 0
    participles: list[str] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    single_importer: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    user_imports: list[str] = field(default_factory=list)
    package_imports: int = 0
    past_facades: list[str] = field(default_factory=list)
    imported_tests: list[str] = field(default_factory=list)
    private_uses: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, str]]:
        """The table's lines: what is measured, and the figure."""
        yield "files of `src`", f"{self.files:,}"
        yield "lines of `src`", f"{self.lines:,}"
        yield "lines of code without blanks, comments, docstrings", f"{self.code_lines:,}"
        yield "lines of tests", f"{self.test_lines:,}"
        yield "modules named by a participle", f"{len(self.participles):,}"
        yield "public class names used more than twice", f"{len(self.class_names):,}"
        yield "modules with one importer", f"{len(self.single_importer):,}"
        yield f"functions with {MANY_PARAMETERS} or more parameters", f"{len(self.parameters):,}"
        yield "places users import from", f"{len(self.user_imports):,}"
        yield "imports between packages", f"{self.package_imports:,}"
        yield "of these past the package's `__init__`", f"{len(self.past_facades):,}"
        yield "imports of one test module by another", f"{len(self.imported_tests):,}"
        yield "uses of private names in tests", f"{len(self.private_uses):,}"


def measure(root: Path) -> House:
    """Measures the tree below `root`, which holds `src`, `tests`, `docs`, `examples` and README.md."""
    modules = list(_modules(root / "src"))
    names = {module.name for module in modules}
    offered = facades(module_names(root / "src"))
    packages = {module.name for module in modules if module.is_package}
    house = House(
        files=len(modules),
        lines=sum(module.lines for module in modules),
        code_lines=sum(module.code_lines for module in modules),
        test_lines=sum(len(path.read_text().splitlines()) for path in (root / "tests").rglob("*.py")),
    )
    importers: dict[str, set[str]] = defaultdict(set)
    classes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        if _is_participle(module):
            house.participles.append(module.name)
        for name in _public_classes(module.tree):
            classes[name].append(module.name)
        house.parameters += _long_signatures(module)
        imports = set(_imports(module, names, offered))
        house.package_imports += len({target for target, _ in imports if _top(target) != _top(module.name)})
        for _, real in imports:
            if not module.is_package:
                importers[real].add(module.name)
    house.single_importer = sorted(
        f"{name} <- {next(iter(importers[name]))}" for name in names - packages if len(importers[name] - {name}) == 1
    )
    house.class_names = sorted(
        f"{name}: {', '.join(found)}" for name, found in classes.items() if len(found) >= MANY_CLASSES_OF_ONE_NAME
    )
    house.past_facades = [f"{one.module} -> {one.target}" for one in passing(module_names(root / "src"))]
    house.user_imports = sorted(_user_imports(root))
    for path in sorted((root / "tests").rglob("*.py")):
        place, nodes = path.relative_to(root), list(ast.walk(ast.parse(path.read_text())))
        house.imported_tests += [f"{place}:{line} {name}" for line, name in _imported_tests(nodes)]
        house.private_uses += [f"{place}:{line} {name}" for line, name in _private_uses(nodes)]
    return house


def _modules(source: Path) -> Iterator[Module]:
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text()
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        yield Module(name, path, tree, nodes, len(text.splitlines()), len(_code_lines(path, nodes)))


def _code_lines(path: Path, nodes: list[ast.AST]) -> set[int]:
    """The numbers of the lines that hold code; docstrings, those of fields included, are none."""
    lines: set[int] = set()
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type not in _NO_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


def _top(name: str) -> str:
    return ".".join(name.split(".")[:2])


def _is_participle(module: Module) -> bool:
    words = module.name.rsplit(".", 1)[-1].split("_")
    return any(re.search(r"[a-z]{2}(ing|ed)s?$", word) and word not in NOUNS for word in words)


def _public_classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def _long_signatures(module: Module) -> list[str]:
    long = []
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = sum(1 for argument in arguments if argument.arg not in ("self", "cls"))
            # The parameters of a command are its options, which click hands over by name.
            if count >= MANY_PARAMETERS and not _is_command(node):
                long.append(f"{module.name}.{node.name}: {count}")
    return long


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    text = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    return any(word in text for word in (".command(", ".option(", ".group(", "click.argument"))


def _imports(module: Module, names: set[str], offered: dict[str, Facade]) -> Iterator[tuple[str, str]]:
    """The modules of ours that a module imports, lazily or not: as it says, and where the name really stands."""
    base = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name) for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                start = base[: len(base) - node.level + 1]
                target = ".".join([*start, *([node.module] if node.module else [])])
            else:
                target = node.module or ""
            if _top(target).split(".")[0] != PACKAGE:
                continue
            for alias in node.names:
                inner = f"{target}.{alias.name}"
                if inner in names:
                    yield inner, inner
                else:
                    yield target, _origin(target, alias.name, offered)


def _origin(target: str, name: str, offered: dict[str, Facade]) -> str:
    """The module behind a name of a package's `__init__`."""
    while target in offered and name in offered[target].names:
        module, name = offered[target].names[name]
        if module in ("", "."):
            return f"{target}.{name}"
        target = f"{target}{module}" if module.startswith(".") else module
    return target


def _user_imports(root: Path) -> set[str]:
    """The modules that README, docs and examples tell users to import."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md")), *sorted((root / "examples").rglob("*.py"))]
    pattern = re.compile(rf"^\s*(?:from ({PACKAGE}[\w.]*) import|import ({PACKAGE}[\w.]*))", re.MULTILINE)
    places = set()
    for page in pages:
        if page.name in ("architecture.md", "glossary.md") or not page.exists():
            continue
        places |= {first or second for first, second in pattern.findall(page.read_text())}
    return places


def _imported_tests(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from ((node.lineno, name) for name in names if name.startswith("test_"))


def _private_uses(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Private names of ours that a test imports, and private members of objects other than its own."""
    owners = ("self", "cls", "os", "sys")
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    own |= {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in owners:
                yield node.lineno, node.attr


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in ("_replace", "_asdict", "_fields")


def _trace_rows(root: Path) -> Iterator[tuple[str, str]]:
    for work, trace in traces(root):
        yield f"modules of {work}", f"{len(trace.modules):,}"
        yield f"lines of these modules ({work})", f"{trace.lines(root):,}"
        if "request" in work:
            yield f"switches between modules of {work}", f"{trace.switches:,}"
            yield f"switches between packages of {work}", f"{trace.package_switches:,}"


def main(arguments: list[str] | None = None) -> int:
    lists = (
        "participles",
        "class_names",
        "single_importer",
        "parameters",
        "user_imports",
        "past_facades",
        "imported_tests",
        "private_uses",
    )
    parser = argparse.ArgumentParser(prog="python -m scripts.house", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1], help="another checkout")
    parser.add_argument("--list", choices=lists, help="name what one line counts")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="renew the table that a page quotes")
    parser.add_argument(
        "--trace", action="store_true", help="run a request, a turn and a report, and count their modules"
    )
    options = parser.parse_args(arguments)
    if not (options.root / "src" / PACKAGE).is_dir():
        parser.error(f"{options.root} holds no src/{PACKAGE}")
    if options.trace:
        rows = list(_trace_rows(options.root.resolve()))
    else:
        house = measure(options.root)
        if options.list:
            print("\n".join(getattr(house, options.list)))
            return 0
        rows = list(house.rows())
    if options.json:
        print(json.dumps({name: int(value.replace(",", "")) for name, value in rows}, indent=2))
        return 0
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        if not BLOCK.search(text):
            parser.error(f"{options.write} has no lines <!-- house --> and <!-- end of house -->")
        options.write.write_text(BLOCK.sub(lambda _: f"{_table(rows)}\n", text), encoding="utf-8")
        return 0
    print(_table(rows))
    return 0


def _table(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    head = [f"| {'measured':<{width}} | figure  |", f"|{'-' * (width + 2)}|--------:|"]
    return "\n".join([*head, *(f"| {name:<{width}} | {value:>7} |" for name, value in rows)])


if __name__ == "__main__":
    sys.exit(main())
