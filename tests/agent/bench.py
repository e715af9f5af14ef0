"""An agent in front of a simulated provider in this process, on a virtual clock: everything but the sockets is real."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.agent import Equipment, Host, Sessions
from holdfast.agent.log import read_log
from holdfast.agent.session import Session
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import (
    AgentSettings,
    CompactionSettings,
    ConfirmSettings,
    MaskSettings,
    SkillsSettings,
    ToolsSettings,
)
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine import EngineCore
from holdfast.records import Message, Request, Text, Usage, validate
from holdfast.records.events import Bus, Envelope
from holdfast.records.events.agent import WindowSent
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.messages import Reply, ToolCall
from holdfast.simulator.script import Script
from holdfast.store import SqliteStore, open_store
from holdfast.wire import DIALECTS, Body
from tests.agent.transcripts import texts

START = 1_800_000_000.0
MODEL = "anthropic:claude-sonnet-5-5"
MODELS = {
    "anthropic": MODEL,
    "openai_chat": "deepseek:deepseek-chat",
    "openai_responses": "openai:gpt-6.1-sol",
    "gemini": "gemini:gemini-2.5-pro",
    "openrouter": "openrouter:anthropic/claude-sonnet-5-5",
}


def obey(request: Request) -> object:
    """The scripted model: it makes the calls that the user's last message names as JSON, then says that it is done."""
    last = request.messages[-1]
    words = [block.text for block in last.content if isinstance(block, Text)]
    if not words or last.role != "user":
        return "Done."
    try:
        calls = json.loads(words[-1].partition("\n")[0])
    except ValueError:
        return f"You said: {words[-1][:60]}"
    if not isinstance(calls, list) or not calls:
        return "Nothing to do."
    return {"call": [{"tool": tool, "input": given} for tool, given in calls]}


def confused(request: Request) -> object:
    """As `obey`, by a model that also calls tools which nobody offers."""
    found = obey(request)
    if not isinstance(found, dict):
        return found
    made = found["call"]
    parts = [
        ToolCall(f"call_{len(request.messages)}_{n}", each["tool"], json.dumps(each["input"]).encode())
        for n, each in enumerate(made)
    ]
    return Reply(tuple(parts), "tools", 0)


def calls(*made: tuple[str, dict[str, Any]]) -> str:
    """A message that makes the scripted model call these tools."""
    return json.dumps([list(each) for each in made])


def settings(
    *,
    model: str = MODEL,
    cache: CacheSettings | None = None,
    agent: dict[str, Any] | None = None,
    compaction: dict[str, Any] | None = None,
    skills: SkillsSettings | None = None,
    mask: MaskSettings | None = None,
    confirm: str = "allow",
) -> Settings:
    chosen = AgentSettings(model=model, compaction=CompactionSettings(**(compaction or {})), **(agent or {}))
    return Settings(
        cache=cache or CacheSettings(),
        agent=chosen,
        skills=skills or SkillsSettings(roots=()),
        tools=ToolsSettings(confirm=ConfirmSettings(mode=confirm), mask=mask or MaskSettings()),  # type: ignore[arg-type]
    )


class Bench:
    """A home, a workspace, an engine with its store, a provider; `restart` is what the end of a process leaves."""

    def __init__(
        self,
        place: Path,
        *,
        config: Settings | Callable[[str], Settings] | None = None,
        reply: Callable[[Request], object] = obey,
        simulator: Simulator | None = None,
        **more: Any,
    ) -> None:
        self.place, self.config, self.more = place, config or settings(), more
        self.home, self.workspace = place / "home", place / "work"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.clock = VirtualClock(START)
        self.simulator = simulator or Simulator(script=Script(name="agent", function=reply), clock=self.clock)
        self.sent: list[tuple[str, str, bytes]] = []
        self.sent_by: list[tuple[str, str | None]] = []
        """The session of each, and the reason that its log gives for what is not as it was sent before."""
        self.sent_beside: list[tuple[str, str, bytes, int, bytes]] = []
        """Calls beside the requests: method, path, body, and what was answered."""
        self.open()

    def open(self) -> None:
        self.bus = Bus()
        self._heard = self.bus.subscribe()
        self.store: SqliteStore = open_store(self.place / "h.db")
        found = self.config
        one = (lambda _: found) if isinstance(found, Settings) else found
        self.engine = EngineCore(one, store=self.store, bus=self.bus)
        equipment = {name: given for name, given in self.more.items() if name in Equipment.__struct_fields__}
        self.sessions = Sessions(
            one,
            workspace=self.workspace,
            home=self.home,
            host=Host(
                provider=_Recording(Simulated(self.simulator), self),
                engine=self.engine,
                store=self.store,
                bus=self.bus,
                tenant="t",
                clock=self.clock.now,
                sleep=self._sleep,
                **{name: given for name, given in self.more.items() if name not in equipment},
            ),
            equipment=Equipment(**equipment),
        )

    async def _sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def restart(self, *, clean: bool = True) -> None:
        """The process ends, and another one begins. Unless `clean`, it was killed: nothing was put away."""
        if clean:
            await self.sessions.close()
            self.engine.close(now=self.clock.now())
        else:
            for session in tuple(self.sessions.open_sessions()):
                await session.box.close()
                session.disk_log.close()
        self.store.close()
        self.bus.close()
        self.open()

    async def begin(self, *texts: str, **options: Any) -> Session:
        """A new session in which the user says these things, one after the other."""
        session = await self.sessions.create(**options)
        for text in texts:
            await session.ask(text)
        return session

    async def resumed(self, session: Session, *texts: str, clean: bool = True) -> Session:
        """The session in a process that begins when this one has ended, in which the user says these things."""
        await self.restart(clean=clean)
        session = await self.sessions.resume(session.id)
        for text in texts:
            await session.ask(text)
        return session

    async def close(self) -> None:
        await self.sessions.close()
        self.engine.close(now=self.clock.now())
        self.store.close()
        self.bus.close()

    async def __aenter__(self) -> Bench:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # What came of it

    def used(self) -> list[Usage]:
        """What the provider billed for each request."""
        return [record.usage for record in self.simulator.journal.records() if record.usage is not None]

    def events(self, *kinds: str) -> list[Envelope]:
        found = self._heard.drain()
        return [event for event in found if not kinds or event.payload.type in kinds]

    def log(self, id: str) -> tuple[Envelope, ...]:
        """What stands in the log of a session."""
        return read_log(self.home / "sessions" / f"{id}.jsonl")

    def breaks(self) -> list[Any]:
        self.store.flush()
        return [found for found in self.store.breaks() if found.cause is not None and found.reason is None]

    def assert_sound(self, session: Session) -> None:
        """The conversation keeps every rule of its kind, and nothing that was sent has broken."""
        sound(session)
        assert not self.breaks(), self.breaks()

    def bodies(self) -> list[Request]:
        """Every request as it went out, in canonical form."""
        made = []
        for dialect, model, raw in self.sent:
            body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
            assert isinstance(body, Body), body
            made.append(DIALECTS[dialect].decode(body))
        return made


class _Recording:
    """Keeps what goes out."""

    def __init__(self, provider: Any, bench: Bench) -> None:
        self._provider, self._bench = provider, bench

    def open(self, request: Any) -> Any:
        bench = self._bench
        bench.sent.append((request.dialect, request.model, request.raw))
        session = next((each for each in bench.sessions.open_sessions() if each.id == request.session), None)
        logged = () if session is None else reversed(session.disk_log.envelopes)
        told = next((event.payload for event in logged if isinstance(event.payload, WindowSent)), None)
        bench.sent_by.append((request.session, None if told is None else told.reset))
        return self._provider.open(request)

    async def send(self, request: Any) -> tuple[int, bytes]:
        answer: tuple[int, bytes] = await self._provider.send(request)
        self._bench.sent_beside.append((request.method, request.path, request.raw, *answer))
        return answer


def sound(session: Session) -> None:
    """The conversation keeps every rule of its kind."""
    assert not validate(session.request()), validate(session.request())


def extends(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Whether a conversation goes on from another without touching it."""
    return tuple(after[: len(before)]) == tuple(before)


def long_answer(request: Request) -> object:
    last = texts(request.messages[-1])
    return "All the words. " * 400 if last and last[-1] == "talk" else "Fine."
