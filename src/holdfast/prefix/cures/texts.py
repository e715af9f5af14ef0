"""Faults recognised in the text at the divergence: values that change by themselves, and spellings that wander.

Two lines that become equal when every time in them is left out differ by a clock: this is how most are recognised. All
patterns are bounded and without nested repetition.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from .values import WHOLE, Case, Cure

REPAIR = 'cache.repair = "on"'
_RAGGED = 64  # characters at the end of a cut line that may be out of step

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}\.?"
_time = re.compile(
    r"\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?:Z|(?: ?UTC)?[+-]\d{2}:?\d{2})?"
    r"|(?<=T)\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?|\b1[4-9]\d{8}(?:\d{3}){0,2}(?:\.\d{1,9})?\b"
)
_date = re.compile(
    rf"\b\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\b\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}\b|\b{_WEEKDAY}(?:,)?(?= |$|[^a-z])"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b|\b\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}(?:,? \d{{4}})?"
)
_uuid = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_id = re.compile(r"\b(?:[A-Za-z]{2,12}[-_])?(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{16,64}\b")
_hash = re.compile(r"\b[0-9a-f]{7,40}\b")
_number = re.compile(r"\d+(?:[.,]\d+){0,3}")
_git = re.compile(
    r"(?i)\bgit ?status\b|\bon branch\b|\b(?:current|main) branch\b|\brecent commits\b|\bworking tree\b|\buntracked\b"
    r"|\bbranch:|\bcommit:? [0-9a-f]{7}|\bHEAD\b|\bchanges not staged\b"
)
_meter = re.compile(r"(?i)\btokens?\b|\busage\b|\bused\b|\bremaining\b|\bleft\b|\bbudget\b|\bcontext\b|\bcost\b|[%$€]")
_memory = re.compile(r"(?i)memor(?:y|ies)|\bpreferences?\b|\bremembered\b|\bUSER\.md\b|\bfacts about\b")
_heading = re.compile(r"[ \t]{0,8}(?:#{1,6} |<[A-Za-z]|\*\*|=== )")
_reminder = re.compile(r"(?i)<(?:system[-_ ]?)?reminder\b")
_placeholder = re.compile(r"(?i)\b(?:removed|cleared|omitted|truncated|elided|pruned|offloaded)\b")
_spaces = re.compile(rb"\\[nrt]|\s")
_thinking = re.compile(rb'"type" ?: ?"(?:redacted_)?thinking"')


def uuid(case: Case) -> Cure | None:
    if not _differ_by(case, _uuid) and not (_differ_by(case, _id) and not _git.search(case.lead[-400:] + case.old)):
        return None
    return Cure(
        "uuid",
        f"An identifier at {case.where} is new on every request: give it once at the start of the session, "
        "or move it to the newest user message.",
    )


def clock(case: Case) -> Cure | None:
    if not _differ_by(case, _time, _date) or _time.findall(case.old) == _time.findall(case.new):
        return None
    return Cure(
        "clock",
        f"The clock at {case.where} changes on every request: move it to the newest user message.",
        REPAIR,
    )


def date(case: Case) -> Cure | None:
    if not _differ_by(case, _date):
        return None
    return Cure(
        "date",
        f"The date at {case.where} changes every day and with it everything behind it: state it once at the start of "
        "the session, and a new one in the newest user message.",
        REPAIR,
    )


def git_state(case: Case) -> Cure | None:
    near = case.lead[-400:] + "\n" + case.old + "\n" + case.new
    if not case.texts or not _git.search(near) or _is_heading_of(case, _memory):
        return None
    return Cure(
        "git_state",
        f"The state of the repository at {case.where} is refreshed inside the prefix: keep the one from the start of "
        "the session and send the current one in the newest user message.",
        REPAIR,
    )


def memory(case: Case) -> Cure | None:
    if not case.texts or not _is_heading_of(case, _memory):
        return None
    return Cure(
        "memory_in_prefix",
        f"A memory at {case.where} changes in front of the conversation: leave what was sent as it is and append "
        "what is new near the end.",
        REPAIR,
    )


def meter(case: Case) -> Cure | None:
    if not _differ_by(case, _number) or not (_meter.search(case.old) or _meter.search(case.lead[-100:])):
        return None
    return Cure(
        "usage_meter",
        f"A meter of usage at {case.where} counts on inside the prefix: move it to the newest user message.",
        REPAIR,
    )


def counter(case: Case) -> Cure | None:
    if not _differ_by(case, _number):
        return None
    return Cure(
        "counter",
        f"A number at {case.where} counts on inside the prefix: move it to the newest user message, or leave it out.",
        REPAIR,
    )


def reminder(case: Case) -> Cure | None:
    """A reminder that is part of one request's newest message and is gone from it in the next."""
    divergence = case.finding.divergence
    if divergence is None or divergence.section != "messages":
        return None
    told = [bool(_reminder.search(text)) for text in (case.old + case.old_rest, case.new + case.new_rest)]
    only = told[0] != told[1] and case.texts
    ended = divergence.what == "removed" and told[0]
    if divergence.what != "moved" and not only and not ended:
        return None
    return Cure(
        "moved_reminder",
        f"What stood at {case.where} moves on to the newest message with every request: leave it where it was sent "
        "and send a further one, or send it once.",
    )


def thinking(case: Case) -> Cure | None:
    divergence = case.finding.divergence
    if divergence is None or divergence.section != "messages":
        return None
    by_client = case.before is not None and bool(_thinking.search(case.before[:4096]))
    by_client = by_client and not (case.after is not None and _thinking.search(case.after[:4096]))
    if divergence.what != "stripped" and not by_client:
        return None
    return Cure(
        "stripped_thinking",
        f"Thinking in front of {case.where} was sent before and is not part of the prompt any more: send it back "
        "unchanged, and where the model drops it at a new user turn ask it to keep all thinking.",
    )


def pruned(case: Case) -> Cure | None:
    """A tool's result that was replaced by something much shorter, or by words that say so."""
    if not case.texts or case.finding.cause != "messages_rewritten":
        return None
    assert case.before is not None
    assert case.after is not None
    result = re.search(rb'"tool_result"|_output"|"tool_call_id"|"functionResponse"', case.before[:1024])
    placeholder = _placeholder.search(case.new_rest) and not _placeholder.search(case.old_rest)
    if result is None or (2 * len(case.after) > len(case.before) and not placeholder):
        return None
    return Cure(
        "old_result_replaced",
        f"The tool result at {case.where} was shortened after it had been sent: shorten results before they are sent "
        "for the first time, or all at once when the cache is cold.",
    )


def key_order(case: Case) -> Cure | None:
    if not case.texts or max(len(case.before or b""), len(case.after or b"")) > WHOLE:
        return None
    before, after = _sorted(case.before), _sorted(case.after)
    if before is None or before != after:
        return None
    return Cure(
        "key_order",
        f"The keys of an object at {case.where} come in another order: serialise it once and send the same bytes again "
        "(Holdfast keeps the first order by itself).",
    )


def whitespace(case: Case) -> Cure | None:
    if not case.texts or max(len(case.before or b""), len(case.after or b"")) > WHOLE:
        return None
    if _spaces.sub(b"", case.before or b"") != _spaces.sub(b"", case.after or b""):
        return None
    return Cure(
        "whitespace",
        f"Only spaces or line ends at {case.where} differ: keep the text as it was first sent, without trimming or "
        "wrapping it anew.",
    )


def _differ_by(case: Case, *patterns: re.Pattern[str]) -> bool:
    """Whether the lines are the same but for what these patterns match. Of lines that were cut the ends are left
    aside: the same cut falls at another place when a value is longer."""
    if not case.texts or case.old_cut != case.new_cut:
        return False
    old, new = case.old, case.new
    for pattern in patterns:
        old, new = pattern.sub("\0", old), pattern.sub("\0", new)
    if case.old_cut:
        size = min(len(old), len(new)) - _RAGGED
        if size <= case.at:
            return False
        old, new = old[:size], new[:size]
    return "\0" in old and old == new


def _is_heading_of(case: Case, pattern: re.Pattern[str]) -> bool:
    """Whether the divergence stands under a heading or tag of this kind, or in a line that says so itself."""
    for line in (case.old, *reversed(case.lead.split("\n"))):
        if _heading.match(line) or '"text":"' in line[:80]:
            return bool(pattern.search(line[:200]))
    return False


def _sorted(raw: bytes | None) -> bytes | None:
    """A JSON value with all keys in order, also those of objects that stand in it as text (a call's arguments)."""
    try:
        value = msgspec.json.decode(raw or b"")
        return msgspec.json.encode(_opened(value, 0), order="sorted")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _opened(value: Any, depth: int) -> Any:
    if depth > 64:
        return value
    if isinstance(value, dict):
        return {name: _opened(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_opened(inner, depth + 1) for inner in value]
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        try:
            return _opened(msgspec.json.decode(value), depth + 1)
        except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError):
            return value
    return value
