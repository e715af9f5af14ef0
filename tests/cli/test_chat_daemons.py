"""When a chat is ended from outside, so are its commands and MCP servers, with what they started as daemons do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.chats import Chatting
from tests.tools.builtins import end_running, running
from tests.tools.mcp.hubs import SERVERS

pytestmark = [
    pytest.mark.usefixtures("interruptible"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc"),
]

SERVER = SERVERS / "plain.py"


@pytest.fixture
def token() -> Iterator[str]:
    seconds = f"{800 + time.monotonic_ns() % 10**6}.{os.getpid()}"
    yield seconds
    end_running(seconds)


def until_running(token: str, *, there: bool) -> None:
    deadline = time.monotonic() + 20
    while bool(running(f"sleep {token}")) is not there:
        assert time.monotonic() < deadline, running(token)
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_daemons_of_a_command(chat: Chatting, token: str, number: signal.Signals) -> None:
    command = f"setsid sh -c 'setsid sleep {token} & sleep {token}' & sleep {token}"
    chat.script.write_text(f'rules:\n  - call: {{tool: run_command, input: {{command: "{command}"}}}}\n', "utf-8")
    asked = [sys.executable, "-m", "holdfast", "chat", "--simulate", "--script", str(chat.script), "--yes", "Go"]
    with subprocess.Popen(
        asked, cwd=chat.workspace, env=chat.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until_running(token, there=True)
        process.send_signal(number)
        process.wait(30)
    until_running(token, there=False)


def test_the_end_of_a_chat_ends_the_daemons_of_its_servers(chat: Chatting, token: str) -> None:
    started = chat.root / "started"
    launch = f"setsid sleep {token} & echo $! >{started}; exec {sys.executable} {SERVER}"
    chat.home.mkdir(parents=True, exist_ok=True)
    (chat.home / "holdfast.toml").write_text(
        f'[mcp.servers.plain]\ncommand = "sh"\nargs = ["-c", "{launch}"]\n', "utf-8"
    )
    assert chat("Hello").code == 0
    assert started.read_text().strip().isdigit()
    assert running(f"sleep {token}") == []
