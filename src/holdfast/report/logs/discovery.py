"""Finds logs and tells their formats by content: in the paths a user gives, or where known clients keep them."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import HoldfastError

from .directory_walk import SeenFiles, first_time, tree
from .formats import EMPTY, FORMATS, KNOWN, UNREADABLE, format_of, part, source
from .homes import places
from .lines import beginning, reason
from .records import Advance, BrokenSource, Reader, Record, Source

__all__ = ["EMPTY", "FORMATS", "KNOWN", "UNREADABLE", "LogReader", "home_sources", "records", "sniff", "sources"]


class LogReader:
    """One run over many sources. A request that a client copied from one file into another is given once: a module
    with `reading()` makes a reader for one run, which remembers what it has given."""

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}

    def records(self, source: Source, advance: Advance) -> Iterator[Record]:
        if source.format == UNREADABLE:
            yield _unreadable(source.path)
        elif source.format != EMPTY:
            yield from self._reader(source.format)(source.path, advance)

    def _reader(self, format: str) -> Reader:
        reader = self._readers.get(format)
        if reader is None:
            make = part(format, "reading")
            reader = self._readers[format] = make() if make else FORMATS[format]
        return reader


def records(source: Source, advance: Advance) -> Iterator[Record]:
    """The requests of one source by itself; for all sources of a run, use one `LogReader`."""
    return LogReader().records(source, advance)


def _unreadable(path: Path) -> BrokenSource:
    try:
        if path.is_dir():
            list(path.iterdir())
        else:
            beginning(path)
    except OSError as error:
        return BrokenSource(path.name, reason(error))
    return BrokenSource(path.name, "could not be read when it was looked for")


def sniff(path: Path) -> str | None:
    """A format's name from the beginning of a file; raises OSError where it cannot be read."""
    return format_of(path, b"" if path.is_dir() else beginning(path))


def sources(paths: Sequence[Path]) -> list[Source]:
    """The logs under the paths, each once, in a fixed order; see `walking`."""
    seen: SeenFiles = set()
    found: list[Source] = []
    for path in paths:
        try:
            state = path.stat()
        except OSError as error:
            raise HoldfastError(f"{path} {reason(error)}; check the path and its permissions") from error
        if stat.S_ISDIR(state.st_mode):
            inside = tree(path, seen)
            if not inside and not found:
                raise HoldfastError(f"{path} holds no log of a known format; known are {KNOWN}")
            found += inside
        elif not stat.S_ISREG(state.st_mode):
            raise HoldfastError(f"{path} is neither a file nor a directory; give logs or directories of them")
        elif first_time(state, seen):
            found.append(_named(path, state.st_size))
    return found


def _named(path: Path, size: int) -> Source:
    """A file that the user named: it must be readable and of a known format, or empty."""
    try:
        start = beginning(path)
    except OSError as error:
        raise HoldfastError(f"{path} {reason(error)}; check the path and its permissions") from error
    known = format_of(path, start) if start.strip() else EMPTY
    if known is None:
        raise HoldfastError(f"{path} is of no known format; known are {KNOWN}")
    return source(path, known, size)


def home_sources(home: Path, environ: Mapping[str, str]) -> list[Source]:
    """The logs of known clients under a home directory, client by client; empty where there are none."""
    seen: SeenFiles = set()
    found: list[Source] = []
    for name, place in places(home, environ):
        found += [each for each in tree(place, seen) if each.format in (name, UNREADABLE)]
    return found
