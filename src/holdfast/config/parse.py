"""One value of one key: from text, checked against the schema, and as it is shown.

Pure, and nothing is guessed: TOML values must have the right type already; only text from the environment or
a flag is parsed.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from holdfast.config.document import printable
from holdfast.config.keys import Key
from holdfast.config.sections.mcp import DeclaredServer

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+(_[0-9]+)*)(\.[0-9]+(_[0-9]+)*)?([eE][+-]?[0-9]+)?", re.ASCII)
_LONGEST_NUMBER = 40
_LONGEST_SHOWN = 80
# Greedy on purpose: a password may hold any character, and hiding too much is the lesser fault.
_USERINFO = re.compile(r"(?<=://)(?<!sqlite://).*@|^(?!\w+://)[^/\s:@]+:.*@", re.DOTALL)
_SECRET = "key|token|secret|passw|pwd|auth|cred|sig"
_SECRET_OPTION = re.compile(rf"(-[\w-]*(?:{_SECRET})[\w-]*)(?:(=).*)?", re.IGNORECASE | re.DOTALL)
_SECRET_QUERY = re.compile(rf"([?&;][^=&;#\s]*(?:{_SECRET})[^=&;#\s]*=)[^&;#\s]*", re.IGNORECASE)


class NotAllowedError(Exception):
    """The value is not allowed for the key; the caller adds the key's place."""


def check(key: Key, value: object) -> Any:
    """The value as the schema holds it, or NotAllowedError."""
    if key.optional and value == "unset":
        return None
    if isinstance(value, (str, list, tuple, dict)) and not _is_unicode(value):
        raise NotAllowedError
    try:
        return msgspec.convert(value, key.type, strict=True)
    except (msgspec.ValidationError, OverflowError) as problem:
        raise NotAllowedError from problem


def parse(key: Key, text: str) -> Any:
    """The value that text from the environment or a flag means for this key, or NotAllowedError."""
    text = text.strip()
    if key.optional and text == "unset":
        return None
    return check(key, _read(key, text))


def _read(key: Key, text: str) -> object:
    if key.kind == "boolean":
        lowered = text.lower()
        return True if lowered in _TRUE else False if lowered in _FALSE else text
    if key.kind in ("whole", "number") and len(text) <= _LONGEST_NUMBER:
        if _WHOLE.fullmatch(text):
            return int(text)
        return float(text) if key.kind == "number" and _NUMBER.fullmatch(text) else text
    if key.kind == "list":
        parts = (part.strip() for part in text.split(","))
        return literal(text) if text.startswith("[") else [part for part in parts if part]
    return literal(text) if key.kind == "table" else text


def literal(text: str) -> object:
    """A list or table written as JSON or as TOML; anything else stays text and fails the check."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return table["value"] if len(table) == 1 else text


def _is_unicode(value: object) -> bool:
    # Bytes of the environment that are no UTF-8 arrive as lone surrogates.
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, Mapping):
        return all(_is_unicode(part) for pair in value.items() for part in pair)
    return all(_is_unicode(part) for part in value) if isinstance(value, (list, tuple)) else True


def expand(key: Key, value: Any, *, home: Path, user_home: Path) -> Any:
    """In a path, `HOLDFAST_HOME` and a leading `~` become directories; everything else stays as written."""
    if not key.path or value is None:
        return value
    if isinstance(value, tuple):
        return tuple(expand(key, part, home=home, user_home=user_home) for part in value)
    scheme, rest = ("sqlite:///", value[10:]) if value.startswith("sqlite:///") else ("", value)
    for sign, directory in (("HOLDFAST_HOME", home), ("~", user_home)):
        if rest == sign or rest.startswith(sign + "/"):
            place = quote(str(directory)) if scheme else str(directory)  # an address is percent-encoded
            return f"{scheme}{place}{rest[len(sign) :]}"
    return value


def mask(value: Any) -> Any:
    """The value without user names, passwords and keys that an address may carry."""
    if isinstance(value, DeclaredServer):
        return _masked_server(value)
    if isinstance(value, str):
        return _SECRET_QUERY.sub(r"\1***", _USERINFO.sub("***@", value))
    if isinstance(value, (list, tuple)):
        return [mask(part) for part in value]
    if isinstance(value, Mapping):
        return {mask(name): mask(part) for name, part in value.items()}
    return value


def _masked_server(server: DeclaredServer) -> dict[str, Any]:
    """A server's table without what its variables, headers and arguments may keep secret; defaults are left out."""
    table = {
        field: getattr(server, field)
        for field, default in zip(server.__struct_fields__, server.__struct_defaults__, strict=True)
        if getattr(server, field) != default and field not in ("origin", "project")
    }
    for field in ("env", "headers"):
        if field in table:
            table[field] = dict.fromkeys(table[field], "***")
    if "args" in table:
        table["args"] = masked_arguments(table["args"])
    return {name: mask(part) for name, part in table.items()}


def masked_arguments(arguments: Sequence[str]) -> list[str]:
    """A program's arguments without the values of options that sound like secrets."""
    masked: list[str] = []
    hidden = False
    for argument in arguments:
        option = _SECRET_OPTION.fullmatch(argument)
        if hidden and not argument.startswith("-"):
            masked.append("***")
        elif option and option[2]:
            masked.append(f"{option[1]}=***")
        else:
            masked.append(argument)
        hidden = bool(option and not option[2])
    return masked


def shown(value: object) -> str:
    """The value as it would be written in `holdfast.toml`, masked."""
    value = mask(value)
    if value is None:
        return "unset"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{json.dumps(str(k), ensure_ascii=False)} = {shown(v)}" for k, v in value.items())
        return printable(f"{{ {pairs} }}" if pairs else "{}")
    if isinstance(value, list):
        return "[" + ", ".join(shown(part) for part in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return printable(json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value))


def quoted(value: object) -> str:
    """The value for an error message: shown, cut to a readable length."""
    text = shown(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
