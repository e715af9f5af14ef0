"""`holdfast bill`: what was paid, for what, and what it would have been otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC

import click
from msgspec.structs import replace

from holdfast import report
from holdfast.cli.repair_words import sentence
from holdfast.cli.tables import STARRED, Column, dollars, priced
from holdfast.config import load_config
from holdfast.report import Bill, SessionSums, Sums
from holdfast.wording import counted

from . import completion, tables
from .store_options import in_window, looking, nothing_yet, print_json, session_of, window_options

BY = ("model", "session", "client", "day", "kind")
_GONE = "(no longer stored)"


@click.command()
@click.option(
    "--by", default="model", show_default=True, type=click.Choice(BY), help="What to add up by; JSON has all."
)
@click.option("--session", metavar="ID", shell_complete=completion.sessions, help="Only of this session.")
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1, 100_000), help="At most so many lines; all count."
)
@window_options
def command(
    by: str,
    session: str | None,
    since: int | None,
    until: int | None,
    tenant: str | None,
    json_: bool,
    limit: int,
) -> None:
    """Add up what was paid.

    NO CACHE is what the same tokens would have cost if all of them had been billed as plain input, LOST what breaks
    cost, SAVED what the client alone would have paid more; Holdfast's own agent has no such client. Side requests
    (titles and the like), calls that went past Holdfast (bypassed) and keep-alive pings count. Days are those of this
    machine's time zone, with --json those of UTC.

    \b
    Examples:
      holdfast bill
      holdfast bill --by day --since 30d
      holdfast bill --by session --since today
      holdfast bill --since 2026-11-01 --json
    """
    with looking(since, until) as store:
        if store is None:
            nothing = report.window(since, until)
            bill = Bill(window=nothing, total=Sums(), models=(), sessions=(), clients=(), days=(), kinds=())
        else:
            tenant, session = session_of(store, tenant, session)
            zone = UTC if json_ else None
            bill = report.bill(store, start=since, end=until, tenant=tenant, session=session, zone=zone)
            level = load_config().settings.cache.repair
            repairs = report.repair_savings(store, level, start=since, end=until, tenant=tenant, session=session)
            bill = replace(bill, repairs=repairs)
    if json_:
        print_json(bill)
    elif store is None:
        click.echo(nothing_yet())
    elif not bill.total.calls:
        click.echo(f"There is nothing to pay{in_window(since, until)}.")
    else:
        tables.show(_lines(bill, by, limit, tables.width()))


def _lines(bill: Bill, by: str, limit: int, room: int | None) -> Iterator[str]:
    groups: Sequence[Sums] = getattr(bill, f"{by}s")
    shown = groups[-limit:] if by == "day" else groups[:limit]
    saved = bill.total.saved is not None
    names = _session_names(bill.sessions[:limit]) if by == "session" else [_name(each, by) for each in shown]
    rows = [_row(name, each, saved) for name, each in zip(names, shown, strict=True)]
    yield from tables.table(_columns(by, saved), [*rows, _row("total", bill.total, saved)], room)
    yield ""
    if len(shown) < len(groups):
        dropped = counted(len(groups) - len(shown), f"more {by}")
        yield from tables.wrapped(f"{dropped} in the total alone; --limit shows them.", room)
    if bill.total.list_price is not None:
        yield from tables.wrapped(STARRED, room)
    for line in (*sentences(bill.total), *_removed(bill)):
        yield from tables.wrapped(line, room)
    if bill.repairs is not None:
        yield from tables.wrapped(sentence(bill.repairs), room)


def _removed(bill: Bill) -> Iterator[str]:
    """Yield the note about calls that retention or the user has removed."""
    calls = sum(each.calls for each in bill.kinds if each.id is None)
    if calls:
        yield (
            f"Of {counted(calls, 'call')} the sums alone are kept: NO CACHE is reckoned from their average size, and "
            "what they saved and lost is not known any more."
        )


def _columns(by: str, saved: bool) -> list[Column]:
    columns = [
        Column(by.upper(), 0, least=27),
        Column("CALLS", 3, right=True),
        Column("PROMPT", 6, right=True),
        Column("OUTPUT", 8, right=True),
        Column("HIT", 2, right=True),
        Column("PAID", 1, right=True),
        Column("NO CACHE", 4, right=True),
        Column("BREAKS", 7, right=True),
        Column("LOST", 5, right=True),
    ]
    return [*columns, Column("SAVED", 4, right=True)] if saved else columns


def _row(name: str, each: Sums, saved: bool) -> tuple[str, ...]:
    cells = (
        name,
        tables.count(each.calls),
        tables.count(each.prompt_tokens),
        tables.count(each.output_tokens),
        tables.share(each.hit_rate),
        tables.cost(each.cost, each.unpriced, each.estimated, at_list=each.list_price is not None),
        tables.cost(each.without_cache, each.unpriced),
        tables.count(each.breaks),
        dollars(each.break_cost) if each.breaks else "-",
    )
    return (*cells, "-" if each.saved is None else dollars(each.saved, signed=True)) if saved else cells


def _session_names(shown: Sequence[SessionSums]) -> list[str]:
    """Beginnings of their ids, with the tenant where there are several."""
    short = tables.short_ids(each.id for each in shown if each.id is not None)
    tenants = tables.several(each.tenant for each in shown)
    of_tenants = [f" ({tenants[each.tenant]})" if tenants else "" for each in shown]
    return [short.get(each.id or "", _GONE) + owner for each, owner in zip(shown, of_tenants, strict=True)]


def _name(each: Sums, by: str) -> str:
    if each.id is not None:
        return each.id
    return "(not known)" if by == "client" else _GONE


def sentences(total: Sums) -> Iterator[str]:
    """Yield the bill as sentences."""
    odd = [f"{number:,} {kind}" for kind, number in total.kinds.items()]
    odd += [f"{total.unanswered:,} without an answer"] if total.unanswered else []
    calls = counted(total.calls, "call") + (f" ({', '.join(odd)})" if odd else "")
    if total.cost is not None:
        yield f"{calls} for {priced(total.cost, total.list_price, total.estimated)}{_against(total)}."
    elif total.possible:
        yield f"{calls}; nothing is known to have been billed."
    else:
        yield f"{calls}; {'the price is unknown' if total.unpriced else 'nothing was billed'}."
    if total.estimated:
        which = counted(total.estimated, "call")
        yield f"{which} without a complete usage (cut, under way or not told): the rest is estimated (~)."
    if total.possible:
        more = "" if total.cost is None else " more"
        yield f"Calls that were cut before an answer may have been billed, at most {dollars(total.possible)}{more}."
    if not total.breaks and total.creation_tokens > total.cached_tokens:
        yield "More was written to the cache than read: a first request writes, those that go on from it read."
    if total.unpriced and total.cost is not None:
        yield f"The price of {counted(total.unpriced, 'call')} is unknown; the sums go without (+)."
    if total.breaks:
        resets = f", {counted(total.resets, 'reset')} {dollars(total.reset_cost)}" if total.resets else ""
        yield f"{counted(total.breaks, 'break')} cost {dollars(total.break_cost)}{resets}; `holdfast breaks` says why."
    if total.missed:
        went = counted(total.missed, "turn")
        cost = dollars(total.missed_cost)
        yield f"{went} went past Holdfast or without markers, for {cost} more; `holdfast breaks` lists them."
    if total.saved is not None:
        advance = " (writes that nobody has read yet)" if total.saved < 0 else ""
        yield f"Through Holdfast it was {tables.saving(total.saved)} the clients alone would have paid{advance}."


def _against(total: Sums) -> str:
    without, cost = total.without_cache, total.cost
    if without is None or cost is None or not without:
        return ""
    if cost == without:
        return "; without a cache the same"
    part = abs(1 - float(cost / without))
    return f"; without a cache {dollars(without)}: {part:.0%} {'less' if cost <= without else 'more'}"
