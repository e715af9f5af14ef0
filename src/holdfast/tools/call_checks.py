"""What is wrong with a call: a name that no tool has, an input that is no object."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

from holdfast.records import ToolUse

from .contract import RefusedCall
from .text_limits import shown

_LONGEST = 128
"""Characters of a name that are compared with those that exist."""
_LISTED = 30


def unknown(name: str, tools: Iterable[str]) -> RefusedCall:
    """A name that no tool has, and those it may have meant."""
    names = sorted(tools)
    near = get_close_matches(name[:_LONGEST], names, n=3)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif names:
        more = ", …" if len(names) > _LISTED else ""
        hint = f"There are: {', '.join(names[:_LISTED])}{more}."
    else:
        hint = "There are no tools."
    return RefusedCall(f"There is no tool named {shown(name)!r}. {hint}")


def read_input(call: ToolUse) -> dict[str, Any] | RefusedCall:
    """The input of a call as an object. None at all counts as an empty one: that is what some models send."""
    try:
        text = call.input.decode("utf-8") if isinstance(call.input, (bytes, bytearray)) else str(call.input)
        value = json.loads(text, parse_constant=_no_number) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else shown(error)
        return _invalid(call, f"is not valid JSON ({why})")
    if not isinstance(value, dict):
        return _invalid(call, "is not a JSON object")
    return value


def _invalid(call: ToolUse, what: str) -> RefusedCall:
    return RefusedCall(f"The input of {shown(call.name)} {what}. Call it again with one JSON object.", invalid=True)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")
