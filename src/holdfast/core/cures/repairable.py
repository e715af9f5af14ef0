"""Whether a repair would have kept what changed: asked of the repairs themselves, so that no cure promises more."""

from __future__ import annotations

import json
import re
from typing import Literal

from ..repairs import texts, tool_texts
from .cure_case import WHOLE, Case

Level = Literal["values", "on"]

_system = re.compile(r"system\[(\d{1,6})\]$")


def repaired_by(case: Case) -> Level | None:
    """The least level of `cache.repair` that acts on this divergence: on values in tools, on values, memories and ends
    of system texts, never on messages. None where none does."""
    divergence = case.finding.divergence
    if divergence is None or divergence.what != "changed" or not case.texts:
        return None
    before, after = case.before or b"", case.after or b""
    if max(len(before), len(after)) > WHOLE:
        return None
    if divergence.section == "tools":
        tool = tool_texts.compare(before, after)
        return None if tool is None else "values" if tool.exact else "on"
    first, now = text_of(before), text_of(after)
    if divergence.section != "system" or first is None or now is None or texts.is_attribution(now):
        return None
    found = _system.match(case.where)
    place = int(found[1]) if found is not None else 0
    difference = texts.compare(first, now, place)
    if difference.repairable:
        return "values" if difference.exact else "on"
    splits = place > 0 and case.model.ref.startswith("anthropic:") and difference.splits
    return "on" if splits else None


def text_of(content: bytes) -> str | None:
    """What a block says that is a text."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    value = value.get("text") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None
