"""Reading a response as it passes: usage, start and end of a stream, whatever the chunk boundaries.

A tap is fed copies of the chunks the client gets and never changes or delays them. It remembers one unfinished line
and nothing else, so a long stream costs no memory; a line beyond the limit is skipped and counted.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from holdfast.canonical import Usage

from .usage import Counts, counts_of
from .values import string_of

LONGEST_LINE = 16 * 1024 * 1024


class Report(Struct, kw_only=True):
    """What a dialect found in the events so far. `counts` is raw usage; later fields replace earlier ones."""

    counts: Counts | None = None
    response_id: str | None = None
    model: str | None = None
    started: bool = False
    finished: bool = False
    error: str | None = None


class Tap:
    """Splits server-sent events out of chunks and hands each event's data to the dialect's reader.

    Also understands a plain JSON response and Gemini's JSON array, so the caller need not know which will come.
    """

    def __init__(self, read: Callable[[bytes, Report], None], convert: Callable[[Counts], Usage]) -> None:
        self._read = read
        self._convert = convert
        self._pending: list[bytes] = []  # pieces of the unfinished line
        self._pending_size = 0
        self._data: list[bytes] = []
        self._skipping = False
        self._seen = False
        self._plain: list[bytes] | None = None
        self._plain_size = 0
        self.report = Report()
        self.skipped_lines = 0

    @property
    def usage(self) -> Usage | None:
        return None if self.report.counts is None else self._convert(self.report.counts)

    def feed(self, chunk: bytes) -> None:
        if not chunk:
            return
        if self._plain is None and not self._seen:
            self._seen = True
            head = chunk.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
            if head in (b"{", b"["):
                self._plain = []
        if self._plain is not None:
            self._plain_size += len(chunk)
            if self._plain_size <= LONGEST_LINE:
                self._plain.append(chunk)
            return
        if b"\n" not in chunk:
            self._hold(chunk)
            return
        first, *lines, last = chunk.split(b"\n")
        self._line(b"".join([*self._pending, first]))
        for line in lines:
            self._line(line)
        self._pending, self._pending_size = [], 0
        self._hold(last)

    def _hold(self, piece: bytes) -> None:
        self._pending.append(piece)
        self._pending_size += len(piece)
        if self._pending_size > LONGEST_LINE:
            self._pending, self._pending_size = [], 0
            self.skipped_lines += not self._skipping
            self._skipping = True

    def close(self) -> Report:
        """The response is over; reads what is still held back."""
        if self._plain is not None:
            body, self._plain = b"".join(self._plain), None
            if self._plain_size > LONGEST_LINE:
                self.skipped_lines += 1
                return self.report
            for item in _items(body):
                self._read(item, self.report)
            self.report.finished = True
            return self.report
        self._line(b"".join(self._pending))
        self._pending, self._pending_size = [], 0
        self._dispatch()
        return self.report

    def _line(self, line: bytes) -> None:
        if self._skipping:
            self._skipping = False
            return
        line = line.rstrip(b"\r")
        if not line:
            self._dispatch()
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))

    def _dispatch(self) -> None:
        if self._data:
            data = b"\n".join(self._data)
            self._data = []
            self._read(data, self.report)


def text_of(raw: Raw) -> str | None:
    """The text of an event's member; None if it is absent or no string."""
    return string_of(bytes(raw))


def _items(body: bytes) -> list[bytes]:
    """A JSON response as one item, a JSON array as its items."""
    text = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] != b"[":
        return [text]
    try:
        return [bytes(item) for item in msgspec.json.decode(text, type=list[Raw])]
    except (msgspec.DecodeError, RecursionError):
        return []


def merge_counts(report: Report, raw: Raw) -> None:
    """Fields of a later usage object replace those of an earlier one; they are never added."""
    counts = counts_of(raw)
    if counts is not None:
        report.counts = {**(report.counts or {}), **{key: value for key, value in counts.items() if value is not None}}
