"""`holdfast demo`: one careless coding session, as it is sent and with Holdfast, through a real gateway and a simulated
provider on this machine. Every figure is computed in the run that shows it.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import click

from holdfast import facts
from holdfast.cli import demo_session, tables
from holdfast.cli.demo_runs import Demo, Run
from holdfast.cli.setup import use_configured_facts
from holdfast.cli.tables import Column, counted, dollars
from holdfast.errors import HoldfastError

MODEL = "anthropic:claude-opus-5-5"
WAYS: dict[str, tuple[str, Mapping[str, object]]] = {
    "AS SENT": ("as the client sends it", {"cache.strategy": "passthrough", "cache.repair": "off"}),
    "DEFAULTS": ("with Holdfast, its defaults", {}),
    "REPAIRS ON": ('with Holdfast, repair = "on"', {"cache.repair": "on"}),
}
SAVED = {
    "tool-order": "tools in the order of the first request",
    "key-order": "keys in the order of the first request",
    "volatile-value": "the clock moved out of the system text",
    "memory-to-tail": "news of the memory appended, not rewritten",
    "system-split": "what changes in a system block of its own",
}
LIFETIMES = "lifetimes and places of markers by expected cost"


@click.command()
@click.option("--turns", default=20, show_default=True, type=click.IntRange(2, 100), help="Turns of the session.")
@click.option("--model", default=MODEL, show_default=True, help="The Anthropic model whose rules and prices count.")
@click.option("--once", is_flag=True, help="Exit at the end; on a terminal a gateway stays open to try otherwise.")
def command(turns: int, model: str, once: bool) -> None:
    """See what Holdfast does, without a key or a network.

    A coding agent with three common mistakes (the time in its system text, its tools in another order each time, its
    memory in the system text) sends the same session through a real gateway to a simulated provider: as it is, with
    Holdfast's defaults, which change nothing but order, and with all its repairs. Then it runs again without one thing
    at a time, to see what saved most. Pauses pass on a clock of their own.

    \b
    Examples:
      holdfast demo
      holdfast demo --once
      holdfast demo --turns 40 --model anthropic:claude-sonnet-5-5
    """
    use_configured_facts()
    known = facts.model(model)
    if facts.rates(known.ref) is None or known.provider != "anthropic":
        raise HoldfastError(
            f"no Anthropic prices are known for {model!r}; choose one of `holdfast models --provider anthropic`"
        )
    logging.disable(logging.WARNING)  # to those who watch the time, pauses of a virtual clock look odd
    try:
        with _folder() as folder:
            demo = Demo(Path(folder), known.name, demo_session.turns(turns))
            _show(demo, known.ref, turns)
            if not once and sys.stdin.isatty() and sys.stdout.isatty():
                demo.stay()
    finally:
        logging.disable(logging.NOTSET)


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="holdfast-demo-", ignore_cleanup_errors=True)
    except OSError as error:
        raise HoldfastError(
            f"no temporary directory can be made ({error.strerror or error}); set TMPDIR to one that can be written to"
        ) from error


def _show(demo: Demo, model: str, turns: int) -> None:
    click.echo(f"A coding session of {turns} turns on {model}, sent through a gateway on this machine:")
    begun = time.monotonic()
    runs = {name: demo.run(title, flags) for name, (title, flags) in WAYS.items()}
    without = _without(demo, runs["REPAIRS ON"])
    click.echo("")
    room = tables.width()
    for line in (*_table(runs, room), "", *_saved(runs, without), "", *_told(runs, room)):
        click.echo(line)
    calls = runs["AS SENT"].sums.calls
    sessions = len(runs) + len(without)
    click.echo(f"{sessions} sessions of {counted(calls, 'request')} each took {time.monotonic() - begun:.0f} s.")


def _without(demo: Demo, whole: Run) -> dict[str, Run]:
    """The session with everything but one: what is missing then, that one has saved."""
    flags = WAYS["REPAIRS ON"][1]
    runs = {name: demo.run(f"all but {name}", flags, skip=name) for name in sorted(whole.repairs)}
    runs[LIFETIMES] = demo.run("all but chosen lifetimes", {**flags, "cache.strategy": "rolling"})
    return runs


def _table(runs: Mapping[str, Run], room: int | None) -> Iterator[str]:
    columns = (Column("", 0), *(Column(name, rank, right=True) for rank, name in enumerate(runs, 1)))
    sums = [run.sums for run in runs.values()]
    rows = [
        ("requests", *(tables.count(each.calls) for each in sums)),
        ("prompt tokens", *(tables.count(each.prompt_tokens) for each in sums)),
        ("  read from the cache", *(tables.count(each.cached_tokens) for each in sums)),
        ("  written to the cache", *(tables.count(each.creation_tokens) for each in sums)),
        ("  billed in full", *(tables.count(each.uncached_tokens) for each in sums)),
        ("output tokens", *(tables.count(each.output_tokens) for each in sums)),
        ("hit rate", *(tables.share(each.hit_rate) for each in sums)),
        ("cost", *(dollars(each.cost) for each in sums)),
        ("without any cache", *(dollars(each.without_cache) for each in sums)),
        ("breaks", *(tables.count(each.breaks) for each in sums)),
        *((f"  {cause}", *(tables.count(_caused(run, cause)) for run in runs.values())) for cause in _causes(runs)),
        ("resets with a reason", *(tables.count(each.resets) for each in sums)),
    ]
    yield from tables.table(columns, rows, room)


def _causes(runs: Mapping[str, Run]) -> list[str]:
    every = [each.cause or "unknown" for run in runs.values() for each in run.breaks if each.reason is None]
    return sorted(set(every), key=lambda cause: -every.count(cause))


def _caused(run: Run, cause: str) -> int:
    return sum((each.cause or "unknown") == cause for each in run.breaks if each.reason is None)


def _saved(runs: Mapping[str, Run], without: Mapping[str, Run]) -> Iterator[str]:
    """What each thing was worth, the most first."""
    yield "What saved most: so much more the session costs with all but"
    whole = runs["REPAIRS ON"].sums.cost or Decimal(0)
    worth = {name: (run.sums.cost or Decimal(0)) - whole for name, run in without.items()}
    for name, more in sorted(worth.items(), key=lambda item: -item[1]):
        yield f"  {dollars(more):>9}  {SAVED.get(name, name)}"


def _told(runs: Mapping[str, Run], room: int | None) -> Iterator[str]:
    careless, defaults, ours = (runs[name].sums for name in WAYS)
    times = (careless.cost or Decimal(0)) / (ours.cost or Decimal(1))
    dearest = max(
        (each for each in runs["AS SENT"].breaks if each.reason is None),
        key=lambda each: each.dollars or 0,
        default=None,
    )
    yield from tables.wrapped(
        f"As sent, the session costs {times:.1f} times what it costs with Holdfast's repairs. The defaults change no "
        f"text: they keep order, buy no writes that do not pay ({dollars(defaults.cost)}), and say what to repair.",
        room,
    )
    if dearest is not None:
        where = f" at {dearest.path}" if dearest.path else ""
        yield from tables.wrapped(
            f"The dearest break as sent: {dearest.cause}{where}, {tables.count(dearest.tokens)} tokens, "
            f"{dollars(dearest.dollars)}. {dearest.advice or ''}",
            room,
        )
