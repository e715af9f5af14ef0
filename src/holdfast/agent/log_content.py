"""The bytes of a session's log and the events in them.

Each line is an event as JSON whose last member, `crc`, is a checksum of what stands before it, so that a changed byte
is noticed wherever it is. Lines of older logs have none. Any prefix of a log is a valid session: where a line is
damaged, everything before it can be gone on with.
"""

from __future__ import annotations

import re
from base64 import b64decode
from zlib import crc32

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.records.events import Envelope, SessionState, decode, encode

from .window.projection import advance
from .window.state import Projection

_CHECKED = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
_CHECK_SIZE = len(b',"crc":"00000000"}')
_POSITION = re.compile(r"\(byte (\d+)\)")
_TURN = b'"type":"turn.started"'


class Damage(Struct, frozen=True, kw_only=True):
    """Where a log stops being readable, and what is lost from there on."""

    line: int
    byte: int
    """Of the file, from 0: where reading failed, or where the line begins."""
    reason: str
    events: int
    turns: int

    def __str__(self) -> str:
        return f"line {self.line} is damaged at byte {self.byte:,} ({self.reason})"

    @property
    def lost(self) -> str:
        """`7 events, among them the beginning of 2 turns`"""
        turns = f", among them the beginning of {_counted(self.turns, 'turn')}" if self.turns else ""
        return f"{_counted(self.events, 'event')}{turns}"


class LogContent(Struct, frozen=True, kw_only=True):
    """What a log holds: its events up to the damage, if there is any, and how many bytes they take."""

    envelopes: tuple[Envelope, ...]
    size: int
    state: Projection
    damage: Damage | None = None


class _OtherVersion(Exception):
    """A line that is as it was written, in a form that this version does not know."""


class _Unreadable(Exception):
    def __init__(self, reason: str, at: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.at = reason, at


def to_line(envelope: Envelope) -> bytes:
    body = encode(envelope)[:-1]
    return b'%s,"crc":"%08x"}\n' % (body, crc32(body))


def read(raw: bytes, name: str) -> LogContent:
    """The events of a log, called `name` in errors. A last line that was begun and not ended is no damage, since its
    process was killed; nor is an empty one. HoldfastError where another version of Holdfast wrote a line: it is whole,
    and must not be cut off."""
    envelopes: list[Envelope] = []
    state = Projection()
    start = line = 0
    while start < len(raw):
        stop = raw.find(b"\n", start)
        end = len(raw) if stop < 0 else stop
        line += 1
        if end == start:
            start += 1
            continue
        try:
            envelope = from_line(raw[start:end])
            state = _folded(state, envelope, whole=_check_of(raw[start:end]) is not None)
        except _OtherVersion as problem:
            raise HoldfastError(
                f"line {line} of {name} was written by another version of Holdfast ({problem}); go on with that version"
            ) from problem
        except _Unreadable as problem:
            if stop < 0 and _is_torn(raw[start:]):
                break
            damage = _damage(raw, line, start, problem)
            return LogContent(envelopes=tuple(envelopes), size=start, state=state, damage=damage)
        envelopes.append(envelope)
        start = min(end + 1, len(raw))
    return LogContent(envelopes=tuple(envelopes), size=start, state=state)


def from_line(line: bytes) -> Envelope:
    check = _check_of(line)
    if check is not None:
        body = line[: check.start()]
        if b"%08x" % crc32(body) != check[1]:
            _json(line)
            raise _Unreadable("its checksum does not fit")
        line = body + b"}"
    else:
        _json(line)
    try:
        return decode(line)
    except (HoldfastError, RecursionError) as error:
        raise (_Unreadable if check is None else _OtherVersion)(_problem(error)) from error


def _check_of(line: bytes) -> re.Match[bytes] | None:
    return _CHECKED.fullmatch(line, max(0, len(line) - _CHECK_SIZE))


def _json(line: bytes) -> None:
    """Raise with the position of the first error if a line is not JSON."""
    try:
        line.decode()
        msgspec.json.decode(line, type=msgspec.Raw)
    except UnicodeDecodeError as error:
        raise _Unreadable("it is not valid UTF-8", error.start) from error
    except msgspec.DecodeError as error:
        position = _POSITION.search(str(error))
        raise _Unreadable("it is not valid JSON", int(position[1]) - 1 if position else 0) from error
    except RecursionError as error:
        raise _Unreadable("it is nested too deeply") from error
    if not line.startswith(b"{"):
        raise _Unreadable("it is no event")


def _folded(state: Projection, envelope: Envelope, *, whole: bool) -> Projection:
    """The state with one more event. In a `whole` line, one with a matching checksum, a value of unknown form comes
    from another version; an event that does not follow from those before it means that lines are missing, which is
    damage."""
    try:
        if isinstance(envelope.payload, SessionState):
            for stored in (envelope.payload.tools, envelope.payload.skills):
                msgspec.msgpack.decode(b64decode(stored) or b"\xc0")
        return advance(state, envelope)
    except (HoldfastError, msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError) as error:
        if whole and isinstance(error.__cause__ or error, msgspec.MsgspecError):
            raise _OtherVersion(_problem(error)) from error
        raise _Unreadable(_problem(error)) from error


def _is_torn(line: bytes) -> bool:
    """Return whether it is the incomplete end of a file that a killed process, or a lost file system block, leaves."""
    begun = line.rstrip(b"\0")
    try:
        msgspec.json.decode(begun, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return not begun or (begun.startswith(b"{") and ("truncated" in str(error) or begun.endswith(b"-")))
    return False


def _damage(raw: bytes, line: int, start: int, problem: _Unreadable) -> Damage:
    lines = [each for each in raw[start:].split(b"\n") if each]
    return Damage(
        line=line,
        byte=start + problem.at,
        reason=problem.reason,
        events=len(lines),
        turns=sum(_TURN in each for each in lines),
    )


def _problem(error: Exception) -> str:
    """Return the error's first part, without the advice."""
    return str(error).partition(";")[0]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
