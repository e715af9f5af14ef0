"""What a replay gives, as frozen values; its JSON is these values, field by field (docs/replay.md)."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from msgspec import Struct

Kind = Literal["engine", "peer", "bound"]
"""Who places the markers: our engine, another tool as it was found to do it, or one who knows the future."""


class BreakCount(Struct, frozen=True):
    cause: str
    breaks: int


class Result(Struct, frozen=True, kw_only=True):
    """One strategy on one model. `cost_usd` is the input side (reads, writes, plain input), `output_usd` is the same
    for all strategies. `over_optimal` divides by the optimum under the same rules, None where there is none."""

    model: str
    strategy: str
    kind: Kind
    requests: int
    input: int
    read: int
    writes: dict[str, int]
    output: int
    cost_tokens: Decimal
    cost_usd: Decimal | None
    output_usd: Decimal | None
    over_optimal: float | None
    hit_rate: float | None
    breaks: int
    resets: int
    causes: tuple[BreakCount, ...] = ()
    surprises: int = 0
    """Requests that read something else than the engine had predicted."""


class SessionResult(Struct, frozen=True, kw_only=True):
    """One session of the above: for the spread behind a sum."""

    trace: str
    seed: int
    model: str
    strategy: str
    requests: int
    cost_tokens: Decimal
    over_optimal: float | None


class Replayed(Struct, frozen=True, kw_only=True):
    """A whole run. `optimum` says by what is divided. `requests` counts what was played under all strategies, in
    `seconds`; the search for the optimum took `optimum_seconds` beside."""

    traces: tuple[str, ...]
    models: tuple[str, ...]
    gaps: str
    seeds: tuple[int, ...]
    fault: str | None
    noise: str | None
    ttl_raise: str
    optimum: str
    results: tuple[Result, ...]
    sessions: tuple[SessionResult, ...]
    requests: int
    seconds: float
    optimum_seconds: float = 0.0
    versions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
