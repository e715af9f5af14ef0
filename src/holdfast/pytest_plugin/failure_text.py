"""The text of a failure: the first divergence in full, the others in a line each, and their cost per year.

Its reader is the author of the program under test: the cure names a change of that program, never a setting of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from textwrap import wrap

from holdfast.wording import counted

from .findings import Cost, PrefixCheck, Rate, UnstableRequest, dollars, yearly

MOST = 10
"""Further departures that are listed."""

_WIDTH = 72  # of a terminal with 80 columns, of which pytest takes eight
_LABEL = 9


def failure(checked: PrefixCheck, rate: Rate, *, missing_markers: bool = False) -> str:
    """The message of a check that failed."""
    lines: list[str] = []
    if checked.unstable:
        lines += _unstable(checked, rate)
    if missing_markers and checked.unmarked:
        lines += [""] if lines else []
        lines += _without_markers(checked)
    return "\n".join(lines)


def nothing_compared(checked: PrefixCheck, refused: list[str], at_least: int) -> str:
    """The message of a check that has proved nothing."""
    lines = [
        f"nothing was proved: {counted(checked.compared, 'request')} of {checked.requests} could be held against "
        f"an earlier one, and at least {at_least} had to be."
    ]
    if refused:
        were = "was" if len(refused) == 1 else "were"
        lines.append(f"{counted(len(refused), 'request')} {were} refused; the first: {refused[0]}")
    elif not checked.requests:
        lines.append(
            "No request was recorded. A client that was made before the fixture has its own address: make it in the "
            "test, or give it prefix_recorder.base_url(…)."
        )
    elif checked.parts:
        lines.append(
            f"{counted(checked.parts, 'request')} held only what was new, the provider has the rest: record them with "
            "prefix_recorder, which puts them together."
        )
    elif checked.requests > 1:
        some = "None of them continues" if not checked.compared else "The others do not continue"
        lines.append(f"{some} another; where they do, say so with lane=.")
    lines.append("A check that need not prove anything says at_least=0.")
    return "\n".join(each for line in lines for each in _paragraph("", line))


def _unstable(checked: PrefixCheck, rate: Rate) -> Iterator[str]:
    unstable = checked.unstable
    first, others = unstable[0], unstable[1:]
    yield (
        f"the prompt prefix is not stable: {len(unstable)} of {counted(checked.requests, 'request')} "
        f"{'does' if len(unstable) == 1 else 'do'} not begin with what was sent before."
    )
    yield ""
    yield from _first(checked, first)
    if others:
        yield ""
        yield "The others:"
        for one in others[:MOST]:
            yield from _wrapped(_short(checked, one), "  ", "      ")
        if len(others) > MOST:
            yield f"  … and {len(others) - MOST:,} more"
    yield ""
    yield from _paragraph("", _sum(checked, rate))


def _first(checked: PrefixCheck, one: UnstableRequest) -> Iterator[str]:
    yield f"Request {one.request} of {checked.requests} ({_which(checked, one)}) departs from request {one.earlier}"
    inside = f" of the body, {one.inside:,} of the block" if one.inside is not None else ""
    yield from _paragraph("at", f"{_place(one)}{inside}")
    before, after = one.before, one.after
    if before is not None or after is not None:
        yield f"  before   {'(nothing)' if before is None else before}"
        yield f"  after    {'(nothing)' if after is None else after}"
        if before is not None and after is not None and not before.startswith("("):
            yield " " * (_LABEL + 2 + one.at) + "^"
    yield f"  cause    {one.cause}"
    yield from _paragraph("cure", f"{one.cure.name}: {one.cure.in_your_code or one.cure.sentence}")
    yield from _paragraph("cost", _cost(one.cost))


def _which(checked: PrefixCheck, one: UnstableRequest) -> str:
    names = [one.dialect, one.model]
    if checked.conversations > 1 or not one.conversation.startswith("conversation "):
        names.insert(0, one.conversation)
    return ", ".join(name for name in names if name)


def _place(one: UnstableRequest) -> str:
    if one.offset is None:
        return one.path
    return f"{one.path}, byte {one.offset:,}"


def _cost(cost: Cost) -> str:
    tokens = counted(cost.tokens, "token")
    if cost.today and cost.why:
        return f"nothing today: {cost.why}"
    if cost.today:
        price = "; no price is known for this model" if cost.dollars is None else f": {dollars(cost.dollars)} each time"
        return f"{tokens} billed again instead of read{price}"
    price = "" if cost.dollars is None else f": {dollars(cost.dollars)} each time"
    return f"nothing today: {cost.why}; otherwise {tokens} would be billed again instead of read{price}"


def _short(checked: PrefixCheck, one: UnstableRequest) -> str:
    lane = f", {one.conversation}" if checked.conversations > 1 else ""
    price = "" if one.cost.dollars is None else f", {dollars(one.cost.dollars)}"
    cost = f"{one.cost.tokens:,} tokens{price}"
    return f"request {one.request}{lane}: {one.cause} at {_place(one)}: {cost} ({one.cure.name})"


def _sum(checked: PrefixCheck, rate: Rate) -> str:
    unstable = checked.unstable
    models = ", ".join(dict.fromkeys(one.cost.model for one in unstable if one.cost.model))
    year = yearly(unstable, checked.requests, rate)
    if year is None:
        tokens = sum(one.cost.tokens for one in unstable) * rate.per_year(checked.requests)
        no_price = f"no price is known for {models or 'the model'}"
        return f"At {rate} that is {tokens:,.0f} tokens a year billed again; {no_price} (model= names another)."
    prices = ", ".join(dict.fromkeys(one.cost.prices for one in unstable if one.cost.prices))
    once = sum((one.cost.dollars for one in unstable if one.cost.dollars is not None), Decimal(0))
    verb = "is" if all(one.cost.today for one in unstable) else "would be"
    return (
        f"Together {dollars(once)} in these {counted(checked.requests, 'request')}. At {rate} that {verb} "
        f"{dollars(year)} a year ({dollars(year / 12)} a month); {models}, prices of {prices}."
    )


def _without_markers(checked: PrefixCheck) -> Iterator[str]:
    for name in checked.unmarked:
        yield from _paragraph(
            "",
            f"{name} carries no cache marker although its prompt is long enough to be cached: let your program put "
            "`cache_control` on the last block of every request.",
        )


def _paragraph(label: str, text: str) -> Iterator[str]:
    margin = " " * (_LABEL + 2) if label else ""
    yield from _wrapped(text, f"  {label:<{_LABEL}}" if label else "", margin)


def _wrapped(text: str, first: str, margin: str) -> list[str]:
    return wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    )
