"""`holdfast models`: what is known about models, and as of when."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click

from holdfast.cli.setup import use_configured_facts
from holdfast.cli.tables import wrapped
from holdfast.facts import Facts, ModelFacts, Rates, default, rates

from . import completion

COLUMNS = (
    ("MODEL", "left"),
    ("FLOOR", "right"),
    ("TTL", "left"),
    ("READ x", "right"),
    ("WRITE x", "left"),
    ("$ INPUT", "right"),
    ("$ READ", "right"),
    ("$ WRITE", "left"),
    ("$ OUTPUT", "right"),
    ("CONTEXT", "right"),
    ("CACHING", "left"),
    ("EFFORT", "left"),
    ("AS OF", "left"),
)

FIRST = ("MODEL", "FLOOR", "$ INPUT", "$ READ", "$ WRITE", "$ OUTPUT", "TTL", "AS OF", "CONTEXT")
"""What a narrow terminal shows as long as it fits, most wanted first; a pipe gets everything."""


@click.command()
@click.option(
    "--provider",
    metavar="NAME",
    shell_complete=completion.providers,
    help="Only this provider's models, such as anthropic.",
)
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
def command(provider: str | None, json_: bool) -> None:
    """Show what is known about models: floors, lifetimes, prices, levels of effort, dates.

    Multipliers are shares of the base input price; dollars are per million tokens, today, below any price
    cliff. A star stands before figures that no source states and that are chosen with care.

    \b
    Examples:
      holdfast models
      holdfast models --provider anthropic
      holdfast models --provider openai --json
    """
    use_configured_facts()
    facts = default()
    now = datetime.now(UTC)
    priced = [(model, rates(model.ref, now, facts=facts)) for model in facts.models(provider)]
    if json_:
        click.echo(json.dumps([_as_json(model, price) for model, price in priced], indent=2))
        return
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    for line in _table([_row(model, price) for model, price in priced], width):
        click.echo(line)
    click.echo(_footer(facts, provider, priced))


def _table(rows: list[tuple[str, ...]], width: int | None) -> Iterator[str]:
    """The rows as lines. Whole columns are left out where the width does not hold them, and named at the end."""
    titles = [title for title, _ in COLUMNS]
    widths = [max(len(cell) for cell in cells) for cells in zip(titles, *rows, strict=True)]
    order = sorted(range(len(titles)), key=lambda i: FIRST.index(titles[i]) if titles[i] in FIRST else len(FIRST))
    shown: list[int] = []
    for index in order:
        if not shown or width is None or sum(widths[i] + 2 for i in (*shown, index)) - 2 <= width:
            shown.append(index)
    shown.sort()
    for row in (titles, *rows):
        cells = (row[i].rjust(widths[i]) if COLUMNS[i][1] == "right" else row[i].ljust(widths[i]) for i in shown)
        yield "  ".join(cells).rstrip()
    if len(shown) < len(titles):
        left_out = ", ".join(title for i, title in enumerate(titles) if i not in shown)
        yield ""
        yield from wrapped(
            f"Left out for want of room: {left_out}; a wider terminal, a pipe or --json shows them.", width
        )


def _row(model: ModelFacts, price: Rates | None) -> tuple[str, ...]:
    def marked(field: str, text: str) -> str:
        return f"*{text}" if field in model.conservative or not model.known else text

    return (
        model.ref,
        marked("floor", f"{model.floor:,}"),
        marked("ttls", " ".join(ttl.name for ttl in model.ttls) or "-"),
        marked("read", _plain(model.read)),
        marked("writes", " ".join(f"{ttl}:{_plain(share)}" for ttl, share in model.writes) or "-"),
        _dollars(price.input) if price else "?",
        _dollars(price.read) if price else "?",
        " ".join(f"{ttl}:{_dollars(rate)}" for ttl, rate in price.writes) or "-" if price else "?",
        _dollars(price.output) if price else "?",
        marked("context_limit", f"{model.context_limit:,}"),
        model.caching,
        ",".join(model.efforts) or "-",
        model.as_of.isoformat(),
    )


def _footer(facts: Facts, provider: str | None, priced: list[tuple[ModelFacts, Rates | None]]) -> str:
    versions = sorted({price.version for _, price in priced if price is not None})
    names = [provider] if provider else list(facts.providers())
    prices = f"prices: {', '.join(versions)}" if versions else "no prices known"
    dates = sorted({model.as_of.isoformat() for model, _ in priced})
    count = "1 model" if len(priced) == 1 else f"{len(priced)} models"
    return f"\n{count} of {', '.join(names)}; facts as of {', '.join(dates)}; {prices}."


def _as_json(model: ModelFacts, price: Rates | None) -> dict[str, Any]:
    return {
        "model": model.ref,
        "known": model.known,
        "floor": model.floor,
        "granularity": model.granularity,
        "ttls": {ttl.name: ttl.seconds for ttl in model.ttls},
        "default_ttl": model.default_ttl,
        "lookback": model.lookback,
        "max_markers": model.max_markers,
        "read_multiplier": _plain(model.read),
        "write_multipliers": {ttl: _plain(share) for ttl, share in model.writes},
        "caching": model.caching,
        "marker": model.marker,
        "usage": model.usage,
        "context_limit": model.context_limit,
        "output_limit": model.output_limit,
        "efforts": list(model.efforts),
        "conservative": list(model.conservative),
        "prices_per_million": _prices(price),
        "price_version": price.version if price else None,
        "as_of": model.as_of.isoformat(),
        "source": model.source,
    }


def _prices(price: Rates | None) -> dict[str, Any] | None:
    if price is None:
        return None
    return {
        "input": _dollars(price.input),
        "read": _dollars(price.read),
        "writes": {ttl: _dollars(rate) for ttl, rate in price.writes},
        "output": _dollars(price.output),
        "storage_hour": None if price.storage_hour is None else _dollars(price.storage_hour),
    }


def _dollars(per_token: Decimal) -> str:
    return _plain(per_token.scaleb(6))


def _plain(value: Decimal) -> str:
    """Digits without exponent and without trailing zeros: 2, 0.025, 12.5."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
