"""Texts that a log may hold to do harm, and reports full of them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "</title></style><script>alert(1)</script>",
    '" onmouseover="alert(1)" x="',
    "' onfocus='alert(1)' autofocus='",
    "</text></svg><svg onload=alert(1)>",
    "<!--",
    "]]><![CDATA[",
    "&lt;b&gt;&#60;b>",
    "javascript:alert(1)",
    "a\x00b\x08\x1b[31mred\x7f\x85",
    "\u202egnp.exe\u2066\u200b\u2028\u2029\ufeff",
    "lone \ud83d\udc00\ud800 surrogate \ufffe\uffff",
    "עברית العربية 漢字かな交じり文" * 4,
    "Z̶̛̃a̵l̷g̸o" * 20,
    "👩‍👩‍👧‍👦" * 30,
    "x" * 10_000,
    "",
    " \n\t ",
)


def filled(value: Any, text: str) -> Any:
    """The same report with this in place of every text that may come from a log."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(filled(each, text) for each in value)
    if isinstance(value, dict):
        return {f"{text}{number}": each for number, each in enumerate(value.values())}
    if isinstance(value, msgspec.Struct):
        closed = {"evidence", "kind"}
        changes = {name: filled(getattr(value, name), text) for name in value.__struct_fields__ if name not in closed}
        return replace(value, **changes)
    return value
