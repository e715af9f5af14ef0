"""Files that were packed with gzip or zstd, unpacked while they are read; told by their first bytes, not by a name.

A file that breaks off is read as far as it goes and then raises: gzip does so by itself, of zstd a decoder just stops,
so the frames are counted through.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from typing import IO, cast

import zstandard

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
    """Bytes of a frame's header behind the one that tells what is in it: window, dictionary, size."""
    alone = about >> 5 & 1
    size = (alone, 2, 4, 8)[about >> 6]
    return (1 - alone) + (0, 1, 2, 4)[about & 3] + size
