"""The figures that the documents of this field lead with, measured here on work of the same kind.

A coding session of 76 requests and a day of an agent in a channel, played by the whole agent on a virtual clock and
billed by the simulator; then the definitions that deferral keeps out of sixty tools. Nothing is billed by a provider,
and the pauses are drawn from what people were seen to do, so the figures say what such work costs here, not what
another program's session cost there.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from math import exp
from pathlib import Path
from random import Random
from statistics import NormalDist

from msgspec import Struct
from msgspec.structs import replace

from benchmarks import tools
from benchmarks.agent import START, Counting, Ticking, allow
from benchmarks.agent_script import Reply, Scene, Step, call, calls, fixed, model
from holdfast import facts
from holdfast.agent import Host, Sessions
from holdfast.agent.costs import add
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import AgentSettings
from holdfast.config.sections.cache import CacheSettings, Strategy
from holdfast.lab import SEEDS
from holdfast.records import Usage, usage
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.script import Script

CODING_MODEL, CHANNEL_MODELS = (
    "anthropic:claude-opus-4-6",
    (
        "anthropic:claude-sonnet-4-6",
        "anthropic:claude-sonnet-5-5",
    ),
)
STRATEGIES: tuple[Strategy, ...] = ("economic", "zones")
"""Our default, and what the document with these figures prescribes."""

CALLS = 76
TASKS = 15
"""Of five requests each; the last question of the session needs one."""
MODULES, FUNCTIONS = 30, 24

MESSAGES = 140
"""A day in the channel that costs about $26 without a cache at $3 per million tokens, as in the document."""
PAGES = 12

_PAUSES = ((0.68, 88.0, 1.2), (0.32, 250.0, 2.95))
"""Pauses of people between two messages to a coding agent, as two log-normals: share, median in seconds, sigma. A fit
to 3,799 pauses in public transcripts."""
_CHANNEL = ((1.0, 180.0, 1.0),)
"""In a channel somebody writes every few minutes."""
_AT_ONCE = ((1.0, 30.0, 0.0),)
_LONGEST = 4 * 3600.0


class Played(Struct, frozen=True, kw_only=True):
    """Some sessions together: what was read, written and paid, and what it would have cost without a cache."""

    calls: int
    usage: Usage
    dollars: Decimal
    uncached: Decimal
    breaks: int

    @property
    def ratio(self) -> float:
        """Tokens read for each one written."""
        return self.usage.read / self.usage.written

    @property
    def from_cache(self) -> float:
        """The share of the prompts' tokens that was read from the cache."""
        used = self.usage
        return used.read / (used.read + used.written + used.input)


class Work(Struct, frozen=True, kw_only=True):
    """What is in the workspace, what is said, what the model does with it, how long people pause."""

    files: dict[str, str]
    asked: tuple[str, ...]
    steps: tuple[tuple[Step, ...], ...]
    pauses: tuple[tuple[float, float, float], ...]


def coding(strategy: Strategy, seeds: Sequence[int] = SEEDS, *, at_once: bool = False) -> Played:
    """The coding session, once for each seed of its pauses; `at_once` with nobody who pauses."""
    work = replace(_coding(), pauses=_AT_ONCE) if at_once else _coding()
    return _together(asyncio.run(_play(work, CODING_MODEL, strategy, seed)) for seed in seeds)


def channel(name: str, strategy: Strategy, seeds: Sequence[int] = SEEDS[:1]) -> Played:
    """The day in the channel."""
    return _together(asyncio.run(_play(_channel(), name, strategy, seed)) for seed in seeds)


def deferral(tasks: int = tools.TASKS) -> tuple[float, float, int]:
    """The share of the tokens for definitions that deferral saves: with what searches brought back, and of the tools
    array alone; then the tokens that a search brings."""
    route = tools.ROUTES[0][:3]
    name, dialect, setting = route
    asked = tools.workload_tasks(tasks)
    plain, deferred = (asyncio.run(tools.play(name, dialect, mode, setting, asked)) for mode in ("never", "always"))
    return (
        1 - deferred.definitions / plain.definitions,
        1 - deferred.declared / plain.declared,
        deferred.brought // max(deferred.searches, 1),
    )


def _together(played: Iterator[Played]) -> Played:
    every = list(played)
    return Played(
        calls=sum(each.calls for each in every),
        usage=add(each.usage for each in every),
        dollars=sum((each.dollars for each in every), Decimal(0)),
        uncached=sum((each.uncached for each in every), Decimal(0)),
        breaks=sum(each.breaks for each in every),
    )


async def _play(work: Work, name: str, strategy: Strategy, seed: int) -> Played:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        workspace = Path(scratch, "workspace")
        for path, text in work.files.items():
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace / path).write_text(text)
        clock, pause = VirtualClock(START), _pauses(work.pauses, seed)
        settings = Settings(agent=AgentSettings(model=name), cache=CacheSettings(strategy=strategy))
        simulator = Simulator(script=Script(name="headlines", function=model(work.steps)), clock=clock)
        engine = Counting(settings, strict=True)
        sessions = Sessions(
            settings,
            workspace=workspace,
            home=Path(scratch, "home"),
            host=Host(provider=Ticking(simulator, clock), engine=engine, clock=clock.now, confirm=allow),
        )
        session = await sessions.create()
        for message in work.asked:
            await session.ask(message)
            clock.advance(pause())
        total = session.totals()
        await session.end()
    used = total.usage
    plain = usage(input=used.input + used.read + used.written, output=used.output)
    return Played(
        calls=total.calls,
        usage=used,
        dollars=total.cost or Decimal(0),
        uncached=facts.price(plain, name).cost or Decimal(0),
        breaks=engine.breaks,
    )


def _pauses(mixture: Sequence[tuple[float, float, float]], seed: int) -> Callable[[], float]:
    chance, normal = Random(f"headlines {seed}"), NormalDist()

    def pause() -> float:
        which, share = chance.random(), min(max(chance.random(), 1e-12), 1 - 1e-12)
        median, sigma = mixture[0][1:] if which < mixture[0][0] else mixture[-1][1:]
        return min(median * exp(sigma * normal.inv_cdf(share)), _LONGEST)

    return pause


# The coding session


def _coding() -> Work:
    files = {f"src/module_{number:02}.py": _module(number) for number in range(MODULES)}
    files["AGENTS.md"] = "# The warehouse\n\n" + "Name things by what they are; run the tests after a change. " * 40
    files["check"] = "echo '240 tests passed'\n"
    tasks = [_task(number) for number in range(TASKS)]
    return Work(
        files=files,
        asked=(
            *(f"Part {n} counts stock that is reserved; it should not. [task {n + 1}]" for n in range(TASKS)),
            f"Say in one line what you changed. [task {TASKS + 1}]",
        ),
        steps=(*tasks, (fixed("Reserved stock is no longer counted."),)),
        pauses=_PAUSES,
    )


def _task(number: int) -> tuple[Step, ...]:
    path = f"src/module_{number:02}.py"
    old = f"    return shelf_{number}_0 + reserved_{number}_0"

    def change(scene: Scene) -> Reply | None:
        if not any(old in read.text for read in scene.all("read_file")):
            return None
        return calls("It adds what is reserved.", call("patch_file", path=path, old=old, new=old.partition(" +")[0]))

    def say(scene: Scene) -> Reply | None:
        ran = scene.last("run_command")
        return f"Part {number} no longer counts it." if ran is not None and "passed" in ran.text else None

    return (
        fixed(calls("I look for it.", call("grep_files", pattern=f"reserved_{number}_", glob="*.py"))),
        fixed(calls("I read the module and its neighbour.", *(
            call("read_file", path=f"src/module_{each:02}.py") for each in (number, number + TASKS)
        ))),
        change,
        fixed(calls("The tests.", call("run_command", command="sh check"))),
        say,
    )  # fmt: skip


def _module(number: int) -> str:
    parts = [f'"""Part {number} of the warehouse: what lies on its shelves."""\n']
    for each in range(FUNCTIONS):
        parts.append(
            f"def stock_{number}_{each}(shelf_{number}_{each}, reserved_{number}_{each}):\n"
            f'    """How much of article {each * 37 % 101} lies on shelf {each} of part {number}."""\n'
            f"    if shelf_{number}_{each} < 0:\n"
            f'        raise ValueError("shelf {each} of part {number} holds less than nothing")\n'
            f"    return shelf_{number}_{each} + reserved_{number}_{each}\n"
        )
    return "\n\n".join(parts)


# The day in the channel


def _channel() -> Work:
    files = {f"handbook/page_{number:02}.md": _page(number) for number in range(PAGES)}
    files["AGENTS.md"] = "# The channel\n\n" + "Answer briefly, name the page of the handbook, never guess. " * 120
    return Work(
        files=files,
        asked=tuple(
            f"<@person-{n * 7 % 23}> how is number {n} handled, and who decides? [task {n + 1}]"
            for n in range(MESSAGES)
        ),
        steps=tuple(_reply(number) for number in range(MESSAGES)),
        pauses=_CHANNEL,
    )


def _reply(number: int) -> tuple[Step, ...]:
    said = f"Case {number}: " + "the team that opened it decides, and the handbook says how it is handled. " * 4
    if number % 3 == 2:  # asked before: it stands above
        return (fixed(said),)
    look = call("read_file", path=f"handbook/page_{number % PAGES:02}.md", limit=30)
    return fixed(calls("I look it up.", look)), fixed(said)


def _page(number: int) -> str:
    lines = (f"{line}. Case {line * 13 % 97} of page {number} goes to team {line % 7}." for line in range(60))
    return f"# Page {number}\n\n" + "\n".join(lines) + "\n"
