"""`holdfast models`: what is known about models, and as of when."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click

from holdfast.cli.setup import use_configured_facts
from holdfast.cli.tables import Column
from holdfast.facts import Facts, ModelFacts, Rates, default, rates

from . import completion, tables

COLUMNS = (
    Column("MODEL", 0),
    Column("FLOOR", 1, right=True),
    Column("TTL", 6),
    Column("READ x", 9, right=True),
    Column("WRITE x", 9),
    Column("$ INPUT", 2, right=True),
    Column("$ READ", 3, right=True),
    Column("$ WRITE", 4),
    Column("$ OUTPUT", 5, right=True),
    Column("CONTEXT", 8, right=True),
    Column("CACHING", 9),
    Column("EFFORT", 9),
    Column("AS OF", 7),
)


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
    tables.show(tables.table(COLUMNS, [_row(model, price) for model, price in priced], tables.width(), whole="--json"))
    click.echo(_footer(facts, provider, priced))


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
