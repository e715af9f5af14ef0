"""Reading logs for `holdfast explain` and `replay`: one after the other, with a progress bar, until done or
interrupted.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click
from msgspec import Struct

from holdfast.cli.tables import remark
from holdfast.report.explainer import Explainer, FileRead, file_read
from holdfast.report.logs import BrokenSource, LogReader, Record, Source, megabytes

BAR_FROM = 20_000_000
"""Bytes from which on a progress bar is shown."""


class LogProgress(Struct, frozen=True):
    """What was read. `bytes` of `total`; `stopped` if something ended it, such as Ctrl-C."""

    files: tuple[FileRead, ...]
    bytes: int
    total: int
    stopped: bool = False


class _StoppedError(Exception):
    """Ctrl-C was pressed; raised between two records, so that all sums are whole."""


def read(
    sources: Sequence[Source], explainer: Explainer, *, quiet: bool, until: Callable[[], bool] = lambda: False
) -> LogProgress:
    """Give all records of the sources to the explainer."""

    def take(source: Source, record: Record) -> None:
        explainer.add(record, source.format, str(source.path))

    return each(sources, take, quiet=quiet, until=until)


def each(
    sources: Sequence[Source],
    take: Callable[[Source, Record], None],
    *,
    quiet: bool,
    until: Callable[[], bool] = lambda: False,
) -> LogProgress:
    """All records of the sources, one by one; `until` ends it as Ctrl-C does."""
    reading, total, bytes_read = LogReader(), sum(source.size for source in sources), 0
    files: list[FileRead] = []
    bar = progress_bar(total, f"Reading {megabytes(total)}", shown=not quiet and total >= BAR_FROM)
    with bar as moved, _interruptible() as pressed:

        def stopped() -> bool:
            return pressed() or until()

        def advance(count: int) -> None:
            nonlocal bytes_read
            bytes_read += count
            moved(count)
            if stopped():
                raise _StoppedError

        try:
            for source in sources:
                files.append(file_read(source))
                for record in reading.records(source, advance):
                    take(source, record)
                    if stopped():
                        raise _StoppedError
        except _StoppedError:
            return LogProgress(tuple(files), bytes_read, total, stopped=True)
    return LogProgress(tuple(files), bytes_read, total)


@contextmanager
def progress_bar(total: int, label: str, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the amount of work done."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield lambda count: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield bar.update


def tell_broken(broken: int, named: Sequence[BrokenSource]) -> None:
    """How many lines could not be read, and why some of them."""
    which = "1 line" if broken == 1 else f"{broken:,} lines"
    remark(f"{which} could not be read and {'was' if broken == 1 else 'were'} left out:")
    for line in named:
        remark(f"  {line.source}: {line.why}")
    if broken > len(named):
        remark(f"  and {broken - len(named):,} more")


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed. The second time it ends the program as ever."""
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not in the main thread: nobody can press anything
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
