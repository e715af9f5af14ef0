"""The first objects of a file of which 64 KiB are known: bodies are long, and a first line may be longer than that."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

from .lines import START, lines
from .members import Members, read_line
from .records import BrokenSource

_MOST = 20
_ENOUGH = 2**20  # bytes, where a line is longer than what is known already
_AROUND = b"\xef\xbb\xbf \t\r\n"


def first_objects(path: Path, start: bytes) -> Iterator[Members]:
    """The objects that stand in the first lines, each on a line of its own; none where the file is one document."""
    *known, rest = start.split(b"\n")
    first = next((stripped for line in (*known, rest) if (stripped := line.strip(_AROUND))), b"")
    if first[:1] == b"[" or first == b"{":  # a list, or an object on many lines
        return
    if len(start) < START:
        known.append(rest)
    elif not known and first[:1] == b"{":
        known += _first_lines(path)
    for line in known[:_MOST]:
        members = read_line(line) if line.strip() else ""
        if not isinstance(members, str):
            yield members


def _first_lines(path: Path) -> list[bytes]:
    found, size = [], 0
    with closing(cast(Generator[tuple[str, bytes] | BrokenSource], lines(path, lambda _: None))) as all_lines:
        for line in all_lines:
            if not isinstance(line, BrokenSource):
                found.append(line[1])
                size += len(line[1])
            if size > _ENOUGH:
                break
    return found
