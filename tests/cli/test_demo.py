"""`holdfast demo` computes what it shows: a careless session through a real gateway and a simulated provider."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from decimal import Decimal

import pytest
from click.testing import CliRunner

from holdfast.cli import demo_client, demo_session
from holdfast.cli.demo import command
from holdfast.errors import HoldfastError
from holdfast.simulator import VirtualClock

NUMBER = re.compile(r"[\d,.]+")


@pytest.fixture(scope="module")
def output() -> str:
    result = CliRunner().invoke(command, ["--turns", "4", "--once"], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def figures(output: str, title: str) -> list[Decimal]:
    """The numbers of a row of the table: as sent, with the defaults, with all repairs."""
    row = next(line for line in output.splitlines() if line.strip().startswith(title))
    return [Decimal(found.replace(",", "")) for found in NUMBER.findall(row.strip().removeprefix(title))]


@pytest.mark.slow
def test_the_careless_session_is_dearer_than_with_repairs(output: str) -> None:
    sent, defaults, repaired = figures(output, "cost")
    assert repaired < defaults < sent
    assert figures(output, "hit rate")[0] < figures(output, "hit rate")[2]
    assert f"{sent / repaired:.1f} times" in output or f"{float(sent) / float(repaired):.1f} times" in output


@pytest.mark.slow
def test_tokens_by_kind_add_up_to_the_prompt(output: str) -> None:
    parts = [figures(output, title) for title in ("read from", "written to", "billed in full")]
    assert [sum(each) for each in zip(*parts, strict=True)] == figures(output, "prompt tokens")


@pytest.mark.slow
def test_every_break_has_a_cause_and_the_dearest_its_place(output: str) -> None:
    lines = output.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("breaks"))
    causes = [
        figures(output, name)
        for line in lines[start + 1 :]
        if line.startswith("  ") and (name := line.split()[0]) and "_" in name
    ]
    assert [sum(each) for each in zip(*causes, strict=True)] == figures(output, "breaks")
    assert figures(output, "breaks")[0] > 0
    assert re.search(r"The dearest break as sent: \w+ at (tools|system)\[\d+\]", output)


@pytest.mark.slow
def test_what_saved_most_comes_first(output: str) -> None:
    block = output.split("What saved most", 1)[1].split("\n\n", 1)[0]
    worth = [Decimal(found) for found in re.findall(r"\$([\d.]+)  ", block)]
    assert len(worth) >= 3
    assert worth == sorted(worth, reverse=True)
    assert worth[0] > 0


def test_the_session_is_the_same_every_time() -> None:
    assert demo_session.turns(5) == demo_session.turns(5)
    assert demo_session.turns(9)[:5] == demo_session.turns(5)
    assert demo_session.result(3, "read_file") == demo_session.result(3, "read_file")
    assert demo_session.instructions() == demo_session.instructions()


@pytest.mark.parametrize("model", ["openai:gpt-5.5", "anthropic:claude-mythos-5-1"])
def test_a_model_without_prices_here_is_refused(model: str) -> None:
    with pytest.raises(HoldfastError, match="holdfast models"):
        CliRunner().invoke(command, ["--model", model], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_on_a_terminal_a_gateway_stays_open_until_ctrl_c() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "demo", "--turns", "2"], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        said = _until(ours, "Ctrl-C ends")
        address = re.search(r"ANTHROPIC_BASE_URL=(http://127\.0\.0\.1:\d+)", said)
        assert address is not None
        with urllib.request.urlopen(f"{address[1]}/healthz", timeout=10) as answer:
            assert answer.status == 200
        assert "2/2" in said  # progress, turn by turn
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _until(terminal: int, words: str) -> str:
    said, ends = "", time.monotonic() + 120
    while words not in said and time.monotonic() < ends:
        if select.select([terminal], [], [], 1)[0]:
            with contextlib.suppress(OSError):
                said += os.read(terminal, 65536).decode("utf-8", "replace")
    assert words in said, said
    return said


def test_without_a_place_for_its_files_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(HoldfastError, match=r"no temporary directory can be made .* set TMPDIR"):
        CliRunner().invoke(command, ["--turns", "2", "--once"], catch_exceptions=False)


def test_a_gateway_that_cannot_be_reached_is_one_sentence() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    turns = demo_session.turns(2)
    with pytest.raises(HoldfastError, match=f"cannot reach its own gateway at {address}"):
        asyncio.run(demo_client.session(address, VirtualClock(0), "m", turns, headers={}, on_turn=lambda: None))
