"""Which changed values are unambiguous: those in a sentence that names them and has nothing else.

`cache.repair = "values"` moves only these. Anything not in the table may be a rule, a fact or an appointment that a
person wrote, and stays in its place. An `Outline` follows the headings and tags above a line: they may show that what
follows was written, remembered or planned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from ..volatile import DAY, MONTH, NTH, TIME, is_rule

_LONGEST_TITLE = 60  # characters of a label or a title
_STRONG, _COLON, _BULLET = 7, 8, 9  # levels below the six of "#"

_hashes = re.compile(r"\s*(#{1,6})\s+\S").match
_underline = re.compile(r"\s*(?:={3,}|-{3,})\s*").fullmatch
_strong = re.compile(
    r"\s*(?:\*\*[^*]+\*\*:?|\[[^\]]+\]|[=~*#_-]{2,} *[^\s=~*#_-].*[=~*#_-]{2,}|[A-Z][A-Z /&'-]{2,60})\s*"
).fullmatch
_indented_bullet = re.compile(r"(\s*)[-*+•]\s").match
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
        """Return whether the text here was written by a person, remembered or planned."""
        return is_written([*self.headings, *self.labels])


class Outline:
    """Follows texts line by line. A tag has headings of its own, so that those above it stay when it ends."""

    def __init__(self) -> None:
        self._open: list[tuple[str, dict[int, str]]] = [("", {})]
        self._last = ""

    def read(self, text: str) -> None:
        """Advance to the end of a text."""
        for line in text.split("\n"):
            self.step(line)

    def step(self, line: str) -> Above:
        """Advance by one line."""
        self._head(line)
        tags = list(_tag.finditer(line))
        labels = [tag[0] for tag in tags] + [part[-_LONGEST_TITLE:] for part in line.split(":")[:-1]]
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
        if _underline(line) and _plain(self._last.strip()) and not _indented_bullet(self._last):
            level: int | None = 1 if "=" in line else 2
            title = self._last
        else:
            level, title = _level(line), line
        if level is None:
            return
        headings = self._open[-1][1]
        for deeper in [deeper for deeper in headings if deeper >= level]:
            del headings[deeper]
        if level < _BULLET or title.rstrip(" *_").endswith(":"):
            headings[level] = title


def is_written(headings: Iterable[str]) -> bool:
    """Return whether the text below these headings was written by a person, remembered or planned."""
    return any(_written(words(each)) is not None for each in headings)


def words(name: str) -> str:
    """A name such as `user_notes` or `userNotes`, as words."""
    return _joint(" ", name)


def _level(line: str) -> int | None:
    """How high a heading stands; None for any other line. An item of a list ends the items below the one before."""
    if (match := _hashes(line)) is not None:
        return len(match[1])
    if (match := _indented_bullet(line)) is not None:
        return _BULLET + len(match[1])
    if _strong(line):
        return _STRONG
    if line.rstrip(" *_").endswith(":"):
        return _COLON
    return _COLON if _plain(line.strip()) and is_written([line]) else None


_LONGEST = 200  # characters of a sentence that is looked at

_AREA = r"(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc)/[\w/+-]{1,40}"
_ZONE = (
    rf"(?:\ ?(?:UTC|GMT)?[+-]\d{{1,2}}(?::?\d\d)?|\ (?-i:[A-Z]{{1,2}}[SD]T|UTC)|\ {_AREA})?"
    rf"(?:\ \((?:UTC|GMT|{_AREA}|{DAY}|[A-Za-z\ ]{{1,40}}\ Time)\))?"
)
_DATE = rf"(?:(?:{DAY},?\ )?(?:\d{{4}}-\d\d-\d\d|{MONTH}\ +{NTH}(?:,?\ \d{{4}})?|{NTH}\.?\ {MONTH},?(?:\ \d{{4}})?))"
_UNIX_DATE = rf"{DAY}\ {MONTH}\ +\d{{1,2}}\ {TIME}(?:\ \w{{3,5}})?\ \d{{4}}"
_DAY_AND_TIME = rf"(?:(?:{_UNIX_DATE}|{_DATE}(?:(?:T|,?\ (?:at\ )?){TIME})?){_ZONE})"
_MOMENT = rf"(?:{_DAY_AND_TIME}|{TIME}(?:,?\ (?:on\ )?{_DATE})?{_ZONE})"
_STAMP = rf"(?:\d{{4}}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?\ ?(?:Z|UTC|[+-]\d\d:?\d\d)?{_ZONE})"
_SHORT_DATE = rf"\d{{1,4}}[./]\d\d?[./]\d{{1,4}}(?:,?\ {TIME}{_ZONE})?"
_EPOCH = r"1[5-9]\d{8}(?:\d{3}){0,3}(?:\.\d{1,9})?"
_ANY = rf"(?:{_MOMENT}|{_SHORT_DATE}|{_EPOCH}|{DAY})"
_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_NUMBER = r"\d[\d,]{0,20}(?:\ ?(?:/|of)\ ?\d{1,20})?"

_OF_NOW = r"(?:(?:current|present|local|system|server|utc|today['’]?s)[\ _-]?)"
_CLOCK = r"(?:date(?:\ ?(?:and|&|/)?[\ _]?time)?|time(?:stamp)?|day|clock)(?:\ \((?:utc|gmt|local)\))?"
_IS = r"(?:\ ?[:=]\ ?|\ is\ (?:now\ )?|\ is\ now:\ )"


Recogniser = Callable[[str], "re.Match[str] | None"]


def _table(*rows: str) -> Callable[[], Recogniser]:
    """A pattern of these rows, compiled when a text is first compared: that takes as long as importing the rest."""
    return cache(lambda: re.compile("|".join(f"(?:{row})" for row in rows), re.IGNORECASE).fullmatch)


_sayings = _table(
    # A clock that says it is one: "Current date and time: …", "Today's date is … (formatted for the user)".
    rf"(?:the\ )?{_OF_NOW}{{1,2}}{_CLOCK}{_IS}{_ANY}(?:\ \([^()\d]{{1,60}}\))?",
    # The present itself: "Today is Monday", "now=…", "It is 09:00 now", but not "It is 16:10", the shape of a screen.
    rf"(?:today|now){_IS}{_ANY}",
    rf"(?:it(?:\ is|['’]s)\ (?:now|currently)|(?:the\ )?time\ is\ now)\ (?:{_MOMENT}|{DAY})",
    rf"(?:it(?:\ is|['’]s)|(?:the\ )?(?:date|time)\ is)\ {_MOMENT}\ now",
    # Ids of what is going on. A user, a project or an account is one too, but somebody chose it.
    rf"(?:(?:your|this|the|current)\ )?(?:session|request|turn|trace|run|message|conversation|correlation)"
    rf"(?:[\ _-]?(?:id|uuid)(?:{_IS}|\ )|\ ?[:=]\ ?){_UUID}",
    # Counters of the conversation, in the singular: "Attempts: 3" may be how many are allowed, "Request #3" a ticket.
    rf"(?:this\ is\ )?(?:the\ )?(?:current\ )?(?:turn|iteration)\ ?[:=\#]\ ?\#?{_NUMBER}",
    rf"(?:this\ is\ )?(?:the\ )?(?:current\ )?(?:turn|iteration|step|round)"
    rf"(?:[\ _]number(?:{_IS}|\ )|:?\ (?=\d{{1,9}}\ ?(?:of|/))){_NUMBER}",
    rf"(?:turn|iteration|step|round|request|message)[\ _]count(?:er)?{_IS}{_NUMBER}",
)

_bare_sayings = _table(
    # A time without a word of its own is that of whatever stands around it: "Date: …", "It is 2026-11-18T09:00:00Z".
    rf"(?:the\ )?(?:{_CLOCK}|(?:unix\ )?epoch|unix\ ?time(?:stamp)?){_IS}{_ANY}",
    rf"(?:it(?:\ is|['’]s)|generated\ (?:at|on):?)\ {_STAMP}",
    _DAY_AND_TIME,
)
_environment = re.compile(
    r"(?i)\b(?:env(?:ironment)?|session|system|runtime|metadata|current|today|now|date|time|clock)\b"
).search

_stop = re.compile(r"[.;!?](?=\s)")
_bullet = re.compile(r"\s*[-*+•]\s+").match
_signs = str.maketrans("", "", '*`"')
_element = re.compile(r"<([\w-]+)>([^<>]+)</\1>").fullmatch


def load_patterns() -> None:
    """Compile what the first comparison needs, for those who must not wait then."""
    _sayings()
    _bare_sayings()


def exact(before: Sequence[str], after: Sequence[str], above: Iterable[str] = ()) -> bool:
    """Whether the lines of a text, which differ in values alone, differ in unambiguous ones alone.

    `above` are the texts in front of it: a heading may be the last line of one.
    """
    if not all(one == other or _says_what(one, other, _either) for one, other in zip(before, after, strict=True)):
        return False
    outline = Outline()
    for text in above:
        outline.read(text)
    for one, other in zip(before, after, strict=True):
        place = outline.step(other)
        if one != other and (place.written or not (_says_what(one, other, _sayings()) or _speaks_of_now(place))):
            return False
    return True


def _either(sentence: str) -> re.Match[str] | None:
    return _sayings()(sentence) or _bare_sayings()(sentence)


def _speaks_of_now(above: Above) -> bool:
    """Return whether a time in this place can only be the present one."""
    return _environment(words(above.headings[-1])) is not None if above.headings else not above.titled


def _says_what(one: str, other: str, sayings: Callable[[str], re.Match[str] | None]) -> bool:
    """Whether all sentences in which two lines differ are such sayings."""
    firsts, others = _sentences(one), _sentences(other)
    changed = [pair for pair in zip(firsts, others, strict=False) if pair[0] != pair[1]]
    return len(firsts) == len(others) and all(sayings(each) and not is_rule(each) for pair in changed for each in pair)


def _sentences(line: str) -> list[str]:
    return [_unmarked(each) for each in _stop.split(line)]


def _unmarked(sentence: str) -> str:
    """A sentence without the signs of a list, of emphasis, of quotes or of a tag around it."""
    if len(sentence) > _LONGEST:
        return sentence
    item = _bullet(sentence)
    text = sentence[item.end() if item is not None else 0 :].translate(_signs).strip().rstrip(".,;!")
    element = _element(text)
    return text if element is None else f"{element[1]}: {element[2].strip()}"
