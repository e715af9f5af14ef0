"""The four doors with one interface: `play` a session against a simulated provider over HTTP, on a virtual clock.

Everything between what the user does and what the provider gets is real: `open_agent`, the command `holdfast chat`, a
server of the gateway, the official SDKs. Only the clock is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from holdfast import Engine
from holdfast.agent import Host, open_agent
from holdfast.agent import keepalive as keepalive_module
from holdfast.agent.keepalive import KeepaliveLoop
from holdfast.cli import run as command
from holdfast.cli.chat import conversation
from holdfast.config import load
from holdfast.engine.identity.identities import LOCAL
from holdfast.gateway import assembly
from holdfast.gateway.assembly import Gateway
from holdfast.gateway.chores import Chores
from holdfast.gateway.server import running as serving
from holdfast.memory.knowledge import Knowledge
from holdfast.sdk.http_clients import BESIDE
from holdfast.simulator import VirtualClock
from holdfast.simulator.server import running
from holdfast.store import open_store
from tests.doors.clients import CLIENTS
from tests.doors.sessions import Place, Play, Played, Watched

STEP = 60.0
"""Seconds after which whoever works in the background of a pause gets a chance to."""
TIMEOUT = 3_600.0
"""Seconds of a pause after which nobody does."""


class Door(Protocol):
    """A way in for a user."""

    name: str

    def run(self, play: Play, provider: str, place: Place, clock: VirtualClock, simulator: Watched) -> str:
        """Say it all; gives what the user was shown."""
        ...


_KEPT: dict[tuple[str, str, int], tuple[Play, Played]] = {}


def played(door: Door, provider: str, session: Play) -> Played:
    """What came of a session through a door. The same session is played once: several mechanisms are seen in one."""
    key = (door.name, provider, id(session))
    if key not in _KEPT:
        _KEPT[key] = session, _play(door, provider, session)  # with the session, so that its id stays its own
    return _KEPT[key][1]


_SERVED: list[tuple[Watched, str]] = []


@contextlib.contextmanager
def provided() -> Iterator[None]:
    """A server of the simulator for all sessions that are played meanwhile: to start one for each takes longer than to
    play them."""
    simulator = Watched()
    with running(simulator) as address:
        _SERVED.append((simulator, address))
        try:
            yield
        finally:
            _SERVED.pop()


def _play(door: Door, provider: str, session: Play) -> Played:
    simulator, upstream = _SERVED[-1]
    clock = simulator.begin_anew(session)
    with tempfile.TemporaryDirectory(prefix="holdfast-doors-") as root:
        place = Place(Path(root), session, provider, upstream)
        with _alone(place):
            _know(session, place, clock)
            shown = door.run(session, provider, place, clock, simulator)
            return place.played(session, simulator, shown)


@contextlib.contextmanager
def _alone(place: Place) -> Iterator[None]:
    """Nothing of this machine's configuration, keys or proxies counts."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    with patch.dict(os.environ, kept | place.environ, clear=True), contextlib.chdir(place.work):
        yield


def _know(session: Play, place: Place, clock: VirtualClock) -> None:
    if session.knowledge:
        with open_store(place.home / "holdfast.db") as store:
            knowledge = Knowledge(store, LOCAL, clock=clock.now)
            for title, text in session.knowledge:
                knowledge.add(title, text, everywhere=True)


def _nobody() -> None:
    """Nobody works in the background."""


def _before(session: Play, turn: int, clock: VirtualClock, simulator: Watched, idle: Callable[[], None]) -> None:
    """What happens until a turn begins."""
    seconds = session.pauses.get(turn, session.gap)
    while seconds > STEP:
        step = STEP if seconds < TIMEOUT else seconds - STEP  # nobody works for so long
        clock.advance(step)
        seconds -= step
        idle()
    clock.advance(seconds)
    if turn in session.losses:
        simulator.reset()


class Rounds:
    """The agent's keep-alive at work all the time, and who waits for a round that began after a moment."""

    def __init__(self) -> None:
        self._done = 0
        self._changed = threading.Condition()
        self._none = False

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        whole = KeepaliveLoop.round

        async def counting(keepalive: KeepaliveLoop) -> None:
            await whole(keepalive)
            with self._changed:
                self._done += 1
                self._changed.notify_all()

        with patch.object(KeepaliveLoop, "round", counting), patch.object(keepalive_module, "TICK_S", 0.001):
            yield

    def wait(self) -> None:
        """Until one that began from now on is over. Where there are none, nobody waits twice."""
        if self._none:
            return
        with self._changed:
            after = self._done + 2  # the first one may have begun before
            self._none = self._none or not self._changed.wait_for(lambda: self._done >= after, 5.0)


class AgentDoor:
    """A program with `open_agent`."""

    name = "agent"

    def run(self, play: Play, provider: str, place: Place, clock: VirtualClock, simulator: Watched) -> str:
        rounds = Rounds()

        async def talk() -> str:
            shown = []
            idle = rounds.wait if play.settings.get("cache.keepalive.enabled") else _nobody
            async with open_agent(place.work, home=place.home, clock=clock.now, tools=play.tools) as sessions:
                session = await sessions.create()
                for number, words in enumerate(play.turns):
                    await asyncio.to_thread(_before, play, number, clock, simulator, idle)
                    turn = await session.ask(words)
                    assert turn.ended == "completed", turn.problem
                    shown.append(turn.text)
            return "\n".join(shown)

        with rounds.counted():
            return asyncio.run(talk())


class Keyboard(io.TextIOBase):
    """Somebody who types one line after the other."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        return next((f"{line}\n" for line in self._lines), "")


class ChatDoor:
    """`holdfast chat`, typed into; `/cache` is its last line."""

    name = "chat"

    def run(self, play: Play, provider: str, place: Place, clock: VirtualClock, simulator: Watched) -> str:
        rounds = Rounds()
        idle = rounds.wait if play.settings.get("cache.keepalive.enabled") else _nobody

        def typed() -> Iterator[str]:
            for number, words in enumerate(play.turns):
                _before(play, number, clock, simulator, idle)
                yield words
            yield "/cache"

        out, errors = io.StringIO(), io.StringIO()
        with (
            rounds.counted(),
            patch.object(conversation, "Host", partial(Host, clock=clock.now)),
            patch.object(sys, "stdin", Keyboard(typed())),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
        ):
            code = command(["chat"])
        shown = out.getvalue() + errors.getvalue()
        assert code == 0, shown
        return shown


class Background(Chores):
    """The gateway's chores, begun from outside of their loop."""

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        super().start()

    def now(self) -> None:
        asyncio.run_coroutine_threadsafe(self._all(), self.loop).result(20)

    async def _all(self) -> None:
        await self.run_due()
        while self.under_way:
            await asyncio.sleep(0.005)


class GatewayDoor:
    """`holdfast serve` as a server on this machine, asked by an official SDK that knows nothing of it."""

    name = "gateway"

    def run(self, play: Play, provider: str, place: Place, clock: VirtualClock, simulator: Watched) -> str:
        config = load(workspace=None, home=place.home, environ=os.environ)
        with patch.object(assembly, "Chores", Background):
            gateway = Gateway(config, clock=clock.now)
            with serving(config, gateway=gateway) as address:
                chores = gateway.app.chores
                assert isinstance(chores, Background)
                return _converse(play, provider, place, clock, simulator, address, {}, chores.now)


class SdkDoor:
    """The engine inside the official SDK's HTTP client."""

    name = "SDK"

    def run(self, play: Play, provider: str, place: Place, clock: VirtualClock, simulator: Watched) -> str:
        config = load(workspace=None, home=place.home, environ=os.environ)
        upstream = config.settings.upstream.anthropic
        with open_store(config.settings.store.url) as store:
            engine = Engine(config.for_agent, store=store, clock=clock.now)
            http = {library: engine.http_client(library=library) for library in ("httpx2", "httpx")}
            shown = _converse(play, provider, place, clock, simulator, upstream, http, _beside_done)
            for client in http.values():
                client.close()
            engine.close(now=clock.now())
            return shown


def _beside_done() -> None:
    """Wait for the calls that are made beside a request."""
    for thread in threading.enumerate():
        if thread.name == BESIDE:
            thread.join(20)


def _converse(
    play: Play,
    provider: str,
    place: Place,
    clock: VirtualClock,
    simulator: Watched,
    address: str,
    http: dict[str, Any],
    idle: Callable[[], None],
) -> str:
    """A client that sends the whole conversation with every turn; gives the headers it was answered with."""
    shown = []
    with CLIENTS[provider](address, http, {"x-holdfast-session": "doors", **play.client_headers}) as client:
        for turn in range(len(play.turns)):
            _before(play, turn, clock, simulator, idle)
            headers = client.ask(play, place.model, turn)
            shown += [f"{name}: {value}" for name, value in headers.items() if name.startswith("x-holdfast")]
            idle()
    return "\n".join(shown)


AGENT, CHAT, GATEWAY, SDK = AgentDoor(), ChatDoor(), GatewayDoor(), SdkDoor()
DOORS: tuple[Door, ...] = (AGENT, CHAT, GATEWAY, SDK)
OURS, THEIRS = (AGENT, CHAT), (GATEWAY, SDK)
"""Doors to Holdfast's own agent, and doors for clients of others."""
