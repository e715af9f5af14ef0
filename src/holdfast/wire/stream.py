"""Reading a response as it passes: usage, start and end of a stream, whatever the chunk boundaries.

A tap is fed copies of the chunks the client gets and never changes or delays them. It remembers one unfinished line
and nothing else, so a long stream costs no memory; a line beyond the limit is skipped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec
from msgspec import Raw, Struct, field

from holdfast.facts import estimate
from holdfast.records import Usage

from . import scan
from .raw_json import string_of
from .usage import Counts, counts_of

LONGEST_LINE = 16 * 1024 * 1024
SAMPLE = 16_384
"""Bytes of a stream's deltas that are kept, to estimate from them how many tokens all of them hold."""
_BOM = b"\xef\xbb\xbf"
_TEXTS = frozenset(
    {"text", "thinking", "partial_json", "delta", "content", "reasoning", "reasoning_content", "refusal", "arguments"}
)
"""Members of a delta with the model's output, in any dialect."""


class StreamReport(Struct, kw_only=True):
    """What a dialect found in the events so far. `counts` is raw usage; later fields replace earlier ones.

    `deltas` counts the bytes of the events with the model's output; `sample` holds the first of them.
    """

    counts: Counts | None = None
    response_id: str | None = None
    model: str | None = None
    started: bool = False
    finished: bool = False
    error: str | None = None
    deltas: int = 0
    sample: list[bytes] = field(default_factory=list)
    _sampled: int = 0

    def add_delta(self, data: bytes) -> None:
        """Count an event with output of the model."""
        self.deltas += len(data)
        if self._sampled < SAMPLE:
            self.sample.append(data[:SAMPLE])
            self._sampled += len(self.sample[-1])

    def output(self) -> int:
        """Return the estimated tokens of the model's output so far."""
        if not self._sampled:
            return 0
        text = "".join([text for data in self.sample for text in _texts_of(data)])
        return estimate(text) * self.deltas // self._sampled


class Tap:
    """Splits server-sent events out of chunks and hands each event's data to the dialect's reader.

    Also understands a plain JSON response and Gemini's JSON array, so the caller need not know which will come.
    """

    _form: Literal["unknown", "events", "json"] = "unknown"
    _after_return = False
    _too_long = False
    _recognised = False
    skipped_lines = 0

    def __init__(self, read: Callable[[bytes, StreamReport], None], convert: Callable[[Counts], Usage]) -> None:
        self._read = read
        self._convert = convert
        self._line = bytearray()  # the unfinished line; the whole response if it is plain JSON
        self._data = bytearray()  # the unfinished event
        self.report = StreamReport()

    def also(self, read: Callable[[bytes], None]) -> None:
        """Give each event's data to another reader too, after the dialect's own."""
        own = self._read

        def both(data: bytes, report: StreamReport) -> None:
            own(data, report)
            read(data)

        self._read = both

    @property
    def held(self) -> int:
        """Bytes held back of a line or an event that is not whole."""
        return len(self._line) + len(self._data)

    @property
    def usage(self) -> Usage | None:
        return None if self.report.counts is None else self._convert(self.report.counts)

    def feed(self, chunk: bytes) -> None:
        if self._form == "unknown":
            if chunk[:1] == b"{" and not self._line:
                self._form = "json"
                self._hold(chunk)
                return
            self._line += chunk
            start = bytes(self._line).removeprefix(_BOM).lstrip()
            if not start:  # nothing yet, however much of it comes
                self._line.clear()
            if not start or _BOM.startswith(bytes(self._line)):
                return
            self._form = "json" if start[:1] in (b"{", b"[") else "events"
            chunk, self._line = start, bytearray()
        if self._form == "json":
            self._hold(chunk)
            return
        if self._after_return and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._after_return = chunk[-1:] == b"\r" if chunk else self._after_return
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, last = chunk.split(b"\n")
        for line in lines:
            self._hold(line)
            self._end_of_line()
        self._hold(last)

    def close(self) -> StreamReport:
        """Handle the end of the response, including what is still buffered."""
        if self._form == "json":
            self._close_json()
        elif self._form == "events":
            self._end_of_line()
            self._dispatch()
        if self._form != "unknown" and not self._recognised and self.report.error is None:
            self.report.error = "a response that is neither JSON nor an event stream"
        return self.report

    def cut(self) -> StreamReport:
        """The response broke off: reads what is whole of it. Of a plain JSON response nothing is."""
        if self._form == "json" and not self._too_long:
            text, self._line = bytes(self._line), bytearray()
            spans = scan.walk_values(text, 0)[0] if text[:1] == b"[" else []
            for start, end in spans:
                self._read(text[start:end], self.report)
            if text[:1] != b"[":
                self.report.add_delta(text)
        return self.report

    def _hold(self, piece: bytes) -> None:
        """Keep a piece of the unfinished line; a line beyond the limit is given up and counted once."""
        if len(self._line) + len(piece) <= LONGEST_LINE:
            self._line += piece
            return
        self.skipped_lines += not self._too_long
        self._too_long = True
        self._line.clear()

    def _end_of_line(self) -> None:
        line, self._line = bytes(self._line), bytearray()
        if self._too_long:
            self._too_long = False
        elif not line:
            self._dispatch()
        elif line.startswith(b"data:"):
            self._recognised = True
            if len(self._data) + len(line) > LONGEST_LINE:
                self._data.clear()
                self.skipped_lines += 1
                return
            self._data += (b"\n" if self._data else b"") + line[5:].removeprefix(b" ")
        elif line.startswith((b":", b"event:", b"id:", b"retry:")):
            self._recognised = True

    def _dispatch(self) -> None:
        if self._data:
            data, self._data = bytes(self._data), bytearray()
            self._read(data, self.report)

    def _close_json(self) -> None:
        self._recognised = True
        text, self._line = bytes(self._line).rstrip(), bytearray()
        if self._too_long:
            return
        items, complete = [text], True
        if text[:1] == b"[":
            spans, complete = scan.walk_values(text, 0)
            items = [text[start:end] for start, end in spans]
        for item in items:
            self._read(item, self.report)
        if not complete and self.report.error is None:
            self.report.error = "a response that breaks off"
        self.report.finished = self.report.error is None


def text_of(raw: Raw) -> str | None:
    """The text of an event's member; None if it is absent or no string."""
    return string_of(bytes(raw))


def merge_counts(report: StreamReport, raw: Raw) -> None:
    """Fields of a later usage object replace those of an earlier one; they are never added."""
    counts = counts_of(raw)
    if counts is not None:
        add_counts(report, counts)


def add_counts(report: StreamReport, counts: Counts) -> None:
    news = {key: value for key, value in counts.items() if value is not None}
    if not report.counts:
        report.counts = news
        return
    merged = dict(report.counts)
    total = "cache_creation_input_tokens"
    if "cache_creation" not in news and news.get(total, merged.get(total)) != merged.get(total):
        merged.pop("cache_creation", None)  # the split of an older sum; a sum that is repeated keeps its split
    report.counts = {**merged, **news}


def _texts_of(data: bytes) -> Iterator[str]:
    """Yield the texts in a delta; all of it if it is not valid JSON."""
    try:
        yield from _texts(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        yield data.decode("utf-8", "replace")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str):
                if name in _TEXTS:
                    yield each
            elif name == "args":  # of a call, as Gemini has it
                yield msgspec.json.encode(each).decode()
            else:
                yield from _texts(each)
