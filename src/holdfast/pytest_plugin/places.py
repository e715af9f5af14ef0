"""Where two requests part: the path, the byte, and what stands around it on both sides."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core import Divergence, as_bytes, mask, place, without_secrets
from holdfast.engine import where as parting

from .request_reader import CheckedRequest

AROUND = 29
"""Characters shown on each side of a divergence: both sides stand on one line of a terminal."""

_MARGIN = 512  # bytes looked at beyond what is shown, so that a credential cut by the edge is still recognised


class Where(Struct, frozen=True, kw_only=True):
    """A place of divergence. `said` and `says` are what the block said and says, for the cures; the rest is for people:
    the byte in the body and in the text, a few characters of both sides and how many of them stand before it."""

    path: str
    offset: int | None = None
    inside: int | None = None
    before: str | None = None
    after: str | None = None
    at: int = 0
    said: bytes | None = None
    says: bytes | None = None


def where(earlier: CheckedRequest, asked: CheckedRequest, divergence: Divergence, *, redact: bool) -> Where:
    """The first place in which a request departs from an earlier one."""
    if divergence.setting is not None:
        return _setting(earlier, asked, divergence.setting, redact)
    old, new = _block(earlier, divergence), _block(asked, divergence)
    if new is None:
        if old is None:
            return Where(path=divergence.section)
        said = earlier.content(old)
        path = f"{earlier.body.blocks[earlier.places[old]].path} (gone)"
        return Where(path=path, before=_around(said, 0, redact), said=said)
    found = parting(asked.body, replace(asked.view, origin=asked.places), earlier.body, divergence)
    before, after = found.before, found.after or b""
    if old is None or before is None:
        says = asked.content(new)
        return Where(path=found.path or "", offset=found.offset, after=_around(says, 0, redact), says=says)
    inside, offset = _part(before, after), found.offset
    if offset is not None and found.place is not None:
        offset -= found.place.offset - inside  # to the beginning of the character
    if before[:1] == after[:1] == b'"':  # texts, as they stand in the bodies
        before, after, inside = before[1:-1], after[1:-1], inside - 1
    return Where(
        path=found.path or "",
        offset=offset,
        inside=inside,
        before=_around(before, inside, redact),
        after=_around(after, inside, redact),
        at=_lead(after, inside),
        said=found.said,
        says=found.says,
    )


def _setting(earlier: CheckedRequest, asked: CheckedRequest, name: str, redact: bool) -> Where:
    """A changed setting: its two values."""
    member = asked.body.members.get(name.partition(".")[0])
    old, new = _value(earlier, name), _value(asked, name)
    at = 0 if old is None or new is None else _part(old, new)
    return Where(
        path=name,
        offset=None if member is None else member.start,
        before="(not set)" if old is None else _around(old, at, redact),
        after="(not set)" if new is None else _around(new, at, redact),
        at=0 if old is None or new is None else _lead(new, at),
    )


def _value(asked: CheckedRequest, name: str) -> bytes | None:
    if name == "model":
        return asked.model.encode("utf-8", "replace")
    if name == "prompt_cache_key":
        return asked.prompt.route.encode("utf-8", "replace") or None
    return asked.settings.get(name)


def _block(asked: CheckedRequest, divergence: Divergence) -> int | None:
    """The block of a view at the divergence, if it is of the section that changed: the other may have ended there."""
    blocks, index = asked.view.blocks, divergence.block
    return index if index < len(blocks) and blocks[index].section == divergence.section else None


def _part(before: bytes, after: bytes) -> int:
    """The byte at which two texts part, at the beginning of a character."""
    found = place(before, after)
    at = 0 if found is None else found.offset
    while at and (after[at : at + 1] or before[at : at + 1]) and _inside(after, at):
        at -= 1
    return at


def _inside(text: bytes, at: int) -> bool:
    return at < len(text) and text[at] & 0xC0 == 0x80


def _around(text: bytes, at: int, redact: bool) -> str:
    """A few characters on each side of a byte, on one line; an ellipsis where there is more."""
    start, end = max(0, at - _MARGIN), min(len(text), at + _MARGIN)
    lead, rest = _text(text[start:at]), _text(text[at:end])
    told = mask(lead + rest) if redact else without_secrets(lead + rest, dense=False)
    first, last = max(0, len(lead) - AROUND), len(lead) + AROUND
    cut = ("…" if start or first else "", "…" if end < len(text) or last < len(told) else "")
    return cut[0] + _one_line(told[first:last]) + cut[1]


def _lead(text: bytes, at: int) -> int:
    """How many characters `_around` shows before the byte."""
    start = max(0, at - _MARGIN)
    lead = len(_text(text[start:at]))
    return min(lead, AROUND) + (1 if start or lead > AROUND else 0)


def _text(raw: bytes) -> str:
    return as_bytes(raw).decode("utf-8", "replace")


def _one_line(text: str) -> str:
    """What a terminal shows as one character each; JSON has escaped line ends and control characters already."""
    return re.sub(r"\s", " ", "".join(char if char.isprintable() else "?" for char in text))
