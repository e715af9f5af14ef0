"""Content encodings: what is understood is read whole and bounded, the rest is said not to be."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import pairwise

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from holdfast.serving.encodings import KNOWN, MOST, Decoder, decoded, named


def bare(body: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(body) + packing.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate, bare": ("deflate", bare),
    "br": ("br", brotli.compress),
    "zstd": ("zstd", zstandard.compress),
}
each = pytest.mark.parametrize(("encoding", "encode"), ENCODERS.values(), ids=ENCODERS)
BODY = b'{"model":"m","messages":[]}' * 50


def test_every_known_encoding_is_tested() -> None:
    assert {encoding for encoding, _ in ENCODERS.values()} == set(KNOWN)


@each
def test_a_body_is_read_whole(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    assert decoded(encode(BODY), encoding, len(BODY)) == BODY


@each
def test_more_than_the_limit_is_not_read(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    assert decoded(encode(BODY), encoding, len(BODY) - 1) is None


@each
def test_a_bomb_is_not_unpacked(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    assert decoded(encode(b"\0" * 30_000_000), encoding, 1_000) is None


@each
def test_a_body_that_breaks_off_is_not_taken_for_whole(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    assert decoded(encode(BODY)[:-4], encoding, 10_000) != BODY


@each
def test_what_is_no_such_stream_is_not_understood(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    assert decoded(b"\xff\xfe not compressed at all", encoding, 1_000) is None


@each
def test_bytes_behind_the_end_are_not_dropped_silently(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    assert decoded(encode(BODY) + b"more", encoding, 10_000) is None


def test_several_frames_are_one_body() -> None:
    assert decoded(zstandard.compress(BODY) + zstandard.compress(BODY), "zstd", 10_000) == BODY * 2
    decoder = Decoder("zstd")
    assert decoder.feed(zstandard.compress(BODY)) + decoder.feed(zstandard.compress(BODY)) == BODY * 2


def test_nothing_is_nothing() -> None:
    assert Decoder("gzip").feed(b"") == b""


@pytest.mark.parametrize("encoding", ["compress", "gzip, br", "aes128gcm"])
def test_other_encodings_are_not_understood(encoding: str) -> None:
    assert decoded(BODY, encoding, 10_000) is None


@pytest.mark.parametrize(
    ("header", "name"), [(None, ""), ("", ""), ("identity", ""), (" GZIP ", "gzip"), ("gzip, br", "gzip, br")]
)
def test_the_name_of_an_encoding(header: str | None, name: str) -> None:
    assert named(header) == name


def test_no_encoding_is_no_copy() -> None:
    assert decoded(BODY, "", 0) is BODY


@given(kind=st.sampled_from(sorted(ENCODERS)), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_a_response_is_read_whatever_its_pieces(kind: str, cuts: list[int]) -> None:
    encoding, encode = ENCODERS[kind]
    whole, decoder = encode(BODY), Decoder(encoding)
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(places)]
    assert b"".join(decoder.feed(piece) for piece in pieces) == BODY


@each
def test_a_response_that_unpacks_to_too_much_at_once_is_given_up(
    encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    whole = encode(b"\0" * (MOST + 1))
    with pytest.raises(ValueError, match="too much"):
        Decoder(encoding).feed(whole)
    assert len(Decoder(encoding).feed(encode(b"\0" * MOST))) == MOST


@pytest.mark.slow
@each
def test_a_bomb_of_a_response_takes_no_memory(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    whole = encode(b"\0" * 40_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="too much"):
            Decoder(encoding).feed(whole)
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST
    finally:
        tracemalloc.stop()


@each
def test_a_response_that_unpacks_to_too_much_in_all_is_given_up(
    encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    whole, size = encode(BODY), len(BODY)
    assert Decoder(encoding, size).feed(whole) == BODY
    with pytest.raises(ValueError, match="too much"):
        Decoder(encoding, size - 1).feed(whole)


@each
def test_a_response_that_is_no_such_stream_is_an_error(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    decoder = Decoder(encoding)
    with pytest.raises(ValueError, match=encoding):
        b"".join(decoder.feed(b"\xff\xfe not compressed at all") for _ in range(3))
