"""One page of a text file, however large the file or its lines are, and how to ask for the next.

Lines end in a line feed and count from 1. Reads in pieces: neither a file of a gigabyte nor a line of one is ever held
whole. The same file gives the same page.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

from msgspec import Struct

from holdfast.facts import open_end

from ..contract import ToolExecutionError

PIECE = 1 << 16
SCAN = 1 << 20
COUNTED = 1 << 26
"""Bytes of a file in which lines are counted for the total."""
LOOK = 8192
"""Bytes that decide whether a file is text."""
_REPLACED = "\ufffd"
_MOST_REPLACED = 0.3

Check = Callable[[], None]


class FilePage(Struct, frozen=True, kw_only=True):
    """`text` from character `skipped` of line `first` on. `next_line` and `next_char` are where the file continues, if
    it does. `lines` counts the file's, if known."""

    text: str
    first: int
    skipped: int = 0
    next_line: int | None = None
    next_char: int = 0
    lines: int | None = None
    crlf: bool = False
    replaced: bool = False

    @property
    def notes(self) -> str:
        """Return notes for the model on the text; empty for a whole plain file."""
        notes = []
        if self.next_line is not None or self.first > 1 or self.skipped:
            notes.append(self._where())
        if self.crlf:
            notes.append("Lines end in CRLF in the file.")
        if self.replaced:
            notes.append(f"{_REPLACED} stands for bytes that are not UTF-8.")
        return f"[{' '.join(notes)}]" if notes else ""

    def _where(self) -> str:
        if self.next_line is None:
            last, cut = self.first + self.text.removesuffix("\n").count("\n"), 0
        else:
            last, cut = (self.next_line, self.next_char) if self.next_char else (self.next_line - 1, 0)
        lines = f"Lines {self.first}-{last}" if last > self.first else f"Line {self.first}"
        if self.lines is not None:
            lines += f" of {self.lines}"
        if self.skipped:
            lines += f", from character {self.skipped + 1} of line {self.first}"
        if cut:
            lines += f", up to character {cut} of line {last}"
        if self.next_line is None:
            return f"{lines}, to the end."
        on = f"offset={self.next_line}" + (f", start_char={self.next_char}" if cut else "")
        return f"{lines}. Read on with {on}."


def not_text(head: bytes) -> str | None:
    """Why a file that begins so is not text."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "is UTF-16 text; convert it with run_command (iconv -f UTF-16 -t UTF-8)"
    if b"\0" in head:
        return "is a binary file; look at it with run_command if you have to"
    shown = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    if shown.count(_REPLACED) > _MOST_REPLACED * len(shown):
        return "is a binary file, or text in another encoding than UTF-8"
    return None


def read_page(file: BinaryIO, *, offset: int, limit: int | None, skip: int, most: int, check: Check) -> FilePage:
    """At most `most` characters from line `offset` on, without its first `skip` characters; at most `limit` lines.

    A page ends with a line, unless it would be less than half full.
    """
    start = _start_of(file, offset, check)
    pieces = _pieces(file, start, check)
    text, raw = _after(pieces, offset, skip)
    size, line_ends = len(text), text.count("\n")
    collected, seen = [text], [raw]
    ended = False
    while size <= most and (limit is None or line_ends < limit):
        text, raw = next(pieces, ("", b""))
        if not text:
            ended = True
            break
        collected.append(text)
        seen.append(raw)
        size += len(text)
        line_ends += text.count("\n")
    text = "".join(collected)
    length, line, char = _cut(text, offset, limit, skip, most)
    ended = ended or (length == len(text) and next(pieces, ("", b""))[0] == "")
    more = length < len(text) or not ended
    shown = text[:length]
    lines = _lines(file, check) if more and os.fstat(file.fileno()).st_size <= COUNTED else None
    return FilePage(
        text=shown.replace("\r\n", "\n").replace("\0", _REPLACED),
        first=offset,
        skipped=skip,
        next_line=line if more else None,
        next_char=char if more else 0,
        lines=lines,
        crlf="\r\n" in shown,
        replaced=shown.count(_REPLACED) > b"".join(seen).count(_REPLACED.encode()),
    )


def _start_of(file: BinaryIO, line: int, check: Check) -> int:
    """The position of a line's first byte."""
    passed = at = 0
    file.seek(0)
    last = b"\n"
    while passed < line - 1:
        check()
        piece = file.read(SCAN)
        if not piece:
            lines = passed + (last != b"\n")
            raise ToolExecutionError(f"offset {line} is past the end: the file has {_counted(lines)}.")
        ends = piece.count(b"\n")
        if passed + ends < line - 1:
            passed += ends
            at += len(piece)
        else:
            inside = -1
            while passed < line - 1:
                inside = piece.index(b"\n", inside + 1)
                passed += 1
            at += inside + 1
        last = piece[-1:]
    if line > 1:
        file.seek(at)
        if not file.read(1):
            raise ToolExecutionError(f"offset {line} is past the end: the file has {_counted(line - 1)}.")
    return at


def _counted(lines: int) -> str:
    return f"{lines} line" if lines == 1 else f"{lines} lines"


def _pieces(file: BinaryIO, at: int, check: Check) -> Iterator[tuple[str, bytes]]:
    """Texts from a position on, never empty, each with the bytes it was read from; a byte order mark is left out."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    file.seek(at)
    first = at == 0
    while True:
        check()
        raw = file.read(PIECE)
        text = decoder.decode(raw, not raw)
        if first:
            text, first = text.removeprefix("\ufeff"), not text
        if text:
            yield text, raw
        if not raw:
            return


def _after(pieces: Iterator[tuple[str, bytes]], line: int, skip: int) -> tuple[str, bytes]:
    """The first piece without `skip` characters, all of which have to be of the one line."""
    remaining = skip
    while True:
        text, raw = next(pieces, ("", b""))
        end = text.find("\n", 0, remaining)
        if end >= 0 or (not text and remaining > 0):
            had = skip - remaining + max(end, 0)
            raise ToolExecutionError(f"start_char {skip} is past the end of line {line}, which has {had} characters.")
        if remaining <= len(text):
            return text[remaining:], raw
        remaining -= len(text)


def _cut(text: str, line: int, limit: int | None, skip: int, most: int) -> tuple[int, int, int]:
    """How many characters of `text` make the page, and the line and character that come next."""
    at, first = 0, line
    while at < len(text) and (limit is None or line < first + limit):
        end = text.find("\n", at) + 1 or len(text)
        if end > most:
            if at >= most // 2 and at > 0:
                return at, line, 0
            end = most - 1 if text[most - 1 : most + 1] == "\r\n" and most > at + 1 else most
            end = at + open_end(text[at:end]) or end  # half a key would not be known as one
            return end, line, end - at + (skip if line == first else 0)
        at = end
        line += 1
    return at, line, 0


def _lines(file: BinaryIO, check: Check) -> int:
    file.seek(0)
    lines, last = 0, b"\n"
    while piece := file.read(SCAN):
        check()
        lines += piece.count(b"\n")
        last = piece[-1:]
    return lines + (last != b"\n")
