"""The index: one line per skill in the stable prompt, so that an agent knows what it may load.

A pure function of the skills, the settings and what is preloaded. It is in the cached prefix, so a line's place and
presence depend on names and descriptions alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.config.sections import SkillsSettings
from holdfast.core import HEADING, HINT, PRELOADED
from holdfast.tools import mend

from .fields import DESCRIPTION_CHARS
from .skill import Skill
from .store import SkillStore

LEFT_OUT = "- … and {number} more, which `skill_search(query)` finds."

ELLIPSIS = "…"

_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")


def render_index(store: SkillStore, settings: SkillsSettings, preloaded: Collection[str] = ()) -> str:
    """The index as it stands in the prompt; nothing where there are no skills or none are to be listed."""
    skills = store.list_skills()
    if not skills or settings.index == "off":
        return ""
    names = listed(store, settings)
    lines = [_line(skill, skill.name in preloaded) for skill in skills if skill.name in names]
    if left_out := len(skills) - len(names):
        lines.append(LEFT_OUT.format(number=left_out))
    return _whole(lines)


def listed(store: SkillStore, settings: SkillsSettings) -> frozenset[str]:
    """The names of the skills that have a line of their own in the index."""
    skills: Collection[Skill] = store.list_skills()
    if settings.index == "capped":
        skills = _within(skills, settings.index_chars)
    return frozenset(skill.name for skill in skills if settings.index != "off")


def one_line(text: str) -> str:
    """A text without line breaks of any kind: one space for each, with the white space around it, and one for every
    other control character, which a terminal or a parser could obey."""
    return " ".join(line for each in mend(text).splitlines() if (line := each.translate(_CONTROLS).strip()))


def indexed(description: str) -> str:
    """A description as a prompt has it: one line, of at most as many characters as the format allows. One that is
    longer ends at a word, with an ellipsis."""
    line = one_line(description)
    if len(line) <= DESCRIPTION_CHARS:
        return line
    start = line[:DESCRIPTION_CHARS]  # one character more than is kept, to see whether a word ends there
    words = start.rpartition(" ")[0].rstrip()
    return f"{words or start[:-1]}{ELLIPSIS}"


def _within(skills: Collection[Skill], most: int) -> Collection[Skill]:
    """Return the skills whose whole lines fit into an index of `most` characters, those of the workspace first; shorter
    ones may follow one that does not fit. Annotations do not count: preloading must not change the list."""
    if len(_whole(_line(skill) for skill in skills)) <= most:
        return skills
    room = most - len(_whole([LEFT_OUT.format(number=len(skills))]))
    rows = []
    for skill in sorted(skills, key=lambda skill: (skill.source != "workspace", skill.name)):
        needed = len(_line(skill)) + 1
        if needed <= room:
            room -= needed
            rows.append(skill)
    return rows


def _line(skill: Skill, preloaded: bool = False) -> str:
    return f"- {skill.name}{PRELOADED if preloaded else ''}: {indexed(skill.description)}"


def _whole(lines: Iterable[str]) -> str:
    return "\n".join((HEADING, HINT, "", *lines))
