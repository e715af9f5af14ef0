"""Which changed values are unambiguous: a time, a date, a counter or a UUID, told from its own bytes and its sentence.

`cache.repair = "values"` moves these and nothing else. A full timestamp, a UUID and a counter speak for themselves; a
time or a date alone counts only in a sentence about the present, because "the review is on 2026-11-18" is a fact
that somebody wrote, not a clock. Nothing under a heading of memory, notes or plans counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..volatile import between, parted

KINDS = frozenset({"clock", "date", "uuid", "counter"})

_uuid = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}").fullmatch
_number = re.compile(r"\d[\d,]{0,20}(?:\s{0,9}(?:/|of)\s{0,9}\d{1,20})?").fullmatch
_time = re.compile(r"\d{1,2}:\d\d(?!\d)").search
_date = re.compile(r"\d{4}-\d\d-\d\d|\b[A-Z][a-z]{2,8}\.?,? +\d{1,2}|\d{1,2}(?:st|nd|rd|th)?\.? [A-Z][a-z]{2,8}").search
_epoch = re.compile(r"1[5-9]\d{8}(?:\d{3}){0,3}(?:\.\d{1,9})?").fullmatch
_present = re.compile(
    r"(?i)\b(?:now|current(?:ly)?|today(?:'s|’s)?|it(?: is|'s|’s)|(?:the )?(?:date|time|clock|timestamp|datetime)"
    r"(?: and time)?(?: is\b|\s*[:=])|as of|generated (?:at|on)|this (?:request|turn) )"
).search
_stop = re.compile(r"[.;!?](?=\s)|\n|\\n")
_written = re.compile(
    r"(?i)memor(?:y|ies)|remember|\bnotes?\b|\bfacts?\b|knowledge|preferences?|learn|\bto-?dos?\b|\btasks?\b|\bplan\b"
    r"|summary|history|scratchpad|deadlines?|schedule|calendar|reminders?"
).search
_REACH = 200


def exact(first: str, now: str) -> bool:
    """Whether two texts differ in unambiguous values alone."""
    kinds = between(first, now)
    if not kinds or not KINDS.issuperset(kinds):
        return False
    (parts, values), (_, others) = parted(first), parted(now)
    if not values or len(values) != len(others):
        return False
    return all(
        _unambiguous(one, parts[place], parts[place + 1]) and _unambiguous(other, parts[place], parts[place + 1])
        for place, (one, other) in enumerate(zip(values, others, strict=True))
        if one != other
    )


def is_written(headings: Iterable[str]) -> bool:
    """Whether text below these headings is what somebody remembered or planned."""
    return any(_written(each) is not None for each in headings)


def _unambiguous(value: str, before: str, after: str) -> bool:
    if _uuid(value) or _epoch(value):
        return True
    timed, dated = _time(value) is not None, _date(value) is not None
    if timed and dated:
        return True
    if _number(value) and not timed:  # a word in front of it makes it a counter
        return True
    sentence = _stop.split(before[-_REACH:])[-1] + value + _stop.split(after[:_REACH], maxsplit=1)[0]
    return (timed or dated or _is_day(value)) and _present(sentence) is not None


def _is_day(value: str) -> bool:
    """A date in another form: with slashes or dots, or the name of a day."""
    return re.fullmatch(r"[\d/.]{6,10}|\d{4}-\d\d?-\d\d?|[A-Z][a-z]{2,8}", value) is not None
