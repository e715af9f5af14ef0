"""A generated session of the agent, and the laws that hold for every request it sends.

Everything is real but the provider's sockets and the time: log, store, engine, tools, compaction, memory files.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from holdfast.agent.contract import Watch
from holdfast.config.sections.agent import MaskSettings, MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.memory.knowledge import Knowledge
from holdfast.records import validate
from holdfast.records.events.agent import TaskUpdated
from holdfast.records.events.sessions import ProcessExited, ProcessStarted
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.script import Script
from holdfast.tools import Cancel, Tool, ToolContext, ToolExecutionError, ToolOutput
from tests.agent.bench import MODELS, Bench, calls, settings
from tests.agent.summaries import summarizer
from tests.properties.agent_laws import Laws

OTHERS = {
    "anthropic": ("anthropic:claude-haiku-4-5", "openai:gpt-6.1-sol"),
    "openai_chat": ("anthropic:claude-haiku-4-5", "gemini:gemini-2.5-pro"),
    "openai_responses": ("anthropic:claude-sonnet-5-5", "deepseek:deepseek-chat"),
    "gemini": ("anthropic:claude-haiku-4-5", "openai:gpt-6.1-sol"),
    "openrouter": ("anthropic:claude-haiku-4-5", "gemini:gemini-2.5-pro"),
}
FAULTS = (
    Fault(kind="status", options=Options(status=429, retry_after=3)),
    Fault(kind="status", options=Options(status=500)),
    Fault(kind="status", options=Options(status=529), times=2),
    Fault(kind="status", options=Options(status=500), times=4),  # more than is tried
    Fault(kind="cut"),
    Fault(kind="cut", options=Options(at="early")),
    Fault(kind="close"),
    Fault(kind="sse_error"),
    Fault(kind="malformed"),
)
RUN = "run_command"
KINDS = (*["echo"] * 8, *["fail", "detach", "collect", "memory_add", "list_dir", "recall", "knowledge_add"] * 2, RUN)


class Killed(BaseException):
    """The process is no more."""


class Stopping(Watch):
    """Stops a turn after so many pieces of its answers."""

    def __init__(self, cancel: Cancel, pieces: int) -> None:
        self._cancel, self._left = cancel, pieces

    def piece(self, kind: Any, text: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._cancel.set()


class Played:
    """One session, what may happen to it, and what has to be true of it."""

    def __init__(self, place: Path, random: Random, dialect: str) -> None:
        self.random, self.dialect = random, dialect
        self.number = 0
        volatile = random.choice(["tail", "tail", "tail", "system"])
        config = settings(
            model=MODELS[dialect],
            cache=CacheSettings(padding=random.choice(["off", "always"])),
            agent={
                "volatile": volatile,
                "on_load": random.choice(["auto", "auto", "refresh", "replay"]),
                "history_turns": random.choice([0, 0, 0, 6]),
                "retries": 2,
            },
            compaction={
                "limit_tokens": random.choice([6_000, 9_000, 14_000]),
                "keep_recent_tokens": random.choice([300, 1_500]),
                "reserve_tokens": 2_000,
                "cooldown_turns": random.choice([0, 3]),
                "anchor_turns": random.choice([0, 2]),
            },
            mask=MaskSettings(keep_window=4, trigger_chars=6_000, release_chars=3_000),
        )
        placement = random.choice(["deltas", "deltas", "deltas", "blocks"])
        memory = MemorySettings(
            placement=placement,  # type: ignore[arg-type]
            retrieve=random.choice(["session_start", "every_turn"]),  # type: ignore[arg-type]
            delta_max=random.choice([2, 20]),
        )
        self.bench = Bench(place, config=replace(config, memory=memory), tools=self._tools())
        for _ in range(random.choice([0, 1, 8])):
            self._learn()
        # Answers take their time: requests of one moment would be parallel ones.
        spoken = Script(name="agent", function=summarizer(), first_token=0.8, per_token=0.01)
        self.bench.simulator.script = spoken
        self.hanging = asyncio.Event()
        self.laws = Laws(self.bench, system_mode=volatile == "system" or placement == "blocks")

    async def begin(self) -> None:
        self.session = await self.bench.sessions.create(goal=self.random.choice([None, "Ship it"]))

    def _tools(self) -> tuple[Tool, ...]:
        async def echo(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            return ToolOutput(content=f"echo {input.get('n')} " + "and so on " * int(input.get("size", 1)))

        async def fail(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            raise ToolExecutionError(f"failed {input.get('n')}")

        async def hang(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            self.hanging.set()
            await asyncio.Event().wait()
            return ToolOutput()

        async def detach(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            context.emit(ProcessStarted(process=f"job{input['n']}", command=f"make {input['n']}", background=True))
            return ToolOutput(content="started")

        async def collect(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            context.emit(ProcessExited(process=f"job{input['n']}", exit_code=0, background=True))
            return ToolOutput(content="ended")

        made = (("echo", echo), ("fail", fail), ("hang", hang), ("detach", detach), ("collect", collect))
        return tuple(
            Tool(name=name, description=f"Does {name}.", run=run, effect="read", core=True) for name, run in made
        )

    # What may happen

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _calls(self) -> str:
        made: list[tuple[str, dict[str, Any]]] = []
        for _ in range(self.random.choice([1, 1, 2, 4])):
            n = self._next()
            kind = self.random.choice(KINDS)
            given: dict[str, Any] = {"n": n}
            if kind == "echo":
                given["size"] = self.random.choice([1, 40, 400, 1_200])
            elif kind == "memory_add":
                given = {"file": self.random.choice(["user", "memory"]), "text": f"fact {n}"}
            elif kind == "recall":
                given = {"query": f"number {n % 9}"}
            elif kind == "knowledge_add":
                given = {"title": f"Own fact {n}", "content": f"It is known since message {n}."}
            elif kind == RUN:
                given = {"command": "true", "background": True}
            elif kind == "list_dir":
                given = {}
            made.append((kind, given))
        return calls(*made)

    def _words(self) -> str:
        return f"message {self._next()} " + "with words " * self.random.choice([1, 1, 30, 200])

    def _asked(self) -> str:
        return self._calls() if self.random.random() < 0.6 else self._words()

    async def turn(self) -> None:
        await self.session.ask(self._asked())

    async def pause(self) -> None:
        self.bench.clock.advance(self.random.choice([20, 200, 400, 4_000, 200_000]))
        self.laws.paused = True
        await self.turn()

    async def faulty(self) -> None:
        self.bench.simulator.faults.add(self.random.choice(FAULTS))
        await self.turn()
        self.bench.simulator.faults.clear()

    async def stopped(self) -> None:
        cancel = Cancel()
        pieces = self.random.choice([0, 1, 2, 5])
        if pieces == 0:
            cancel.set()
        await self.session.ask(self._asked(), watch=Stopping(cancel, pieces), cancel=cancel)

    async def stopped_in_a_tool(self) -> None:
        cancel = Cancel()
        await self._hang(lambda task: cancel.set(), cancel)

    async def cancelled(self) -> None:
        await self._hang(lambda task: task.cancel(), None)

    async def _hang(self, stop: Callable[[asyncio.Task[Any]], object], cancel: Cancel | None) -> None:
        self.hanging.clear()
        made: list[tuple[str, dict[str, Any]]] = [("echo", {"n": self._next()}), ("hang", {})]
        self.random.shuffle(made)
        task = asyncio.create_task(self.session.ask(calls(*made), cancel=cancel))
        waiting = asyncio.create_task(self.hanging.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        stop(task)
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    async def edited(self) -> None:
        folder = self.bench.workspace / ".holdfast"
        folder.mkdir(exist_ok=True)
        name = self.random.choice(["USER.md", "MEMORY.md"])
        (folder / name).write_text(self.random.choice(["", f"- by hand {self._next()}\n"]))
        await self.turn()

    @property
    def known(self) -> Knowledge:
        bench = self.bench
        return Knowledge(bench.store, "t", project=str(bench.workspace.resolve()), clock=bench.clock.now)

    def _learn(self) -> None:
        """Somebody else writes to the knowledge store."""
        known, n = self.known, self._next()
        entries, kind = known.entries(), self.random.choice(["preference", "gotcha", "gotcha", "pattern"])
        action = self.random.choice(["add", "edit", "edit", "forget"]) if entries else "add"
        text = f"message words echo number {n} " + "and more of it " * self.random.choice([1, 20])
        if action == "add":
            known.add(f"Fact {n}", text, category=kind, everywhere=self.random.random() < 0.3)
        elif action == "edit":
            known.edit(self.random.choice(entries).id, content=text)
        else:
            known.forget(self.random.choice(entries).id)

    async def learned(self) -> None:
        for _ in range(self.random.choice([1, 3])):
            self._learn()
        await self.turn()

    async def goal(self) -> None:
        self.session.set_goal(self.random.choice(["", "Ship it", f"Goal {self._next()}"]))
        await self.turn()

    async def told(self) -> None:
        for _ in range(self.random.choice([1, 3])):
            self.session.tell(TaskUpdated(task=f"t{self._next() % 3}", status="open", text=f"news {self.number}"))
        if self.random.random() < 0.5:
            await self.turn()

    async def delegated(self) -> None:
        """Sub-agents, waited for or not; those that are not have ended before anything else happens."""
        tasks = [{"task": self._asked(), "role": "helper"} for _ in range(self.random.choice([1, 1, 3]))]
        await self.session.ask(calls(("delegate", {"tasks": tasks, "wait": self.random.random() < 0.6})))
        async with asyncio.timeout(30):
            while self.session.state.running_delegates:
                await asyncio.sleep(0.001)
        if self.random.random() < 0.5:
            await self.turn()

    async def mentioned(self) -> None:
        other = self.random.choice(OTHERS[self.dialect])
        await self.session.ask(f"@{other} {self._words()}")
        if self.random.random() < 0.5:
            await self.turn()

    async def switched(self) -> None:
        self.session.set_model(self.random.choice([MODELS[self.dialect], *OTHERS[self.dialect]]))
        await self.turn()

    async def compacted(self) -> None:
        await self.session.compact()
        await self.turn()

    async def moved(self) -> None:
        (self.bench.workspace / f"f{self._next()}.txt").write_text("x")
        await self.restarted()

    async def restarted(self) -> None:
        await self.bench.restart(clean=self.random.random() < 0.5)
        self.session = await self.bench.sessions.resume(self.session.id)

    async def left_alone(self) -> None:
        """Nothing is cached any more when it is taken up again."""
        self.bench.clock.advance(200_000)
        self.laws.paused = True
        await self.moved()
        await self.turn()

    async def killed(self) -> None:
        """The process ends at some write of a turn: neither that one nor any after it is made."""
        log, left = self.session.disk_log, self.random.randrange(1, 9)
        write = log.append

        def append(envelopes: Any) -> None:
            nonlocal left
            left -= 1
            if left > 0:
                write(envelopes)
            elif threading.current_thread() is threading.main_thread():
                raise Killed  # elsewhere it would end a thread that has to clean up: there nothing is written

        log.append = append  # type: ignore[method-assign]
        try:
            await self.session.ask(self._asked())
        except Killed:
            pass
        finally:
            log.append = write  # type: ignore[method-assign]
        await self.bench.restart(clean=False)
        self.session = await self.bench.sessions.resume(self.session.id)

    async def forked(self) -> None:
        before = self.session
        self.session = await self.bench.sessions.fork(before.id)
        await self.turn()
        if self.random.random() < 0.5:
            await before.ask(self._asked())
        await before.close()

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        common = [self.turn] * 8 + [self.faulty, self.pause, self.restarted, self.edited, self.learned] * 2
        return [
            *common,
            self.killed,
            self.killed,
            self.stopped,
            self.stopped_in_a_tool,
            self.cancelled,
            self.goal,
            self.told,
            self.delegated,
            self.delegated,
            self.mentioned,
            self.switched,
            self.compacted,
            self.moved,
            self.left_alone,
            self.forked,
        ]

    def check(self) -> None:
        self.laws.check()
        if not self.session.state.open_calls:
            assert not validate(self.session.request())

    async def close(self) -> None:
        await self.bench.close()
