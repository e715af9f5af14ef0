"""Lines come one by one with their places, whatever else the file holds, as far as a packed file goes."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from holdfast.report.logs import lines as module
from holdfast.report.logs.discovery import records, sniff, sources
from holdfast.report.logs.lines import beginning, lines, objects
from holdfast.report.logs.records import BrokenSource


class Told:
    """Adds up what `advance` is told."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self, more: int) -> None:
        self.bytes += more


def read(path: Path) -> tuple[list[tuple[str, bytes] | BrokenSource], int]:
    told = Told()
    return list(lines(path, told)), told.bytes


def test_each_line_has_its_place_and_blank_ones_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\r\n\n   \n{"b":2}\n{"c":3}')
    assert read(path) == (
        [("log.jsonl:1", b'{"a":1}\r\n'), ("log.jsonl:4", b'{"b":2}\n'), ("log.jsonl:5", b'{"c":3}')],
        path.stat().st_size,
    )


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.touch()
    assert read(path) == ([], 0)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_packed_files_are_unpacked_and_the_packed_bytes_are_told(tmp_path: Path, pack) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "log.jsonl.packed"
    whole = b"".join(b'{"n":%d,"x":"%b"}\n' % (n, os.urandom(2000).hex().encode()) for n in range(500))
    path.write_bytes(pack(whole[: len(whole) // 2]) + pack(whole[len(whole) // 2 :]))
    found, told = read(path)
    assert b"".join(line for _, line in found) == whole  # type: ignore[misc]
    assert found[-1][0] == "log.jsonl.packed:500"  # type: ignore[index]
    assert told == path.stat().st_size
    assert beginning(path) == whole[: module.START]


def test_a_packed_file_that_breaks_off_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    whole = b"".join(b'{"n":%d,"x":"%b"}\n' % (n, os.urandom(5000).hex().encode()) for n in range(500))
    path.write_bytes(gzip.compress(whole)[:-200_000])
    found, _ = read(path)
    assert len(found) > 100
    assert isinstance(found[-1], BrokenSource)
    assert found[-1].source == f"log.jsonl.gz:{len(found)}"
    assert found[-1].why.startswith("cannot be read (")


@pytest.mark.parametrize("tail", [b"\n", b""], ids=["newline", "end"])
def test_a_line_that_is_too_long_is_broken_and_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: bytes
) -> None:
    monkeypatch.setattr(module, "LONGEST", 2**20)
    path = tmp_path / "log.jsonl"
    with path.open("wb") as file:
        file.write(b"first\n")
        for _ in range(40):
            file.write(b"x" * 2**20)
        file.write(tail)
        if tail:
            file.write(b"y" * 2**20 + b"\nlast\n")
    tracemalloc.start()
    found, told = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2**20
    assert told == path.stat().st_size
    assert found[:2] == [("log.jsonl:1", b"first\n"), BrokenSource("log.jsonl:2", "the line is longer than 1 MiB")]
    # A newline is part of a line: one of 2**20 bytes and a newline is too long by one.
    assert found[2:] == (
        [BrokenSource("log.jsonl:3", "the line is longer than 1 MiB"), ("log.jsonl:4", b"last\n")] if tail else []
    )


def test_what_cannot_be_opened_is_one_broken_source(tmp_path: Path) -> None:
    assert read(tmp_path / "gone.jsonl") == (
        [BrokenSource("gone.jsonl", "cannot be read (No such file or directory)")],
        0,
    )
    assert read(tmp_path)[0] == [BrokenSource(tmp_path.name, "cannot be read (Is a directory)")]


def test_a_file_that_may_not_be_read_is_one_broken_source(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"{}\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file; run the tests as another one")
    assert read(path) == ([BrokenSource("log.jsonl", "cannot be read (Permission denied)")], 0)


def test_the_first_objects_are_told_by_their_members() -> None:
    start = b'not json\n{"a": {"type": "x"}, "b": "\\"type\\""}\n[1]\n\xff\xfe\n{"c": 1}\n{"cut": "her'
    assert [list(members) for members in objects(start)] == [["a", "b"], ["c"]]


def test_of_a_first_line_that_is_cut_the_whole_members_are_told() -> None:
    nested = {
        "one": 'a, "b": [{',
        "two": {"x": [1, 2], "y": "}"},
        "three": 3,
        "message": {"content": "z" * module.START},
    }
    start = json.dumps(nested).encode()[: module.START]
    assert [{name: bytes(raw) for name, raw in members.items()} for members in objects(start)] == [
        {name: json.dumps(nested[name]).encode() for name in ("one", "two", "three")}
    ]


@pytest.mark.parametrize("junk", [b"\x00" * 70_000, b"{," * 40_000, b"[" * 70_000, b'"' * 70_000, b'{"a":' * 20_000])
def test_junk_has_no_members(junk: bytes) -> None:
    assert list(objects(junk[: module.START])) == [{}]


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
