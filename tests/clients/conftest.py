"""A simulator with the script of the clients' conversations on a free port of the loopback address, bare and behind a
gateway; and what the agents of others paid, at the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config.loader import load as config
from holdfast.gateway.request_reader import GatewayRequest
from holdfast.gateway.server import running as gateway
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.comparison import in_front_of
from tests.clients.engine_inside import Inside, opened
from tests.clients.sessions import Control


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What each agent paid without the gateway and through it."""
    reports = [report for found in ("passed", "failed") for report in terminalreporter.stats.get(found, [])]
    rows = [value for report in reports for name, value in report.user_properties if name == "agent"]
    if rows:
        terminalreporter.section("agents without the gateway, and through it")
        titles = f"{'requests':>8} {'tokens':>8}   {'hit rate':>8} {'through':>8}   {'cost $':>8} {'through':>8}"
        terminalreporter.write_line(f"{'':31} {titles}")
    for title, (requests, prompt, rate, cost), (_, _, rate_through, cost_through) in rows:
        share = float(cost_through) / float(cost)
        terminalreporter.write_line(
            f"{title:31} {requests:8} {prompt:8,}   {rate:8.1%} {rate_through:8.1%}   "
            f"{float(cost):8.4f} {float(cost_through):8.4f} {share:5.2f}x"
        )


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """SDKs look for keys, addresses and proxies in the environment; the loopback address needs none of them."""
    for name in os.environ:
        if name.startswith(("ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def seed() -> int:
    return 0


@pytest.fixture
def provider(seed: int) -> Iterator[str]:
    """The address of the simulator."""
    script = load_script(Path(__file__).with_name("weather.yaml"))
    with running(Simulator(script=script, seed=seed)) as address:
        yield address


@pytest.fixture
def way() -> str:
    """`direct` or `gateway`; the tests of the SDKs take both."""
    return "direct"


@pytest.fixture
def address(way: str, provider: str, tmp_path: Path) -> Iterator[str]:
    """Where clients send their requests: to the simulator, or to a gateway in front of it."""
    if way == "direct":
        yield provider
        return
    calls: list[GatewayRequest] = []
    settings = config(workspace=None, home=tmp_path / "holdfast", environ=in_front_of(provider))
    with gateway(settings, on_call=calls.append) as address:
        yield address
    assert {call.passage.bypass for call in calls if call.passage is not None} <= {None}


@pytest.fixture
def control(provider: str) -> Control:
    return Control(provider)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    """An engine for the SDKs' own HTTP clients."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path) as inside:
        yield inside


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits this thread asked for instead of waiting: a client's pauses before it tries again."""
    waits: list[float] = []
    sleep, here = time.sleep, threading.get_ident()

    def note(seconds: float) -> None:
        if threading.get_ident() == here:
            waits.append(seconds)
        else:
            sleep(seconds)

    monkeypatch.setattr(time, "sleep", note)
    return waits
