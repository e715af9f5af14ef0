"""What a replay gives, as frozen values; its JSON is these values, field by field (docs/replay.md)."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from msgspec import Struct

Kind = Literal["engine", "peer", "bound", "billed"]
"""Who places the markers: our engine, another tool as it was found to do it, one who knows the future, or the client
itself when the session was recorded."""

RECORDED = "recorded"
"""Stands for a model where every lane is replayed on its own and there are several: the sum over all of them."""
BILLED = "as billed"
"""The row with the bills of the recorded requests."""


class BreakCount(Struct, frozen=True):
    cause: str
    breaks: int


class Spread(Struct, frozen=True, kw_only=True):
    """Cost over the optimum, session by session: the median, what nine in ten do not exceed, and the worst."""

    sessions: int
    p50: float
    p90: float
    worst: float


class Result(Struct, frozen=True, kw_only=True):
    """One strategy on one model, or on all models of the recording (`RECORDED`). `cost_usd` is the input side (reads,
    writes, plain input), `output_usd` is the same for all strategies. `cost_tokens` is in plain input tokens of the
    model; of several models it is a sum of tokens that do not cost the same, and dollars are what is compared.
    `over_optimal` divides by the optimum under the same rules, None where there is none."""

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
    sessions: int = 0
    spread: Spread | None = None
    over_billed: float | None = None
    """Its cost over the billed one, in the sessions with a known bill."""
    dearer: float | None = None
    """The share of these sessions in which it was dearer than the bill, by more than a thousandth."""


class SessionResult(Struct, frozen=True, kw_only=True):
    """One session of the above: for the spread behind a sum."""

    trace: str
    seed: int
    model: str
    strategy: str
    requests: int
    cost_tokens: Decimal
    over_optimal: float | None
    author: str = ""
    cost_usd: Decimal | None = None
    over_billed: float | None = None


def price_of(result: Result | SessionResult) -> Decimal:
    """By what results of one model, or of one set of models, are compared: tokens, or dollars where models differ."""
    if result.model != RECORDED:
        return result.cost_tokens
    return Decimal("inf") if result.cost_usd is None else result.cost_usd


class ReplayReport(Struct, frozen=True, kw_only=True):
    """A whole run. `optimum` is the bound that costs are divided by. `requests` counts the requests played under all
    strategies in `seconds`; `optimum_seconds` is the time of the search for the optimum."""

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
    authors: int = 1
    warm: int = 0
    """Sessions that began with something in the cache."""
