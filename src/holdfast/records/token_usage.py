"""What a provider call consumed: four disjoint token counts, and what they cost."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

UNSPLIT = "unsplit"
"""The TTL of written tokens when the provider reported only their sum; priced like a five-minute write."""


Count = Annotated[int, Meta(ge=0)]


class Usage(Struct, frozen=True, kw_only=True):
    """Disjoint counts: `input` is what was neither read from nor written to a cache.

    `writes` holds (ttl, tokens) pairs sorted by ttl, without zeros: ("5m", 1200), ("1h", 300), ("30m", …).
    Build it with `usage()`, which keeps that order.
    """

    input: Count = 0
    read: Count = 0
    writes: tuple[tuple[str, Count], ...] = ()
    output: Count = 0
    cost: Decimal | None = None
    price_version: str | None = None

    @property
    def written(self) -> int:
        total = 0
        for _, tokens in self.writes:  # asked for a dozen times a call: quicker than `sum`
            total += tokens
        return total

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, however they were billed."""
        return self.input + self.read + self.written

    def written_for(self, ttl: str) -> int:
        return sum(tokens for name, tokens in self.writes if name == ttl)


def usage(*, input: int = 0, read: int = 0, output: int = 0, writes: dict[str, int] | None = None) -> Usage:
    """A Usage from plain counts; zero writes are left out, the rest sorted by TTL."""
    pairs = tuple(sorted((ttl, tokens) for ttl, tokens in (writes or {}).items() if tokens))
    return Usage(input=input, read=read, output=output, writes=pairs)
