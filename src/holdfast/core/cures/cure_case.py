"""What a recogniser is given and what it answers. Of long texts it sees a window around the divergence."""

from __future__ import annotations

import re

from msgspec import Struct

from holdfast.caches import Mark
from holdfast.facts import ModelFacts
from holdfast.records import Cure as Cure

from ..breaks import Finding
from ..divergence import as_bytes, place

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
    """A break with what can be seen of it.

    `old` and `new` are the lines in which the two texts first differ, `lead` what stands before that line; all empty
    where a text is not at hand. They part at character `at`; `old_cut` and `new_cut` say that a line goes on beyond
    what is shown of it.
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
    found = place(before, after) if before is not None and after is not None else None
    if before is None or after is None or found is None:
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
    head = _ENDS.split(_text(old[max(0, found.offset - WINDOW) : found.offset]))
    start = head[-1][-LINE:]
    rests = [_text(text[found.offset : found.offset + WINDOW]) for text in (old, new)]
    ends = [_ENDS.split(rest, maxsplit=1) for rest in rests]
    whole = [len(end) > 1 or len(text) - found.offset <= WINDOW for end, text in zip(ends, (old, new), strict=True)]
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
