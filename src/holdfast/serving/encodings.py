"""Content encodings: decoding a request's body, and reading a copy of a response as it passes.

The forwarded bytes are never decoded or encoded here. Unknown encodings give None.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from io import BytesIO

import brotli
import zstandard

KNOWN = ("gzip", "x-gzip", "deflate", "br", "zstd")
MOST = 4_194_304
"""Bytes that one piece of a response may unpack to. Honest ones come to far less; all other calls wait meanwhile."""

_TOO_MUCH = "it unpacks to too much"
_GZIP = 16 + zlib.MAX_WBITS
_BARE = -zlib.MAX_WBITS
_ZLIB = b"\x78"  # what zlib's format begins with at every usual setting
_PROBLEMS = (zlib.error, brotli.error, zstandard.ZstdError, MemoryError)


def named(value: str | None) -> str:
    """The encoding that a header names, "" for none. Several at once are not understood, and named as they stand."""
    if not value:
        return ""
    encoding = value.strip().lower()
    return "" if encoding == "identity" else encoding


def decoded(body: bytes, encoding: str, limit: int) -> bytes | None:
    """A whole body in plain; None where it is not understood, broken off, or larger than `limit`."""
    if not encoding:
        return body
    try:
        plain = _decoded(body, encoding, limit + 1)
    except _PROBLEMS:
        return None
    return plain if plain is not None and len(plain) <= limit else None


def readable(body: bytes, header: str | None, limit: int) -> bytes:
    """A body that its header `content-encoding` says something of, in plain; as it came where that is not possible."""
    plain = decoded(body, named(header), limit)
    return body if plain is None else plain


def _decoded(body: bytes, encoding: str, most: int) -> bytes | None:
    if encoding == "br":
        unpacking = brotli.Decompressor()
        plain = bytes(unpacking.process(body, output_buffer_limit=most))
        return plain if unpacking.is_finished() else None
    if encoding == "zstd":
        with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(
            BytesIO(body), read_across_frames=True
        ) as reader:
            return bytes(reader.read(most))
    if encoding not in KNOWN:
        return None
    inflating = zlib.decompressobj(_bits(encoding, body))
    plain = inflating.decompress(body, most)
    return plain if inflating.eof and not inflating.unused_data else None


def _bits(encoding: str, start: bytes) -> int:
    """`deflate` means zlib's format by the standard and the bare one by some clients."""
    if encoding != "deflate":
        return _GZIP
    return zlib.MAX_WBITS if start[:1] == _ZLIB else _BARE


class Decoder:
    """Decodes the copy of a response piece by piece. ValueError where it is no such stream, or unpacks to too much: in
    one piece, or to more than `limit` bytes in all. It is of no use afterwards."""

    def __init__(self, encoding: str, limit: int | None = None) -> None:
        self._encoding, self._left = encoding, limit
        self._decode: Callable[[bytes], bytes] | None = None

    def feed(self, chunk: bytes) -> bytes:
        if not chunk:
            return b""
        if self._decode is None:
            self._decode = self._begin(chunk)
        try:
            plain = bytes(self._decode(chunk))
        except _PROBLEMS as problem:
            raise ValueError(f"not a stream of {self._encoding}") from problem
        if self._left is not None:
            self._left -= len(plain)
        if len(plain) > MOST or (self._left is not None and self._left < 0):
            raise ValueError(_TOO_MUCH)
        return plain

    def _begin(self, start: bytes) -> Callable[[bytes], bytes]:
        """Return the decoder for pieces, which stops above `MOST` bytes of output."""
        if self._encoding == "br":
            unpacking = brotli.Decompressor()
            return lambda chunk: unpacking.process(chunk, output_buffer_limit=MOST + 1)
        if self._encoding == "zstd":
            return _Zstd().decode
        inflating = zlib.decompressobj(_bits(self._encoding, start))
        return lambda chunk: inflating.decompress(chunk, MOST + 1)


class _Zstd:
    """The library's only way to unpack in steps, and to be stopped between them, is to write into something."""

    def __init__(self) -> None:
        self._plain = bytearray()
        self._writer = zstandard.ZstdDecompressor().stream_writer(self, closefd=False)  # type: ignore[arg-type]

    def decode(self, chunk: bytes) -> bytes:
        self._plain = bytearray()
        self._writer.write(chunk)
        return bytes(self._plain)

    def write(self, piece: bytes) -> int:
        self._plain += piece
        if len(self._plain) > MOST:
            raise ValueError(_TOO_MUCH)
        return len(piece)
