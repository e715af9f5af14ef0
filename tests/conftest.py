"""Makes `tests` importable from every test, and generated examples the same on every CI run.

Elsewhere examples are new each time: that is where they find something, and where it can be looked into at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

LAWS = Path(__file__).parent / "properties"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Tests that go the same ways again and again are run but not measured by coverage: on Python 3.11 that takes about
    three times as long, and the floor is held by the others. Programs that they start are measured.

    pytest-cov's own marker does not help: in a worker of xdist, which is a program that was started too, it stops only
    the upper one of two measurements.
    """
    generated = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    repeats = generated or LAWS in item.path.parents or item.get_closest_marker("slow") is not None
    if not item.config.pluginmanager.hasplugin("_cov") or not (repeats or item.get_closest_marker("unmeasured")):
        return (yield)
    here, threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        return (yield)
    finally:
        sys.settrace(here)
        threading.settrace(threads)  # type: ignore[arg-type]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C and a terminal that closes work here and in programs that are started: in the background of a script or
    under nohup they are ignored, and programs inherit that."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in usual if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, usual[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
