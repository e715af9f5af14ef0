"""What is known of one model: frozen values with a date and a source.

Multipliers are `Decimal`: they are figures copied from documents (0.025, 1.25) that multiply Decimal prices,
and an exact product is what makes a predicted cost comparable with a billed one. Knows neither files nor
prices.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from holdfast.records import UNSPLIT, Capabilities

Caching = Literal["explicit", "automatic", "mixed", "none"]
"""explicit: only at markers; automatic: by itself; mixed: both; none: not at all."""

LateTools = Literal["references", "additional"]
"""How a tool is made known in the middle of a conversation without touching what came before. references: declared
with `defer_loading`, it is named by a `tool_reference` in a result (Messages); additional: an `additional_tools` item
holds its definition (Responses)."""

UsageConvention = Literal["inclusive", "exclusive"]
"""Whether the reported prompt includes the cached tokens (subtract them) or not (add them)."""


Count = Annotated[int, Meta(ge=0)]


class Ttl(Struct, frozen=True):
    """A time to live under its provider's name for it."""

    name: str
    seconds: int


class Cliff(Struct, frozen=True):
    """Above this many prompt tokens the whole request pays `factor` times the input price.

    For readers and predictions; the cost of a usage comes from the price source.
    """

    above: Count
    factor: Decimal


class Flags(Struct, frozen=True, kw_only=True):
    thinking: bool = False
    images: bool = False
    tools: bool = True
    system: bool = True
    structured_output: bool = False
    streaming: bool = True
    parallel_tools: bool = False


class TokenLimits(Struct, frozen=True, kw_only=True):
    """Numbers only some providers have; None where they do not apply."""

    explicit_markers: Count | None = None
    implicit_extra_markers: Count | None = None
    lookup_first: Count | None = None
    lookup_endings: Count | None = None
    cache_key_chars: Count | None = None
    requests_per_minute: Count | None = None
    in_memory_max_seconds: Count | None = None
    sticky_seconds: Count | None = None
    block_tokens: Count | None = None
    block_tokens_cpu: Count | None = None
    unread_tail_tokens: Count | None = None
    reserved_blocks: Count | None = None
    slot_similarity: Decimal | None = None
    slot_keep: Decimal | None = None
    host_keep: Decimal | None = None


class Knobs(Struct, frozen=True, kw_only=True):
    """What no source settles, with the default chosen; None where it does not apply."""

    ttl_raise: Literal["yes", "no"] | None = None
    refresh_whole_prefix: bool | None = None
    upgrade_5m_by_1h: bool | None = None
    collapse_tool_runs: bool | None = None
    effort_invalidates: Literal["messages", "all"] | None = None
    implicit_hit_probability: Annotated[float, Meta(ge=0, le=1)] | None = None
    implicit_seconds: Count | None = None
    lookup_latest: Count | None = None
    route_tokens: Count | None = None
    unit_interval: Annotated[int, Meta(ge=1)] | None = None


class ModelFacts(Struct, frozen=True, kw_only=True, dict=True, cache_hash=True):
    """Everything the cache rules need to know of a model on a route.

    `lookback` 0 means the provider does not walk back from a marker. `conservative` names the fields that no
    source states. `read` and `writes` are shares of the base input price.
    """

    provider: str
    name: str
    known: bool
    floor: int
    granularity: int
    ttls: tuple[Ttl, ...]
    default_ttl: str | None
    lookback: int
    max_markers: int
    read: Decimal
    writes: tuple[tuple[str, Decimal], ...]
    caching: Caching
    marker: str | None
    automatic_field: bool
    breakpoints: bool
    retention_field: bool
    mid_system: bool
    strips_thinking: bool
    prewarm: bool
    diagnostics: bool
    reports_writes: bool
    usage_note: str | None
    context_limit: int
    output_limit: int
    cliff: Cliff | None
    flags: Flags
    limits: TokenLimits
    knobs: Knobs
    usage: UsageConvention
    conservative: tuple[str, ...]
    as_of: date
    source: str
    late_tools: LateTools | None = None
    """None where no source states a way; over other APIs than the one named there is none."""
    efforts: tuple[str, ...] = ()
    """Levels of effort that a request may ask for, the least first; none where no source states any."""
    thinking_budgets: tuple[tuple[str, int], ...] = ()
    """Tokens for thinking that stand for a level, where the model takes a budget and no level."""
    adaptive_thinking: bool = False
    """It thinks only where it is asked to, and decides itself how much."""

    @cached_property  # asked for dozens of times a request
    def ref(self) -> str:
        return f"{self.provider}:{self.name}"

    def ttl_seconds(self, ttl: str) -> int | None:
        for each in self.ttls:  # asked for dozens of times a request: a loop is three times as fast as `next`
            if each.name == ttl:
                return each.seconds
        return None

    def write(self, ttl: str | None = None) -> Decimal:
        """The write multiplier of a TTL; the default TTL's for None, unsplit writes and unknown TTLs."""
        by_ttl = dict(self.writes)
        if ttl is not None and ttl != UNSPLIT and ttl in by_ttl:
            return by_ttl[ttl]
        return by_ttl.get(self.default_ttl or "", Decimal(1))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            **structs.asdict(self.flags),
            supports_prompt_caching=self.caching != "none",
            context_limit=self.context_limit,
            output_limit=self.output_limit,
        )
