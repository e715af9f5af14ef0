"""Prompts for the caches that match token by token: runs of token ids in blocks."""

from __future__ import annotations

from array import array
from hashlib import sha256
from typing import Any

from holdfast.caches import CacheControls, chain
from holdfast.caches.prompts import Block, Cache, Mark, Outcome, Prompt, Section

ORDER: tuple[Section, ...] = ("system", "tools", "messages")


def run(start: int, count: int) -> list[int]:
    """So many different tokens."""
    return list(range(start, start + count))


def block(
    ids: list[int], role: str = "user", message: int = 0, section: Section = "messages", kind: str = "text"
) -> Block:
    raw = array("I", ids).tobytes()
    digest = sha256(raw + f"{role} {kind}".encode()).digest()[:16]
    return Block(section, kind, role, message, digest, len(ids), ids=raw)


def prompt(*blocks: Block, salts: dict[Section, bytes] | None = None, **controls: Any) -> Prompt:
    return chain.build("model", blocks, CacheControls(**({"scope": "us"} | controls)), order=ORDER, salts=salts)


def tokens(ids: list[int], **more: object) -> Prompt:
    return prompt(block(ids), **more)  # type: ignore[arg-type]


def marks(*blocks: int) -> list[Mark]:
    return [Mark(index, "30m") for index in blocks]


def ask(cache: Cache, asked: Prompt, now: float = 0.0, output: list[int] | None = None) -> Outcome:
    """One whole request: it begins, answers at once and ends."""
    outcome = cache.begin(asked, now)
    cache.first_token(outcome, now)
    cache.finish(outcome, [block(output, "assistant")] if output else [], now)
    return outcome
