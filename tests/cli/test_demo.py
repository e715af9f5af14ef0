"""`holdfast demo` computes what it shows: a careless session through a real gateway and a simulated provider, and the
same asks done by the agent."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import tempfile
import urllib.request
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli import run
from holdfast.cli.demo import command
from holdfast.demo import runs, session
from holdfast.demo.arms import ARMS
from holdfast.errors import HoldfastError
from holdfast.simulator import VirtualClock
from tests.cli.terminals import Program

NUMBER = re.compile(r"[\d,.]+")
SAVING = re.compile(r"^  (.+?)  +(.+?)  +\$([\d.]+)  +(-?)\$([\d.]+)  +([\d.]+)x$", re.MULTILINE)


@pytest.fixture(scope="module")
def output() -> str:
    result = CliRunner().invoke(command, ["--turns", "4", "--once"], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def figures(output: str, title: str) -> list[Decimal]:
    """The numbers of a row of the table: as sent, with the defaults, with all repairs, by the agent."""
    row = next(line for line in output.splitlines() if line.startswith(f"{title}  "))
    return [Decimal(found.replace(",", "")) for found in NUMBER.findall(row.removeprefix(title))]


@pytest.mark.slow
def test_the_careless_session_is_dearer_than_with_repairs(output: str) -> None:
    sent, defaults, repaired, _ = figures(output, "cost")
    assert repaired < defaults < sent
    hits = figures(output, "read from the cache")
    assert hits[0] < hits[2]
    said = re.search(r"costs ([\d.]+) times what it costs with Holdfast's repairs", output)
    assert abs(Decimal(said[1]) - sent / repaired) < Decimal("0.1")


@pytest.mark.slow
def test_the_agent_reads_what_it_sent_before(output: str) -> None:
    assert figures(output, "read from the cache")[3] > 50
    assert figures(output, "cost")[3] < figures(output, "cost without any cache")[3]
    assert "All files are as asked for, and their tests pass." in output


@pytest.mark.slow
def test_the_dearest_break_has_its_place(output: str) -> None:
    assert figures(output, "breaks of the cache")[0] > 0
    assert re.search(r"The dearest break as sent: \w+ at (tools|system)\[\d+\]", output)


@pytest.mark.slow
def test_each_mechanism_has_a_row_with_what_it_saved(output: str) -> None:
    table = output.split("MECHANISM", 1)[1]
    rows = {found[1]: found for found in SAVING.finditer(table)}
    assert {arm.mechanism for arm in ARMS} <= rows.keys()
    assert {"tools in one order", "the clock moved to the end", "news of memory appended"} <= rows.keys()
    careless, own = table.split("Holdfast's own agent", 1)
    for part in (careless, own):
        whole = Decimal(re.findall(r"\$([\d.]+)", part.splitlines()[0 if part is own else 1])[0])
        for found in SAVING.finditer(part):
            cost, saved = Decimal(found[3]), Decimal(f"{found[4]}{found[5]}")
            assert abs(cost - whole - saved) <= Decimal("0.02")
            assert abs(float(found[6]) - float(cost / whole)) < 0.05


@pytest.mark.slow
def test_what_saved_most_comes_first(output: str) -> None:
    for part in output.split("MECHANISM", 1)[1].split("Holdfast's own agent", 1):
        worth = [Decimal(f"{found[4]}{found[5]}") for found in SAVING.finditer(part)]
        assert len(worth) >= 4
        assert worth == sorted(worth, reverse=True)
        assert worth[0] > 0


@pytest.mark.slow
def test_the_same_run_shows_the_same_figures(output: str) -> None:
    again = CliRunner().invoke(command, ["--turns", "4", "--once"], catch_exceptions=False).output
    first, second = ([line for line in said.splitlines() if " sessions took " not in line] for said in (output, again))
    assert first == second


@pytest.mark.slow
def test_in_a_pipe_it_ends_by_itself_and_says_what_to_do_next(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(["demo", "--turns", "2"]) == 0
    said = capfd.readouterr().out
    assert "ANTHROPIC_BASE_URL" not in said
    assert said.index("Next:") < said.index("holdfast explain") < said.index("holdfast run -- claude")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_without_the_packages_of_the_agent_the_rest_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jsonschema", "rich", "tantivy"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    result = CliRunner().invoke(command, ["--turns", "2", "--once"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "pip install 'holdfast[agent]'" in result.output
    assert len(figures(result.output, "cost")) == 3
    assert "tools in one order" in result.output
    assert "own agent" not in result.output.split("MECHANISM", 1)[1]


def test_help_says_when_it_stays(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--help"]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "in a pipe, in CI or with --once it does not" in said


def test_the_session_is_the_same_every_time() -> None:
    assert session.turns(5) == session.turns(5)
    assert session.turns(9)[:5] == session.turns(5)
    assert session.result(3, "read_file") == session.result(3, "read_file")
    assert session.instructions() == session.instructions()
    assert [session.pause(number) for number in range(4)] == [None, None, 660, None]


@pytest.mark.parametrize("model", ["openai:gpt-5.5", "anthropic:claude-mythos-5-1"])
def test_a_model_without_prices_here_is_refused(model: str) -> None:
    with pytest.raises(HoldfastError, match="holdfast models"):
        CliRunner().invoke(command, ["--model", model], catch_exceptions=False)


def on_a_terminal(folder: Path) -> Program:
    """The demo on a terminal; its files are in `folder`."""
    environ = {**os.environ, "TMPDIR": str(folder)}
    return Program("demo", "--turns", "2", cwd=folder, environ=environ, columns=400)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_on_a_terminal_a_gateway_stays_open_until_ctrl_c(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path) as program:
        said = program.until("Ctrl-C ends")
        address = re.search(r"ANTHROPIC_BASE_URL=(http://127\.0\.0\.1:\d+)", said)
        assert f"OPENAI_BASE_URL={address[1]}/v1" in said
        assert f"GOOGLE_GEMINI_BASE_URL={address[1]}" in said
        home = re.search(r"HOLDFAST_HOME=(\S+) holdfast sessions", said)
        assert Path(home[1]).is_dir()
        with urllib.request.urlopen(f"{address[1]}/healthz", timeout=10) as answer:
            assert answer.status == 200
        assert "2/2" in said  # progress, turn by turn
        program.process.send_signal(signal.SIGINT)
        assert program.ended() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("moment", ["as the client sends it", "all but tool-order", "with everything", "no summary"])
def test_ctrl_c_leaves_nothing_behind(moment: str, tmp_path: Path) -> None:
    with on_a_terminal(tmp_path) as program:
        program.until(moment)
        program.process.send_signal(signal.SIGINT)
        said = program.until("interrupted")
        assert program.ended() == 130
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_nor_does_another_end(sign: signal.Signals, tmp_path: Path) -> None:
    with on_a_terminal(tmp_path) as program:
        program.until("all but tool-order")
        program.process.send_signal(sign)
        assert program.ended() == 128 + sign
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_for_its_files_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(HoldfastError, match=r"no temporary directory can be made .* set TMPDIR"):
        CliRunner().invoke(command, ["--turns", "2", "--once"], catch_exceptions=False)


def test_a_gateway_that_cannot_be_reached_is_one_sentence() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    sent = runs.converse(address, VirtualClock(0), "m", session.turns(2), results=[], headers={}, on_turn=lambda: None)
    with pytest.raises(HoldfastError, match=f"cannot reach its own gateway at {address}"):
        asyncio.run(sent)
