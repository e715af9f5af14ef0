"""Lines of log files, one at a time, whatever the file's size, and requests gathered from them; also the beginning of a
file for finding its format.

Nothing here knows a format. A file that cannot be read, or stops being readable, is one `BrokenSource`; a line too long
for memory is another, and reading continues after it.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Protocol, cast

import msgspec
import zstandard
from msgspec import Raw

from .records import Advance, BrokenSource, LoggedRequest, Record

FAILURES = (OSError, EOFError, zlib.error, zstandard.ZstdError)
"""What reading a packed file may raise."""

_BLOCK = 2**20
_WINDOW = 2**27
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPED = b"\x2a\x4d\x18"  # of frames that hold no data, after a first byte from 0x50 to 0x5f


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """The file's bytes as they were before packing."""
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return io.BufferedReader(cast(io.RawIOBase, _Gzip(file)), _BLOCK)
    if magic == _ZSTD:
        return io.BufferedReader(cast(io.RawIOBase, _Zstd(file)), _BLOCK)
    return file


class _Gzip(io.RawIOBase):
    """In pieces as they come: asked for more, the module's own file keeps nothing of what stands before a failure."""

    def __init__(self, file: IO[bytes]) -> None:
        self._stream = gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = self._stream.read1(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


class _Zstd(io.RawIOBase):
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        decoder = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        self._stream = decoder.stream_reader(file, read_across_frames=True, closefd=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        read: int = self._stream.readinto(buffer)
        if not read and not _is_whole(self._file):
            raise EOFError("the file breaks off")
        return read


def _is_whole(file: IO[bytes]) -> bool:
    """Whether the last frame of a zstd file ends where the file does."""
    end = file.seek(0, os.SEEK_END)
    at = file.seek(0)
    while at < end:
        magic = file.read(4)
        if magic[1:] == _SKIPPED:
            at = file.seek(int.from_bytes(file.read(4), "little"), os.SEEK_CUR)
            continue
        about = file.read(1)
        if magic != _ZSTD or not about:
            break
        checksum = 4 if about[0] & 4 else 0
        file.seek(_header(about[0]), os.SEEK_CUR)
        last = False
        while not last:
            header = file.read(3)
            if len(header) < 3:
                break
            block = int.from_bytes(header, "little")
            last, repeated = bool(block & 1), block >> 1 & 3 == 1
            at = file.seek(1 if repeated else block >> 3, os.SEEK_CUR)
        if not last:
            break
        at = file.seek(checksum, os.SEEK_CUR)
    file.seek(end)
    return at == end


def _header(about: int) -> int:
    """Return the bytes of a frame's header after its descriptor: window, dictionary, size."""
    alone = about >> 5 & 1
    size = (alone, 2, 4, 8)[about >> 6]
    return (1 - alone) + (0, 1, 2, 4)[about & 3] + size


LONGEST = 64 * 2**20
"""Bytes of a line that are held; no client writes longer ones."""
START = 64 * 2**10
"""Bytes of a file's beginning by which its format is recognised."""
_TELL = 2**18
_PIECE = 2**12


def lines(path: Path, advance: Advance) -> Iterator[tuple[str, bytes] | BrokenSource]:
    """Each line that says something, with its place (`NAME:NUMBER`); gzip and zstd are unpacked on the way."""
    name, number = path.name, 0
    try:
        with path.open("rb", buffering=_BLOCK) as file:
            for number, line in _numbered(file, advance):
                if line is None:
                    yield BrokenSource(f"{name}:{number}", f"the line is longer than {LONGEST >> 20} MiB")
                elif not line.isspace():
                    yield f"{name}:{number}", line
    except FAILURES as error:
        yield BrokenSource(f"{name}:{number + 1}" if number else name, reason(error))


class Gathers(Protocol):
    """Makes requests of lines: a request may be many of them, and is ready some lines after its last."""

    def add(self, place: str, raw: bytes) -> BrokenSource | None: ...
    def ready(self) -> Iterator[LoggedRequest]: ...
    def rest(self) -> Iterator[LoggedRequest]: ...


def gathered(log: Gathers, lines: Iterable[tuple[str, bytes] | BrokenSource]) -> Iterator[Record]:
    """Yield the requests of a log, each as soon as it is complete."""
    for line in lines:
        if isinstance(line, BrokenSource):
            yield line
            continue
        broken = log.add(*line)
        if broken is not None:
            yield broken
        yield from log.ready()
    yield from log.rest()


def _numbered(file: IO[bytes], advance: Advance) -> Iterator[tuple[int, bytes | None]]:
    """Lines with their numbers, None for one that is too long; the bytes told are those of the file itself."""
    readline = unpacked(file).readline
    number = advanced = read = 0
    while line := readline(LONGEST + 1):
        number += 1
        read += len(line)
        too_long = len(line) > LONGEST
        while too_long and line and not line.endswith(b"\n"):
            line = readline(_BLOCK)
            read += len(line)
        if read >= _TELL:
            here = file.tell()
            advance(here - advanced)
            advanced, read = here, 0
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield number, None if too_long else line
    advance(file.tell() - advanced)


BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What is raised by JSON that is none, or not of the expected form."""


def checked(line: bytes) -> bytes:
    """The line, if it is text: decoders do not look at the bytes of texts that they pass over."""
    if not line.isascii():
        line.decode()
    return line


def problem(error: Exception) -> str:
    """Describe why a line cannot be used: one of `BAD`."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return str(error) if isinstance(error, msgspec.ValidationError) else f"not JSON ({error})"


def reason(error: BaseException) -> str:
    """Why a file cannot be read, without its path."""
    message = error.strerror if isinstance(error, OSError) else None
    return f"cannot be read ({message or error})"


def beginning(path: Path) -> bytes:
    """The first 64 KiB of a file, unpacked, or as many as can be; raises OSError where none can."""
    start = b""
    try:
        with path.open("rb") as file:
            source = unpacked(file)
            while len(start) < START and (piece := source.read(_PIECE)):
                start += piece
    except FAILURES as error:
        if not start:
            raise error if isinstance(error, OSError) else OSError(f"{error}") from error
    return start[:START].removeprefix(codecs.BOM_UTF8)


def objects(start: bytes) -> Iterator[dict[str, Raw]]:
    """Yield the JSON objects among the first lines of a file, as their members; if the very first line is cut, its
    complete members. For `is_mine`: members show a file's format, never text inside them."""
    if len(start) >= START - len(codecs.BOM_UTF8) and b"\n" not in start:
        yield _whole_members(start)
        return
    for line in start.split(b"\n"):
        try:
            yield msgspec.json.decode(line, type=dict[str, Raw])
        except BAD:
            continue


def _whole_members(line: bytes) -> dict[str, Raw]:
    """The members of a cut object that come before the one it is cut in."""
    depth, quoted, escaped = 0, False, False
    ends: list[int] = []
    for place, char in enumerate(line):
        if quoted:
            if escaped:
                escaped = False
            elif char == 0x5C:
                escaped = True
            elif char == 0x22:
                quoted = False
        elif char == 0x22:
            quoted = True
        elif char in b"{[":
            depth += 1
        elif char in b"}]":
            depth -= 1
        elif char == 0x2C and depth == 1:
            ends.append(place)
    for end in reversed(ends[-3:]):
        try:
            return msgspec.json.decode(line[:end] + b"}", type=dict[str, Raw])
        except BAD:
            continue
    return {}
