"""Commands are tested in an empty directory and an empty home, whatever the machine has configured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running
from tests.cli.chats import Chatting
from tests.cli.client_world import World
from tests.cli.commands import use
from tests.clients.comparison import in_front_of
from tests.report.workday import Workday, work


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in os.environ:
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    facts.use(None)


@pytest.fixture(scope="session")
def workday(tmp_path_factory: pytest.TempPathFactory) -> Workday:
    return work(tmp_path_factory.mktemp("workday") / "holdfast.db")


@pytest.fixture
def workday_store(workday: Workday, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of a day's work is the configured one."""
    use(workday.path, monkeypatch)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are shown in UTC."""
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    environment = {key: value for key, value in os.environ.items() if not key.endswith(("_BASE_URL", "_API_BASE"))}
    environment |= {"HOLDFAST_HOME": str(tmp_path / "holdfast"), "HOLDFAST_GATEWAY_PORT": "0"}
    simulator = Simulator()
    with running(simulator) as address:
        yield World(simulator, address, environment | in_front_of(address), tmp_path)


@pytest.fixture
def chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chatting:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Chatting(tmp_path, monkeypatch)
