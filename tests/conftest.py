"""Makes `tests` importable from every test, and generated examples the same on every CI run.

Elsewhere examples are new each time: that is where they find something, and where it can be looked into at once.
What every test would pay for is paid once here: garbage is not looked for among the tests themselves, temporary files
stand in memory where there is room, and coverage leaves alone what goes the same ways again.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from holdfast import notices
from tests.conformance_outcomes import watch

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

LAWS = Path(__file__).parent / "properties"
PROGRAMS = "COVERAGE_PROCESS_CONFIG"
"""What coverage tells programs that are started."""

MEMORY = Path("/dev/shm")
ROOM = 4 << 30


def memory_has_room() -> bool:
    """Whether temporary files may stand in memory: thousands of tests make a database, and each would wait for the disk
    ten times. Programs that tests write must run there too."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return False
    return not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC and shutil.disk_usage(MEMORY).free >= ROOM


if memory_has_room():
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # pytest has asked before


def pytest_configure(config: pytest.Config) -> None:
    watch(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: nobody need look for garbage in it, neither now nor while tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests that wait are coroutines: each runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Tests that go the same ways again and again are run but not measured by coverage: on Python 3.11 that takes about
    three times as long, and the floor is held by the others. Nor are programs that they start.

    pytest-cov's own marker does not help: in a worker of xdist, which is a program that was started too, it stops only
    the upper one of two measurements.
    """
    generated = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    repeats = generated or LAWS in item.path.parents or item.get_closest_marker("slow") is not None
    if not item.config.pluginmanager.hasplugin("_cov") or not (repeats or item.get_closest_marker("unmeasured")):
        return (yield)
    here, threads, programs = sys.gettrace(), threading.gettrace(), os.environ.pop(PROGRAMS, None)
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        return (yield)
    finally:
        if programs is not None:
            os.environ[PROGRAMS] = programs
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


@pytest.fixture(autouse=True)
def _nothing_was_warned_of() -> None:
    """A test is a process of its own as far as warnings go that are said once."""
    notices.forget()
