"""Packed logs that break off are read as far as they go, and that they break off is told."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from holdfast.report.logs.discovery import records, sniff, sources
from holdfast.report.logs.lines import lines
from holdfast.report.logs.records import BrokenSource

LINE = (
    b'{"session":"s","request":1,"at":%d,"first_token_at":null,"model":"claude-opus-4-6","added":[],'
    b'"usage":{"input":1,"read":0,"write_5m":%d,"write_1h":0,"output":5}}\n'
)
TEXT = b"".join(LINE % (n, n * 7919 % 9973) for n in range(1_000))


def squeezed(text: bytes) -> bytes:
    """Many blocks, so that a part of the file is a part of the text."""
    packer = zstandard.ZstdCompressor(level=1, write_checksum=True).compressobj()
    parts = [
        packer.compress(text[at : at + 5_000]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for at in range(0, len(text), 5_000)
    ]
    return b"".join(parts) + packer.flush()


PACK = {"gz": gzip.compress, "zst": squeezed}


@pytest.mark.parametrize("form", PACK)
@pytest.mark.parametrize("left", [0.3, 0.9, 0.9999])
def test_a_file_that_breaks_off(tmp_path: Path, form: str, left: float) -> None:
    packed = PACK[form](TEXT)
    path = tmp_path / f"log.jsonl.{form}"
    path.write_bytes(packed[: int(len(packed) * left)])
    assert sniff(path) == "shapes"
    (source,) = sources([path])
    *read, last = records(source, lambda _: None)
    assert not any(isinstance(record, BrokenSource) for record in read)
    assert len(read) > left * 700
    assert isinstance(last, BrokenSource)
    assert ".jsonl." in last.source
    assert "cannot be read" in last.why


@pytest.mark.parametrize("form", PACK)
def test_whole_files(tmp_path: Path, form: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACK[form](TEXT[:50_000]) + PACK[form](TEXT[50_000:]))
    assert b"".join(found[1] for found in lines(path, lambda _: None) if not isinstance(found, BrokenSource)) == TEXT


@pytest.mark.parametrize(
    "settings",
    [
        {"write_checksum": False},
        {"write_checksum": True, "write_content_size": False},
        {"level": 19, "write_dict_id": False},
    ],
)
@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000, 200_000])
def test_frames_of_every_form_are_whole(tmp_path: Path, settings: dict[str, int], size: int) -> None:
    skipped = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    path = tmp_path / "log"
    frame = zstandard.ZstdCompressor(**settings).compress(
        (b"x" * size) + b"\n"
    )  # a repeated byte is a block of its own
    path.write_bytes(frame + skipped + frame)
    found = list(lines(path, lambda _: None))
    assert not any(isinstance(each, BrokenSource) for each in found)
    path.write_bytes(frame + skipped + frame[:-1])
    assert isinstance(list(lines(path, lambda _: None))[-1], BrokenSource)
