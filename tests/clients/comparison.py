"""One agent at its task with nothing between it and the provider, and again through the gateway."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from holdfast import facts
from holdfast.simulator.journal import Record
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.agents import Agent
from tests.clients.programs import TIMEOUT, Place, Watched


class Outcome(NamedTuple):
    """What came of a task: what the agent said and left behind, and what the provider was asked for."""

    said: list[str]
    codes: list[int]
    files: dict[str, str]
    records: list[Record]
    printed: str

    @property
    def asked(self) -> list[tuple[str, str, int, str, str]]:
        """What the provider was asked for, and how that went: not what it cost."""
        return [(each.method, each.path, each.status, each.state, each.model) for each in self.records]

    @property
    def prompt(self) -> int:
        return sum(each.usage.prompt for each in self.records if each.usage is not None)

    @property
    def hit_rate(self) -> float:
        return sum(each.usage.read for each in self.records if each.usage is not None) / self.prompt

    @property
    def cost(self) -> Decimal:
        costs = [facts.price(each.usage, each.model).cost for each in self.records if each.usage is not None]
        assert None not in costs
        return sum((cost for cost in costs if cost is not None), Decimal(0))

    @property
    def figures(self) -> tuple[int, int, float, str]:
        """Requests, prompt tokens, hit rate and dollars, for the table at the end."""
        return len(self.records), self.prompt, self.hit_rate, str(self.cost)


def task(agent: Agent, program: str, root: Path, simulator: Watched, address: str) -> Outcome:
    """Both runs of an agent in an empty place, pointed at an address."""
    place = Place(root)
    environment = agent.environment(place, address)
    done = [place.end(command, environment) for command in agent.turns(program, address)]
    files = {
        path.relative_to(place.work).as_posix(): path.read_text("utf-8").strip()
        for path in sorted(place.work.rglob("*"))
        if path.is_file() and not path.relative_to(place.work).parts[0].startswith(".")
    }
    printed = "\n".join(each.stdout + each.stderr for each in done)
    records = [each for each in simulator.journal.records() if each.method == "POST"]
    return Outcome(
        [agent.said(each.stdout) for each in done], [each.returncode for each in done], files, records, printed
    )


@contextlib.contextmanager
def provider(agent: Agent, root: Path) -> Iterator[tuple[Watched, str]]:
    """A fresh simulator that makes the agent do its task."""
    script = root / "script.yaml"
    script.write_text(agent.script(), "utf-8")
    simulator = Watched(script=load_script(script), seed=agent.seed)
    with running(simulator) as address:
        yield simulator, address


def direct(agent: Agent, program: str, root: Path) -> Outcome:
    """The place is moved away afterwards, so that the next run has the same paths in its prompts."""
    with provider(agent, root) as (simulator, address):
        outcome = task(agent, program, root / "place", simulator, address)
    (root / "place").rename(root / "direct")
    return outcome


def through(agent: Agent, program: str, root: Path) -> tuple[Outcome, list[dict[str, Any]]]:
    """The outcome through a gateway in a process of its own, and the sessions that it saw."""
    with provider(agent, root) as (simulator, upstream), gateway(upstream, root / "gateway") as found:
        outcome = task(agent, program, root / "place", simulator, found.address)
        sessions = found.admin("/analytics/sessions")
    return outcome, sessions["sessions"]


class Gateway(NamedTuple):
    """A gateway that runs."""

    address: str
    home: Path
    log: list[str]

    def admin(self, path: str) -> Any:
        token = (self.home / "admin-token").read_text("utf-8").strip()
        with urlopen(Request(self.address + path, headers={"authorization": f"Bearer {token}"})) as response:
            return json.load(response)


def in_front_of(upstream: str) -> dict[str, str]:
    """The settings of a gateway with one server for all providers; it takes its time, however busy this machine is."""
    names = ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER")
    return {f"HOLDFAST_UPSTREAM_{name}": upstream for name in names} | {"HOLDFAST_GATEWAY_LIMITS_STAGES_MS": "60000"}


@contextlib.contextmanager
def gateway(upstream: str, home: Path) -> Iterator[Gateway]:
    """`holdfast serve` on a free port."""
    home.mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    environment |= in_front_of(upstream)
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--port", "0"],
        cwd=home,
        env=environment | {"HOLDFAST_HOME": str(home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    log: list[str] = []
    reader: threading.Thread | None = None
    try:
        while not (found := re.search(r"listening on (http://\S+)", log[-1] if log else "")):
            line = process.stdout.readline()
            assert line, "the gateway did not start: " + "".join(log)
            log.append(line)
        reader = threading.Thread(target=log.extend, args=(process.stdout,))  # a pipe nobody reads fills up
        reader.start()
        yield Gateway(found[1], home, log)
    finally:
        process.terminate()
        process.wait(TIMEOUT)
        if reader is not None:
            reader.join()
        process.stdout.close()
