"""The headings and tags above a line, and whether they say that somebody wrote, remembered or planned what follows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_LONGEST = 60  # characters of a label or a title
_STRONG, _COLON, _BULLET = 7, 8, 9  # levels below the six of "#"

_hashes = re.compile(r"\s*(#{1,6})\s+\S").match
_underline = re.compile(r"\s*(?:={3,}|-{3,})\s*").fullmatch
_strong = re.compile(
    r"\s*(?:\*\*[^*]+\*\*:?|\[[^\]]+\]|[=~*#_-]{2,} *[^\s=~*#_-].*[=~*#_-]{2,}|[A-Z][A-Z /&'-]{2,60})\s*"
).fullmatch
_bullet = re.compile(r"(\s*)[-*+•]\s").match
_tag = re.compile(r"<(/?)([A-Za-z][\w:-]*)(?:\s(?:[^<>]*[^<>/])?)?>")
_joint = re.compile(r"(?<=[a-z])(?=[A-Z])|[_-]").sub
_plain = re.compile(r"[^.:!?<>]{1,60}").fullmatch
_written = re.compile(
    r"(?i)memor(?:y|ies)|remember|\bnotes?\b|\bfacts?\b|know(?:n|s|ledge)?\b|preferences?|learn|\bto ?dos?\b|\btasks?\b"
    r"|\bplans?\b|summary|history|scratchpad|deadlines?|schedule|calendar|reminders?|appointments?|agenda|diary|journal"
    r"|profile|birthdays?|contacts?|\babout (?:the |this )?(?:user|customer|client|you|me)\b|\bearlier\b"
).search


class Above(NamedTuple):
    """What stands above a line and in it: headings, tags and labels, the nearest heading last.

    `titled` is whether the line before it looks like a title without being marked as one.
    """

    headings: list[str]
    labels: list[str]
    titled: bool

    @property
    def written(self) -> bool:
        """Whether somebody wrote, remembered or planned what stands here."""
        return is_written([*self.headings, *self.labels])


class Outline:
    """Follows texts line by line. A tag has headings of its own, so that those above it stay when it ends."""

    def __init__(self) -> None:
        self._open: list[tuple[str, dict[int, str]]] = [("", {})]
        self._last = ""

    def read(self, text: str) -> None:
        """Go on to the end of a text."""
        for line in text.split("\n"):
            self.step(line)

    def step(self, line: str) -> Above:
        """Go on by one line."""
        self._head(line)
        tags = list(_tag.finditer(line))
        labels = [tag[0] for tag in tags] + [part[-_LONGEST:] for part in line.split(":")[:-1]]
        first = tags[0] if tags and not line[: tags[0].start()].strip(" \t-*") else None
        if first is not None and not first[1] and f"</{first[2]}>" not in line:
            self._open.append((first[2], {}))
        headings = [each for tag, inside in self._open for each in (tag, *inside.values()) if each]
        titled = _plain(self._last.strip()) is not None
        for tag in tags:
            if tag[1]:
                self._close(tag[2])
        self._last = line
        return Above(headings, labels, titled)

    def _close(self, tag: str) -> None:
        """The innermost open tag of this name ends, with all that is open inside."""
        place = next((at for at in range(len(self._open) - 1, 0, -1) if self._open[at][0] == tag), None)
        if place is not None:
            del self._open[place:]

    def _head(self, line: str) -> None:
        """Take a line for a heading if it is one."""
        if _underline(line) and _plain(self._last.strip()) and not _bullet(self._last):
            level: int | None = 1 if "=" in line else 2
            title = self._last
        else:
            level, title = _level(line), line
        if level is None:
            return
        headings = self._open[-1][1]
        for known in [known for known in headings if known >= level]:
            del headings[known]
        if level < _BULLET or title.rstrip(" *_").endswith(":"):
            headings[level] = title


def is_written(headings: Iterable[str]) -> bool:
    """Whether text below these headings is what somebody wrote, remembered or planned."""
    return any(_written(words(each)) is not None for each in headings)


def words(name: str) -> str:
    """A name such as `user_notes` or `userNotes`, as words."""
    return _joint(" ", name)


def _level(line: str) -> int | None:
    """How high a heading stands; None for any other line. An item of a list ends the items below the one before."""
    if (found := _hashes(line)) is not None:
        return len(found[1])
    if (found := _bullet(line)) is not None:
        return _BULLET + len(found[1])
    if _strong(line):
        return _STRONG
    if line.rstrip(" *_").endswith(":"):
        return _COLON
    return _COLON if _plain(line.strip()) and is_written([line]) else None
