"""What could make two renderings of the same window differ, found in the source and the signatures of what renders."""

from __future__ import annotations

import ast
import inspect
import locale
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any, get_args, get_type_hints

from holdfast.agent.window import entries, renderer, texts
from holdfast.agent.window.entries import Entry, Static, TimelineItem, Window
from holdfast.records import Block, Document, Image, Message, Opaque, ToolDefinition

RENDERING = (entries, renderer, texts)
PLAIN = {
    *(Window, Static, Message, bool, int, str, float, tuple, frozenset, type(None), object),
    *get_args(Entry),
    *get_args(TimelineItem),
    *(Image, Document, Opaque, ToolDefinition),
    *get_args(Block),
    *(datetime, tzinfo),
}
FORBIDDEN = {
    *("time", "random", "os", "locale", "platform", "socket", "uuid", "secrets", "threading", "asyncio", "functools"),
    *("sys", "pathlib", "calendar", "subprocess", "contextvars", "io"),
}
OURS = {"holdfast.records", "holdfast.errors"}
ASKING = {"now", "today", "utcnow", "strftime", "getenv", "fromtimestamp", "ctime", "open", "input", "id", "hash"}


def impurities(module: Any) -> Iterator[str]:
    """What in a module's source could make two renderings differ."""
    tree = ast.parse(module if isinstance(module, str) else inspect.getsource(module))
    siblings = {each.__name__.rpartition(".")[2] for each in RENDERING}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in {*FORBIDDEN, "holdfast"})
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
            if node.level:
                if node.level > 1 or name not in siblings:
                    yield f"{'.' * node.level}{name}"
            elif name.split(".")[0] in FORBIDDEN or (name.startswith("holdfast") and name not in OURS):
                yield name
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ASKING:
                yield called
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield ", ".join(node.names)
        elif isinstance(node, ast.FunctionDef):
            yield from (ast.unparse(d) for d in node.args.defaults if _mutable(d))
    for statement in tree.body:
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if value is not None and _mutable(value):
            yield ast.unparse(statement)


def imports(source: str) -> Iterator[str]:
    """Packages of ours and modules beside it that a module imports; what is further away by its dots."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level > 1:
            yield "." * node.level
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield from [node.module] if node.module else (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
            yield (node.module or "").removeprefix("holdfast.").split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("holdfast"))


def _mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return getattr(value.func, "id", "") in {"dict", "list", "set", "bytearray", "defaultdict", "count", "iter"}
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)


def functions(module: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            yield name, value


def types(function: Any) -> set[Any]:
    """Every class in the annotations of a function's parameters."""
    hints = get_type_hints(function)
    hints.pop("return", None)
    found: set[Any] = set()
    left = list(hints.values())
    while left:
        hint = left.pop()
        inner = [part for part in get_args(hint) if part is not Ellipsis]
        left += [part for part in inner if not isinstance(part, str | bytes | list)]
        if not inner or isinstance(hint, type):
            found.add(hint)
        elif getattr(hint, "__origin__", None) not in (None, tuple, frozenset, Iterable, Sequence):
            found.add(hint.__origin__)
    return found


def asked(name: str) -> Callable[..., Any]:
    def ask(*_: object) -> Any:
        raise AssertionError(f"rendering asked for {name}")

    return ask


def locales() -> list[str]:
    found = []
    for name in ("C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8", "ar_SA.UTF-8"):
        try:
            with Locale(name):
                found.append(name)
        except locale.Error:
            continue
    return found


class Locale:
    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.before = locale.setlocale(locale.LC_ALL)
        locale.setlocale(locale.LC_ALL, self.name)

    def __exit__(self, *_: object) -> None:
        locale.setlocale(locale.LC_ALL, self.before)
