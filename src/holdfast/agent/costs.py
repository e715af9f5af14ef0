"""What requests cost and how well the cache served them, added up."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from holdfast import facts
from holdfast.records import Usage, usage

from .contract import CostLine


def line(model: str, used: Usage, *, resets: tuple[str, ...] = (), breaks: int = 0) -> CostLine:
    """One request."""
    priced = used if used.cost is not None else facts.price(used, model)
    plain = facts.price(usage(input=used.prompt, output=used.output), model)
    model_facts = facts.model(model)
    cached = used.read or used.written or model_facts.caching == "none"
    short = 0 if cached or used.prompt >= model_facts.floor else used.prompt
    return CostLine(
        model=model,
        usage=priced,
        cost=priced.cost,
        without=plain.cost,
        resets=resets,
        breaks=breaks,
        short=short,
        floor=model_facts.floor if short else 0,
    )


def total(lines: Iterable[CostLine], model: str) -> CostLine:
    """Several requests as one line. A cost that is not known for one of them is not known for all."""
    given = tuple(lines)
    used = add(each.usage for each in given)
    return CostLine(
        model=given[-1].model if given else model,
        usage=used,
        calls=sum(each.calls for each in given),
        cost=summed(each.cost for each in given),
        without=summed(each.without for each in given),
        resets=tuple(reason for each in given for reason in each.resets),
        breaks=sum(each.breaks for each in given),
        short=max((each.short for each in given), default=0) if all(each.short for each in given) else 0,
        floor=max((each.floor for each in given), default=0),
    )


def add(used: Iterable[Usage]) -> Usage:
    writes: dict[str, int] = {}
    given = read = output = 0
    for each in used:
        given, read, output = given + each.input, read + each.read, output + each.output
        for ttl, tokens in each.writes:
            writes[ttl] = writes.get(ttl, 0) + tokens
    return usage(input=given, read=read, output=output, writes=writes)


def used(lines: Iterable[CostLine]) -> tuple[int, ...]:
    """Calls and tokens of requests, as events tell them."""
    given = tuple(lines)
    whole = add(each.usage for each in given)
    return sum(each.calls for each in given), whole.input, whole.read, whole.written, whole.output


def summed(costs: Iterable[Decimal | None]) -> Decimal | None:
    """What several requests cost; unknown if one of them is."""
    total = Decimal(0)
    for each in costs:
        if each is None:
            return None
        total += each
    return total


def dollars(amount: Decimal) -> str:
    return f"${amount:.4f}"
