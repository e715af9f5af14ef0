"""`holdfast simulate` and `holdfast simulate calibrate`: what they print, how they end, what they say to bad input."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import cli
from holdfast.cli.simulate import line, read_noise, summary
from holdfast.errors import HoldfastError
from holdfast.records import usage
from holdfast.simulator.journal import Journal, Record
from holdfast.simulator.server import listen
from tests.cli.commands import output, refused, run
from tests.simulator.http_client import Client, marked, message

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ends by signals")


def simulate(*arguments: str, do: Callable[[Client], None], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command in this process, do something with it, end it by Ctrl-C; its exit code and what it printed."""
    with listen("127.0.0.1", 0) as probe:
        port = probe.getsockname()[1]

    def drive() -> None:
        client = Client(f"http://127.0.0.1:{port}")
        while True:
            try:
                client.get("/_sim/clock")
                break
            except OSError:
                continue
        try:
            do(client)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=drive)
    thread.start()
    code = cli.run(["simulate", "--port", str(port), *arguments])
    thread.join()
    out, err = capfd.readouterr()
    return code, out, err


def converse(client: Client) -> None:
    for _ in range(2):
        assert client.post("/v1/messages", marked()).status == 200
    client.fault("status", options={"status": 529})
    assert client.post("/v1/messages", message()).status == 529
    client.send("GET", "/v1/no%0Athing")


def test_a_session(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = simulate(do=converse, capfd=capfd)
    assert (code, err) == (0, "")
    address = re.search(r"http://127\.0\.0\.1:\d+", out)
    assert f"export ANTHROPIC_BASE_URL={address[0]} " in out
    assert f"export OPENAI_BASE_URL={address[0]}/v1 " in out
    assert f"export GOOGLE_GEMINI_BASE_URL={address[0]} " in out
    lines = [text for text in out.splitlines() if re.match(r"\d\d:\d\d:\d\d  ", text)]
    assert len(lines) == 4
    assert re.search(r"claude-opus-4-6 +read +0  written +[\d,]+ 5m  input +\d+  \S", lines[0])
    assert re.search(r"read +[\d,]{5,}  written +0 ", lines[1])
    assert lines[2].endswith("529  fault: status 529")
    assert "GET /v1/no?thing" in lines[3]
    assert re.fullmatch(
        r"4 requests; \d\d\.\d% of [\d,]+ prompt tokens were read from the cache\.", out.splitlines()[-1]
    )


def test_quiet_leaves_out_the_requests(capfd: pytest.CaptureFixture[str]) -> None:
    out = simulate("--quiet", do=converse, capfd=capfd)[1]
    assert "claude-opus" not in out
    assert "4 requests" in out


def test_script_delay_noise_and_clock(capfd: pytest.CaptureFixture[str], workspace: Path) -> None:
    script = workspace / "hello.yaml"
    script.write_text("rules:\n  - say: Hello from the script.\n")

    def do(client: Client) -> None:
        assert client.post("/v1/messages", message()).json["content"][0]["text"] == "Hello from the script."
        assert client.get("/_sim/clock")["virtual"] is True

    options = ["--script", str(script), "--delay", "0.01", "--noise", "eviction=1", "--seed", "3", "--virtual-clock"]
    code, out, _ = simulate(*options, do=do, capfd=capfd)
    assert code == 0
    assert "hello.yaml" in out


def test_it_warns_when_others_can_reach_it(capfd: pytest.CaptureFixture[str]) -> None:
    err = simulate("--host", "0.0.0.0", do=lambda client: None, capfd=capfd)[2]
    assert err == "holdfast: whoever reaches 0.0.0.0 can use this server and its controls.\n"


def test_localhost_needs_no_warning(capfd: pytest.CaptureFixture[str]) -> None:
    assert simulate("--host", "localhost", do=lambda client: None, capfd=capfd)[2] == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_real_program_ends_cleanly(workspace: Path, number: int) -> None:
    command = [sys.executable, "-u", "-m", "holdfast", "simulate", "--port", "0"]
    with subprocess.Popen(command, cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        first = program.stdout.readline()
        client = Client(re.findall(r"http://\S+", first)[0])
        with client.connect(message(stream=True)) as connection:
            assert connection.recv(10) == b"HTTP/1.1 2"
            program.send_signal(number)
            assert program.wait(20) == 0
        assert program.stdout.read().splitlines()[-1].startswith("1 request; ")
        assert program.stderr.read() == ""


def test_a_reader_that_left_does_not_stop_the_server(workspace: Path) -> None:
    command = [sys.executable, "-u", "-m", "holdfast", "simulate", "--port", "0"]
    with subprocess.Popen(command, cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        client = Client(re.findall(r"http://\S+", program.stdout.readline())[0])
        program.stdout.close()
        for _ in range(3):
            assert client.post("/v1/messages", message()).status == 200
        program.send_signal(signal.SIGINT)
        program.wait(20)
        assert "Traceback" not in program.stderr.read()


@contextmanager
def started(*arguments: str, cwd: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-u", "-m", "holdfast", "simulate", "--port", "0", *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=cwd, env=os.environ | environment, **pipes) as program:
        try:
            yield program
        finally:
            program.kill()  # of no effect on one that has ended


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_right_after_the_first_line_is_no_accident(workspace: Path, number: int) -> None:
    with started(cwd=workspace) as program:
        program.stdout.readline()
        for _ in range(3):
            program.send_signal(number)
        out, err = program.communicate(timeout=20)
        assert (program.returncode, err) == (0, "")
        assert out.splitlines()[-1] == "0 requests; no prompt reached the cache."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("loop.py", "def reply(request):\n    while True:\n        pass\n"),
        ("pattern.yaml", "- when: {matches: '(a+)+$'}\n  say: x\n"),
    ],
)
@pytest.mark.parametrize("pause", [0.0, 0.5])  # also while the request is still on its way to the script
def test_ctrl_c_ends_a_script_that_never_returns(workspace: Path, name: str, text: str, pause: float) -> None:
    (workspace / name).write_text(text)
    with started("--script", name, cwd=workspace) as program:
        client = Client(re.findall(r"http://\S+", program.stdout.readline())[0])
        with client.connect(message("a" * 60 + "b")):
            time.sleep(pause)
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(timeout=20)
        assert (program.returncode, err) == (0, "")


def test_words_the_terminal_cannot_show(workspace: Path) -> None:
    (workspace / "日.yaml").write_text("- say: x\n")
    with started("--script", "日.yaml", cwd=workspace, PYTHONIOENCODING="latin-1") as program:
        client = Client(re.findall(r"http://\S+", program.stdout.readline())[0])
        assert client.post("/v1/messages", message(model="claude-日本")).status == 200
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=20)
        assert program.returncode == 0
        assert r"claude-\u65e5\u672c" in out
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--delay", "nan"], "--delay: nan is no time"),
        (["--host", ".a..b"], "the host '.a..b' is not known"),
        (["--host", "a" * 80], "is not known (not a name)"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1 port 0 ("),
    ],
)
def test_what_it_cannot_start_with(arguments: list[str], words: str) -> None:
    err = refused("simulate", "--port", "0", *arguments)
    assert words in err
    assert "Errno" not in err
    assert err.count("\n") == 1


def test_help_fits_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    for command in (["simulate"], ["simulate", "calibrate"]):
        assert cli.run([*command, "--help"]) == 0
        assert max(map(len, capfd.readouterr().out.splitlines())) <= 80


def test_a_port_in_use() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        text = refused("simulate", "--port", str(port))
    advice = "choose another with `--port`, or `--port 0` for a free one."
    assert text == f"holdfast: port {port} on 127.0.0.1 is in use; {advice}\n"


def test_a_script_that_does_not_parse(workspace: Path) -> None:
    (workspace / "bad.yaml").write_text("rules:\n  - say: [\n")
    err = refused("simulate", "--script", "bad.yaml")
    assert re.match(r"holdfast: bad\.yaml.*\d", err)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("evict=1", "give some of eviction"),
        ("eviction", "not understood"),
        ("seed=1", "not understood"),
        ("eviction=often", "values are numbers"),
        ("bounce=2", "bounce is a probability"),
        ("replicas=0", "replicas begin at 1"),
    ],
)
def test_noise_that_is_not_understood(text: str, words: str) -> None:
    with pytest.raises(HoldfastError, match=words) as caught:
        read_noise(text, 0)
    assert "\n" not in str(caught.value)


def test_noise() -> None:
    noise = read_noise("eviction=0.02, replicas=3", 7)
    assert (noise.eviction, noise.replicas, noise.seed) == (0.02, 3, 7)


def test_help_has_examples() -> None:
    out = output("simulate", "--help")
    for option in ("--host", "--port", "--script", "--delay", "--noise", "--seed", "--virtual-clock", "--quiet"):
        assert option in out
    assert "holdfast simulate --port 0 --script" in out


def test_a_line_tells_of_faults_and_departures() -> None:
    record = Record(1, 0.0, "POST", "/v1/messages", model="claude-opus-5", usage=usage(input=5), why=("no marker",))
    record.fault, record.state = "cut mid", "abandoned"
    assert line(record).endswith("fault: cut mid; abandoned; no marker")


def test_a_line_of_a_refusal() -> None:
    record = Record(
        1, 0.0, "POST", "/v1/messages", model="claude-opus-5", status=400, error="max_tokens: Field required"
    )
    assert line(record).endswith("400  max_tokens: Field required")


def test_the_sum_of_one_request() -> None:
    journal = Journal(10)
    journal.settle(journal.open(0.0, "POST", "/"), usage(input=30, read=70))
    assert summary(journal) == "1 request; 70.0% of 100 prompt tokens were read from the cache."


def request(number: int, at: float, read: int, written: int) -> str:
    usage = {"input": 3, "read": read, "write_5m": written, "write_1h": 0, "output": 40}
    added = [{"role": "user", "type": "text", "chars": 40}]
    about = {"session": "own", "request": number, "at": at, "first_token_at": at + 1, "model": "claude-opus-4-6"}
    return json.dumps(about | {"sidechain": False, "reset": None, "added": added, "usage": usage}) + "\n"


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text(request(1, 0, 6_000, 1_000) + request(2, 30, 7_000, 500) + request(3, 400, 0, 8_000))
    return path


def test_it_prints_what_agrees(trace):
    assert output("simulate", "calibrate", str(trace)).splitlines() == [
        "own: 2 of 2 requests agree within 1% (100.0%)",
        "  claude-opus-4-6: tools and system text end at 6,000 tokens (taken from the first request)",
        "  not compared, because what they read is where the rules start from: 1",
    ]


def test_without_a_rule_it_fails(trace):
    code, out, err = run("simulate", "calibrate", "--without", "ttl", str(trace))
    assert code == 1
    assert "without ttl, these disagree in addition: 3" in out
    assert "3  foreseen     7,500  read         0  the lane had been idle for 370 s, longer than 5m" in out
    assert err == ("holdfast: own: fewer than 95% of the requests agree; the rules were compared without ttl.\n")


def test_nothing_to_compare_is_no_success(trace):
    trace.write_text(request(1, 0, 6_000, 1_000))
    done = run("simulate", "calibrate", str(trace))
    assert (done.code, "no request is left to compare" in done.err) == (1, True)


def test_json(trace):
    found = json.loads(output("simulate", "calibrate", "--json", str(trace), str(trace)))
    assert [(one["trace"], one["share"], one["compared"]) for one in found] == [("own", 1.0, 2)] * 2


def test_a_broken_line_is_named(trace):
    trace.write_text(trace.read_text() + "{\n")
    err = refused("simulate", "calibrate", str(trace))
    assert err.startswith("holdfast: ")
    assert "own.jsonl:4:" in err
    assert err.count("\n") == 1


def test_it_needs_a_trace():
    assert run("simulate", "calibrate").code == 2
    assert "holdfast simulate calibrate session.jsonl" in output("simulate", "calibrate", "--help")
