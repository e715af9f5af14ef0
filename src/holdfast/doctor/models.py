"""What is known of models: dates of facts and prices, models without, tips."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from importlib import metadata

from holdfast.config import Config
from holdfast.facts import default, model, rates
from holdfast.report import TipAdvice, applicable, evidence, repair_savings, sentence
from holdfast.store import Store, open_existing
from holdfast.wording import counted, dollars, printable

from .checks import CheckResult

OLD_DAYS = 90
_EVER = 253_402_300_799_999_999
_NAMED = 5
LOW_FLOOR = 1024
"""Every agent's prompt, with its tools, is longer than this."""
_UPGRADE = "upgrade Holdfast, or lay newer ones over them with facts.overrides"


def dates(today: date) -> Iterator[CheckResult]:
    """How old facts and prices are."""
    newest: dict[str, date] = {}
    for each in default().models():
        provider = each.ref.partition(":")[0]
        newest[provider] = max(each.as_of, newest.get(provider, each.as_of))
    oldest = min(newest.values())
    old = sorted(name for name, day in newest.items() if (today - day).days > OLD_DAYS)
    age = counted(max(0, (today - oldest).days), "day")
    summary = f"facts of {counted(len(newest), 'provider')} as of {oldest}, {age} old"
    yield (
        CheckResult("warning", "facts", f"{summary}: {', '.join(old)}", _UPGRADE)
        if old
        else CheckResult("ok", "facts", summary)
    )
    last = _last_price(today)
    prices = f"prices of genai-prices {metadata.version('genai-prices')}"
    if last is not None:
        prices += f", whose last change of a price is of {last}"
    late = last is not None and (today - last).days > OLD_DAYS
    yield CheckResult("note" if late else "ok", "prices", prices, "pip install -U genai-prices" if late else "")


def _last_price(today: date) -> date | None:
    """The list has no date of its own: the last day on which it knows a price to have changed, up to today."""
    from genai_prices.data_snapshot import get_snapshot

    days = (
        getattr(each.constraint, "start_date", None)
        for provider in get_snapshot().providers
        for model_prices in provider.models
        for each in (model_prices.prices if isinstance(model_prices.prices, list) else ())
    )
    return max((day for day in days if isinstance(day, date) and day <= today), default=None)


def stored(config: Config) -> tuple[list[CheckResult], tuple[TipAdvice, ...]]:
    """Return results from the store about unknown models, and the tips that apply."""
    store = open_existing(config.settings.store.url, busy_timeout=0.3)
    if store is None:
        return [], ()
    with store:
        return [*_unknown(store), *_short(store), *_repairs(store, config)], applicable(
            evidence(store, config.settings), config.settings
        )


def _repairs(store: Store, config: Config) -> Iterator[CheckResult]:
    savings = repair_savings(store, config.settings.cache.repair)
    if savings is not None:
        yield CheckResult("note", "repairs", sentence(savings, dollars))


def _unknown(store: Store) -> Iterator[CheckResult]:
    used = [each.model for each in store.cache_effectiveness(0, _EVER).models if each.model]
    unknown = [name for name in used if not model(name).known]
    now = datetime.now(UTC)
    unpriced = [name for name in used if rates(name, now) is None]
    if unknown:
        finding = f"no facts about {_names(unknown)}: careful values are used"
        yield CheckResult("warning", "facts", finding, "describe them in a file of facts.overrides")
    if unpriced:
        yield CheckResult("note", "prices", f"no price of {_names(unpriced)}: costs are left open", "as above")


def _short(store: Store) -> Iterator[CheckResult]:
    """Models that have cached nothing because every prompt was below their floor, as far as sums can tell."""
    for each in store.cache_effectiveness(0, _EVER).models:
        if not each.model or not each.call_count or each.cached_tokens or each.creation_tokens:
            continue
        model_facts, prompt = model(each.model), each.uncached_tokens // each.call_count
        if model_facts.known and model_facts.caching != "none" and 0 < prompt < model_facts.floor:
            finding = (
                f"{printable(each.model[:80])} has cached nothing in {counted(each.call_count, 'call')}: prompts of "
                f"about {prompt:,} tokens are below the {model_facts.floor:,} it needs"
            )
            yield CheckResult("note", "floor", finding, _FLOOR_CURE)


_FLOOR_CURE = (
    "choose a model with a lower floor (`holdfast models`); only the prompts of `holdfast chat` and open_agent are "
    "padded, where that pays (cache.padding)"
)


def floors(config: Config) -> Iterator[CheckResult]:
    """Report agents without padding whose model has a high floor."""
    for agent in (None, *config.agents):
        settings = config.settings if agent is None else config.for_agent(agent)
        if settings.agent.model is None or settings.cache.padding != "off":
            continue
        model_facts = model(settings.agent.model)
        if model_facts.known and model_facts.caching != "none" and model_facts.floor > LOW_FLOOR:
            prefix = f"agent {printable(agent)}: " if agent else ""
            below = f"caches no prompt below {model_facts.floor:,} tokens"
            finding = f"{prefix}cache.padding is off, and {model_facts.ref} {below}"
            yield CheckResult(
                "note", "floor", finding, 'cache.padding = "economic" fills short prompts where that pays'
            )


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(printable(name[:80]) for name in names[:_NAMED]) + more
