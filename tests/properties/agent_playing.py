"""A generated session of the agent, and the laws that hold for every request it sends.

Everything is real but the provider's sockets and the time: log, store, engine, tools, compaction, memory files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from holdfast import facts
from holdfast.agent.compaction.asking import AGAIN, INSTRUCTION
from holdfast.agent.values import Watch
from holdfast.agent.window.entries import Entry, Static, entry_from, from_json, message_from, messages_from
from holdfast.agent.window.rendering import entry_messages
from holdfast.canonical import Message, Request, Text, ToolResult, validate
from holdfast.config.sections.agent import Mask
from holdfast.config.sections.cache import Cache
from holdfast.events import Envelope
from holdfast.events.agent import (
    SessionComposed,
    SessionRefreshed,
    TaskUpdated,
    TurnAnswered,
    TurnToolsAnswered,
    WindowAppended,
    WindowSent,
)
from holdfast.events.sessions import CompactionCompleted, ProcessExited, ProcessStarted
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.script import Script
from holdfast.tools import Cancel, Tool, ToolContext, ToolExecutionError, ToolOutput
from holdfast.tools.masking import PLACEHOLDER
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.agent.compacting import summarizer
from tests.agent.driving import MODELS, Bench, calls, extends, settings

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
LOOKBACK = 20
EXPIRED = {"ttl_expired_5m", "ttl_expired_1h"}


class Killed(BaseException):
    """The process is no more."""


class Sent:
    """One request: as the cache sees it, and what was said when it left."""

    def __init__(self, dialect: str, model: str, raw: bytes, session: str, reset: str | None) -> None:
        body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
        assert isinstance(body, Body), body
        self.session, self.model, self.reset = session, model, reset
        self.keys = PromptReader().read(body, facts.model(model)).prompt.keys
        self.request = DIALECTS[dialect].decode(body)

    @property
    def system(self) -> str:
        """All of the system text: some dialects join its parts."""
        return "".join(_flat(part) for part in (self.request.system_prompt, self.request.system_prompt_volatile))

    @property
    def lane(self) -> tuple[str, str]:
        return self.session, self.model


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
        volatile = random.choice(["tail", "tail", "tail", "system"])
        self.system_mode = volatile == "system"
        config = settings(
            model=MODELS[dialect],
            cache=Cache(padding=random.choice(["off", "always"])),
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
            mask=Mask(keep_window=4, trigger_chars=6_000, release_chars=3_000),
        )
        self.bench = Bench(place, config=config, tools=self._tools())
        # Answers take their time: requests of one moment would be parallel ones.
        spoken = Script(name="agent", function=summarizer(), first_token=0.8, per_token=0.01)
        self.bench.simulator.script = spoken
        self.number = 0
        self.paused = False
        self.hanging = asyncio.Event()
        self.checked = 0
        self.last: dict[tuple[str, str], Sent] = {}
        self.systems: dict[str, str] = {}
        self.volatiles: dict[tuple[str, str], str] = {}
        self.disks: dict[str, Disk] = {}
        self.far: set[tuple[str, str]] = set()
        """Lanes that were gone on with after more than a cache looks back."""

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
            context.tell(ProcessStarted(process=f"job{input['n']}", command=f"make {input['n']}"))
            return ToolOutput(content="started")

        async def collect(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            context.tell(ProcessExited(process=f"job{input['n']}", exit_code=0))
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
            kind = self.random.choice(["echo", "echo", "echo", "fail", "detach", "collect", "memory_add", "list_dir"])
            given: dict[str, Any] = {"n": n}
            if kind == "echo":
                given["size"] = self.random.choice([1, 40, 400, 1_200])
            elif kind == "memory_add":
                given = {"file": self.random.choice(["user", "memory"]), "text": f"fact {n}"}
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
        self.paused = True
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

    async def goal(self) -> None:
        self.session.set_goal(self.random.choice(["", "Ship it", f"Goal {self._next()}"]))
        await self.turn()

    async def told(self) -> None:
        for _ in range(self.random.choice([1, 3])):
            self.session.tell(TaskUpdated(task=f"t{self._next() % 3}", status="open", text=f"news {self.number}"))
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
        self.paused = True
        await self.moved()
        await self.turn()

    async def killed(self) -> None:
        """The process ends at some write of a turn: neither that one nor any after it is made."""
        log, left = self.session._log, self.random.randrange(1, 9)
        write = log.append

        def append(envelopes: Any) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Killed
            write(envelopes)

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
        common = [self.turn] * 8 + [self.faulty, self.pause, self.restarted, self.edited] * 2
        return [
            *common,
            self.killed,
            self.killed,
            self.stopped,
            self.stopped_in_a_tool,
            self.cancelled,
            self.goal,
            self.told,
            self.mentioned,
            self.switched,
            self.compacted,
            self.moved,
            self.left_alone,
            self.forked,
        ]

    # What has to be true

    def check(self) -> None:
        for place in range(self.checked, len(self.bench.sent)):
            sent = Sent(*self.bench.sent[place], *self.bench.sent_by[place])
            self._extends(sent)
            self._system(sent)
            self._kept(sent)
            assert not validate(sent.request), validate(sent.request)
            self.last[sent.lane] = sent
        self.checked = len(self.bench.sent)
        refused = [record for record in self.bench.simulator.journal.records() if record.status == 400]
        assert not refused, refused[-1].error
        if not self.session.state.open_calls:
            assert not validate(self.session.request())

    def _extends(self, sent: Sent) -> None:
        """Laws 1 and 5. Messages are compared too: one that was sent gets no further block, although a cache would not
        mind."""
        before = self.last.get(sent.lane)
        if before is not None and len(sent.keys) - len(before.keys) > LOOKBACK:
            self.far.add(sent.lane)
        if before is None or sent.reset is not None:
            return
        assert sent.keys[: len(before.keys)] == before.keys, "law 5: a prefix that changed has a reason"
        assert extends(before.request.messages, sent.request.messages), "law 1: what was sent is final"

    def _system(self, sent: Sent) -> None:
        """Law 3: the stable text is what was composed, in front of everything. What changes stands behind it, where
        that is asked for, and has its reason."""
        stable = self._stable(sent.session)
        assert sent.system.startswith(stable), "law 3"
        behind = sent.system.removeprefix(stable)
        assert self.system_mode or not behind, "law 3"
        if self.volatiles.setdefault(sent.lane, behind) != behind:
            assert sent.reset is not None, "law 3: what changed behind the stable text has a reason"
        self.volatiles[sent.lane] = behind

    def _stable(self, session: str) -> str:
        if session not in self.systems:
            composed = [e.payload for e in self.bench.log(session) if isinstance(e.payload, SessionComposed)]
            assert len(composed) == 1, "computed once"
            self.systems[session] = composed[0].system
        return self.systems[session]

    def _kept(self, sent: Sent) -> None:
        disk = self.disks.setdefault(sent.session, Disk())
        disk.read(self.bench.log(sent.session))
        for text in texts_of(sent.request):
            assert disk.accounts_for(text), f"not on disk: {text[:200]}"

    def check_breaks(self) -> None:
        """Nothing was lost that nobody can explain."""
        sessions = {session for session, _ in self.bench.sent_by}
        told = [event.payload for session in sessions for event in self.bench.log(session)]
        reasons = {each.call: each.reset for each in told if isinstance(each, WindowSent)}
        found = [each for each in self.bench.breaks() if not self._explained(each, reasons.get(each.call))]
        assert not found, [(each.cause, each.model, each.path, each.tokens) for each in found]

    def _explained(self, found: Any, reason: str | None) -> bool:
        provider = found.model.partition(":")[0]
        if found.cause in EXPIRED:
            return self.paused
        if found.cause == "lookback_exceeded":  # a model that is asked again after many turns with others
            return (found.session, found.model) in self.far
        if provider == "gemini":  # whose hits come by chance, also behind an attempt that was given up
            return found.cause in ("likely_server_side", "parallel_race")
        if provider == "openrouter":  # which the simulator does not know: nothing is ever cached
            return found.cause == "likely_server_side"
        # Where the changing part of the system text is joined to the stable one, a cache that matches token by token
        # still reads the beginning of what is one block to the engine, which then does not believe the reason.
        joined = provider != "anthropic"
        return joined and found.cause == "unknown" and reason == "volatile_system_changed"

    async def close(self) -> None:
        await self.bench.close()


def _flat(part: Any) -> str:
    if part is None or isinstance(part, str):
        return part or ""
    return "".join(block.text for block in part if isinstance(block, Text))


def texts_of(request: Request) -> list[str]:
    """Every text of a conversation, those in results too."""
    found = []
    for message in request.messages:
        for block in message.content:
            parts = block.content if isinstance(block, ToolResult) else (block,)
            found += [part.text for part in parts if isinstance(part, Text)]
    return found


class Disk:
    """Every text that the log of a session accounts for."""

    def __init__(self) -> None:
        self._known, self._events = {INSTRUCTION}, 0

    def read(self, log: tuple[Envelope, ...]) -> None:
        for event in log[self._events :]:
            self._known |= _texts_in(event)
        self._events = len(log)

    def accounts_for(self, text: str) -> bool:
        """What is said for one request alone, and what stands in a result's place, are texts of ours."""
        return text in self._known or text.startswith((PLACEHOLDER, AGAIN.partition("{")[0]))


def _texts_in(event: Envelope) -> set[str]:
    payload = event.payload
    if isinstance(payload, WindowAppended):
        return _rendered(from_json(payload.entries))
    if isinstance(payload, SessionRefreshed | CompactionCompleted):
        return _rendered((entry_from(payload.entry),)) if payload.entry else set()
    if isinstance(payload, TurnAnswered):
        return _said((message_from(payload.message),))
    return _said(messages_from(payload.messages)) if isinstance(payload, TurnToolsAnswered) else set()


def _rendered(entries: tuple[Entry, ...]) -> set[str]:
    return {text for entry in entries for text in _said(entry_messages(entry, Static()))}


def _said(messages: tuple[Message, ...]) -> set[str]:
    return set(texts_of(Request(model="m:m", messages=messages)))

