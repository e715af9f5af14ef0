"""`holdfast demo`: one coding session, sent by a careless client through a real gateway, and done by Holdfast's own
agent, against a simulated provider on this machine. Every figure is computed in the run that shows it.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from holdfast import facts
from holdfast.cli.setup import use_configured_facts
from holdfast.demo import CarelessClient, Run, progress, session
from holdfast.errors import HoldfastError

from .. import completion, tables
from . import table
from .table import Saving

if TYPE_CHECKING:
    from holdfast.demo import AgentRun

MODEL = "anthropic:claude-opus-5-5"
WAYS: dict[str, tuple[str, Mapping[str, object]]] = {
    "AS SENT": ("as the client sends it", {"cache.strategy": "passthrough", "cache.repair": "off"}),
    "DEFAULTS": ("with Holdfast, its defaults", {}),
    "REPAIRS ON": ('with Holdfast, repair = "on"', {"cache.repair": "on"}),
}
REPAIRS = {
    "tool-order": ("tools in one order", "in the order they come"),
    "key-order": ("keys in one order", "in the order they come"),
    "volatile-value": ("the clock moved to the end", "in the system text"),
    "memory-to-tail": ("news of memory appended", "in the system text"),
    "system-split": ("what changes in its own block", "in one text"),
}
PACKAGES = ("jsonschema", "tantivy")
"""What the agent needs beside a plain installation."""


@click.command()
@click.option("--turns", default=12, show_default=True, type=click.IntRange(2, 100), help="Turns of the session.")
@click.option(
    "--model",
    default=MODEL,
    show_default=True,
    help="The Anthropic model whose rules and prices count.",
    shell_complete=completion.models,
)
@click.option("--once", is_flag=True, help="Exit at the end, also on a terminal.")
def command(turns: int, model: str, once: bool) -> None:
    """See what Holdfast does, without a key or a network.

    A coding agent with three common mistakes (the time in its system text, its tools in another order each time, its
    memory in the system text) sends a session through a real gateway to a simulated provider: as it is, with
    Holdfast's defaults, which change nothing but order, and with all its repairs. Then Holdfast's own agent does the
    same, with skills, long results in files, changing memory, sub-agents, pauses and a summary of old history. Both are
    done again without one mechanism at a time, to see what each saves. Pauses pass on a clock of their own.

    At the end a gateway stays open for a client of your own, until Ctrl-C; in a pipe, in CI or with --once it does not.

    \b
    Examples:
      holdfast demo
      holdfast demo --once
      holdfast demo --turns 24 --model anthropic:claude-sonnet-5-5
    """
    use_configured_facts()
    priced = facts.model(model)
    if facts.rates(priced.ref) is None or priced.provider != "anthropic":
        raise HoldfastError(
            f"no Anthropic prices are known for {model!r}; choose one of `holdfast models --provider anthropic`"
        )
    logging.disable(logging.WARNING)  # to those who watch the time, pauses of a virtual clock look odd
    try:
        with _ended_in_order(), _folder() as folder:
            planned = session.turns(turns)
            careless = CarelessClient(folder, priced.name, planned)
            _show(careless, folder, priced.ref, planned)
            if not once and sys.stdin.isatty() and sys.stdout.isatty():
                careless.stay(table.staying)
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM and a closed terminal too leave no files behind."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _folder() -> Iterator[Path]:
    """A directory that is gone afterwards. Its name stands in prompts: all of them have the same number of tokens."""
    try:
        place = Path(tempfile.gettempdir(), f"holdfast-demo-{secrets.randbelow(10**9):09}").resolve()
        place.mkdir(mode=0o700)
    except OSError as error:
        raise HoldfastError(
            f"no temporary directory can be made ({error.strerror or error}); set TMPDIR to one that can be written to"
        ) from error
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _show(careless: CarelessClient, folder: Path, model: str, turns: Sequence[session.DemoTurn]) -> None:
    room, begun = tables.width(), time.monotonic()
    _say(table.opening(model, room), "")
    _say("1. A careless coding client (clock and memory in its system text, tools shuffled):")
    runs = {name: careless.run(title, flags) for name, (title, flags) in WAYS.items()}
    groups = {"careless client, repairs on": _repairs(careless, runs["REPAIRS ON"])}
    agent: AgentRun | None = None
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        _say("", f"2. {table.NEEDS} ({', '.join(missing)}).")
    else:
        _say("", "2. The same asks in the same files, done by Holdfast's own agent:")
        agent, groups["Holdfast's own agent"] = _agent(folder, model, turns)
    _say("", table.figures(runs, agent, room), "", table.told(runs, agent, room))
    _say(table.dearest(runs["AS SENT"], room))
    if agent is not None:
        _say("", table.happened(agent, room))
    _say("", table.saved(groups, room))
    if agent is not None:
        _say(table.payback(agent, room))
    sessions = len(runs) + sum(map(len, groups.values())) + (agent is not None)
    _say("", f"{sessions} sessions took {time.monotonic() - begun:.0f} s.", "", table.next_steps())


def _say(*parts: str | Iterator[str]) -> None:
    for part in parts:
        for line in (part,) if isinstance(part, str) else part:
            click.echo(line)


def _repairs(careless: CarelessClient, whole: Run) -> list[Saving]:
    """The careless session with everything but one: what is missing then, that one has saved."""
    flags = WAYS["REPAIRS ON"][1]
    cost = whole.sums.cost or Decimal(0)
    savings = []
    for name in sorted(whole.repairs):
        run = careless.run(f"all but {name}", flags, skip=name)
        mechanism, instead = REPAIRS.get(name, (name, "not done"))
        savings.append(Saving(mechanism, instead, cost, run.sums.cost or Decimal(0)))
    run = careless.run("all but chosen lifetimes", {**flags, "cache.strategy": "rolling"})
    savings.append(Saving("lifetimes by expected cost", "5 minutes for all", cost, run.sums.cost or Decimal(0)))
    return savings


def _agent(folder: Path, model: str, turns: Sequence[session.DemoTurn]) -> tuple[AgentRun, list[Saving]]:
    """The agent's session, and the same with one thing in another way each time."""
    from holdfast.demo import ARMS, WHOLE
    from holdfast.demo import agent as demo_agent  # which takes a second to import

    played = []
    for number, arm in enumerate((WHOLE, *ARMS)):
        with progress(arm.title, len(turns)) as on_turn:
            played.append(demo_agent.play(arm, folder / f"agent-{number:02}", model, turns, on_turn))
    whole, *others = played
    savings = [
        Saving(arm.mechanism, arm.instead, whole.cost, each.cost) for arm, each in zip(ARMS, others, strict=True)
    ]
    return whole, savings
