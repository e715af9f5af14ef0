"""What a usage costs, in exact decimals: prices of the genai-prices package, ours laid over them.

The package counts inclusively (its input contains the cached tokens) and our usage is disjoint, so only its
price lists are used, not its arithmetic. It takes a third of a second to import and is imported on the first
price. Prices of batch and other service tiers are told apart where they are asked for.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from datetime import UTC, date, datetime
from decimal import Context, Decimal, localcontext
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast.facts.catalogue import Facts, Resolved, default
from holdfast.facts.names import dotted, undated
from holdfast.records import UNSPLIT, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

_EXACT = Context(prec=60)
"""Wide enough that no product of a token count and a price is ever rounded, whatever the caller's context."""


class Rates(Struct, frozen=True, kw_only=True):
    """USD per token; `storage_hour` per token and hour where a cache is rented."""

    input: Decimal
    read: Decimal
    writes: tuple[tuple[str, Decimal], ...]
    output: Decimal
    default_ttl: str | None = None
    storage_hour: Decimal | None = None
    version: str

    def write(self, ttl: str | None = None) -> Decimal:
        """A write by TTL; unsplit ones as five-minute writes if these exist, unknown TTLs as the default."""
        name, otherwise = "5m" if ttl == UNSPLIT else ttl or "", self.input
        for named, price in self.writes:
            if named == name:
                return price
            if named == self.default_ttl:
                otherwise = price
        return otherwise


def rates(
    model: str, at: datetime | None = None, prompt_tokens: int = 0, *, facts: Facts | None = None
) -> Rates | None:
    """The rates of a request with so many prompt tokens (price cliffs), or None where no price is known."""
    catalogue = facts or default()
    if at is not None:
        return _rates(catalogue.resolve(model), at, prompt_tokens, catalogue)
    return _current(catalogue, model, int(time.time() // 60)).of(prompt_tokens)


SERVICES: dict[str, dict[str, str]] = {
    "batch": {"processing": "batch"},
    "priority": {"service_tier": "priority"},
    "flex": {"service_tier": "flex"},
}
"""The tiers that providers sell beside their standard one, and how the price list names them."""


class Tiers(Struct, frozen=True):
    """The rates of a model at one time: `steps` are the prompt sizes beyond which other prices hold."""

    steps: tuple[int, ...]
    rates: tuple[Rates | None, ...]

    def of(self, prompt_tokens: int) -> Rates | None:
        return self.rates[bisect_left(self.steps, prompt_tokens) - 1]


def tiers(model: str, at: datetime, *, facts: Facts | None = None, service: str = "") -> Tiers:
    """The rates of a model for prompts of every size: for those who price many requests of one time. `service` is the
    provider's tier (`SERVICES`), the standard one where it is empty; without a listed price of it the rates are None.
    """
    catalogue = facts or default()
    resolved, steps = catalogue.resolve(model), _steps(catalogue, model, at, service)
    return Tiers(steps, tuple(_rates(resolved, at, step + 1, catalogue, service) for step in steps))


def changes_between(model: str, start: datetime, end: datetime, *, facts: Facts | None = None) -> bool:
    """Whether a model may have several prices in this time: it was changed within, or is lower at night."""
    catalogue = facts or default()
    resolved: Resolved | None = catalogue.resolve(model)
    while resolved is not None:
        info = None if resolved.price_source is None else _listed_model(resolved.price_source, resolved.spellings)
        conditions = info.prices if info is not None and isinstance(info.prices, list) else []
        for each in conditions:
            if each.constraint is None:
                continue
            since = getattr(each.constraint, "start_date", None)
            if since is None or start.date() <= since <= end.date():
                return True
        resolved = catalogue.resolve(resolved.backed) if resolved.backed else None
    return False


@lru_cache(maxsize=1024)
def _current(facts: Facts, model: str, minute: int) -> Tiers:
    """As of this minute: asked for several times a request."""
    return tiers(model, datetime.fromtimestamp(minute * 60, UTC), facts=facts)


def _steps(facts: Facts, model: str, at: datetime, service: str = "") -> tuple[int, ...]:
    """The prompt sizes beyond which other prices hold."""
    steps = {-1}
    resolved: Resolved | None = facts.resolve(model)
    while resolved is not None:
        info = None if resolved.price_source is None else _listed_model(resolved.price_source, resolved.spellings)
        listed = None if info is None else _listed(info, at, service)
        values = () if listed is None else vars(listed).values()
        steps.update(tier.start for value in values for tier in getattr(value, "tiers", ()))
        resolved = facts.resolve(resolved.backed) if resolved.backed else None
    return tuple(sorted(steps))


def price(usage: Usage, model: str, *, at: datetime | None = None, facts: Facts | None = None) -> Usage:
    """The usage with cost and price version; without a known price the cost is None, with one warning."""
    catalogue = facts or default()
    listed = rates(model, at, usage.prompt, facts=catalogue)
    if listed is None:
        about = catalogue.model(model)
        if about.known:  # of others it was said before that nothing is known
            warning = f"no price known for model {about.ref!r}; its costs are left open"
            catalogue.warn_once(f"price {about.ref}", lambda: warning)
        return msgspec.structs.replace(usage, cost=None, price_version=None)
    add = _EXACT.fma  # a product added, under that context without entering it
    cost = add(usage.read, listed.read, _EXACT.multiply(usage.input, listed.input))
    cost = add(usage.output, listed.output, cost)
    for ttl, tokens in usage.writes:
        cost = add(tokens, listed.write(ttl), cost)
    return msgspec.structs.replace(usage, cost=cost, price_version=listed.version)


def _rates(model: Resolved, at: datetime, prompt_tokens: int, facts: Facts, service: str = "") -> Rates | None:
    listed = _listed_prices(model, at, prompt_tokens, service)
    own = model.prices
    if service and set(own) - {"storage_hour"}:  # they are those of the standard tier
        return None
    if listed is None and "input" not in own:
        return _rates(facts.resolve(model.backed), at, prompt_tokens, facts, service) if model.backed else None
    prices = (listed or {}) | own
    versions = [_package()] if listed is not None else []
    if set(own) - {"storage_hour"}:
        versions.append(f"overrides {model.prices_as_of.isoformat()}")
    version = "+".join(versions)
    with localcontext(_EXACT):
        per_token = {key: value.scaleb(-6) for key, value in prices.items()}
        base = per_token["input"]
        discount = model.facts.read if model.facts.known else Decimal(1)
        return Rates(
            input=base,
            read=per_token.get("read", base * discount),
            writes=tuple((ttl.name, _write(per_token, ttl.name, model)) for ttl in model.facts.ttls),
            output=per_token.get("output", Decimal(0)),
            default_ttl=model.facts.default_ttl,
            storage_hour=per_token.get("storage_hour"),
            version=version,
        )


def _write(per_token: dict[str, Decimal], ttl: str, model: Resolved) -> Decimal:
    base = per_token["input"]
    if ttl in per_token:
        listed = per_token[ttl]
    elif ttl in ("5m", "30m") and "write" in per_token:
        listed = per_token["write"]
    else:
        return base * model.facts.write(ttl)
    # No provider writes below the input price: such an entry lists the surcharge only (Gemini on OpenRouter).
    return listed if listed >= base else base + listed


@cache
def _package() -> str:
    from importlib import metadata  # slow, and asked for once

    return f"genai-prices {metadata.version('genai-prices')}"


def _listed_prices(model: Resolved, at: datetime, prompt_tokens: int, service: str = "") -> dict[str, Decimal] | None:
    """The package's prices of a model in our keys, USD per million tokens, on the right side of a cliff."""
    if model.price_source is None:
        return None
    info = _listed_model(model.price_source, model.spellings)
    if info is None:
        return None
    priced = _listed(info, at, service)
    if priced is None:
        return None
    members: dict[str, Any] = vars(priced)
    listed = {key: value for key, value in members.items() if value is not None}
    if not listed:  # listed without any price: free of charge
        return {"input": Decimal(0), "read": Decimal(0), "write": Decimal(0), "output": Decimal(0)}
    if "input_mtok" not in listed:  # billed by the hour or by characters
        return None
    keys = {
        "input": "input_mtok",
        "read": "cache_read_mtok",
        "write": "cache_write_mtok",
        "1h": "cache_write_1h_mtok",
        "output": "output_mtok",
    }
    return {ours: _at_size(listed[key], prompt_tokens) for ours, key in keys.items() if key in listed}


def _listed(info: ModelInfo, at: datetime, service: str) -> Any:
    """The package's prices of a model for a tier; None where it lists none. Tiers are listed from a day on: before that
    day its first prices count, since the tier was there."""
    if not service:
        return info.get_prices(at)
    context = SERVICES[service]
    variants = [each for each in info.price_variants or () if each.when == context]
    if not variants:
        return None
    first = min((getattr(each.constraint, "start_date", None) or date.min for each in variants), default=date.min)
    if at.date() < first:
        at = datetime(first.year, first.month, first.day, tzinfo=UTC)
    return info.get_prices(at, context)


def _at_size(value: Any, prompt_tokens: int) -> Decimal:
    if isinstance(value, Decimal):
        return value
    reached = [tier.price for tier in value.tiers if prompt_tokens > tier.start]
    return Decimal(reached[-1] if reached else value.base)


@lru_cache(maxsize=4096)
def _listed_model(source: str, names: tuple[str, ...]) -> ModelInfo | None:
    from genai_prices.data_snapshot import get_snapshot

    spellings = []
    for name in names:
        plain = undated(name)
        spellings += [name, plain, dotted(plain), plain.rsplit("/", 1)[-1]]
    for spelling in dict.fromkeys(spellings):
        try:
            return get_snapshot().find_provider_model(spelling, None, source, None)[1]
        except LookupError:
            continue
    return None
