"""`holdfast demo`: one coding session, sent by a careless client through a real gateway, and done by Holdfast's own
agent, against a simulated provider on this machine. Every figure is computed in the run that shows it.
"""

from __future__ import annotations

import logging
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from holdfast import facts
from holdfast.demo import CLIENT_RUNS, CarelessClient, MechanismSaving, agent_savings, client_savings, session
from holdfast.errors import HoldfastError
from holdfast.records.events import CacheBreak, CompactionCompleted, DelegateCompleted, SkillLoaded, ToolOffloaded
from holdfast.wording import counted, listed

from . import completion, tables
from .next_steps import program
from .setup import use_configured_facts
from .tables import Column, dollars

if TYPE_CHECKING:
    from holdfast.demo import AgentRun, DemoRun

Money = Callable[[Decimal | None], str]
AGENT = "OWN AGENT"
NEEDS = "The second half, Holdfast's own agent with all it has, needs its packages: pip install 'holdfast[agent]'"


MODEL = "anthropic:claude-opus-5-5"
PACKAGES = ("jsonschema", "tantivy")
"""Packages that the agent needs besides a plain installation."""


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
                careless.stay(staying)
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
    _say(opening(model, room), "")
    _say("1. A careless coding client (clock and memory in its system text, tools shuffled):")
    runs = {name: careless.run(title, flags) for name, (title, flags) in CLIENT_RUNS.items()}
    groups = {"careless client, repairs on": client_savings(careless, runs["REPAIRS ON"])}
    agent: AgentRun | None = None
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        _say("", f"2. {NEEDS} ({', '.join(missing)}).")
    else:
        _say("", "2. The same asks in the same files, done by Holdfast's own agent:")
        agent, groups["Holdfast's own agent"] = agent_savings(folder, model, turns)
    _say("", figures(runs, agent, room), "", told(runs, agent, room))
    _say(dearest(runs["AS SENT"], room))
    if agent is not None:
        _say("", happened(agent, room))
    _say("", saved(groups, room))
    if agent is not None:
        _say(payback(agent, room))
    sessions = len(runs) + sum(map(len, groups.values())) + (agent is not None)
    _say("", f"{sessions} sessions took {time.monotonic() - begun:.0f} s.", "", next_steps())


def _say(*parts: str | Iterator[str]) -> None:
    for part in parts:
        for line in (part,) if isinstance(part, str) else part:
            click.echo(line)


def opening(model: str, room: int | None) -> Iterator[str]:
    model_facts = facts.model(model)
    yield from tables.wrapped(
        f"A prompt that begins like the one before it is read from the provider's cache, at "
        f"{model_facts.read:.3g} of the price ({model}). Holdfast keeps that beginning the same. This shows what it is "
        "worth, with the real prices and cache rules and a simulated provider: nothing leaves this machine.",
        room,
    )


def figures(runs: Mapping[str, DemoRun], agent: AgentRun | None, room: int | None) -> Iterator[str]:
    """Yield the table that compares the runs."""
    ways = [*runs, *(() if agent is None else (AGENT,))]
    columns = (Column("", 0), *(Column(name, rank, right=True) for rank, name in enumerate(ways, 1)))
    sums = [run.sums for run in runs.values()]
    money = _in_places(each.cost for each in sums)
    rows = {
        "requests": [tables.count(each.calls) for each in sums],
        "prompt tokens": [tables.count(each.prompt_tokens) for each in sums],
        "read from the cache": [tables.share(each.hit_rate) for each in sums],
        "breaks of the cache": [tables.count(each.breaks) for each in sums],
        "  after a pause": [
            tables.count(sum(each.reason is None and _paused(each.cause) for each in run.breaks))
            for run in runs.values()
        ],
        "cost without any cache": [money(each.without_cache) for each in sums],
        "cost": [money(each.cost) for each in sums],
    }
    if agent is not None:
        agent_cells = (
            tables.count(agent.calls),
            tables.count(agent.prompt),
            tables.share(agent.read / agent.prompt),
            tables.count(agent.count(CacheBreak)),
            tables.count(sum(isinstance(each, CacheBreak) and _paused(each.cause) for each in agent.events)),
            money(agent.without),
            money(agent.cost),
        )
        for cells, cell in zip(rows.values(), agent_cells, strict=True):
            cells.append(cell)
    yield from tables.table(columns, [(title, *cells) for title, cells in rows.items()], room)


def _paused(cause: str | None) -> bool:
    return cause is not None and cause.startswith("ttl_expired")


def dearest(run: DemoRun, room: int | None) -> Iterator[str]:
    """Yield the paragraph about the most expensive break."""
    breaks = [each for each in run.breaks if each.reason is None]
    if breaks:
        worst = max(breaks, key=lambda each: each.dollars or 0)
        where = f" at {worst.path}" if worst.path else ""
        yield from tables.wrapped(
            f"The dearest break as sent: {worst.cause}{where}, {tables.count(worst.tokens)} tokens, "
            f"{dollars(worst.dollars)}. {worst.advice or ''}".rstrip(),
            room,
        )


def happened(agent: AgentRun, room: int | None) -> Iterator[str]:
    """What took place in the agent's session, as its events say."""
    summaries = [each for each in agent.events if isinstance(each, CompactionCompleted)]
    shorter = "; ".join(
        f"{tables.count(each.tokens_before)} tokens became {tables.count(each.tokens_after)}" for each in summaries
    )
    away = [f"{seconds / 60:.0f}" for seconds in agent.pauses]
    yield from tables.wrapped(
        f"In the agent's session: {counted(agent.count(SkillLoaded), 'skill')} loaded on request, "
        f"{counted(agent.count(ToolOffloaded), 'long result')} put into files, news of memory told "
        f"{counted(agent.told, 'time')}, {counted(agent.count(DelegateCompleted), 'sub-agent')} at work side by side, "
        f"{f'pauses of {listed(away)} minutes' if away else 'no pause'}, "
        f"{f'old history summarized ({shorter})' if shorter else 'no summary of old history'}. "
        f"{'All files are as asked for, and their tests pass.' if agent.done else 'THE FILES ARE NOT AS ASKED FOR.'}",
        room,
    )


def saved(groups: Mapping[str, Sequence[MechanismSaving]], room: int | None) -> Iterator[str]:
    """What each mechanism saved, the most first."""
    yield from tables.wrapped(
        "What each mechanism saved: the session done again with something else INSTEAD of it, its COST then, and that "
        "by the cost with the mechanism (RATIO; below 1 it was not worth its cost here).",
        room,
    )
    yield ""
    money = _in_places(each.without for savings in groups.values() for each in savings)
    columns = (
        Column("MECHANISM", 0),
        Column("INSTEAD", 4, least=12),
        Column("COST", 3, right=True),
        Column("SAVED", 1, right=True),
        Column("RATIO", 2, right=True),
    )
    rows: list[tuple[str, ...]] = []
    for title, savings in groups.items():
        if savings:
            rows.append((title, "", money(savings[0].cost), "", ""))
            rows += [_row(each, money) for each in sorted(savings, key=lambda each: -each.saved)]
    yield from tables.table(columns, rows, room)


def _row(each: MechanismSaving, money: Money) -> tuple[str, ...]:
    ratio = f"{each.without / each.cost:.2f}x" if each.cost else "-"
    return f"  {each.mechanism}", each.instead, money(each.without), money(each.saved), ratio


def _in_places(costs: Iterable[Decimal | None]) -> Money:
    """Dollars as a table shows them: in cents, or in hundredths of one where nothing costs a dollar."""
    places = 2 if max((each for each in costs if each is not None), default=Decimal(0)) >= 1 else 4

    def money(value: Decimal | None) -> str:
        if value is None:
            return tables.UNKNOWN
        text = f"{abs(value):,.{places}f}"
        return f"-${text}" if value < 0 and Decimal(text.replace(",", "")) else f"${text}"

    return money


def payback(agent: AgentRun, room: int | None) -> Iterator[str]:
    """Why a summary may be dearer than none."""
    for each in agent.events:
        if isinstance(each, CompactionCompleted) and each.payback is not None:
            yield from tables.wrapped(
                f"A summary makes room; in money it pays for itself {each.payback} requests later, and costs where "
                "the session ends before that.",
                room,
            )
            return


def told(runs: Mapping[str, DemoRun], agent: AgentRun | None, room: int | None) -> Iterator[str]:
    as_sent, defaults, repaired = (run.sums.cost or Decimal(0) for run in runs.values())
    if not repaired:
        return
    agent_part = ""
    if agent is not None and agent.cost:
        agent_part = f", and {as_sent / agent.cost:.1f} times what Holdfast's own agent needs for the same asks"
    yield from tables.wrapped(
        f"As sent, the careless session costs {as_sent / repaired:.1f} times what it costs with Holdfast's "
        f"repairs{agent_part}. The defaults ({dollars(defaults)}) change no text: they keep order, buy no cache writes "
        "that do not pay (little is written, so little can break), and say what to repair.",
        room,
    )


def next_steps() -> Iterator[str]:
    yield "Next:"
    steps = {
        f"{program()} explain": "what broke the cache in your agents' logs",
        f"{program()} run -- claude": "a client of yours, and its bill",
        f"{program()} chat --simulate": "the agent, without a key",
    }
    for command, about in steps.items():
        yield f"  {command:<{max(map(len, steps))}}  {about}"


def staying(address: str, home: Path) -> Iterator[str]:
    """How to try a client of one's own."""
    yield from ("", "A gateway with a simulated provider behind it is open; in another terminal, one of:")
    yield f"  ANTHROPIC_BASE_URL={address} ANTHROPIC_API_KEY=demo claude"
    yield f"  OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY=demo YOUR_PROGRAM"
    yield f"  GOOGLE_GEMINI_BASE_URL={address} GEMINI_API_KEY=demo gemini"
    yield "What came through, what it cost, what broke (also: show, bill, breaks):"
    yield f"  HOLDFAST_HOME={shlex.quote(str(home))} {program()} sessions"
    yield "Ctrl-C ends it and removes what was stored."
