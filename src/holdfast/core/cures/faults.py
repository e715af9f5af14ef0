"""Faults recognised by what happened to the blocks, the markers and their lifetimes, or by the two texts of a block."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from .. import volatile
from .cure_case import ECONOMIC, IMPROVE, REPAIR, WHOLE, Case, Cure


def tool_order(case: Case) -> Cure | None:
    divergence = case.finding.divergence
    if divergence is None or (divergence.section, divergence.what) != ("tools", "reordered"):
        return None
    return Cure(
        "tool_order",
        f"The same tools come in another order from {case.where} on: declare them in one fixed order, by name "
        "(Holdfast keeps the first order, unless `cache.repair` is off).",
    )


def tool_added(case: Case) -> Cure | None:
    divergence = case.finding.divergence
    if divergence is None or (divergence.section, divergence.what) != ("tools", "inserted"):
        return None
    return Cure(
        "tool_added",
        f"{_some(divergence.new, 'tool was', 'tools were')} added at {case.where} and everything behind the tools was "
        "lost: declare all tools at the start of the session, or defer the loading of the late ones.",
    )


def tool_removed(case: Case) -> Cure | None:
    divergence = case.finding.divergence
    if divergence is None or (divergence.section, divergence.what) != ("tools", "removed"):
        return None
    where = case.where if "tools" in case.where else "the end of the tools"  # what stands there now is none
    return Cure(
        "tool_removed",
        f"{_some(divergence.gone, 'tool was', 'tools were')} removed at {where} and everything behind the tools was "
        "lost: keep declaring it and refuse its calls instead.",
    )


def sliding_window(case: Case) -> Cure | None:
    divergence = case.finding.divergence
    if divergence is None or divergence.what != "trimmed":
        return None
    return Cure(
        "sliding_window",
        f"The oldest {_some(divergence.gone, 'block', 'blocks')} of the conversation were left out at {case.where}: "
        "send the whole history, or trim rarely and in big steps.",
        "agent.history_turns = 0",
    )


def compaction(case: Case) -> Cure | None:
    comparison = case.finding.comparison
    if case.finding.divergence is None or comparison is None or comparison.course != "compaction":
        return None
    return Cure(
        "compaction",
        f"The history was replaced by something shorter from {case.where} on: keep the first turns in front of the "
        "summary, and compact rarely.",
        "agent.compaction.anchor_turns = 2",
    )


def no_marker(case: Case) -> Cure | None:
    if case.finding.cause != "lookback_exceeded" or case.marks:
        return None
    return Cure(
        "no_marker",
        "The request carried no cache marker, so nothing was looked up: mark the last block of every request.",
        IMPROVE,
    )


def lookback(case: Case) -> Cure | None:
    """Where markers look back a number of positions; what other providers look up is not told in positions."""
    if case.finding.cause != "lookback_exceeded" or not case.model.lookback:
        return None
    return Cure(
        "marker_beyond_lookback",
        f"More than {case.model.lookback} positions were appended since the last entry, which is as far as a marker "
        "looks back: set a further marker half way in long turns.",
        ECONOMIC,
    )


def mixed_ttl(case: Case) -> Cure | None:
    """A marker for an hour on top of one for five minutes: the entry lives as long as what it stands on."""
    entry = case.finding.entry
    if entry is None or not (case.finding.cause or "").startswith("ttl_expired"):
        return None
    seconds = case.model.ttl_seconds(entry.ttl)
    if seconds is None or entry.seconds >= seconds:
        return None
    return Cure(
        "mixed_ttl",
        f"The entry asked for {entry.ttl} but stands on one that lives {entry.seconds:.0f} s and went with it: give "
        "all markers of a conversation the same lifetime from its first request on.",
    )


def _some(count: int, one: str, many: str) -> str:
    return f"{count} {one}" if count == 1 else f"{count} {many}" if count else many.capitalize()


_RAGGED = 64  # characters at the end of a cut line that may be out of step

_number = re.compile(r"\d+(?:[.,]\d+){0,3}")
_memory = re.compile(r"(?i)memor(?:y|ies)|\bpreferences?\b|\bremembered\b|\bUSER\.md\b|\bfacts about\b")
_heading = re.compile(r"[ \t]{0,8}(?:#{1,6} |<[A-Za-z]|\*\*|=== )")
_reminder = re.compile(r"(?i)<(?:system[-_ ]?)?reminder\b")
_placeholder = re.compile(r"(?i)\b(?:removed|cleared|omitted|truncated|elided|pruned|offloaded)\b")
_spaces = re.compile(rb"\\[nrt]|\s")
_thinking = re.compile(rb'"type" ?: ?"(?:redacted_)?thinking"')


def uuid(case: Case) -> Cure | None:
    if "uuid" not in _kinds(case):
        return None
    return Cure(
        "uuid",
        f"An identifier at {case.where} is new on every request: give it once at the start of the session, "
        "or move it to the newest user message.",
        REPAIR,
    )


def clock(case: Case) -> Cure | None:
    if "clock" not in _kinds(case):
        return None
    return Cure(
        "clock",
        f"The clock at {case.where} changes on every request: move it to the newest user message.",
        REPAIR,
    )


def date(case: Case) -> Cure | None:
    if "date" not in _kinds(case):
        return None
    return Cure(
        "date",
        f"The date at {case.where} changes every day and with it everything behind it: state it once at the start of "
        "the session, and a new one in the newest user message.",
        REPAIR,
    )


def git_state(case: Case) -> Cure | None:
    near = case.lead[-400:] + "\n" + case.old + "\n" + case.new
    if not case.texts or _is_heading_of(case, _memory) or not ("git" in _kinds(case) or volatile.is_git(near)):
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
    if "meter" not in _kinds(case) and not (_differ_in_numbers(case) and volatile.tells_use(case.old)):
        return None
    return Cure(
        "usage_meter",
        f"A meter of usage at {case.where} counts on inside the prefix: move it to the newest user message.",
        REPAIR,
    )


def counter(case: Case) -> Cure | None:
    if "counter" not in _kinds(case) and not _differ_in_numbers(case):
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
    reminded = [bool(_reminder.search(text)) for text in (case.old + case.old_rest, case.new + case.new_rest)]
    only = reminded[0] != reminded[1] and case.texts
    ended = divergence.what == "removed" and reminded[0]
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
    """Recognise a tool result that was replaced by a much shorter one or by a placeholder."""
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
        "(Holdfast keeps the first order, unless `cache.repair` is off).",
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


def _kinds(case: Case) -> tuple[str, ...]:
    """The kinds of values in which the two lines differ, where they differ in nothing else."""
    if not case.texts or case.old_cut != case.new_cut:
        return ()
    return volatile.between(case.old, case.new, ragged=_RAGGED if case.old_cut else 0)


def _differ_in_numbers(case: Case) -> bool:
    """Return whether the lines differ only in numbers that no rule sets. The ends of cut lines are ignored."""
    if not case.texts or case.old_cut != case.new_cut or volatile.is_rule(case.old):
        return False
    old, new = _number.sub("\0", case.old), _number.sub("\0", case.new)
    if case.old_cut:
        size = min(len(old), len(new)) - _RAGGED
        if size <= case.at:
            return False
        old, new = old[:size], new[:size]
    return "\0" in old and old == new


def _is_heading_of(case: Case, pattern: re.Pattern[str]) -> bool:
    """Return whether the divergence is under a heading or tag of this kind, or in such a line."""
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
