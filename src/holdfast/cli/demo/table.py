"""What the demo says: what each way cost, what took place, and what each mechanism saved."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast import facts
from holdfast.cli import tables
from holdfast.cli.next_steps import program
from holdfast.cli.tables import Column, counted, dollars
from holdfast.records.events import CacheBreak, CompactionCompleted, DelegateCompleted, SkillLoaded, ToolOffloaded

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.demo import AgentRun, Run

Money = Callable[[Decimal | None], str]
AGENT = "OWN AGENT"
NEEDS = "The second half, Holdfast's own agent with all it has, needs its packages: pip install 'holdfast[agent]'"


class Saving(Struct, frozen=True):
    """One mechanism: what stood in its place, and what the session cost with it and without."""

    mechanism: str
    instead: str
    cost: Decimal
    without: Decimal

    @property
    def saved(self) -> Decimal:
        return self.without - self.cost


def opening(model: str, room: int | None) -> Iterator[str]:
    known = facts.model(model)
    yield from tables.wrapped(
        f"A prompt that begins like the one before it is read from the provider's cache, at {known.read:.3g} of the "
        f"price ({model}). Holdfast keeps that beginning the same. This shows what it is worth, with the real prices "
        "and cache rules and a simulated provider: nothing leaves this machine.",
        room,
    )


def figures(runs: Mapping[str, Run], agent: AgentRun | None, room: int | None) -> Iterator[str]:
    """What each way of doing the session came to."""
    ways = [*runs, *(() if agent is None else (AGENT,))]
    columns = (Column("", 0), *(Column(name, rank, right=True) for rank, name in enumerate(ways, 1)))
    sums = [run.sums for run in runs.values()]
    money = _money(each.cost for each in sums)
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
        ours = (
            tables.count(agent.calls),
            tables.count(agent.prompt),
            tables.share(agent.read / agent.prompt),
            tables.count(agent.count(CacheBreak)),
            tables.count(sum(isinstance(each, CacheBreak) and _paused(each.cause) for each in agent.events)),
            money(agent.without),
            money(agent.cost),
        )
        for cells, cell in zip(rows.values(), ours, strict=True):
            cells.append(cell)
    yield from tables.table(columns, [(title, *cells) for title, cells in rows.items()], room)


def _paused(cause: str | None) -> bool:
    return cause is not None and cause.startswith("ttl_expired")


def dearest(run: Run, room: int | None) -> Iterator[str]:
    """What Holdfast says of the dearest break."""
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
    away = _listed([f"{seconds / 60:.0f}" for seconds in agent.pauses])
    yield from tables.wrapped(
        f"In the agent's session: {counted(agent.count(SkillLoaded), 'skill')} loaded on request, "
        f"{counted(agent.count(ToolOffloaded), 'long result')} put into files, news of memory told "
        f"{counted(agent.told, 'time')}, {counted(agent.count(DelegateCompleted), 'sub-agent')} at work side by side, "
        f"{f'pauses of {away} minutes' if away else 'no pause'}, "
        f"{f'old history summarized ({shorter})' if shorter else 'no summary of old history'}. "
        f"{'All files are as asked for, and their tests pass.' if agent.done else 'THE FILES ARE NOT AS ASKED FOR.'}",
        room,
    )


def saved(groups: Mapping[str, Sequence[Saving]], room: int | None) -> Iterator[str]:
    """What each mechanism saved, the most first."""
    yield from tables.wrapped(
        "What each mechanism saved: the session done again with something else INSTEAD of it, its COST then, and that "
        "by the cost with the mechanism (RATIO; below 1 it was not worth its cost here).",
        room,
    )
    yield ""
    money = _money(each.without for savings in groups.values() for each in savings)
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


def _row(each: Saving, money: Money) -> tuple[str, ...]:
    ratio = f"{each.without / each.cost:.2f}x" if each.cost else "-"
    return f"  {each.mechanism}", each.instead, money(each.without), money(each.saved), ratio


def _money(costs: Iterable[Decimal | None]) -> Money:
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


def told(runs: Mapping[str, Run], agent: AgentRun | None, room: int | None) -> Iterator[str]:
    sent, defaults, repaired = (run.sums.cost or Decimal(0) for run in runs.values())
    if not repaired:
        return
    ours = ""
    if agent is not None and agent.cost:
        ours = f", and {sent / agent.cost:.1f} times what Holdfast's own agent needs for the same asks"
    yield from tables.wrapped(
        f"As sent, the careless session costs {sent / repaired:.1f} times what it costs with Holdfast's repairs{ours}. "
        f"The defaults ({dollars(defaults)}) change no text: they keep order, buy no cache writes that do not pay "
        "(little is written, so little can break), and say what to repair.",
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


def _listed(words: Sequence[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)
