"""Token estimates: the vocabulary, odd texts, the sampled estimate of long ones, sums over blocks."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import socket
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import facts
from holdfast.errors import HoldfastError
from holdfast.facts import tokens
from holdfast.facts.tokens import EXACT_CHARS, IMAGE_TOKENS, O200K_SHA256, load_encoding

VENDORED = resources.files("holdfast.facts").joinpath("vendor", "o200k_base.tiktoken.gz")

COUNTS = [
    # counted with the published o200k_base encoding
    ("", 0),
    ("hello world", 2),
    ("tiktoken is great!", 6),
    ("antidisestablishmentarianism", 6),
    ("2 + 2 = 4", 7),
    ("お誕生日おめでとう", 8),
]


@pytest.mark.parametrize(("text", "count"), COUNTS)
def test_published_counts(text: str, count: int) -> None:
    assert facts.estimate(text) == count


CODE = """class Shelf:
    def __init__(self, books: list[str]) -> None:
        self.books = books
        self.lent: dict[str, str] = {}

    def lend(self, title: str, reader: str) -> bool:
        if title not in self.books or title in self.lent:
            return False
        self.lent[title] = reader
        for other in self.books:
            if other != title:
                print("still here:", other)
        return True
"""


@pytest.mark.parametrize(("text", "count"), [(CODE, 105), ("  two  spaces   and three\n\t\ttabs   \n", 12)])
def test_runs_of_spaces_are_counted_as_closely_as_the_published_way(text: str, count: int) -> None:
    assert abs(facts.estimate(text) - count) <= 1


def test_the_vocabulary_is_the_published_one_and_carries_its_licence() -> None:
    assert hashlib.sha256(gzip.decompress(VENDORED.read_bytes())).hexdigest() == O200K_SHA256
    assert O200K_SHA256 == "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
    licence = resources.files("holdfast.facts").joinpath("vendor", "LICENSE.tiktoken").read_text("utf-8")
    assert "MIT License" in licence
    assert "2022 OpenAI, Shantanu Jain" in licence


def test_no_network_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    tokens.vocabulary.cache_clear()
    assert facts.estimate("hello world") == 2


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|endofprompt|>", "a <|endoftext|> b"])
def test_special_tokens_are_ordinary_text(text: str) -> None:
    assert facts.estimate(text) > 3


@pytest.mark.parametrize(
    "text", ["\ud83d", "a\udc00b", "\ud83d" * 1000, "\x00\x01", "é", "e\u0301" * 50, "👩‍👩‍👧‍👦" * 20]
)
def test_odd_text_is_counted(text: str) -> None:
    assert 0 < facts.estimate(text) <= 4 * len(text)


@given(st.text())
def test_any_text_has_a_count_no_larger_than_its_bytes(text: str) -> None:
    count = facts.estimate(text)
    assert bool(count) == bool(text)
    assert count <= len(text.encode("utf-8", "surrogatepass"))
    assert facts.estimate(text) == count


def damaged(folder: Path, data: bytes) -> Path:
    path = folder / "o200k_base.tiktoken.gz"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("cut", [0, 10, 1000])
def test_a_cut_vocabulary_is_refused(tmp_path: Path, cut: int) -> None:
    with pytest.raises(HoldfastError, match="reinstall holdfast"):
        load_encoding(damaged(tmp_path, VENDORED.read_bytes()[:cut]))


def test_a_changed_or_foreign_vocabulary_is_refused(tmp_path: Path) -> None:
    changed = gzip.decompress(VENDORED.read_bytes()).replace(b"IQ== 0", b"IQ== 1", 1)
    with pytest.raises(HoldfastError, match="damaged"):
        load_encoding(damaged(tmp_path, gzip.compress(changed, 1)))
    with pytest.raises(HoldfastError, match="cannot be read"):
        load_encoding(damaged(tmp_path, b"not gzip"))
    with pytest.raises(HoldfastError, match="cannot be read"):
        load_encoding(tmp_path / "missing.gz")


def prose(seed: int, length: int) -> str:
    """Words, numbers, punctuation and lines in changing proportions, as in transcripts."""
    source = random.Random(seed)
    words = [
        "the",
        "agent",
        "reads",
        "file",
        "path",
        "error",
        "returned",
        "value",
        "while",
        "context",
        "cache",
        "prefix",
        "token",
        "because",
    ]
    parts: list[str] = []
    size = 0
    while size < length:
        kind = source.random()
        part = source.choice(words) if kind < 0.85 else str(source.randrange(10**6)) if kind < 0.93 else ".\n"
        parts.append(part)
        size += len(part) + 1
    return " ".join(parts)[:length]


def as_json(seed: int, length: int) -> str:
    source = random.Random(seed)
    rows = [{"id": source.randrange(10**9), "path": f"src/{source.randrange(999)}.py"} for _ in range(length // 30)]
    return json.dumps(rows)[:length]


def exact(text: str) -> int:
    return len(tokens.vocabulary().encode_ordinary(text))


def test_up_to_the_limit_the_count_is_exact_and_beyond_it_is_close() -> None:
    text = prose(1, EXACT_CHARS + 1)
    assert facts.estimate(text[:-1]) == exact(text[:-1])
    assert facts.estimate(text) == pytest.approx(exact(text), rel=0.02)


@pytest.mark.parametrize("text", [prose(2, 900_000), as_json(3, 900_000), prose(4, 400_000) + as_json(5, 400_000)])
def test_the_sampled_estimate_is_within_two_percent(text: str) -> None:
    assert facts.estimate(text) == pytest.approx(exact(text), rel=0.02)
    assert facts.estimate(text) == facts.estimate(text)


@pytest.mark.parametrize("character", ["a", " ", "\n", "1", "!", "漢"])
def test_a_megabyte_of_one_character_reads_no_more_than_the_samples(
    character: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    count = tokens.count

    def counted(text: str) -> int:
        read.append(len(text))
        return count(text)

    monkeypatch.setattr(tokens, "count", counted)
    assert 0 < facts.estimate(character * 1_000_000) <= 1_000_000
    assert sum(read) == tokens.SAMPLES * tokens.SAMPLE_CHARS < EXACT_CHARS


def test_ten_megabytes_are_scaled_from_the_samples() -> None:
    text = prose(6, 100_000)
    assert facts.estimate(text * 100) == pytest.approx(facts.estimate(text) * 100, rel=0.02)


def test_a_request_is_the_sum_of_its_blocks() -> None:
    blocks = ["You are helpful.", b'{"type":"text","text":"hi"}', "hello world"]
    assert facts.estimate_blocks(blocks) == 4 + facts.estimate_json(b'{"type":"text","text":"hi"}') + 2
    assert facts.estimate_blocks([]) == 0


PICTURE = base64.b64encode(random.Random(7).randbytes(30_000)).decode()
EMBEDDED = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
    {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
    {"inlineData": {"mimeType": "image/png", "data": PICTURE}},
]


@pytest.mark.parametrize("block", EMBEDDED)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_an_embedded_image_counts_as_an_image_in_every_dialect(
    block: dict[str, object], separators: tuple[str, str]
) -> None:
    estimated = facts.estimate_json(json.dumps(block, separators=separators).encode())
    assert IMAGE_TOKENS < estimated < IMAGE_TOKENS + 60


def test_short_data_fields_and_base64_in_prose_are_text() -> None:
    assert facts.estimate_json(b'{"data":"aGVsbG8="}') < 20
    assert facts.estimate_json(json.dumps({"text": PICTURE}).encode()) > 10_000


def test_bytes_that_are_not_utf_8_are_counted() -> None:
    assert facts.estimate_json(b'{"text":"\xff\xfe"}') > 0


@pytest.mark.parametrize(("text", "count"), [("", 1), ("abc", 1), ("abcd", 1), ("abcdefg", 1), ("abcdefgh", 2)])
def test_heuristic_tokens_are_four_characters_each_and_at_least_one(text: str, count: int) -> None:
    assert facts.heuristic_tokens(text) == count
