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
    all_lines = tuple(lines)
    used = add(each.usage for each in all_lines)
    return CostLine(
        model=all_lines[-1].model if all_lines else model,
        usage=used,
        calls=sum(each.calls for each in all_lines),
        cost=summed(each.cost for each in all_lines),
        without=summed(each.without for each in all_lines),
        resets=tuple(reason for each in all_lines for reason in each.resets),
        breaks=sum(each.breaks for each in all_lines),
        short=max((each.short for each in all_lines), default=0) if all(each.short for each in all_lines) else 0,
        floor=max((each.floor for each in all_lines), default=0),
    )


def add(used: Iterable[Usage]) -> Usage:
    writes: dict[str, int] = {}
    input_ = read = output = 0
    for each in used:
        input_, read, output = input_ + each.input, read + each.read, output + each.output
        for ttl, tokens in each.writes:
            writes[ttl] = writes.get(ttl, 0) + tokens
    return usage(input=input_, read=read, output=output, writes=writes)


def used(lines: Iterable[CostLine]) -> tuple[int, ...]:
    """Return the calls and tokens of requests, in the form of events."""
    all_lines = tuple(lines)
    usage_ = add(each.usage for each in all_lines)
    return sum(each.calls for each in all_lines), usage_.input, usage_.read, usage_.written, usage_.output


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
