"""How many tokens a text has, estimated offline with OpenAI's o200k vocabulary.

One function of the text alone; the estimate of a request is the sum over its blocks, and `calibration` learns
what each model's own tokenizer makes of it. Knows no model and never asks the network.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from binascii import a2b_base64
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from tiktoken import Encoding

O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

# The split pattern and the special tokens that belong to the vocabulary; without them the counts differ. Of the pattern
# one branch is left out, `\s+(?!\S)`, which gives the last space of a run to the word behind it: a pattern that looks
# ahead takes half as long again. Without it the count of indented source code is within 1% of the published one (nine
# files in ten), that of other text nearly always the same.
_PATTERN = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+",
    ]
)
_SPECIAL = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}
_NONE: set[str] = set()  # of the special tokens none is allowed
_ID = 4  # bytes of a token in the encoder's buffer

EXACT_CHARS = 200_000
"""Texts up to this length are counted whole. Beyond, time grows faster than length in text without gaps."""

SAMPLES = 96
SAMPLE_CHARS = 2_048
"""Longer texts are judged by this many evenly spaced windows, so 10 MB take no longer than the limit.

On five texts of 0.4 to 1.2 MB (documents, source code, logs, mixtures) the error was below 1%; with 64 windows 5%.
"""

IMAGE_TOKENS = 1_600
"""What an embedded image or file counts: about the most an image costs after the providers scale it down.

Its base64 is not text and would be counted a thousandfold; only the provider knows the real size.
"""

_SHORTEST = 256  # bytes that hold anything embedded
_EMBEDDED = re.compile(
    rb'"data"\s*:\s*"[A-Za-z0-9+/=_\\-]{256,}"|data:[\w.+/\\-]{1,100};base64,[A-Za-z0-9+/=_\\-]{256,}'
)


def estimate(text: str) -> int:
    """Tokens of a text: counted in o200k up to EXACT_CHARS, scaled from evenly spaced windows above."""
    if len(text) <= EXACT_CHARS:
        return count(text)
    last_start = len(text) - SAMPLE_CHARS
    starts = (last_start * index // (SAMPLES - 1) for index in range(SAMPLES))
    sampled = sum(count(text[start : start + SAMPLE_CHARS]) for start in starts)
    return -(-sampled * len(text) // (SAMPLES * SAMPLE_CHARS))


def encode(text: str) -> list[int]:
    """The token ids of a text in o200k: for caches that match token by token. Long texts are cut into windows, since
    time grows faster than length in text without gaps; the borders cost a token each at most."""
    windows = (text[at : at + EXACT_CHARS] for at in range(0, len(text), EXACT_CHARS))
    return [token for window in windows for token in vocabulary().encode_ordinary(window)]


def estimate_json(raw: bytes) -> int:
    """Tokens of a block as it stands on the wire; embedded base64 counts IMAGE_TOKENS apiece."""
    if len(raw) < _SHORTEST or b"data" not in raw:
        return estimate(raw.decode("utf-8", "replace"))
    text, embedded = _EMBEDDED.subn(b"", raw)
    return estimate(text.decode("utf-8", "replace")) + embedded * IMAGE_TOKENS


def estimate_blocks(blocks: Iterable[str | bytes]) -> int:
    """Tokens of a request: the sum over its blocks, texts or wire bytes."""
    if isinstance(blocks, str | bytes):  # one block, not its characters
        blocks = (blocks,)
    return sum(estimate(block) if isinstance(block, str) else estimate_json(block) for block in blocks)


def heuristic_tokens(text: str) -> int:
    """Four characters to a token, at least one: the unit of the padding and skill budgets."""
    return max(1, len(text) // 4)


def count(text: str) -> int:
    """Tokens of a text, all of it counted."""
    # Text that looks like a special token is ordinary text: it came from a user, not from us. Of a buffer the size is
    # enough; a list would make a number of every token, a quarter of the time.
    encoding = vocabulary()
    try:
        return memoryview(encoding._core_bpe.encode_to_tiktoken_buffer(text, _NONE)).nbytes // _ID
    except (AttributeError, UnicodeEncodeError):  # half of a surrogate pair, or a library that has no such door
        return len(encoding.encode_ordinary(text))


@cache
def vocabulary() -> Encoding:
    """The encoder, loaded when it is first used."""
    return load_encoding(Path(__file__).parent / "vendor" / "o200k_base.tiktoken.gz")


def load_encoding(file: Path) -> Encoding:
    """The vocabulary in a gzipped file, refused unless it is exactly the one we were measured with."""
    try:
        data = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise HoldfastError(f"the token vocabulary {file} cannot be read ({error}); reinstall holdfast.") from error
    if hashlib.sha256(data).hexdigest() != O200K_SHA256:
        raise HoldfastError(f"the token vocabulary {file} is damaged (wrong SHA-256); reinstall holdfast.")
    # Imported here: tiktoken pulls in regex and its extension module, which `holdfast --help` need not pay.
    from tiktoken import Encoding

    # Ranks are the line numbers, which the hash guarantees.
    ranks = {a2b_base64(line.split(b" ", 1)[0]): rank for rank, line in enumerate(data.splitlines())}
    encoding = Encoding("o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL)
    ranks.clear()  # 20 MB that nobody needs any more: the encoder has a copy of its own
    return encoding
