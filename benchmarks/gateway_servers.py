"""Processes of the gateway's benchmark: started on a core of their own, watched, ended.

The server that is measured has the first core to itself; load and provider share the second (the provider takes a third
where there is one).
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
READY = 60.0  # seconds for a server to start
_SIGN = "listening on http://"


@cache
def cores() -> tuple[int | None, int | None, int | None]:
    """The cores of server, load and provider; None where the system does not let us choose. Found out once, before we
    keep ourselves to one of them."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None, None
    free = sorted(os.sched_getaffinity(0))
    return free[0], free[min(1, len(free) - 1)], free[min(2, len(free) - 1)]


def described() -> str:
    """How the cores are shared, for the notes."""
    server, load, provider = cores()
    if server is None:
        return "cores not chosen: this system does not let us"
    if server == load:
        return "ONE core for server, load and provider: figures are too high"
    return "server on one core, load and provider on another" + ("" if provider == load else " each")


class Server:
    """A running process: its port, its processor time and its memory."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], port: int) -> None:
        self.name, self.port = name, port
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        """Seconds of processor time of all its living threads; 0 where the system does not say."""
        return processor_time(self.pid)

    def resident(self) -> float:
        """Megabytes in memory now."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except OSError:
            return 0.0
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor_time(pid: int) -> float:
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):
            total += int(task.read_text().split()[0])
    return total / 1e9


def pin(pid: int, core: int | None) -> None:
    """Keep a process and all its threads on one core."""
    if core is None:
        return
    tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").glob("*")] or [pid]
    for task in tasks:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(task, {core})


@contextlib.contextmanager
def pinned_here(core: int | None) -> Iterator[None]:
    """This process on one core for the time being."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def running_program(
    name: str,
    command: Sequence[str],
    core: int | None,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    port: int | None = None,
) -> Iterator[Server]:
    """A server until the block ends. It says where it listens, or its `port` is known and waited for."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**clean_environment(), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        try:
            pin(process.pid, core)
            found = _announced(name, process, said) if port is None else _reachable(name, process, port, said)
            pin(process.pid, core)
            yield Server(name, process, found)
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def free_port() -> int:
    """A port that nobody listens on, for programs that cannot choose one."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def version_of(folder: Path, package: str) -> str:
    """The version of a package in a virtual environment."""
    found = sorted(folder.glob(f"lib/python*/site-packages/{package}-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").rpartition("-")[2] if found else "of unknown version"


def clean_environment() -> dict[str, str]:
    """Our environment without what would configure a server otherwise, or send it through a proxy."""
    unwanted = ("HOLDFAST_", "LITELLM_", "HEADROOM_", "ANTHROPIC_", "OPENAI_")
    proxies = ("http_proxy", "https_proxy", "all_proxy")
    return {k: v for k, v in os.environ.items() if not k.startswith(unwanted) and k.lower() not in proxies}


def _announced(name: str, process: subprocess.Popen[bytes], said: IO[bytes]) -> int:
    until = time.monotonic() + READY
    while time.monotonic() < until:
        _, sign, rest = _text(said).partition(_SIGN)
        if sign and "\n" in rest:
            return int(rest.split()[0].rstrip("/").rpartition(":")[2])
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"{name} did not start: {_end_of(said)}")


def _reachable(name: str, process: subprocess.Popen[bytes], port: int, said: IO[bytes]) -> int:
    until = time.monotonic() + READY
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return port
        time.sleep(0.1)
    raise RuntimeError(f"{name} did not start: {_end_of(said)}")


def _text(said: IO[bytes]) -> str:
    """What a server said so far, read without moving its place in the file, which it shares with us."""
    return os.pread(said.fileno(), 1 << 16, 0).decode(errors="replace")


def _end_of(said: IO[bytes]) -> str:
    return _text(said)[-800:].strip() or "it said nothing"
