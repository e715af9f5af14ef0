"""A session as every door can play it, and what came of it.

The same few things are said through each door: an agent has the long text in its AGENTS.md, a client sends it as its
system text. Settings are keys of `holdfast.toml`.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.cli import run as command
from holdfast.records import Request, Usage
from holdfast.records.events import Envelope
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.journal import Journal
from holdfast.simulator.messages import HttpRequest
from holdfast.simulator.provider import Exchange
from holdfast.simulator.script import Script
from holdfast.store import open_store
from holdfast.store.rows import Break
from holdfast.store.rows import Call as StoredCall
from holdfast.tools import Tool
from tests.agent.bench import obey

START = 1_800_000_000.0
MODELS = {"anthropic": "claude-opus-4-6", "openai": "gpt-6.1-sol", "gemini": "gemini-2.5-pro"}
PROVIDERS = tuple(MODELS)
RULES = "Answer briefly, name the file you mean, and say so where you are not sure of something. "
LONG = RULES * 400
"""Above every model's floor."""
BREAKABLE = {"cache.breaks.min_tokens": 100, "cache.breaks.min_drop": 0.01}
"""Breaks of short sessions count too."""


class Play(Struct, frozen=True, kw_only=True):
    """What is said, and under which settings. The members from `client_system` on are for clients alone."""

    turns: tuple[str, ...] = ("What is this?", "And why?", "Go on.")
    settings: Mapping[str, Any] = {}
    system: str = LONG
    files: Mapping[str, str] = {}
    """Files of the workspace by name."""
    model: str = ""
    """Another model than the provider's usual one."""
    gap: float = 20.0
    """Seconds between turns."""
    pauses: Mapping[int, float] = {}
    """Seconds before a turn, by its number from 0."""
    losses: tuple[int, ...] = ()
    """Turns before which the provider loses all that it has cached."""
    reply: Callable[[Request], object] = obey
    knowledge: tuple[tuple[str, str], ...] = ()
    """Title and text of entries of this machine's user."""
    commands: tuple[str, ...] = ()
    """Commands of `holdfast` that look at it afterwards."""
    tools: tuple[Tool, ...] = ()
    """Tools of the program that opens an agent."""
    client_system: Callable[[int], str] | None = None
    client_tools: Callable[[int], tuple[str, ...]] | None = None
    client_members: Callable[[int], dict[str, Any]] | None = None
    client_headers: Mapping[str, str] = {}
    client_shuffles_keys: bool = False
    client_rewrites: Callable[[int], str] | None = None
    """What the first message says in each turn."""


class Sent(NamedTuple):
    """A request as the provider got it."""

    method: str
    path: str
    raw: bytes
    at: float

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw) if self.raw else {}

    def part(self, name: str) -> str:
        """A member as it was written."""
        return json.dumps(self.body.get(name))


class Played(NamedTuple):
    """`asked` are requests for answers, `beside` all others; `shown` is what the door told its user, `reports` are the
    lines of break reports, `outputs` what each command said."""

    asked: list[Sent]
    beside: list[Sent]
    used: list[Usage]
    events: list[Envelope]
    calls: list[StoredCall]
    breaks: list[Break]
    shown: str
    reports: list[str]
    outputs: dict[str, str]

    def told(self, *types: str) -> list[Any]:
        """The payloads of these events."""
        return [event.payload for event in self.events if event.type in types]

    @property
    def last(self) -> dict[str, Any]:
        return self.asked[-1].body

    def text(self, index: int = -1) -> str:
        return self.asked[index].raw.decode()


class Watched(Simulator):
    """A provider that keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__(seed=16)
        self.begin_anew(Play())

    def begin_anew(self, play: Play) -> VirtualClock:
        """Forget everything: another session begins, on a clock of its own."""
        clock = VirtualClock(START)
        self.script, self.clock = Script(name="doors", function=play.reply), clock
        self.journal = Journal(1_000)
        self.reset()
        self.asked: list[Sent] = []
        self.beside: list[Sent] = []
        return clock

    def begin(self, call: HttpRequest) -> Exchange:
        sent = Sent(call.method, call.path, call.body, self.clock.now())
        asks = call.path.endswith(("/messages", "/responses", ":generateContent", ":streamGenerateContent"))
        (self.asked if asks else self.beside).append(sent)
        return super().begin(call)


class Place:
    """A directory for one session: `home` with its holdfast.toml, `work` with its files."""

    def __init__(self, root: Path, play: Play, provider: str, upstream: str) -> None:
        self.root, self.home, self.work = root, root / "home", root / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.model = play.model or MODELS[provider]
        (self.work / "AGENTS.md").write_text(play.system, "utf-8")
        for name, text in play.files.items():
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text(text, "utf-8")
        settings: dict[str, Any] = {f"upstream.{name}": upstream for name in ("anthropic", "openai", "gemini")}
        settings |= {
            "agent.model": f"{provider}:{self.model}",
            "tools.confirm.mode": "allow",
            # a busy machine is not what is tested
            "gateway.limits.stages_ms": 60_000,
            "gateway.limits.wait_ms": 60_000,
        }
        lines = [f"{key} = {toml(value)}" for key, value in (settings | dict(play.settings)).items()]
        (self.home / "holdfast.toml").write_text("\n".join(lines) + "\n", "utf-8")
        self.environ = {"HOME": str(root), "HOLDFAST_HOME": str(self.home), "NO_PROXY": "127.0.0.1"}

    def played(self, play: Play, simulator: Watched, shown: str) -> Played:
        events: list[Envelope] = []
        with open_store(self.home / "holdfast.db") as store:
            calls, breaks = store.calls(), store.breaks()
            for tenant, session in sorted({(call.tenant, call.session) for call in calls}):
                events += store.events(tenant, session)
        used = [record.usage for record in simulator.journal.records() if record.usage is not None]
        reports = [
            line
            for file in sorted((self.home / "cache-breaks").glob("*.jsonl"))
            for line in file.read_text("utf-8").splitlines()
        ]
        outputs = {each: _output(each) for each in play.commands}
        return Played(simulator.asked, simulator.beside, used, events, calls, breaks, shown, reports, outputs)


def _output(line: str) -> str:
    """What a command says here."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert command(line.split()) == 0, line
    return out.getvalue()


def toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(list(value) if isinstance(value, tuple) else value)
