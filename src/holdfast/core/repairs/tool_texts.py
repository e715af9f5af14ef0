"""The prose of a tool: descriptions and titles, its own and those in its schema.

Nothing else of a tool is ever moved: the provider enforces it, so that an announced value would have no effect.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from ..volatile import between, masked
from .exact import exact
from .texts import clauses, told_apart

_PROSE = frozenset({"description", "title"})
_OWN = frozenset({"description", "function.description"})
"""The paths of a tool's own description."""
_SCHEMAS = frozenset(
    {"function", "input_schema", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "items"}
    | {"prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "contains"}
)
"""Members that hold a schema or several: below any other, a description may be a value that is enforced."""
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Members that hold schemas by names of the client's own."""


class ToolDifference(Struct, frozen=True):
    """What changed in a tool. `exact` if every value is unambiguous."""

    kinds: tuple[str, ...]
    exact: bool


def compare(first: bytes, now: bytes) -> ToolDifference | None:
    """Return how a tool differs from what was sent first; None unless only values in its prose differ, each distinct
    from all others there."""
    kinds = between(first.decode("utf-8", "replace"), now.decode("utf-8", "replace"))
    before, after = _Tool(first), _Tool(now)
    if not kinds or before.enforced != after.enforced or before.prose.keys() != after.prose.keys():
        return None
    pairs = [(one, other) for path, one in before.prose.items() if one != (other := after.prose[path])]
    if not pairs or not all(between(one, other) and told_apart([other], [other]) for one, other in pairs):
        return None
    return ToolDifference(kinds, all(exact(one.split("\n"), other.split("\n")) for one, other in pairs))


def in_schema(tool: bytes) -> str:
    """The sentences of a tool's schema that hold values, with their paths."""
    texts = _Tool(tool).prose.items()
    return "; ".join(
        f"{path}: {clauses(text, None)}" for path, text in texts if path not in _OWN and "\0" in masked(text)
    )


class _Object(tuple[tuple[str, Any], ...]):
    """The members of an object in their order, those that stand twice as well."""


_decoder = json.JSONDecoder(object_pairs_hook=_Object, parse_int=str, parse_float=str)


class _Tool:
    """A tool taken apart: `prose` by its path, and all the rest."""

    def __init__(self, raw: bytes) -> None:
        self.prose: dict[str, str] = {}
        try:
            self.enforced = self._rest(_decoder.decode(raw.decode("utf-8")), "")
        except (ValueError, RecursionError):
            self.enforced = raw

    def _rest(self, value: Any, path: str) -> Any:
        if not isinstance(value, _Object):
            return value
        return [(key, self._member(key, each, f"{path}.{key}" if path else key)) for key, each in value]

    def _member(self, key: str, value: Any, path: str) -> Any:
        if key in _PROSE and isinstance(value, str) and path not in self.prose:
            self.prose[path] = value
            return None
        if key in _SCHEMAS:
            several = isinstance(value, list)
            return (
                [self._rest(each, f"{path}[{n}]") for n, each in enumerate(value)]
                if several
                else self._rest(value, path)
            )
        if key in _NAMED and isinstance(value, _Object):
            return [(name, self._rest(each, f"{path}.{name}")) for name, each in value]
        return value
