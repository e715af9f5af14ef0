"""Faults recognised by what happened to the blocks, the markers and their lifetimes, without any text."""

from __future__ import annotations

from .cure_case import ECONOMIC, IMPROVE, Case, Cure


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
    asked = case.model.ttl_seconds(entry.ttl)
    if asked is None or entry.seconds >= asked:
        return None
    return Cure(
        "mixed_ttl",
        f"The entry asked for {entry.ttl} but stands on one that lives {entry.seconds:.0f} s and went with it: give "
        "all markers of a conversation the same lifetime from its first request on.",
    )


def _some(count: int, one: str, many: str) -> str:
    return f"{count} {one}" if count == 1 else f"{count} {many}" if count else many.capitalize()
