"""Prompts for the tests of cache rules: blocks named by letters, sizes in tokens."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from holdfast.caches import CacheControls, anthropic
from holdfast.caches.prompts import Block, Mark, Prompt
from holdfast.facts import ModelFacts, model

OPUS = model("anthropic:claude-opus-4-6")  # floor 4,096
SMALL = model("anthropic:claude-sonnet-5-5")  # floor 512


def block(name: str, tokens: int = 1_000, *, section: str = "messages", kind: str = "text", **more: object) -> Block:
    digest = sha256(f"{section}|{kind}|{name}".encode()).digest()[:16]
    role = str(more.pop("role", "user" if section == "messages" else section))
    return Block(section, kind, role, int(str(more.pop("message", 0))), digest, tokens, **more)  # type: ignore[arg-type]


def texts(names: Iterable[str], tokens: int = 1_000, **more: object) -> list[Block]:
    return [block(name, tokens, **more) for name in names]  # type: ignore[arg-type]


def prompt(blocks: Iterable[Block], *marks: tuple[int, str], model: ModelFacts = OPUS, **controls: Any) -> Prompt:
    """A prompt with markers at (block, ttl); negative blocks count from the end."""
    listed = list(blocks)
    placed = [Mark(at % len(listed), ttl) for at, ttl in marks]
    return anthropic.marked_prompt(model, listed, CacheControls(marks=placed, **controls))
