"""How two versions of a system text differ: in values that change by themselves, in one section, or behind a beginning.

Works on lines. What is equal is not looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from msgspec import Struct

from ..volatile import between, masked, parted
from .exact import exact

LONGEST_SECTION = 16_000
"""Characters of a section that is repeated as a whole when it changes."""

_heading = re.compile(
    r"\s*(?:(?P<hashes>#{1,6})\s+\S|(?P<tag><[A-Za-z][\w:-]*(?:\s[^<>]*)?>)\s*$|(?P<strong>\*\*[^*]+\*\*:?|\[[^\]]+\])\s*$"
    r"|(?P<colon>[A-Za-z][^:.]{0,58}:)\s*$)"
).match
_remembers = re.compile(
    r"memor(?:y|ies)|remember|notes?\b|facts?\b|knowledge|preferences?|learn|context|to-?dos?\b|tasks?\b|plan\b|progress"
    r"|state\b|status|\bgit|recent|environment|\benv\b|session|history|summary|scratchpad|open files|diagnostics",
    re.IGNORECASE,
).search

_BILLING = "x-anthropic-billing-header:"
_LONGEST = 160  # characters of a line that are told whole
_DIGEST = 8
_MOST = 256  # values of a line that have a number
_MOST_LEADS = 64  # beginnings of lines by which those that look alike are found; of more, all lines are compared
_AROUND = " \t-*•.;:!?"  # characters around a sentence by which nobody tells it from another
_stop = re.compile(r"[.;!?](?=\s)|\n")

Slot = bytes
"""The key of a value or a section in its lane."""


class TextSection(Struct, frozen=True):
    """A part of a text from a heading on: lines `start` to `end`, of the new text."""

    slot: Slot
    title: str
    start: int
    end: int


class ChangedLine(NamedTuple):
    """A line, or a tool's description: as it was first sent, and as it is now.

    `of` names what it belongs to unless the line does; `told` is announced in its place if it is not prose.
    """

    first: str
    now: str
    of: str = ""
    told: str = ""


class Difference(Struct, frozen=True):
    """What changed. `values` are the lines that differ in such values alone, as they were and as they are.

    `repairable` if values and the one section are all there is, and each can be told from all others in all system
    texts. `only_values` if no line differs in anything else, `exact` if every value is unambiguous besides. `stable` is
    the character in the new text up to which nothing else changed, on a border of paragraphs or lines.
    """

    values: dict[Slot, ChangedLine]
    kinds: tuple[str, ...] = ()
    section: TextSection | None = None
    first_section: tuple[str, ...] = ()
    repairable: bool = True
    stable: int = 0
    only_values: bool = False
    exact: bool = False

    @property
    def splits(self) -> bool:
        """Whether the beginning can be kept by splitting the text."""
        return not self.repairable and self.stable > 0 and not self.values


def is_attribution(text: str) -> bool:
    """A line by which a client tells the provider who it is: it goes through as it came."""
    return text.startswith(_BILLING)


def digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:_DIGEST]


def compare(first: str, now: str, place: int, above: Sequence[str] = (), below: Sequence[str] = ()) -> Difference:
    """How `now` differs from what was sent first, in the system text with this number. `above` and `below` are the
    texts around it."""
    if first == now:
        return Difference({}, stable=len(now))
    before, after = first.split("\n"), now.split("\n")
    head = _common(zip(before, after, strict=False))
    tail = _common(zip(reversed(before[head:]), reversed(after[head:]), strict=False))
    old_end, end = len(before) - tail, len(after) - tail
    pairs = [*zip(before[:head], after[:head], strict=True), *zip(before[old_end:], after[end:], strict=True)]
    changed = [ChangedLine(one, other) for one, other in pairs if one != other]
    values = {_slot(b"v", place, masked(change.now)): change for change in changed}
    alone = all(
        told_apart([change[version] for change in changed], "\n".join([*above, text, *below]).split("\n"))
        for version, text in enumerate((first, now))
    )
    kinds = between("\n".join(change.first for change in changed), "\n".join(change.now for change in changed))
    if head == len(before) == len(after):
        plain = alone and exact(before, after, above)
        return Difference(values, kinds, repairable=alone, stable=len(now), only_values=True, exact=plain)
    # the last paragraph that ends at or before line `head`, or the line itself where there is none
    at = next((i for i in range(head, 0, -1) if not after[i - 1].strip()), head)
    stable = sum(len(line) + 1 for line in after[:at])
    section = _section(before[head:old_end], after, head, end, place)
    old: list[str] = []
    if section is not None:
        old = before[section.start : section.end - len(after) + len(before)]
        new = after[section.start : section.end]
        grows = _entries(old) <= _entries(new)
        alike = max(headings([*above, text, *below], place, section.slot) for text in (first, now))
        if not (grows or _remembers(section.title)) or sum(map(len, new)) > LONGEST_SECTION or alike > 1:
            section = None
    repairable = alone and section is not None
    return Difference(values, kinds, section, tuple(old), repairable, 0 if stable >= len(now) else stable)


def told_apart(changed: Iterable[str], lines: Iterable[str]) -> bool:
    """Return whether the announcements of these changed lines match no other of the lines."""
    wanted = {mask for line in changed for each in _announceable(line) if "\0" in (mask := masked(each))}
    if not wanted:
        return True
    leads = tuple({mask.partition("\0")[0] for mask in wanted})
    others = (each for line in lines for each in _announceable(line))
    alike = Counter(masked(each) for each in others if len(leads) > _MOST_LEADS or each.startswith(leads))
    return all(alike[mask] == 1 for mask in wanted)


def _announceable(line: str) -> list[str]:
    """Return the texts that may announce a line: the line, or the sentences of a long one."""
    line = line.strip()
    return [each.strip(_AROUND) for each in ([line] if len(line) <= _LONGEST else _stop.split(line))]


def value_lines(texts: Sequence[str], place: int, wanted: Iterable[Slot]) -> dict[Slot, list[str]]:
    """Return the lines of texts for each wanted slot."""
    by_slot: dict[Slot, list[str]] = {slot: [] for slot in wanted}
    for line in "\n".join(texts).split("\n") if by_slot else ():
        slot = _slot(b"v", place, masked(line))
        if slot in by_slot:
            by_slot[slot].append(line)
    return by_slot


def headings(texts: Sequence[str], place: int, slot: Slot) -> int:
    """Count the headings of texts that have this slot."""
    lines = (line for line in "\n".join(texts).split("\n") if _level(line) is not None)
    return sum(_slot(b"s", place, masked(line)) == slot for line in lines)


def section_of(now: str, place: int, slot: Slot) -> TextSection | None:
    """Return the section with this slot."""
    lines = now.split("\n")
    for start, line in enumerate(lines):
        if (level := _level(line)) is not None and _slot(b"s", place, masked(line)) == slot:
            return TextSection(slot, _title(line), start, _end(lines, start, level, start + 1))
    return None


def clause(first: str, now: str) -> str:
    """The line in which a value changed; of a long one, the sentence around it."""
    line = now.strip()
    if len(line) <= _LONGEST:
        return line
    start = next((i for i, (a, b) in enumerate(zip(first, now, strict=False)) if a != b), min(len(first), len(now)))
    back = next(
        (i for i, (a, b) in enumerate(zip(reversed(first), reversed(now), strict=False)) if a != b),
        min(len(first), len(now)),
    )
    end = max(len(now) - back, start)
    begin = max((match.end() for match in _stop.finditer(now, 0, start)), default=0)
    stop = _stop.search(now, end)
    until = stop.start() if stop is not None else len(now)
    while end < len(now) and not now[end].isspace():  # a value may change in its middle only
        end += 1
    return now[max(begin, start - _LONGEST) : min(until, end + _LONGEST)].strip()


def clauses(now: str, wanted: frozenset[int] | None) -> str:
    """A line with these of its values, or all; of a long one, the sentences around them."""
    line = now.strip()
    if len(line) <= _LONGEST:
        return line
    parts, values = parted(now)
    spans: list[tuple[int, int]] = []
    start = 0
    for number, value in enumerate(values):
        start += len(parts[number])
        end = start + len(value)
        if wanted is None or number in wanted:
            begin = max((match.end() for match in _stop.finditer(now, 0, start)), default=0)
            stop = _stop.search(now, end)
            span = max(begin, start - _LONGEST), min(len(now) if stop is None else stop.start(), end + _LONGEST)
            if spans and span[0] <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(span[1], spans[-1][1])
            else:
                spans.append(span)
        start = end
    return " … ".join(now[begin:end].strip() for begin, end in spans) or line


def tell_values(
    told: Mapping[Slot, Sequence[bytes]], lines: Mapping[Slot, ChangedLine]
) -> tuple[str, dict[Slot, bytes]]:
    """Return the line that announces the current values, and their digests; empty if the model has them all.

    `told` are the earlier announcements of each: the digest of a line, and which of its values were named then. All of
    those are named again, because they may have changed back.
    """
    shown: list[str] = []
    news: dict[Slot, bytes] = {}
    for slot, line in lines.items():
        before, now = told.get(slot, ()), digest(line.now.strip())
        if (before[-1][:_DIGEST] if before else digest(line.first.strip())) == now:
            continue
        _, one = parted(line.first)
        _, other = parted(line.now)
        named = {n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b or len(one) != len(other)}
        named.update(number for each in before for number in each[_DIGEST:])
        known = named if all(len(each) > _DIGEST for each in before) and max(named, default=0) < _MOST else None
        text = (
            clauses(line.now, None if known is None else frozenset(known)) if before else clause(line.first, line.now)
        )
        shown.append(": ".join(filter(None, (line.of, line.told or text))))
        news[slot] = now if known is None else now + bytes(sorted(known))
    return ("Current values: " + "; ".join(shown), news) if shown else ("", {})


def tell_section(section: TextSection, lines: Sequence[str], known: frozenset[bytes]) -> tuple[str, bytes]:
    """What a section has gained, or all of it where something was taken away or changed; empty where all is known.

    Entries count as a set: one that only moved is no news.
    """
    new = {digest(line.strip()): line for line in lines[1:] if line.strip()}
    added = [key for key in new if key not in known]
    if not added and known <= new.keys():
        return "", b""
    title = section.title or "the system prompt"
    if known <= new.keys():
        return f"Added to “{title}”:\n" + "\n".join(new[key] for key in added), b"+" + b"".join(added)
    body = "\n".join(lines).strip("\n")
    return f"“{title}” is now:\n{body}" if new else f"“{title}” is now empty.", b"=" + b"".join(new)


def known_entries(first: Sequence[str], told: Iterable[bytes]) -> frozenset[bytes]:
    """The entries of a section that the model knows of: those it had first, then what it was told."""
    current = set(_entries(first))
    for item in told:
        entries = {item[i : i + 8] for i in range(1, len(item), 8)}
        current = entries if item[:1] == b"=" else current | entries
    return frozenset(current)


def _entries(section: Sequence[str]) -> set[bytes]:
    """The lines of a section without its heading."""
    return {digest(line.strip()) for line in section[1:] if line.strip()}


def _common(pairs: Iterable[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other and masked(one) != masked(other):
            break
        count += 1
    return count


def _slot(kind: bytes, place: int, text: str) -> Slot:
    return kind + place.to_bytes(2, "big") + digest(text)


def _section(gone: Sequence[str], lines: Sequence[str], head: int, end: int, place: int) -> TextSection | None:
    """Return the section that contains lines `head` to `end`, or None if they are in several or in none."""
    changed = [level for line in (*gone, *lines[head:end]) if (level := _level(line)) is not None]
    start = next((i for i in range(head, end) if lines[i].strip()), head)
    if not any(line.strip() for line in gone) and start < end and (level := _level(lines[start])) is not None:
        if all(other > level for other in changed[1:]):
            return _from(lines, start, level, end, place)
        return None
    border = 9
    for start in range(head - 1, -1, -1):
        level = _level(lines[start])
        if level is None or level >= border:
            continue
        if all(other > level for other in changed):
            return _from(lines, start, level, end, place)
        border = level
    return None


def _from(lines: Sequence[str], start: int, level: int, end: int, place: int) -> TextSection:
    slot = _slot(b"s", place, masked(lines[start]))
    return TextSection(slot, _title(lines[start]), start, _end(lines, start, level, end))


def _end(lines: Sequence[str], start: int, level: int, least: int) -> int:
    closing = f"</{lines[start].strip()[1:].rstrip('>').split()[0]}>" if level == 0 else None
    for index in range(max(least, start + 1), len(lines)):
        if closing is not None and lines[index].strip() == closing:
            return index + 1
        other = _level(lines[index])
        if other is not None and other <= level:
            return index
    return len(lines)


def _level(line: str) -> int | None:
    """How high a heading stands, 0 for a tag; None for any other line."""
    match = _heading(line)
    if match is None:
        return None
    if match["hashes"]:
        return len(match["hashes"])
    return 0 if match["tag"] else 7 if match["strong"] else 8


def _title(line: str) -> str:
    return line.strip().strip("#<>*[]: ").strip()
