"""Text for the model and for the trace: always valid Unicode, always bounded.

A tool's output stays as it was if it can be sent; invalid parts are replaced in place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from holdfast.config import printable

_SURROGATES = re.compile("[\ud800-\udfff]")
_ADDRESSES = re.compile(r" at 0x[0-9A-Fa-f]{6,}(?=>| \[)")
_SHOWN = 200


def mend(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which no provider takes and no file holds."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def cut(text: str, limit: int) -> str:
    """The text, or its beginning and its end with the number of characters that are missing between them."""
    if len(text) <= limit:
        return text
    note = f" [… {len(text) - limit} characters left out …] "
    tail = limit // 4
    return text[: limit - tail] + note + text[len(text) - tail :]


def shown(text: object) -> str:
    """A name or a path as a message quotes it: on one line, short, without control characters."""
    return printable(cut(mend(str(text)), _SHOWN))


def error_text(error: BaseException) -> str:
    """Return an exception's message, empty if it cannot be formatted."""
    try:
        return mend(str(error))
    except Exception:  # noqa: BLE001  somebody else's __str__
        return ""


def describe_error(error: BaseException, limit: int = 4_000) -> str:
    """Type and message of an unexpected exception, without a traceback, and without the addresses in memory that
    Python names objects by: they are others in every run."""
    name, text = type(error).__name__, _ADDRESSES.sub("", error_text(error))
    return cut(f"{name}: {text}" if text else name, limit)


def as_json(metadata: object) -> str:
    """Metadata as JSON text for an event, whatever a tool put into it; empty where there is none."""
    if not metadata:
        return ""
    try:
        plain = dict(metadata) if isinstance(metadata, Mapping) else metadata
        return mend(json.dumps(plain, ensure_ascii=False, default=_named, skipkeys=True))
    except Exception as error:  # noqa: BLE001  circular, too deep, or a value that cannot even be named
        return json.dumps({"unreadable": type(error).__name__})


def _named(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return str(value)
