"""The careless client's runs: the session through a gateway and a simulated provider, and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import click
from msgspec import Struct

from holdfast import report
from holdfast.config import Config, load
from holdfast.errors import HoldfastError
from holdfast.gateway import Gateway
from holdfast.gateway import running as gateway_running
from holdfast.report import BreakReport, Sums
from holdfast.simulator import Script, Simulator, VirtualClock
from holdfast.simulator import running as provider_running
from holdfast.store import open_existing
from holdfast.upstream import HttpClient, UpstreamError, parse_address

from . import session
from . import workspace as demo_workspace

START = 1_800_000_000.0
_MOST = 10_000
_UPSTREAMS = ("anthropic", "openai", "gemini", "openrouter")


class DemoRun(Struct, frozen=True):
    """One way the session was sent: what it came to, what broke, how often which repair was made."""

    sums: Sums
    breaks: tuple[BreakReport, ...]
    repairs: Mapping[str, int]


class CarelessClient:
    """Sends the session, each time through a gateway and a provider that know nothing yet."""

    def __init__(self, folder: Path, model: str, turns: list[session.DemoTurn]) -> None:
        self._folder, self._model, self._turns = folder, model, turns
        self._count = 0
        workspace = folder / "shop"
        demo_workspace.lay_out(workspace, turns)
        self._results = demo_workspace.carried_out(workspace, turns)  # the same calls return the same in every run
        self._script = Script(name="demo", function=session.model(turns))

    def run(self, title: str, flags: Mapping[str, object], skip: str = "") -> DemoRun:
        """The session with these settings, `skip` without one repair."""
        clock = VirtualClock(START)
        headers = {"x-holdfast-skip": skip} if skip else {}
        with (
            progress(title, len(self._turns)) as on_turn,
            provider_running(Simulator(script=self._script, clock=clock)) as provider,
        ):
            config = self._config(provider, flags)
            with gateway_running(config, gateway=Gateway(config, clock=clock.now)) as address:
                asyncio.run(
                    converse(
                        address,
                        clock,
                        self._model,
                        self._turns,
                        results=self._results,
                        headers=headers,
                        on_turn=on_turn,
                    )
                )
        return _looked_at(config)

    def stay(self, announce: Callable[[str, Path], Iterable[str]]) -> None:
        """Leave a gateway and a provider open for a client of the user's own, until Ctrl-C. `announce` makes the lines
        that say where they are."""
        with provider_running(Simulator()) as provider:
            config = self._config(provider, {})
            with gateway_running(config) as address:
                for line in announce(address, config.home):
                    click.echo(line)
                with contextlib.suppress(KeyboardInterrupt):
                    while True:
                        time.sleep(3600)

    def _config(self, provider: str, flags: Mapping[str, object]) -> Config:
        self._count += 1
        home = self._folder / f"home-{self._count}"
        upstreams = {f"upstream.{name}": provider for name in _UPSTREAMS}
        # a busy machine must not change the figures
        unhurried = {"gateway.limits.stages_ms": 60_000, "gateway.limits.wait_ms": 60_000}
        return load(workspace=None, home=home, environ={"HOME": str(home)}, flags={**upstreams, **unhurried, **flags})


@contextlib.contextmanager
def progress(title: str, turns: int) -> Iterator[Callable[[], None]]:
    """A line that grows with every turn; in a pipe, its title alone."""
    label = f"  {title:<32}"
    with click.progressbar(length=turns, label=label, show_eta=False, show_pos=True, width=24) as bar:
        yield lambda: bar.update(1)


def _looked_at(config: Config) -> DemoRun:
    """Read a run's results from the gateway's store."""
    store = open_existing(config.settings.store.url)
    if store is None:
        raise HoldfastError("the demo stored nothing; check that the temporary directory can be written to.")
    with store:
        listing = report.breaks(store, resets=True, limit=_MOST)
        repairs: dict[str, int] = {}
        for summary in report.sessions(store).sessions:
            for call in report.session(store, summary.id or "", limit=_MOST).calls:
                for repair in call.plan.repairs if call.plan is not None else ():
                    if repair.applied:
                        repairs[repair.name] = repairs.get(repair.name, 0) + 1
        return DemoRun(report.bill(store).total, listing.breaks, repairs)


_TIMEOUT_S = 60.0
_LARGEST = 10_000_000  # bytes of an answer


async def converse(
    address: str,
    clock: VirtualClock,
    model: str,
    turns: Sequence[session.DemoTurn],
    *,
    results: Sequence[str],
    headers: dict[str, str],
    on_turn: Callable[[], None],
) -> None:
    """Send one session, whose tools return `results`; time is the clock's, which passes in no time."""
    messages: list[dict[str, Any]] = []
    rng, calls = Random(session.SEED), 0
    all_headers = {"x-api-key": "demo", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    all_headers |= {"user-agent": "python", **headers}
    raw_headers = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    http = HttpClient(connect_s=_TIMEOUT_S, idle_s=_TIMEOUT_S, use_proxies=False)

    async def ask(body: dict[str, Any]) -> list[dict[str, Any]]:
        to, raw = parse_address("gateway", address), json.dumps(body).encode()
        try:
            response = await http.send(to, "POST", to.path("/v1/messages"), raw_headers, raw)
            answer = json.loads(await response.read(_LARGEST))
        except UpstreamError as error:
            raise HoldfastError(
                f"the demo cannot reach its own gateway at {address} ({error.reason or error}); check the loopback "
                "network."
            ) from error
        if response.status != 200:
            raise HoldfastError(f"the demo's request was answered with {response.status}: {answer}; please report it.")
        return list(answer["content"])

    try:
        for number, turn in enumerate(turns):
            clock.advance(session.pause(number) or 30 + rng.random() * 90)
            messages.append({"role": "user", "content": turn.ask})
            while True:
                content = await ask(_body(model, messages, clock, number, rng))
                messages.append({"role": "assistant", "content": content})
                clock.advance(5 + rng.random() * 10)
                tool_calls = [block for block in content if block["type"] == "tool_use"]
                if not tool_calls:
                    break
                messages.append({"role": "user", "content": [_answered(tool_calls[0], results[calls])]})
                calls += 1
            on_turn()
    finally:
        await http.close()


def _body(model: str, messages: list[dict[str, Any]], clock: VirtualClock, turn: int, rng: Random) -> dict[str, Any]:
    now = datetime.fromtimestamp(clock.now(), UTC).strftime("%Y-%m-%d %H:%M:%S")
    every = session.MEMORY_EVERY
    facts = "\n".join(f"- Turn {n}: the user prefers small commits." for n in range(every, turn + 1, every))
    system = f"Current time: {now}\n\n{session.instructions()}\n\n# Memory\n{facts or '- nothing yet'}"
    tools = session.tools()
    rng.shuffle(tools)
    return {
        "model": model,
        "max_tokens": 4096,
        "cache_control": {"type": "ephemeral"},
        "system": system,
        "tools": tools,
        "messages": messages,
    }


def _answered(block: dict[str, Any], result: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": block["id"], "content": result}
