"""Command-line agents as processes: where they are found, what they are told of the world, what they send.

Each runs from an empty home and an empty work directory. Whatever it would send elsewhere goes to a closed port of this
machine.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from holdfast.simulator.messages import HttpRequest
from holdfast.simulator.provider import Exchange, Simulator

INSTALLED = Path(__file__).parents[2] / ".clients"
CURE = "run `make test-clients`, which installs what it can"
TIMEOUT = 120
KEY = "sk-ant-dummy"
"""Seconds until a program that hangs is given up."""


def program(name: str, title: str) -> str:
    """The path of a program, as `scripts/install_clients.py` puts it; without it the test is left out by name."""
    found = shutil.which(name, path=str(INSTALLED / name / "node_modules" / ".bin")) or shutil.which(name)
    if found is None:
        pytest.skip(f"{title} is not installed; {CURE}")
    if not starts(found):
        pytest.skip(f"{title} is installed at {found} but does not start; {CURE}")
    return found


def interpreter(name: str, title: str) -> str:
    """The Python that has a library's client installed."""
    found = INSTALLED / f"py-{name}" / "bin" / "python"
    if not found.is_file():
        pytest.skip(f"{title} is not installed; {CURE}")
    return str(found)


@cache
def starts(path: str) -> bool:
    """Whether a program can be run at all: npm may have been told not to run what completes an installation."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=TIMEOUT, check=False)
    except OSError:
        return False
    return done.returncode == 0


class Watched(Simulator):
    """A simulator that keeps what was sent to it."""

    def __init__(self, **options: Any) -> None:
        self.calls: list[HttpRequest] = []
        super().__init__(**options)

    def begin(self, call: HttpRequest) -> Exchange:
        self.calls.append(call)
        return super().begin(call)

    def bodies(self) -> list[dict[str, Any]]:
        """What was posted, decoded."""
        return [json.loads(call.body) for call in self.calls if call.method == "POST"]


class Place:
    """An empty home and an empty work directory for one client."""

    def __init__(self, root: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir(parents=True)
        self.work.mkdir()

    def environment(self, **more: str) -> dict[str, str]:
        nowhere = "http://127.0.0.1:9"
        proxies = {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "TERM": "xterm-256color"} | proxies | more

    def run(self, command: list[str], environment: dict[str, str]) -> str:
        """What a program prints; it must end well."""
        done = self.end(command, environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def end(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, whatever that is."""
        return subprocess.run(
            command,
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    def attend(self, command: list[str], environment: dict[str, str], until: Callable[[], bool]) -> None:
        """Run a program on a terminal until something has come true, then end it."""
        pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on this system")
        master, slave = pty.openpty()
        process = subprocess.Popen(
            command,
            cwd=self.work,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        shown, deadline = b"", time.monotonic() + TIMEOUT
        try:
            while not until():
                assert time.monotonic() < deadline, shown[-4000:].decode("utf-8", "replace")
                assert process.poll() is None, shown[-4000:].decode("utf-8", "replace")
                if select.select([master], [], [], 0.1)[0]:
                    shown += os.read(master, 65_536)  # a program whose output nobody reads stops
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(master)
