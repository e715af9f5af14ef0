"""Chance without a generator: a number drawn from a seed and what it is drawn for, the same on every run."""

from __future__ import annotations

from hashlib import sha256


def chance(seed: int, *what: object) -> float:
    """A number in [0, 1) that looks random and depends on nothing but the seed and `what`."""
    text = "\0".join((str(seed), *map(str, what)))
    return int.from_bytes(sha256(text.encode()).digest()[:7], "big") / 256**7
