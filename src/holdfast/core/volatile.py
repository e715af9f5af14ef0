"""Values that change by themselves: clocks, dates, ids, git state, meters, counters. Recognised here and nowhere else.

A text is masked by putting the name of its kind in the place of each value; two texts that are equal when masked differ
in such values only. Repairs act on it and cures name faults by it, so that a cure never promises what no repair does.
What an operator chose is none of them: a meter needs a word of use beside it, and nothing in a sentence that lays down
a rule counts as a meter or a counter. All patterns are bounded and without nested repetition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

KINDS = ("clock", "date", "uuid", "git", "meter", "counter")

DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_ZONE = r"(?:\ ?(?:Z|UTC|GMT|CES?T|[ECMP][SD]T)\b|\ ?[+-]\d\d:?\d\d\b)"
TIME = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?[AaPp]\.?[Mm]\.?)?" + _ZONE + "?"
_AMOUNT = r"\d[\d,]{0,20}(?:\.\d{1,9})?"
NTH = r"\d{1,2}(?:st|nd|rd|th)?"

_plain = re.compile(
    rf"""
    (?P<uuid>\b[0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}\b)
    |(?P<clock>\b(?:
        \d{{4}}-\d\d-\d\d[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?{_ZONE}?
        |{DAY},?\ {MONTH}\ +\d{{1,2}}\ \d\d:\d\d:\d\d(?:\ \w{{3,5}})?\ \d{{4}}
        |{DAY},\ \d\d\ {MONTH}\ \d{{4}}\ \d\d:\d\d:\d\d(?:{_ZONE})?
        |1[5-9]\d{{8}}(?:\d{{3}}){{0,3}}(?:\.\d{{1,9}})?\b
    ))
    |(?P<weak_clock>\b{TIME})
    |(?P<date>\b(?:
        (?:{DAY},?\ )?{MONTH}\ {NTH},?\ \d{{4}}
        |(?:{DAY},?\ )?{NTH}\.?\ {MONTH},?\ \d{{4}}
        |\d{{4}}[-/.]\d\d?[-/.]\d\d?|\d\d?[/.]\d\d?[/.]\d{{4}}
    )\b)
    |(?P<weak_date>\b(?:(?:{DAY},?\ )?(?:{MONTH}\ {NTH}|{NTH}\ {MONTH})|{DAY})\b)
    |(?P<id>\b(?:[A-Za-z]{{2,12}}[-_])?(?![0-9a-f]{{40}}\b)(?=[A-Za-z]{{0,20}}\d[A-Za-z]{{0,20}}\d)[A-Za-z0-9]{{16,64}}\b)
    |(?P<meter>\$\ ?{_AMOUNT}
        |\b{_AMOUNT}(?:[kKM]\b)?\ ?(?:[%€]|(?:USD|EUR|tokens?|bytes|[kKMG]i?B|seconds?|minutes?|hours?)\b)
        |\b{_AMOUNT}\ ?/\ ?{_AMOUNT}\b)
    """,
    re.VERBOSE,
)
_git = re.compile(
    r"(?P<before>\b(?:git (?:branch|status|sha|commit|rev)|(?:current |main )?branch|HEAD|commit|revision)"
    r"(?: (?:is|at))?\s{0,9}[:=]\s{0,9}|\bon branch )(?P<value>[^\s\"\\,;]{1,200})",
    re.IGNORECASE,
)
_sha = re.compile(r"\b(?=[0-9a-f]{0,40}\d)(?=[0-9a-f]{0,40}[a-f])(?:[0-9a-f]{7,15}|[0-9a-f]{40})\b")
_counter = re.compile(
    r"(?P<before>\b(?:(?:turn|step|request|message|iteration|attempt|call|round|day|week)s?"
    r"(?: (?:no|number|count|id|used|left|remaining)\.?)?"
    r"|counte?r?|number|session|used|remaining|left|uptime|nonce|sequence|seq|build|run)"
    r"(?:\s{0,9}[:=#]\s{0,9}#?| (?=\d{1,9}(?:$|[.,;:!?)\]/\\\"]| (?:of|out|in|now)\b))))"
    r"(?P<value>\d[\d,]{0,20}(?:\s{0,9}(?:/|of)\s{0,9}\d{1,20})?)",
    re.IGNORECASE,
)
_about_git = re.compile(
    r"(?i)\bgit ?status\b|\bon branch\b|\b(?:current|main) branch\b|\brecent commits\b|\bworking tree\b|\buntracked\b"
    r"|\bbranch:|\bcommit:? [0-9a-f]{7}|\bHEAD\b|\bchanges not staged\b"
)
_use = re.compile(r"(?i)\b(?:used|usage|left|remain(?:s|ing)?|spent|consumed|so far|elapsed|uptime|full)\b")
_rule = re.compile(
    r"(?i)\b(?:never|always|at (?:most|least)|(?:more|less|fewer|longer|shorter|later|earlier) than|up to"
    r"|limit(?:s|ed)?|max(?:imum)?|min(?:imum)?|must|should|shall|not|cannot|only|under|below|above|exceeds?|within|keep|stay|if|when"
    r"|whenever|once|until|unless|after|before|every|each|stop|warn|ask|allow(?:ed)?|required?)\b|n't\b"
)
_stop = re.compile(r"[.;!?](?=\s|$)|\n|\\n|\"\s{0,9}[,:\]}]")
_FIRST, _LAST = 0xF0000, 0xFFFFD  # characters without a meaning, to number values with
_numbers = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_named = re.compile(f"\0[a-z]+([{chr(_FIRST)}-{chr(_LAST)}])\0")
_REACH = 200  # characters of a sentence looked at on each side of a value


def masked(text: str) -> str:
    """A text with the name of its kind in the place of every value."""
    return _mask(text)[0]


def between(one: str, other: str, *, ragged: int = 0) -> tuple[str, ...]:
    """The kinds of values in which two texts differ; none where they are equal or differ in anything else.

    The last `ragged` characters are left aside: the same cut falls at another place when a value is longer.
    """
    (first, values), (second, others) = _mask(one), _mask(other)
    size = min(len(first), len(second)) - ragged if ragged else max(len(first), len(second))
    if size <= 0 or first[:size] != second[:size]:
        return ()
    changed = {kind for (kind, a), (_, b) in zip(values, others, strict=False) if a != b}
    return tuple(kind for kind in KINDS if kind in changed)


def parted(text: str) -> tuple[list[str], list[str]]:
    """What stands around the values of a text, and the values: one part more than there are values, and the text is
    both of them in turn. A text that cannot be taken apart like this is one part."""
    if _numbers.search(text):
        return [text], []
    whole, values = _mask(text, numbered=True)

    def value(match: re.Match[str]) -> str:
        return _named.sub(value, values[ord(match[1]) - _FIRST][1])

    parts, found, at = [], [], 0
    for match in _named.finditer(whole):
        parts.append(whole[at : match.start()])
        found.append(value(match))
        at = match.end()
    parts.append(whole[at:])
    return (parts, found) if joined(parts, found) == text else ([text], [])


def joined(parts: Sequence[str], values: Sequence[str]) -> str:
    """The text that was taken apart."""
    return "".join(part + value for part, value in zip(parts, [*values, ""], strict=True))


def tells_use(text: str) -> bool:
    """Return whether a text has a word that identifies a meter."""
    return _use.search(text) is not None


def is_rule(text: str) -> bool:
    """Return whether a text states a rule: the numbers in it were chosen by a person."""
    return _rule.search(text) is not None


def is_git(text: str) -> bool:
    """Return whether a text is about the state of a repository."""
    return _about_git.search(text) is not None


def _mask(text: str, *, numbered: bool = False) -> tuple[str, list[tuple[str, str]]]:
    """Return a masked text and its values in order. `numbered` masks include the number of their value."""
    values: list[tuple[str, str]] = []

    def mask(kind: str, value: str) -> str:
        number = chr(min(_FIRST + len(values), _LAST)) if numbered else ""
        values.append((kind, value))
        return f"\0{kind}{number}\0"

    def plain(match: re.Match[str]) -> str:
        group = match.lastgroup or ""
        kind = "uuid" if group == "id" else group.removeprefix("weak_")
        if (group == "meter" or group.startswith("weak_")) and is_rule(sentence := _sentence(match)):
            return match[0]
        if group == "meter" and not tells_use(sentence):
            return match[0]
        return mask(kind, match[0])

    def behind(kind: str, match: re.Match[str]) -> str:
        if kind == "counter" and is_rule(_sentence(match)):
            return match[0]
        return match["before"] + mask(kind, match["value"])

    def sha(match: re.Match[str]) -> str:
        return mask("git", match[0])

    text = _plain.sub(plain, text)
    text = _git.sub(lambda match: behind("git", match), text)
    text = _sha.sub(sha, text)
    return _counter.sub(lambda match: behind("counter", match), text), values


def _sentence(match: re.Match[str]) -> str:
    """What stands around a value, up to the next stop on both sides."""
    text, start, end = match.string, match.start(), match.end()
    lead = _stop.split(text[max(0, start - _REACH) : start])[-1]
    return lead + text[start:end] + _stop.split(text[end : end + _REACH], maxsplit=1)[0]
