"""Which changed values are unambiguous: those in a sentence that says what they are and nothing else.

`cache.repair = "values"` moves these and nothing else. What is not in the table may be a rule, a fact or an appointment
that somebody wrote; it stays where the client says it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from ..volatile import DAY, MONTH, NTH, TIME, is_rule
from .outline import Above, Outline, words

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
    """Whether a time that stands here can only be the present one."""
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
