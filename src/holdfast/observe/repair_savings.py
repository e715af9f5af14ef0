"""What repairs would have saved: whether it is worth saying, and which level is enough for it.

With `cache.repair = "suggest"` the engine works out for every call what it would have cost with repairs
(`engine.repair_savings`); here it is added up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from decimal import Decimal

from holdfast.store import Call, Store

from .tally import judged
from .values import RepairSavings

LEAST = Decimal("0.05")
"""The part of what requests cost from which on it is said."""
NEARLY_ALL = Decimal("0.95")
"""The part of it from which on moving unambiguous values is enough."""


def worth_saying(saves: Decimal, exact: Decimal, cost: Decimal | None, level: str) -> RepairSavings | None:
    """What to say: nothing below a twentieth, and nothing where the user has chosen a `level` other than to be told.
    `exact` is the part of `saves` for which moving unambiguous values is enough."""
    if level != "suggest" or not cost or saves < LEAST * cost:
        return None
    wanted = "values" if exact >= NEARLY_ALL * saves else "on"
    return RepairSavings(saves=saves, cost=cost, share=float(saves / cost), command=f"holdfast repair {wanted}")


def sentence(found: RepairSavings, dollars: Callable[[Decimal], str]) -> str:
    """The one sentence in which it is said everywhere; it ends in what to type."""
    saves, cost = dollars(found.saves), dollars(found.cost)
    return f"Repairs would have saved {saves} of {cost} so far ({found.share:.0%}): {found.command}"


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
    found = _Sums()
    if calls is not None:
        for id_ in dict.fromkeys(calls):
            if (row := store.call(tenant, id_)) is not None:
                found.add(row)
    elif store.repair_savings(tenant, session=session, start=start, end=end)[0] > 0:
        store.visit_calls(found.add, tenant, session=session, start=start, end=end)
    return worth_saying(found.saves, found.exact, found.cost, level)


class _Sums:
    """Sums of the calls of which is stored what repairs would have saved: those that were made with `suggest` and are
    paid by the token."""

    def __init__(self) -> None:
        self.saves = self.exact = self.cost = Decimal(0)

    def add(self, call: Call) -> None:
        said = judged(call)
        if said.repairs is not None and call.usage is not None and call.usage.cost is not None:
            self.cost += call.usage.cost
            self.saves += said.repairs
            self.exact += said.repairs if said.exact else 0
