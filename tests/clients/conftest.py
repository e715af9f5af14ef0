"""A simulator with the script of the clients' conversations, served on a free port of the loopback address."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.simulator.core import Simulator
from holdfast.simulator.script import load
from holdfast.simulator.serve import running

from .sessions import Control


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
def address(seed: int) -> Iterator[str]:
    script = load(Path(__file__).with_name("weather.yaml"))
    with running(Simulator(script=script, seed=seed)) as address:
        yield address


@pytest.fixture
def control(address: str) -> Control:
    return Control(address)


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
