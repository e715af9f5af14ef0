"""The skills in a system text: the index, the bodies put in behind it, and in which of them two texts first differ.

Reads what `skills` writes, because breaks are explained without it. The heading and the hint below it have to be there:
a list of another kind is none of skills. Names are those that the format allows, so they can be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from holdfast.records import common_head

from .operating_context import SECTIONS
from .padding import PRELOADED

HEADING = "## Available skills"
HINT = "Use `skill_search(query)` to filter and `skill_load(name)` to read a body."

INDEX = f"{HEADING}\n{HINT}\n\n"
_NAME = r"(?=[a-z0-9-]{1,64}(?![a-z0-9-]))([a-z0-9]+(?:-[a-z0-9]+)*)"
_line = re.compile(rf"- {_NAME}({re.escape(PRELOADED)})?: ").match
read_left_out = re.compile(r"(?=[^\n]{0,200}skill_search)[^\n\d]{0,100}(\d[\d,]{0,12})(?!\d)").match
_header = re.compile(rf"(?:\A|(?<=\n\n))# Skill: {_NAME} \(source: (?:global|workspace)\)\n\n")


class SkillChange(Struct, frozen=True, kw_only=True):
    """How two texts differ in the part in which they part: the index, or else the bodies behind it.

    `beyond` are the numbers of skills that a limited index left out, where one has a limit; then those added and
    removed are only known to have come into the list and to have left it. `body` is the skill in whose body they part;
    `open` says that this may be behind its body, since nothing marks the end of the last one.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    described: tuple[str, ...] = ()
    preloaded: tuple[str, ...] = ()
    unloaded: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    beyond: tuple[int, int] | None = None
    body: str | None = None
    open: bool = False

    @property
    def owner(self) -> str:
        return "skills-index" if self.body is None else f"skill:{self.body}"

    @property
    def names(self) -> tuple[str, ...]:
        """All that are in it, each once."""
        kinds = (self.added, self.removed, self.described, self.preloaded, self.unloaded, self.edited)
        return tuple(dict.fromkeys(name for kind in kinds for name in kind))


class _Index(Struct, frozen=True):
    """An index within a text: by name whether the body is preloaded and the description, and how many it leaves out."""

    start: int
    end: int
    skills: dict[str, tuple[bool, str]]
    beyond: int | None


class _Body(Struct, frozen=True):
    """A body with its heading. Something else may follow in an open one."""

    name: str
    start: int
    end: int
    text: str
    open: bool


def skill_change(old: str, new: str) -> SkillChange | None:
    """How two texts differ in skills; None where something else is the first in which they differ."""
    at = common_head(old, new)
    before, after = _index(old, at), _index(new, at)
    if before is not None and after is not None and before.start != after.start:
        if before.start < min(at, after.start):  # another one, in front
            before = None
        elif after.start < min(at, before.start):
            after = None
    if before is not None and after is not None:
        change = _in_index(before, after) if at <= max(before.end, after.end) else None
        return change or _in_bodies(old, new, at, before, after)
    one, text, other = (before, old, new) if before is not None else (after, new, old)
    if INDEX in other[at:] or (one is None and INDEX in text[at:]):
        return None  # something else was put in before it, or taken away
    if one is None:
        return _in_bodies(old, new, at, None, None)
    return None if _another(one.start, other) else _in_index(before, after)


def _another(start: int, other: str) -> bool:
    """Whether a block that begins with skills took the place of one that has none: blocks were put in or left out."""
    return not start and bool(other)


# The index


def _index(text: str, at: int) -> _Index | None:
    """The index that begins at a character, white space aside, or else the last one in front of it."""
    start = text.find(INDEX, at)
    if start < 0 or text[at:start].strip():
        start = text.rfind(INDEX, 0, at + len(INDEX) - 1)
    return None if start < 0 or (start and text[start - 1] != "\n") else _read(text, start)


def _read(text: str, start: int) -> _Index | None:
    at, skills = start + len(INDEX), dict[str, tuple[bool, str]]()
    while (match := _line(text, at)) is not None:
        end = _line_end(text, at)
        skills[match[1]] = match[2] is not None, text[match.end() : end].rstrip("\n")
        at = end
    counted = read_left_out(text, at)
    if counted is None:
        return _Index(start, at, skills, None) if skills else None
    return _Index(start, _line_end(text, at), skills, int(counted[1].replace(",", "")))


def _line_end(text: str, at: int) -> int:
    return (text.find("\n", at) + 1) or len(text)


def _in_index(before: _Index | None, after: _Index | None) -> SkillChange | None:
    old, new = ({} if index is None else index.skills for index in (before, after))
    counts = [None if index is None else index.beyond for index in (before, after)]
    both = [name for name in old if name in new]
    change = SkillChange(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        described=tuple(name for name in both if old[name][1] != new[name][1]),
        preloaded=tuple(name for name in both if new[name][0] > old[name][0]),
        unloaded=tuple(name for name in both if new[name][0] < old[name][0]),
        beyond=None if counts == [None, None] else (counts[0] or 0, counts[1] or 0),
    )
    return change if change.names or counts[0] != counts[1] else None


# The bodies


def _in_bodies(old: str, new: str, at: int, before: _Index | None, after: _Index | None) -> SkillChange | None:
    said, says = list(_bodies(old, before)), list(_bodies(new, after))
    was, now = _holding(said, old, at), _holding(says, new, at)
    if (was is None and now is None) or (not says and _another(said[0].start, new)):
        return None
    if not said and _another(says[0].start, old):
        return None
    first, second = {body.name: body for body in said}, {body.name: body for body in says}
    held = next((b.name for b, others in ((now, first), (was, second)) if b is not None and b.name not in others), None)
    body = held or (now or was).name  # type: ignore[union-attr]
    edited = [name for name in first if name in second and _differ(first[name], second[name], name == body)]
    change = SkillChange(
        preloaded=tuple(name for name in second if name not in first),
        unloaded=tuple(name for name in first if name not in second),
        edited=tuple(edited),
        body=body,
        open=body in edited and (first[body].open or second[body].open),
    )
    return change if change.names else None


def _differ(old: _Body, new: _Body, here: bool) -> bool:
    """Return whether a body changed. If the end of one is open, only a difference `here` counts."""
    return old.text != new.text and (here or not (old.open or new.open))


def _holding(bodies: list[_Body], text: str, at: int) -> _Body | None:
    for body in reversed(bodies):
        if body.start <= at or not text[at : body.start].strip():
            return body if at <= body.end else None
    return None


def _bodies(text: str, index: _Index | None) -> Iterator[_Body]:
    """In the order of their names. Where the index is complete it says which there are: a body may quote a heading."""
    matches: list[re.Match[str]] = []
    for match in _header.finditer(text, 0 if index is None else index.end):
        is_skill = index is None or index.beyond is not None or index.skills.get(match[1], (False,))[0]
        if is_skill and (not matches or match[1] > matches[-1][1]):
            matches.append(match)
    for number, match in enumerate(matches):
        last = number + 1 == len(matches)
        end, is_open = _end(text, match.end()) if last else (matches[number + 1].start(), False)
        yield _Body(match[1], match.start(), end, text[match.start() : end].rstrip("\n"), is_open)


def _end(text: str, start: int) -> tuple[int, bool]:
    """Where the last body ends, and whether that is not known: only the operating context is recognised behind it."""
    ends = [place for section in SECTIONS if (place := text.find(f"\n\n{section}", start)) >= 0]
    return (min(ends), False) if ends else (len(text), True)
