"""Processes that leave their process group, as daemons do, end with the command of the agent that started them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent.session import Session
from holdfast.tools import descendants
from holdfast.tools.contract import Cancel
from tests.agent.bench import Bench, calls
from tests.tools.builtins import end_running, running

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")

DOUBLE_FORK = (
    'import os, sys; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); os.execvp("sleep", ["sleep", '
    "sys.argv[1]])"
)


@pytest.fixture
def token() -> Iterator[str]:
    """Seconds that nobody else sleeps: by them a process of this test is known."""
    seconds = f"{700 + time.monotonic_ns() % 10**6}.{os.getpid()}"
    yield seconds
    end_running(seconds)


@pytest.fixture
def bystander(token: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the user that has nothing to do with the agent, in a session of its own."""
    with subprocess.Popen(["sleep", f"{token}9"], start_new_session=True) as process:
        yield process
        assert process.poll() is None
        process.kill()


def daemons(token: str) -> dict[str, str]:
    return {
        "setsid": f"setsid sleep {token} & sleep 0.2",
        "double fork": f"{sys.executable} -c '{DOUBLE_FORK}' {token}",
        "nested": f"sh -c 'setsid sh -c \"setsid sleep {token} & sleep {token}\" & sleep 0.2'",
        "deaf": f"setsid sh -c \"trap '' TERM HUP; sleep {token}; sleep {token}\" & sleep 0.2",
    }


def left(token: str) -> list[str]:
    return [each for each in running(f"sleep {token}") if f"{token}9" not in each]


async def there(token: str) -> None:
    for _ in range(500):
        if any(each.startswith("sleep") for each in left(token)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never ran")


async def gone(token: str) -> None:
    for _ in range(500):
        if not left(token):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(left(token))


@pytest.mark.slow
@pytest.mark.parametrize("way", list(daemons("")))
async def test_they_end_with_a_command_that_ends(
    tmp_path: Path, token: str, way: str, bystander: subprocess.Popen[bytes]
) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.begin(calls(("run_command", {"command": f"{daemons(token)[way]}; echo ended-7"})))
        assert left(token) == []
        (said,) = [each for each in _results(session) if "ended-7" in each]
        assert "Processes that it left behind were ended" in said


def test_one_of_a_program_that_is_over_before_it_is_looked_at_is_found(token: str) -> None:
    others = descendants.Descendants()
    command = f"setsid sleep {token} >/dev/null 2>&1 &"
    with subprocess.Popen(["sh", "-c", command], env=others.environment(os.environ), start_new_session=True) as first:
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        others.began(first.pid)
    asyncio.run(there(token))
    assert others.alive()
    others.signal(signal.SIGKILL)
    asyncio.run(gone(token))


@pytest.mark.slow
@pytest.mark.parametrize("way", list(daemons("")))
async def test_they_end_at_the_time_limit(
    tmp_path: Path, token: str, way: str, bystander: subprocess.Popen[bytes]
) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        command = f"{daemons(token)[way]}; sleep {token}"
        await session.ask(calls(("run_command", {"command": command, "timeout_s": 0.6})))
        assert left(token) == []


async def test_one_without_our_variable_ends_at_the_time_limit_too(tmp_path: Path, token: str) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        command = f"env -i setsid sh -c 'sleep {token}; sleep {token}' & sleep {token}"
        await session.ask(calls(("run_command", {"command": command, "timeout_s": 0.3})))
        assert left(token) == []


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "close", "cancel"])
async def test_in_the_background_they_live_until_it_is_ended(
    tmp_path: Path, token: str, end: str, bystander: subprocess.Popen[bytes]
) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        command = f"{daemons(token)['deaf']}; sleep {token}"
        if end == "cancel":
            cancel = Cancel()
            asked = asyncio.create_task(session.ask(calls(("run_command", {"command": command})), cancel=cancel))
            await there(token)
            cancel.set()
            await asked
            await gone(token)
            return
        await session.ask(calls(("run_command", {"command": command, "background": True})))
        await there(token)
        await asyncio.sleep(0.3)
        assert left(token)
        if end == "stop":
            await session.ask(calls(("process_stop", {"process": "p1"})))
        else:
            await session.close()
        assert left(token) == []


async def test_one_command_does_not_end_those_of_another(tmp_path: Path, token: str) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        kept = f"setsid sleep {token} & wait"
        await session.ask(calls(("run_command", {"command": kept, "background": True})))
        await there(token)
        await session.ask(calls(("run_command", {"command": f"setsid sleep {token}7 & sleep 0.1"})))
        assert running(f"sleep {token}7") == []
        assert running(f"sleep {token}") != []
    assert running(f"sleep {token}") == []


def test_a_number_that_is_used_again_is_not_signalled(bystander: subprocess.Popen[bytes]) -> None:
    process = descendants.process_of(bystander.pid)
    descendants.send_signal(process._replace(started=process.started - 1), signal.SIGKILL)
    time.sleep(0.05)
    assert bystander.poll() is None


def _results(session: Session) -> list[str]:
    return [
        part.text
        for message in session.messages()
        for block in message.content
        for part in getattr(block, "content", ())
        if hasattr(part, "text")
    ]
