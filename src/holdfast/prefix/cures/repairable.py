"""Whether a repair would have kept what changed: asked of the repairs themselves, so that no cure promises more."""

from __future__ import annotations

import json
import re

from ..repairs import texts
from ..volatile import between
from .values import WHOLE, Case

_system = re.compile(r"system\[(\d{1,6})\]$")


def would_repair(case: Case) -> bool:
    """Whether `cache.repair = "on"` acts on this divergence: on values in tools, on values, memories and ends of system
    texts, never on messages."""
    divergence = case.finding.divergence
    if divergence is None or divergence.what != "changed" or not case.texts:
        return False
    before, after = case.before or b"", case.after or b""
    if max(len(before), len(after)) > WHOLE:
        return False
    if divergence.section == "tools":
        return bool(between(before.decode("utf-8", "replace"), after.decode("utf-8", "replace")))
    first, now = text_of(before), text_of(after)
    if divergence.section != "system" or first is None or now is None or texts.is_attribution(now):
        return False
    found = _system.match(case.where)
    place = int(found[1]) if found is not None else 0
    difference = texts.compare(first, now, place)
    return difference.repairable or (place > 0 and case.model.ref.startswith("anthropic:") and difference.splits)


def text_of(content: bytes) -> str | None:
    """What a block says that is a text."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    value = value.get("text") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None
