"""What repairs would have saved: whether it is worth saying, and which level is enough for it.

With `cache.repair = "suggest"` the engine works out for every call what it would have cost with repairs
(`engine.repairs.savings`); here it is added up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from decimal import Decimal

from holdfast.store import Store

from .results import RepairSavings
from .tally import judged

LEAST = Decimal("0.05")
"""The part of what requests cost from which on it is said."""
NEARLY_ALL = Decimal("0.95")
"""The part of it from which on moving unambiguous values is enough."""


def worth_saying(saves: Decimal, exact: Decimal, cost: Decimal | None, level: str) -> RepairSavings | None:
    """Return the savings if they are at least a twentieth and the user has not chosen another `level`. `exact` is the
    part of `saves` for which moving unambiguous values is enough."""
    if level != "suggest" or not cost or saves < LEAST * cost:
        return None
    level_needed = "values" if exact >= NEARLY_ALL * saves else "on"
    return RepairSavings(saves=saves, cost=cost, share=float(saves / cost), command=f"holdfast repair {level_needed}")


def sentence(savings: RepairSavings, dollars: Callable[[Decimal], str]) -> str:
    """Return the sentence for all reports, which ends with the command to type."""
    saves, cost = dollars(savings.saves), dollars(savings.cost)
    return f"Repairs would have saved {saves} of {cost} so far ({savings.share:.0%}): {savings.command}"


def repair_savings(
    store: Store,
    level: str,
    *,
    start: int | None = None,
    end: int | None = None,
    tenant: str | None = None,
    session: str | None = None,
    calls: Collection[str] | None = None,
) -> RepairSavings | None:
    """The same of stored calls: those of the window, of one session, or those with these ids."""
    if level != "suggest":
        return None
    if calls is None:
        saves, exact, cost = store.repair_savings(tenant, session=session, start=start, end=end)
    else:
        saves, exact, cost = _of(store, tenant, calls)
    return worth_saying(saves, exact, cost, level)


def _of(store: Store, tenant: str | None, calls: Collection[str]) -> tuple[Decimal, Decimal, Decimal]:
    saves = exact = cost = Decimal(0)
    for id_ in dict.fromkeys(calls):
        row = store.call(tenant, id_)
        paid = None if row is None or row.usage is None else row.usage.cost
        if row is not None and paid is not None and (verdict := judged(row)).repairs is not None:
            saves += verdict.repairs
            exact += verdict.repairs if verdict.exact else 0
            cost += paid
    return saves, exact, cost
