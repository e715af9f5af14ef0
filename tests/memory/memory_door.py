"""A gateway's passages that give memory to clients, in front of a simulated provider, on a virtual clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.config.keys import Settings
from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.engine import EngineCore
from holdfast.engine.identity import Identities
from holdfast.engine.passage import Passage, Passages, Timers
from holdfast.memory.injection import MemoryInjector
from holdfast.memory.knowledge import Knowledge
from holdfast.records.events import Bus
from holdfast.simulator import Simulator, VirtualClock
from holdfast.store import open_store
from holdfast.wire import DIALECTS, Body
from tests.engine.driver import HOST, MODELS
from tests.engine.passage.door import KEY, STAGES_S, START, Door

TENANT = Identities(KEY).tenant({"x-api-key": "k"}, "")
"""Of whoever comes through a door."""

PROJECT = "/home/me/app"
PREFERENCE = ("Small commits", "Each commit does one thing and says why.")
DECISION = ("Pointer arithmetic", "The pointer comes from the arena and is never freed by hand.")
GOTCHA = ("Loader timeouts", "The loader needs thirty seconds on the first run.")


class MemoryDoor(Door):
    """A door whose clients get memory. It can be closed and opened again, as after the end of its process."""

    def __init__(
        self, path: Path, memory: MemorySettings | None = None, cache: CacheSettings | None = None, **limits: Any
    ) -> None:
        given = {"stages_ms": STAGES_S * 1_000, "wait_ms": STAGES_S * 1_000} | limits
        self.settings = Settings(
            cache=cache or CacheSettings(),
            gateway=GatewaySettings(limits=LimitSettings(**given)),
            memory=memory or MemorySettings(inject=True, project=PROJECT),
        )
        self.path, self.clock = path, VirtualClock(START)
        self.simulator = Simulator(clock=self.clock)
        self.bus = Bus()
        self._told = self.bus.subscribe()
        self.work = 0.0
        self.open()

    def open(self) -> None:
        self.store = open_store(self.path)
        self.engine = EngineCore(lambda _agent: self.settings, store=self.store, bus=self.bus, strict=True)
        self.identities = Identities(KEY, store=self.store)
        self.injecting = MemoryInjector(self.engine, self.store, lambda _agent: self.settings, clock=self.clock.now)
        self.passages = Passages(
            self.engine,
            self.identities,
            lambda _agent: self.settings,
            clock=self.clock.now,
            timers=Timers(lambda: self.work),
            remembering=self.injecting,
        )

    def restart(self) -> None:
        self.store.close()
        self.open()

    def configure(self, **memory: Any) -> None:
        self.settings = replace(self.settings, memory=replace(self.settings.memory, **memory))

    def configure_gateway(self, **gateway: Any) -> None:
        self.settings = replace(self.settings, gateway=replace(self.settings.gateway, **gateway))

    def knowledge(self, tenant: str = TENANT, project: str | None = PROJECT) -> Knowledge:
        assert self.store is not None
        return Knowledge(self.store, tenant, project=project, clock=self.clock.now)

    def learn(self, tenant: str = TENANT) -> dict[str, str]:
        """One preference, one decision and one gotcha; their ids by title."""
        knowledge = self.knowledge(tenant)
        known = [
            knowledge.add(*PREFERENCE, category="preference"),
            knowledge.add(*DECISION),
            knowledge.add(*GOTCHA, category="gotcha"),
        ]
        return {entry.title: entry.id for entry in known}


def client_request(*said: str, dialect: str = "anthropic", system: Any = HOST, **more: Any) -> bytes:
    """What a client sends: users and the model have said these in turn."""
    roles = ("user", "model" if dialect == "gemini" else "assistant")
    turns = [(roles[number % 2], text) for number, text in enumerate(said)]
    body: dict[str, Any] = {"model": MODELS.get(dialect, "anthropic/claude-sonnet-5.5")}
    if dialect == "gemini":
        body = {"contents": [{"role": role, "parts": [{"text": text}]} for role, text in turns]}
        body |= {"systemInstruction": {"parts": [{"text": system}]}} if system else {}
    elif dialect == "openai_responses":
        body["input"] = [{"role": role, "content": text} for role, text in turns]
        body |= {"instructions": system} if system else {}
    else:
        body["messages"] = [{"role": role, "content": text} for role, text in turns]
        if dialect == "anthropic":
            body |= {"max_tokens": 99} | ({"system": system} if system else {})
        elif system:
            body["messages"].insert(0, {"role": "system", "content": system})
    return json.dumps(body | more).encode()


def body_of(passage: Passage | bytes, dialect: str = "anthropic") -> Body:
    """What went to the provider."""
    raw = passage if isinstance(passage, bytes) else passage.raw
    found = DIALECTS[dialect].parse(raw, model=MODELS["gemini"] if dialect == "gemini" else "")
    assert isinstance(found, Body), found
    return found


def contents(passage: Passage | bytes, dialect: str = "anthropic") -> list[bytes]:
    """Every block that was sent, without markers, in the order of the prefix."""
    body = body_of(passage, dialect)
    return [
        f"{span.section}|{span.role}|".encode() + DIALECTS[dialect].content(body, index)
        for index, span in enumerate(body.blocks)
    ]


def extends(before: Passage, after: Passage, dialect: str = "anthropic") -> bool:
    """Whether a request begins with all that the one before it said."""
    old = contents(before, dialect)
    return contents(after, dialect)[: len(old)] == old


def says(passage: Passage, name: bytes = b"x-holdfast-memory") -> str:
    return dict(passage.response_headers()).get(name, b"").decode()
