"""However `holdfast mcp` is told to end, no program of a server stays behind; and messages it must not drop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mcp import Client

from holdfast.cli.mcp.explain import MOST_CHARS
from tests.cli.mcp_client import COMMAND, INITIALIZE, INITIALIZED, environment, in_order, inside, process, said, text

HOSTILE = Path(__file__).parents[1] / "tools" / "mcp" / "servers" / "hostile.py"
ASKED = {"id": 2, "method": "tools/call", "params": {"name": "discover_tools", "arguments": {"query": "x"}}}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks at processes in /proc")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("arguments", "signals", "code"),
    [
        (["--list"], [signal.SIGTERM], 143),
        (["--list"], [signal.SIGHUP], 129),
        (["--list"], [signal.SIGINT] * 3, 130),
        ([], [signal.SIGINT] * 3, 130),
        ([], [signal.SIGTERM] * 2, 143),
    ],
)
def test_a_stubborn_server_is_stopped_whatever_the_signal(
    tmp_path: Path, arguments: list[str], signals: list[signal.Signals], code: int
) -> None:
    log = tmp_path / "log"
    command = [sys.executable, str(HOSTILE), "stubborn", str(log)]
    (tmp_path / "holdfast.toml").write_text(
        f"[mcp.servers.a]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}"
    )
    started = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=tmp_path,
        env=environment(HOLDFAST_HOME=str(tmp_path)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert started.stdin is not None
    started.stdin.write(in_order(INITIALIZE, INITIALIZED, ASKED))
    started.stdin.flush()
    began = time.monotonic()
    while not log.exists():
        assert time.monotonic() - began < 30
        time.sleep(0.02)
    for number in signals:
        started.send_signal(number)
        time.sleep(0.3)
    _, told = started.communicate(timeout=30)
    assert started.returncode == code
    assert b"Traceback" not in told
    left = [int(each.parent.name) for each in Path("/proc").glob("[0-9]*/cmdline") if str(log) in _line(each)]
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert left == []


def _line(path: Path) -> str:
    """A process's command; nothing of one that ends meanwhile."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.slow
def test_a_message_with_half_a_character_is_answered() -> None:
    asked = {"id": 2, "method": "tools/call", "params": {"name": "\ud83d", "arguments": {}}}
    with process() as started:
        answers = said(started, in_order(INITIALIZE, INITIALIZED, asked), 2)
    assert any(answer.get("id") == 2 and "There is no tool" in json.dumps(answer) for answer in answers)


def test_an_error_that_quotes_the_client_stays_short() -> None:
    async def ask(client: Client) -> list[str]:
        named = await client.call_tool("explain", {"paths": ["x" * 100_000]})
        return [text(named, wrong=True), text(await client.call_tool("y" * 100_000, {}), wrong=True)]

    assert all(len(each) < MOST_CHARS + 100 for each in inside(ask))
