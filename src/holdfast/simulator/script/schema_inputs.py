"""An input that fits a tool's JSON schema: what is required and no more, the same every time.

`pattern`, `not`, `if` and counting rules on objects are not solved; a script that needs them gives the input itself.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

DEEPEST = 24
MOST_VALUES = 10_000
"""Of one input, references followed included: a schema of a few lines can ask for more than any memory holds."""

MOST_ITEMS = 100
LONGEST_TEXT = 10_000
_SMALLEST, _LARGEST = 1e-9, 1e15
_FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "email": "someone@example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
}


def fit(schema: bytes) -> dict[str, Any]:
    """An object for a tool whose schema this is; Gemini's own spelling of types is understood too."""
    try:
        root = msgspec.json.decode(schema)
    except (msgspec.DecodeError, RecursionError):
        return {}
    value = _Fitter(root).value(root, 0)
    return value if isinstance(value, dict) else {}


class _Fitter:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.left = MOST_VALUES

    def value(self, schema: Any, depth: int) -> Any:
        self.left -= 1
        if depth > DEEPEST or self.left < 0:
            return {}
        if not isinstance(schema, dict):
            return "text"
        schema = self.resolved(schema, depth)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][0]
        for key in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(key), list) and options:
                chosen = next((option for option in options if not _is_null(option)), options[0])
                rest = {name: inner for name, inner in schema.items() if name != key}
                return self.value(_merged(rest, chosen), depth + 1)
        match _type_of(schema):
            case "object":
                return self.object(schema, depth)
            case "array":
                return self.array(schema, depth)
            case "integer":
                return _number(schema, whole=True)
            case "number":
                return _number(schema, whole=False)
            case "boolean":
                return True
            case "null":
                return None
        return _text(schema)

    def resolved(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """A schema with its reference followed and its `allOf` laid together."""
        for _ in range(DEEPEST):
            self.left -= 1
            if self.left < 0:
                break
            if isinstance(reference := schema.get("$ref"), str):
                target = self.find(reference)
                schema = _merged({key: inner for key, inner in schema.items() if key != "$ref"}, target)
            elif isinstance(parts := schema.get("allOf"), list):
                schema = {key: inner for key, inner in schema.items() if key != "allOf"}
                for part in parts:
                    schema = _merged(schema, self.resolved(part, depth + 1) if _deeper(part, depth) else part)
            else:
                break
        return schema

    def find(self, reference: str) -> Any:
        """What a reference inside the same document points to."""
        place = self.root
        for word in reference.removeprefix("#").strip("/").split("/") if reference.strip("#/") else ():
            word = word.replace("~1", "/").replace("~0", "~")
            place = place.get(word) if isinstance(place, dict) else None
        return place

    def object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        ordered = [name for name in properties if name in names]
        ordered += [name for name in dict.fromkeys(names) if name not in properties]
        other = schema.get("additionalProperties")
        return {name: self.value(properties.get(name, other), depth + 1) for name in ordered}

    def array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        least = min(max(int(_bound(schema, "minItems") or 0), 0), MOST_ITEMS)
        first = schema.get("prefixItems")
        items = [self.value(item, depth + 1) for item in first[:least]] if isinstance(first, list) else []
        while len(items) < least and self.left > 0:
            items.append(_different(self.value(schema.get("items"), depth + 1), len(items), schema))
        return items


def _deeper(part: Any, depth: int) -> bool:
    return isinstance(part, dict) and depth < DEEPEST


def _different(value: Any, index: int, schema: dict[str, Any]) -> Any:
    """Items that must be unique are numbered, where they can be."""
    if schema.get("uniqueItems") is not True or index == 0 or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"{value}{index + 1}"
    return value + index if isinstance(value, int) else value


def _merged(one: dict[str, Any], other: Any) -> dict[str, Any]:
    """Two schemas that hold together: properties and required names add up, everything else is replaced."""
    if not isinstance(other, dict):
        return one
    merged = one | other
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        merged["properties"] = one["properties"] | other["properties"]
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        merged["required"] = [*one["required"], *other["required"]]
    return merged


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _type_of(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        return kind.lower()
    if "properties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else "string"


def _number(schema: dict[str, Any], *, whole: bool) -> int | float:
    """The number nearest to one that the bounds allow."""
    step = _bound(schema, "multipleOf") or (1 if whole else None)
    low, high = _bound(schema, "minimum"), _bound(schema, "maximum")
    above, below = _bound(schema, "exclusiveMinimum"), _bound(schema, "exclusiveMaximum")
    gap = step or 0.5
    low = max((bound for bound in (low, None if above is None else above + gap) if bound is not None), default=None)
    high = min((bound for bound in (high, None if below is None else below - gap) if bound is not None), default=None)
    value: float = 1
    if high is not None:
        value = min(value, high)
    if low is not None:
        value = max(value, low)
    if step is not None:
        value = step * (math.floor(value / step) if high == value else math.ceil(value / step))
    return int(value) if whole or value == int(value) else value


def _bound(schema: dict[str, Any], key: str) -> float | int | None:
    """A number that can be counted with; what is beyond that is as good as no bound."""
    bound = schema.get(key)
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        return None
    return bound if bound == 0 or _SMALLEST <= abs(bound) <= _LARGEST else None


def _text(schema: dict[str, Any]) -> str:
    """A text of a known format, or a word made as long as it must be."""
    kind = schema.get("format")
    if isinstance(kind, str) and kind in _FORMATS:
        return _FORMATS[kind]
    least, most = _bound(schema, "minLength") or 0, _bound(schema, "maxLength")
    text = "text"
    if len(text) < least:
        text = (text * (int(least) // len(text) + 1))[: min(int(least), LONGEST_TEXT)]
    return text if most is None else text[: max(int(most), 0)]
