"""The text of a summary's entry: what the program knows for certain, then what the assistant wrote, named as such."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from holdfast.tools import shown

from ..window.entries import Compacted, Entry
from ..window.state import DelegateState, ProcessState, TaskState
from ..window.texts import one_line
from .carry_over import OPENING, Facts, standing, written
from .elision import BOUNDS, Bounds, middle_out, outline

SUMMARY = "## Summary written by the assistant"
OUTLINE = "## Outline made by the program"

CLOSED = frozenset({"completed", "complete", "done", "closed", "cancelled", "canceled", "failed", "dropped", "skipped"})
"""States of a task that is open no more."""


class OpenWork(Struct, frozen=True, kw_only=True):
    """What is known for certain, whatever a model remembers."""

    files: Sequence[str] = ()
    tasks: Sequence[TaskState] = ()
    processes: Sequence[ProcessState] = ()
    delegates: Sequence[DelegateState] = ()


def composed(
    dropped: Sequence[Entry],
    kept: Sequence[Entry],
    known: OpenWork,
    *,
    summary: str | None,
    fits: Callable[[str], bool],
) -> str | None:
    """The text that takes the place of `dropped`, in front of `kept`. `summary` is the assistant's; None if it does not
    fit. Without one the entries are outlined, as shortly as they have to be."""
    facts = standing(dropped, kept)
    earlier = "\n".join(_summary_in(entry.text) for entry in dropped if isinstance(entry, Compacted))
    for bounds in BOUNDS:
        last = [OUTLINE, outline(dropped, bounds, earlier=earlier)] if summary is None else [SUMMARY, summary]
        text = "\n".join((*_notes(facts, known, bounds), *last))
        if fits(text) or (summary is None and bounds is BOUNDS[-1]):
            return text
    return None


def _notes(facts: Facts, known: OpenWork, bounds: Bounds) -> list[str]:
    parts = [OPENING]
    if found := written(facts, bounds.facts, bounds.fact):
        parts.append(found)
    running = [f"- process {shown(each.process)}: {one_line(each.command)}" for each in known.processes]
    running += [
        f"- sub-agent {shown(each.delegate)} ({shown(each.role)}): {one_line(each.task)}{_asks(each)}"
        for each in known.delegates
    ]
    tasks = [f"- {shown(each.task)} [{shown(each.status)}]" + _text(each) for each in known.tasks if is_open(each)]
    files = [f"- {shown(each)}" for each in known.files]
    for heading, lines, most in (
        ("## Running in the background", running, bounds.tasks),
        ("## Open tasks", tasks, bounds.tasks),
        ("## Files read or changed, the latest last", files, bounds.files),
    ):
        if lines and most:
            parts += [heading, *middle_out(lines, most)]
    return parts


def is_open(task: TaskState) -> bool:
    return task.status.strip().lower() not in CLOSED


def _asks(delegate: DelegateState) -> str:
    """What somebody waits for an answer to."""
    return f" (asks: {one_line(delegate.question)})" if delegate.question else ""


def _text(task: TaskState) -> str:
    return f": {one_line(task.text)}" if task.text.strip() else ""


def _summary_in(text: str) -> str:
    """The summary within such a text. Everything before it is quoted or in lists, so its heading is the first."""
    for heading in (SUMMARY, OUTLINE):
        _, found, summary = text.partition(f"\n{heading}\n")
        if found:
            return summary
    return text
