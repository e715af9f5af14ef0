"""Usage as providers report it, in JSON and in streams, turned into four disjoint counts.

Anthropic's counts are disjoint already; OpenAI-shaped and Gemini counts include the cached tokens, which are
subtracted. A count that is absent, null or not a number is zero; usage that is absent altogether is None.
"""

from __future__ import annotations

import json

import msgspec
from msgspec import Raw

from holdfast.records import UNSPLIT, Usage, usage

Counts = dict[str, object]
LARGEST = 2**53
"""No prompt is longer; a larger count is an error of whoever reported it and is not counted."""


def counts_of(raw: bytes | Raw) -> Counts | None:
    """A usage object as plain values; None if it is not an object. An absurd number costs only itself."""
    try:
        value = msgspec.json.decode(raw)
    except (RecursionError, UnicodeDecodeError):  # the latter for keys that are not UTF-8
        return None
    except msgspec.DecodeError:
        try:
            value = json.loads(bytes(raw), parse_int=lambda text: int(text) if len(text) < 20 else 0)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def count(counts: Counts, *path: str) -> int:
    """A non-negative whole number at a path of keys; zero where there is none."""
    value: object = counts
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return number(value)


def number(value: object) -> int:
    """A value as a non-negative whole number; zero where it is none."""
    if type(value) is int and 0 <= value < LARGEST:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST:
        return 0
    return int(value)


def anthropic_usage(counts: Counts) -> Usage:
    """`cache_creation` splits the writes by TTL; where only the sum is given it is not guessed."""
    split = counts.get("cache_creation")
    short = long = 0
    if isinstance(split, dict):
        short, long = number(split.get("ephemeral_5m_input_tokens")), number(split.get("ephemeral_1h_input_tokens"))
    writes: tuple[tuple[str, int], ...] = ()  # by TTL, in their order
    if long:
        writes = (("1h", long),)
    if short:
        writes += (("5m", short),)
    rest = number(counts.get("cache_creation_input_tokens")) - short - long
    if rest > 0:
        writes += ((UNSPLIT, rest),)
    return Usage(
        input=number(counts.get("input_tokens")),
        read=number(counts.get("cache_read_input_tokens")),
        writes=writes,
        output=number(counts.get("output_tokens")),
    )


def openai_usage(counts: Counts, write_ttl: str = "30m") -> Usage:
    """Chat Completions and Responses, and compatible servers (OpenRouter, DeepSeek, vLLM, llama.cpp).

    GPT-5.6 and later report `cache_write_tokens`, whose TTL is 30 minutes; earlier models write for free.
    """
    prompt = count(counts, "prompt_tokens") or count(counts, "input_tokens")
    details = (
        "prompt_tokens_details" if isinstance(counts.get("prompt_tokens_details"), dict) else "input_tokens_details"
    )
    read = count(counts, details, "cached_tokens") or count(counts, "prompt_cache_hit_tokens")
    written = count(counts, details, "cache_write_tokens") or count(counts, "cache_write_tokens")
    read = min(read, prompt)
    written = min(written, prompt - read)
    return usage(
        input=prompt - read - written,
        read=read,
        writes={write_ttl: written},
        output=count(counts, "completion_tokens") or count(counts, "output_tokens"),
    )


def gemini_usage(counts: Counts) -> Usage:
    """`promptTokenCount` includes the cached contents; thoughts are billed as output."""
    prompt = count(counts, "promptTokenCount") + count(counts, "toolUsePromptTokenCount")
    read = min(count(counts, "cachedContentTokenCount"), prompt)
    output = count(counts, "candidatesTokenCount") + count(counts, "thoughtsTokenCount")
    return usage(input=prompt - read, read=read, output=output)
