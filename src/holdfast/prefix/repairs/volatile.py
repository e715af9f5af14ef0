"""Values that change by themselves: clocks, dates, ids, git state, meters, counters.

A text is masked by putting the name of its kind in the place of each value; two texts that are equal when masked differ
in such values only.
"""

from __future__ import annotations

import re

_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_ZONE = r"(?:\ ?(?:Z|UTC|GMT|CES?T|[ECMP][SD]T)\b|\ ?[+-]\d\d:?\d\d\b)"
_TIME = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?[AaPp]\.?[Mm]\.?)?" + _ZONE + "?"
_AMOUNT = r"\d[\d,]*(?:\.\d+)?"

_plain = re.compile(
    rf"""
    (?P<uuid>\b[0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}\b|\b[0-9a-f]{{32}}\b)
    |(?P<clock>\b(?:
        \d{{4}}-\d\d-\d\d[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?{_ZONE}?
        |{_DAY},?\ {_MONTH}\ +\d{{1,2}}\ \d\d:\d\d:\d\d(?:\ \w{{3,5}})?\ \d{{4}}
        |{_DAY},\ \d\d\ {_MONTH}\ \d{{4}}\ \d\d:\d\d:\d\d(?:{_ZONE})?
        |{_TIME}
        |1[5-9]\d{{8}}(?:\d{{3}})?\b
    ))
    |(?P<date>\b(?:
        (?:{_DAY},?\ )?{_MONTH}\ \d{{1,2}}(?:st|nd|rd|th)?,?\ \d{{4}}
        |(?:{_DAY},?\ )?\d{{1,2}}(?:st|nd|rd|th)?\.?\ {_MONTH},?\ \d{{4}}
        |\d{{4}}[-/.]\d\d?[-/.]\d\d?|\d\d?[/.]\d\d?[/.]\d{{4}}
        |{_DAY}
    )\b)
    |(?P<meter>\$\ ?{_AMOUNT}
        |\b{_AMOUNT}(?:[kKM]\b)?\ ?(?:%|(?:USD|EUR|tokens?|bytes|[kKMG]i?B|seconds?|minutes?|hours?)\b)
        |\b{_AMOUNT}\ ?/\ ?{_AMOUNT}\b)
    """,
    re.VERBOSE,
)
_git = re.compile(
    r"(?P<before>\b(?:git (?:branch|status|sha|commit|rev)|(?:current |main )?branch|HEAD|commit|revision)"
    r"(?: (?:is|at))?\s*[:=]\s*)(?P<value>[^\s\"\\,;]+)",
    re.IGNORECASE,
)
_sha = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
_counter = re.compile(
    r"(?P<before>(?:\b(?:turns?|steps?|requests?|messages?|iterations?|attempts?|calls?|rounds?|counte?r?|number|session"
    r"|used|remaining|left|uptime|nonce|sequence|seq|build|run)\b(?: (?:no|number|count|id|used|left|remaining))?\.?"
    r"\s*[:=#]?\s*#?|#))(?P<value>\d[\d,]*(?:\s*(?:/|of)\s*\d+)?)",
    re.IGNORECASE,
)
_BILLING = "x-anthropic-billing-header:"

KINDS = ("clock", "date", "uuid", "git", "meter", "counter")


def masked(text: str) -> str:
    """One line with the name of its kind in the place of every value."""
    text = _plain.sub(lambda match: f"\0{match.lastgroup}\0", text)
    text = _git.sub(lambda match: match["before"] + "\0git\0", text)
    text = _sha.sub("\0git\0", text)
    return _counter.sub(lambda match: match["before"] + "\0counter\0", text)


def kinds(mask: str) -> tuple[str, ...]:
    """The kinds of values in a masked text."""
    return tuple(kind for kind in KINDS if f"\0{kind}\0" in mask)


def is_attribution(text: str) -> bool:
    """A line by which a client tells the provider who it is: it goes through as it came."""
    return text.startswith(_BILLING)


_LONGEST = 160
_stop = re.compile(r"[.;!?](?=\s)|\n")


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
