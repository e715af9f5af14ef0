"""How well the providers' caches were used, per model and in all, from the hourly sums: quick over any window."""

from __future__ import annotations

from decimal import Decimal

from holdfast.facts import rates
from holdfast.store import ModelEffectiveness, Store, is_subscription

from .results import Effectiveness, Effectivenesses, TimeWindow
from .tally import LAST, moment, plus


def cache_effectiveness(
    store: Store, *, start: int | None = None, end: int | None = None, tenant: str | None = None
) -> Effectivenesses:
    """Calls that started in the window and were answered."""
    found = store.cache_effectiveness(0 if start is None else start, LAST if end is None else end, tenant)
    listed = _at_list_price(store, found.start, found.end, tenant)
    models = tuple(_of(each, _cost(each), listed.get(each.model)) for each in found.models)
    known: Decimal | None = None
    for model in models:
        known = plus(known, model.cost)
    covered = TimeWindow(None if start is None else moment(found.start), None if end is None else moment(found.end))
    return Effectivenesses(window=covered, models=models, total=_of(found.total, known, listed.get(None)))


def _at_list_price(store: Store, start: int, end: int, tenant: str | None) -> dict[str | None, Decimal]:
    """What subscriptions' logins would have cost, by model and in all."""
    found: dict[str | None, Decimal] = {}
    for name in store.tenants() if tenant is None else [tenant]:
        if is_subscription(name):
            theirs = store.cache_effectiveness(start, end, name)
            for each in (*theirs.models, theirs.total):
                if each.call_count:
                    found[each.model] = plus(found.get(each.model), each.cost) or Decimal(0)
    return found


def _cost(each: ModelEffectiveness) -> Decimal | None:
    """None where no price is known: the sums count that as nothing."""
    used = each.uncached_tokens + each.cached_tokens + each.creation_tokens + each.output_tokens
    if used and not each.cost and each.model is not None and rates(each.model) is None:
        return None
    return each.cost


def _of(each: ModelEffectiveness, cost: Decimal | None, listed: Decimal | None) -> Effectiveness:
    return Effectiveness(
        model=each.model,
        call_count=each.call_count,
        uncached_tokens=each.uncached_tokens,
        cached_tokens=each.cached_tokens,
        creation_tokens=each.creation_tokens,
        output_tokens=each.output_tokens,
        hit_rate=each.hit_rate,
        cache_write_share=each.cache_write_share,
        cost=cost,
        list_price=listed,
    )
