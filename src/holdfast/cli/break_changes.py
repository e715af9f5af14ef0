"""What changed where the cache broke, as the reports on disk have it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.cli.tables import cut, printable
from holdfast.config import load_config
from holdfast.engine import WORDS_MASKED, Reports
from holdfast.report import BreakReport

_MOST = 8
"""Changes of one break that are printed; its report has up to 20."""

_WIDEST = 300
"""Characters of a piece that are printed."""


def with_changes(breaks: tuple[BreakReport, ...]) -> tuple[BreakReport, ...]:
    """The breaks, each with what its report says of it."""
    reports = Reports.configured(load_config())
    return tuple(_with_changes(each, reports) for each in breaks)


def _with_changes(each: BreakReport, reports: Reports) -> BreakReport:
    report = reports.read(each.id, each.at)
    return each if report is None else replace(each, changes=report.changes, masked=report.masked or report.note)


def change_lines(each: BreakReport) -> Iterator[str]:
    """Each change in a line, and what is not shown of it."""
    for change in each.changes[:_MOST]:
        yield f"byte {change.at:,} of the block: {_quoted(change.removed)} became {_quoted(change.added)}"
    if len(each.changes) > _MOST:
        yield f"and {len(each.changes) - _MOST} more; --json lists them."
    if each.masked is not None:
        yield each.masked


def shown_words(each: BreakReport) -> bool:
    """Whether its changes are there to be read."""
    return bool(each.changes) and each.masked != WORDS_MASKED


def _quoted(text: str) -> str:
    if not text:
        return "nothing"
    words = printable(text)
    return f'"{words if len(words) <= _WIDEST else cut(words, _WIDEST)}"'
