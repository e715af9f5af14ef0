"""What a recogniser is given and what it answers. Of long texts it sees a window around the divergence.

`repaired_by` asks the repairs themselves whether one would have kept what changed, so that no cure promises more.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from msgspec import Struct

from holdfast.caches import Mark
from holdfast.facts import ModelFacts
from holdfast.records import Cure as Cure

from ..breaks import Finding
from ..divergence import as_bytes, place
from ..repairs import texts, tool_texts

WINDOW = 2_000
"""Bytes looked at on each side of the divergence."""

WHOLE = 1_000_000
"""Bytes up to which whole texts are compared (key order, white space)."""

LINE = 400
"""Characters of a line that are compared."""

REPAIR = 'cache.repair = "on"'
VALUES = 'cache.repair = "values"'
ECONOMIC = 'cache.strategy = "economic"'
IMPROVE = 'cache.client_markers = "improve"'
MANAGE = 'cache.client_markers = "manage"'
"""Lifetimes are chosen with the markers: those of a client's own stay what they are."""

_ENDS = re.compile(r"\\r\\n|\\n|\r\n|\n|\r")


class Case(Struct, frozen=True, kw_only=True):
    """A break and its texts.

    `old` and `new` are the lines with the first difference, `lead` the text before them; all empty if a text is not
    available. They differ from character `at`; `old_cut` and `new_cut` if a line is longer than what is shown of it.
    """

    finding: Finding
    model: ModelFacts
    where: str
    before: bytes | None = None
    after: bytes | None = None
    lead: str = ""
    old: str = ""
    new: str = ""
    old_rest: str = ""
    new_rest: str = ""
    at: int = 0
    old_cut: bool = False
    new_cut: bool = False
    marks: tuple[Mark, ...] = ()

    @property
    def texts(self) -> bool:
        return self.before is not None and self.after is not None and self.before != self.after


def case(
    finding: Finding,
    model: ModelFacts,
    *,
    path: str | None = None,
    before: str | bytes | None = None,
    after: str | bytes | None = None,
    marks: tuple[Mark, ...] = (),
) -> Case:
    """A case from a finding. `before` and `after` are the texts of the block at the divergence, `marks` the markers
    that went out with the request."""
    divergence = finding.divergence
    if divergence is not None and (path is None or divergence.what in ("model", "settings")):  # which have no place
        path = f"the {divergence.section}"
    where = path or "the prefix"
    spot = place(before, after) if before is not None and after is not None else None
    if before is None or after is None or spot is None:
        old = None if before is None else as_bytes(before)
        new = None if after is None else as_bytes(after)
        return Case(
            finding=finding,
            model=model,
            where=where,
            before=old,
            after=new,
            old_rest="" if old is None else _text(old[:WINDOW]),
            new_rest="" if new is None else _text(new[:WINDOW]),
            marks=marks,
        )
    old, new = as_bytes(before), as_bytes(after)
    head = _ENDS.split(_text(old[max(0, spot.offset - WINDOW) : spot.offset]))
    start = head[-1][-LINE:]
    rests = [_text(text[spot.offset : spot.offset + WINDOW]) for text in (old, new)]
    ends = [_ENDS.split(rest, maxsplit=1) for rest in rests]
    whole = [len(end) > 1 or len(text) - spot.offset <= WINDOW for end, text in zip(ends, (old, new), strict=True)]
    return Case(
        finding=finding,
        model=model,
        where=where,
        before=old,
        after=new,
        lead="\n".join(head[:-1]),
        old=start + ends[0][0][:LINE],
        new=start + ends[1][0][:LINE],
        old_rest=rests[0],
        new_rest=rests[1],
        at=len(start),
        old_cut=not whole[0] or len(ends[0][0]) > LINE,
        new_cut=not whole[1] or len(ends[1][0]) > LINE,
        marks=marks,
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


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
    match = _system.match(case.where)
    place = int(match[1]) if match is not None else 0
    difference = texts.compare(first, now, place)
    if difference.repairable:
        return "values" if difference.exact else "on"
    splits = place > 0 and case.model.ref.startswith("anthropic:") and difference.splits
    return "on" if splits else None


def text_of(content: bytes) -> str | None:
    """Return the text of a text block, None for another block."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    value = value.get("text") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None
