"""What tests of readers ask of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path

from holdfast.report.logs.discovery import LogReader, home_sources
from holdfast.report.logs.records import BrokenSource, LoggedRequest, Reader, Record
from holdfast.simulator.journal import Record as Billed

Counts = tuple[int, int, int, int]
"""Input, read, written, output."""


def given(reader: Reader, *paths: Path) -> list[LoggedRequest]:
    """The requests of files, nothing of which is broken."""
    records = [record for path in paths for record in reader(path, lambda _: None)]
    assert not [record for record in records if isinstance(record, BrokenSource)]
    return [record for record in records if isinstance(record, LoggedRequest)]


def split(records: Iterable[Record]) -> tuple[list[LoggedRequest], list[BrokenSource]]:
    every = list(records)
    return [each for each in every if isinstance(each, LoggedRequest)], [
        each for each in every if isinstance(each, BrokenSource)
    ]


def gives_what_came_before(reading: Callable[[], Reader], whole: Path, step: int) -> None:
    """Cut anywhere, a file gives what it gives as a whole, up to there."""
    body, all_of_it = whole.read_bytes(), given(reading(), whole)
    cut = whole.parent / "cut" / whole.name
    cut.parent.mkdir()
    for end in range(0, len(body), step):
        cut.write_bytes(body[:end])
        records, broken = split(reading()(cut, lambda _: None))
        assert records == all_of_it[: len(records)]
        assert len(broken) <= 1


def is_read_without_being_held(reading: Callable[[], Reader], path: Path, requests: int, most: int) -> None:
    """Reading so many requests takes less memory than this."""
    tracemalloc.start()
    try:
        assert sum(1 for _ in reading()(path, lambda _: None)) == requests
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def counts(records: Sequence[LoggedRequest | Billed]) -> list[Counts | None]:
    """What each was billed, without lifetimes."""
    found = [record.usage for record in records]
    return [use and (use.input, use.read, use.written, use.output) for use in found]


def home(path: Path, client: str) -> list[LoggedRequest]:
    """What a client left under its home directory, in the order of time."""
    reading, records = LogReader(), list[Record]()
    for source in home_sources(path, {}):
        assert source.client == client
        told: list[int] = []
        records += reading.records(source, told.append)
        assert sum(told) == source.size
    found, broken = split(records)
    assert not broken
    return sorted(found, key=lambda each: each.at or 0)


def lanes(records: Sequence[LoggedRequest]) -> list[list[LoggedRequest]]:
    """The requests of each lane."""
    ordered = sorted(records, key=lambda each: (each.session, each.agent, each.model))
    return [list(each) for _, each in groupby(ordered, key=lambda each: (each.session, each.agent, each.model))]
