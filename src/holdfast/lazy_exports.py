"""What packages offer in their `__init__`, loaded when it is first asked for: importing one name loads one module."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

Exports = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def lazy_exports(package: str, modules: Mapping[str, str]) -> Exports:
    """Return `__getattr__`, `__dir__` and `__all__` of a package with the names of `modules` (module: names, spaced).

    `a:b` exports the module's `a` as `b`. A module's own name is under the empty key.
    """
    places = {}
    for module, names in modules.items():
        for name in names.split():
            attribute, _, public = name.partition(":")
            places[public or attribute] = (module, attribute)

    def load(name: str) -> object:
        try:
            module, attribute = places[name]
        except KeyError:
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        if not module:
            return import_module(f".{attribute}", package)
        value: object = getattr(import_module(module, package), attribute)
        setattr(sys.modules[package], name, value)
        return value

    offered = sorted(places)
    return load, lambda: [*vars(sys.modules[package]), *offered], offered
