"""The events of a stream of Anthropic Messages, and a whole response: usage, id and model, the end, errors."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from . import scan
from .parse import error_of
from .stream import StreamReport, add_counts, merge_counts, text_of
from .usage import Counts

_TELLING = ("message_start", "message_delta", "message")  # events that bring counts


class _Event(Struct):
    """An event, the message inside `message_start`, or a whole response: what is absent is empty."""

    type: Raw = Raw()
    message: Raw = Raw()
    usage: Raw = Raw()
    id: Raw = Raw()
    model: Raw = Raw()


class _Usual(Struct):
    """The same as it nearly always is, decoded in one go."""

    type: str = ""
    message: Raw = Raw()
    usage: Counts | None = None
    id: str = ""
    model: str = ""


_usual = msgspec.json.Decoder(_Usual).decode


def read_event(data: bytes, report: StreamReport) -> None:
    """`message_start` brings the usage, `message_delta` replaces the fields it names."""
    if b'"content_block_' in data[:64]:
        report.started = True
        if b"_delta" in data[:64]:
            report.add_delta(data)
        return
    try:
        usual = _usual(data)
        kind = usual.type
        if kind == "message_start":
            usual = _usual(usual.message)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        _read_odd_event(data, report)
        return
    if kind in _TELLING:
        report.started = True
        report.response_id = usual.id or report.response_id
        report.model = usual.model or report.model
        if usual.usage is not None:
            add_counts(report, usual.usage)
    else:
        _end_event(kind, data, report)


def _read_odd_event(data: bytes, report: StreamReport) -> None:
    """An event in which something has another type than usual: that costs only itself."""
    try:
        event = scan.decode(data, _Event)
        kind = text_of(event.type)
        if kind == "message_start":
            event = scan.decode(bytes(event.message), _Event)
        if kind in _TELLING:
            report.started = True
            report.response_id = text_of(event.id) or report.response_id
            report.model = text_of(event.model) or report.model
            merge_counts(report, event.usage)
        else:
            _end_event(kind, data, report)
    except (msgspec.DecodeError, RecursionError):
        report.error = report.error or "an event that is not JSON"


def _end_event(kind: str | None, data: bytes, report: StreamReport) -> None:
    if kind == "message_stop":
        report.finished = True
    elif kind == "error":
        report.error = error_of(data)[1]
