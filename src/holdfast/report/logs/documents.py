"""JSON documents: the items of a list one at a time, whatever its length, or an object as a whole.

Also the members at the beginning of a document, the last of them perhaps cut.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, cast

from msgspec import Raw

from holdfast.records import decode_string
from holdfast.wire import scan

from .lines import FAILURES, LONGEST, START, lines, reason, unpacked
from .members import Members, read_line
from .records import Advance, BrokenSource

_BLOCK = 2**20
_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_key = re.compile(rb'[\s,]*+("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:\s*+', re.DOTALL).match
_TOO_LONG = f"longer than {LONGEST >> 20} MiB"


def values(path: Path, advance: Advance) -> Iterator[tuple[str, bytes] | BrokenSource]:
    """The items of a list, each with its place (`NAME[NUMBER]`), or the object that the document is."""
    try:
        with path.open("rb") as file:
            text = _Text(file, advance)
            text.more()
            if text.here() == b"[":
                yield from _items(path.name, text)
            elif whole := text.rest():
                yield path.name, whole
            else:
                yield BrokenSource(path.name, _TOO_LONG)
            text.end()
    except FAILURES as error:
        yield BrokenSource(path.name, reason(error))


def whole(path: Path, advance: Advance) -> bytes | BrokenSource:
    """Return a document unchanged."""
    try:
        with path.open("rb") as file:
            text = _Text(file, advance)
            document = text.rest()
            text.end()
            return document if document is not None else BrokenSource(path.name, _TOO_LONG)
    except FAILURES as error:
        return BrokenSource(path.name, reason(error))


class _Text:
    """The part of a file that is held, and the place reached in it."""

    def __init__(self, file: IO[bytes], advance: Advance) -> None:
        self._file, self._source, self._advance = file, unpacked(file), advance
        self._told = 0
        self.held, self.at, self.ended = b"", 0, False

    def more(self) -> bool:
        """Read on: as much again as is held, so that a long item is not looked at too often."""
        piece = self._source.read(max(_BLOCK, len(self.held) - self.at))
        self.held, self.at = self.held[self.at :] + piece, 0
        self.ended = not piece
        self.told()
        return bool(piece)

    def told(self) -> None:
        here = self._file.tell()
        self._advance(here - self._told)
        self._told = here

    def end(self) -> None:
        """The file has been read, or will not be read further."""
        self._file.seek(0, os.SEEK_END)
        self.told()

    def here(self) -> bytes:
        """The next byte that is no space; empty at the end."""
        while True:
            left = self.held[self.at :].removeprefix(_BOM) if not self.at else self.held[self.at :]
            skipped = left.lstrip(_SPACE)
            self.at = len(self.held) - len(skipped)
            if skipped or not self.more():
                return skipped[:1]

    def rest(self) -> bytes | None:
        """All that is left; None if that is too long."""
        text = self.held[self.at :] + self._source.read(LONGEST + 1 - (len(self.held) - self.at))
        return text.removeprefix(_BOM) if len(text) <= LONGEST else None

    def value(self) -> bytes | None:
        """The value that begins here; None if it does not end, or is too long."""
        while True:
            try:
                end = scan.skip_value(self.held, self.at)
                if end < len(self.held) or self.ended:
                    value, self.at = self.held[self.at : end], end
                    return value
            except scan.Misfit:
                pass
            if self.ended or len(self.held) - self.at > LONGEST:
                return None
            self.more()


def _items(name: str, text: _Text) -> Iterator[tuple[str, bytes] | BrokenSource]:
    text.at += 1
    number = 0
    while (sign := text.here()) != b"]":
        if sign == b"," and number:
            text.at += 1
            continue
        place = f"{name}[{number}]"
        value = text.value() if sign else None
        if value is None:
            long = len(text.held) - text.at > LONGEST
            yield BrokenSource(place, f"{_TOO_LONG}, or the list breaks off" if long else "the list breaks off here")
            return
        if not value:
            yield BrokenSource(place, "not JSON; what follows was not read")
            return
        yield place, value
        number += 1


def outline(start: bytes) -> Members:
    """The members of the object that a text begins with, as far as it goes; the value of the last may be cut."""
    text = start.removeprefix(_BOM).lstrip(_SPACE)
    members: Members = {}
    if text[:1] != b"{":
        return members
    at = 1
    while (key := _key(text, at)) is not None:
        try:
            name, end = decode_string(key[1]), scan.skip_value(text, key.end())
        except (scan.Misfit, ValueError):
            end = len(text)
            name = key[1][1:-1].decode("utf-8", "replace")
        members[name] = Raw(text[key.end() : end])
        at = end
    return members


def first_item(start: bytes | Raw | None) -> bytes:
    """The first item of the list that a text begins with, as far as it goes."""
    text = b"" if start is None else bytes(start).removeprefix(_BOM).lstrip(_SPACE)
    return text[1:].lstrip(_SPACE) if text[:1] == b"[" else b""


_MOST = 20
_ENOUGH = 2**20  # bytes, where a line is longer than what is known already
_AROUND = b"\xef\xbb\xbf \t\r\n"


def first_objects(path: Path, start: bytes) -> Iterator[Members]:
    """The objects that stand in the first lines, each on a line of its own; none where the file is one document."""
    *lines_, rest = start.split(b"\n")
    first = next((stripped for line in (*lines_, rest) if (stripped := line.strip(_AROUND))), b"")
    if first[:1] == b"[" or first == b"{":  # a list, or an object on many lines
        return
    if len(start) < START:
        lines_.append(rest)
    elif not lines_ and first[:1] == b"{":
        lines_ += _first_lines(path)
    for line in lines_[:_MOST]:
        members = read_line(line) if line.strip() else ""
        if not isinstance(members, str):
            yield members


def _first_lines(path: Path) -> list[bytes]:
    objects, size = [], 0
    with closing(cast(Generator[tuple[str, bytes] | BrokenSource], lines(path, lambda _: None))) as all_lines:
        for line in all_lines:
            if not isinstance(line, BrokenSource):
                objects.append(line[1])
                size += len(line[1])
            if size > _ENOUGH:
                break
    return objects
