"""What sums of calls are made of, whatever database keeps them: hours, price steps, verdicts, shares."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal

import msgspec
from msgspec import Struct

from .rows import ModelEffectiveness

HOUR = 3_600_000_000
"""An hour in microseconds."""
DAY = 24 * HOUR

EXACT = Context(prec=60)
"""Wide enough that a sum of dollars is never rounded, whatever the caller's context."""

SIZES = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
"""Prompt sizes beyond which some model has another price. The sums of larger and smaller prompts are kept apart."""


def hour_of(at: int) -> int:
    """The first microsecond of the hour."""
    return at - at % HOUR


class StoredVerdict(Struct, frozen=True):
    """The stored part of a call's verdict."""

    explained: bool | None = None
    saved: Decimal | None = None
    """Dollars saved against the client alone."""
    estimated: bool = False
    """A part of the usage is an estimate."""
    possible: Decimal | None = None
    """The highest possible bill of a call that was abandoned before its answer began."""
    repairs: Decimal | None = None
    """Dollars that repairs would have saved."""
    exact: bool = False
    """Moving unambiguous values is enough for that."""


_NO_VERDICT = StoredVerdict()
_verdict = msgspec.json.Decoder(StoredVerdict, strict=False)


def read_verdict(data: bytes | None) -> StoredVerdict:
    """A call's verdict; nothing where another version wrote it in another form."""
    if not data:
        return _NO_VERDICT
    try:
        return _verdict.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _NO_VERDICT


def has_estimate(verdict: bytes | None) -> bool:
    """Return whether a call's usage is partly estimated: its answer was cut off, or is still arriving."""
    return verdict is not None and b'"estimated":true' in verdict


def effectiveness(model: str | None, counts: Sequence[int], cost: Decimal) -> ModelEffectiveness:
    """The one definition of hit rate and write share: over all prompt tokens, None when there were none."""
    calls, uncached, read, written, output = counts
    prompt = uncached + read + written
    return ModelEffectiveness(
        model=model,
        call_count=calls,
        uncached_tokens=uncached,
        cached_tokens=read,
        creation_tokens=written,
        output_tokens=output,
        cost=cost,
        hit_rate=read / prompt if prompt else None,
        cache_write_share=written / prompt if prompt else None,
    )
