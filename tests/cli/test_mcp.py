"""`holdfast mcp`: the protocol, `explain`, messages it must not drop, and that no program stays behind when it ends."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client, types

from holdfast.cli.explain import log_reader
from holdfast.cli.mcp import explain as mcp_explain
from holdfast.cli.mcp.explain import MOST_CHARS, Explain, explain
from holdfast.errors import HoldfastError
from tests.cli.commands import output
from tests.cli.mcp_client import (
    COMMAND,
    INITIALIZE,
    INITIALIZED,
    environment,
    in_order,
    inside,
    process,
    said,
    served,
    text,
)
from tests.cli.shape_logs import HEAD, log, report, shape

ON_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="ends by signals")


def explained(**asked: Any) -> mcp_explain.Explanation:
    return asyncio.run(explain(Explain(**asked)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_lists_the_tools_and_calls_explain(workspace: Path, mode: str) -> None:
    path = str(log(workspace / "a.jsonl"))

    async def ask(client: Client) -> tuple[list[types.Tool], types.CallToolResult, types.CallToolResult]:
        listed = (await client.list_tools()).tools
        said = await client.call_tool("explain", {"paths": [path]})
        return listed, said, await client.call_tool("explain", {"paths": [path], "format": "json", "limit": 1})

    listed, said, structured = served(ask, mode=mode)
    assert [each.name for each in listed] == ["explain", "discover_tools", "call_tool"]
    hints = [each.annotations for each in listed]
    assert [each and each.read_only_hint for each in hints] == [True, True, False]
    markdown = text(said)
    assert said.structured_content is None  # a client that has both shows its model the JSON only
    assert markdown.startswith("## Prompt cache: 2 breaks, $0.0466 lost\n")
    assert "messages\\_rewritten" in markdown
    assert "**messages\\_rewritten** (2 breaks, $0.0466): The read fell back" in markdown
    data = structured.structured_content
    assert json.loads(text(structured)) == data
    assert data["totals"] == report(path)["totals"]
    assert [each["request"] for each in data["sessions"][0]["breaks"]] == [3]
    assert data["left_out"] == {"sessions": 0, "breaks": 1, "files": 0}


def test_what_is_wrong_is_an_answer_and_the_server_goes_on(workspace: Path) -> None:
    path = str(log(workspace / "a.jsonl"))

    async def ask(client: Client) -> tuple[list[str], str]:
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("explain", {"paths": ["missing.jsonl"]}),
            ("explain", {"limit": 0}),
            ("explain", {"path": "a.jsonl"}),
            ("explain", {"since": "long ago"}),
            ("explain", {"paths": ["\0"]}),
            ("nothing", {}),
        ]
        said = [text(await client.call_tool(*each), wrong=True) for each in wrong]
        return said, text(await client.call_tool("explain", {"paths": [path]}))

    said, well = inside(ask)
    assert said[0] == "missing.jsonl cannot be read (No such file or directory); check the path and its permissions"
    assert said[1] == "explain cannot use these arguments: Expected 'int' >= 1 - at '$.limit'."
    assert said[2] == "explain cannot use these arguments: Object contains unknown field 'path'."
    assert said[3].startswith("since: 'long ago' is no time; write 30m,")
    assert said[4] == "'?' is no path; give logs or directories of them"
    assert said[5] == "There is no tool 'nothing'; there are explain, discover_tools, call_tool."
    assert "2 breaks" in well


def test_a_broken_configuration_is_an_answer_too(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text("[cache]\nstratgy = 1\n")

    async def ask(client: Client) -> str:
        return text(await client.call_tool("explain", {}), wrong=True)

    assert "unknown key" in inside(ask)


def test_the_logs_of_known_clients_are_the_default(workspace: Path) -> None:
    assert explained().text.startswith("No logs of known clients were found under your home directory.")
    home = workspace / "home" / ".claude" / "projects" / "work"
    home.mkdir(parents=True)
    about = {"isSidechain": False, "sessionId": "one", "parentUuid": None, "timestamp": "2026-11-01T09:00:00Z"}
    usage = {"input_tokens": 3, "cache_read_input_tokens": 9, "cache_creation_input_tokens": 9, "output_tokens": 9}
    message = {"id": "m", "model": "claude-opus-4-6", "role": "assistant", "content": [], "usage": usage}
    line = {**about, "uuid": "u", "type": "assistant", "message": message, "requestId": "r"}
    (home / "one.jsonl").write_text(json.dumps(line))
    assert "Read 1 log of Claude Code (0.0 MB)." in explained().text
    assert "fits `session` and `since`; without them all are read." in explained(session="two").text


def test_sessions_and_times_can_be_chosen(workspace: Path) -> None:
    log(workspace / "a.jsonl", session="first")
    log(workspace / "b.jsonl", session="second")
    found = explained(paths=(".",), session="sec", format="json").data
    assert [each["session"] for each in found["sessions"]] == ["second"]
    found = explained(paths=(".",), since="2026-09-21T14:14:00+00:00", format="json").data
    assert [each["requests"] for each in found["sessions"]] == [1, 1]
    (workspace / "home").mkdir()
    log(workspace / "home" / "c.jsonl")
    assert "2 breaks" in explained(paths=("~/c.jsonl",)).text


def test_answers_stay_short_and_say_what_was_left_out(workspace: Path) -> None:
    for number in range(120):
        log(workspace / f"{number}.jsonl", breaks=2, session=f"session-{number:03}-" + "x" * 60)
    few = explained(paths=(".",), limit=5)
    assert "And 115 sessions more; a larger `limit` shows more." in few.text
    many = explained(paths=(".",), limit=100)
    assert 1_000 < len(many.text) <= MOST_CHARS
    assert "sessions more; left out to keep this short: name a `session` to see its own." in many.text
    data = explained(paths=(".",), limit=100, format="json").data
    assert len(json.dumps(data, separators=(",", ":"))) <= MOST_CHARS
    shown = [each for session in data["sessions"] for each in session["breaks"]]
    assert len(data["sessions"]) + data["left_out"]["sessions"] == 120
    assert len(shown) + data["left_out"]["breaks"] == 240
    assert data["totals"]["breaks"] == 240


def test_a_log_with_endless_words_does_not_make_an_endless_answer(workspace: Path) -> None:
    name = "n" * 50_000
    (workspace / "a.jsonl").write_text(shape(1, HEAD, 4_000, session=name) + "\n" + shape(2, HEAD, 9, session=name))
    answer = explained(paths=("a.jsonl",), format="json")
    assert answer.data["totals"]["breaks"] == 1
    assert len(answer.text) <= MOST_CHARS
    model = "m" * 50_000
    (workspace / "a.jsonl").write_text(shape(1, HEAD, 4_000, model=model) + "\n" + shape(2, HEAD, 9, model=model))
    assert len(explained(paths=("a.jsonl",)).text) <= MOST_CHARS + 100


def test_what_could_not_be_read_is_said(workspace: Path) -> None:
    path = log(workspace / "a.jsonl")
    path.write_text(path.read_text() + "{nonsense\n")
    assert "1 line could not be read: a.jsonl:5 " in explained(paths=("a.jsonl",)).text


def test_reading_ends_in_time_with_what_was_found(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(workspace / "a.jsonl", session="a")
    log(workspace / "b.jsonl", session="b")
    late = threading.Event()
    records = log_reader.LogReader.records

    def slowly(self: Any, source: Any, advance: Any) -> Any:
        if source.path.name == "b.jsonl":
            late.set()
        return records(self, source, advance)

    monkeypatch.setattr(log_reader.LogReader, "records", slowly)
    # The deadline passes while the second log is read.
    monkeypatch.setattr(mcp_explain, "time", SimpleNamespace(monotonic=lambda: math.inf if late.is_set() else 0.0))
    answer = explained(paths=(".",), format="json")
    assert answer.data["partial"] is True
    assert [(each["session"], each["requests"]) for each in answer.data["sessions"]] == [("a", 4), ("b", 1)]
    assert "of 0.0 MB were read, for want of time" in answer.data["notes"][0]


def test_looking_for_logs_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = threading.Event()
    monkeypatch.setattr(mcp_explain, "list_logs", lambda paths: going_on.wait(30) and [])
    monkeypatch.setattr(mcp_explain, "_GRACE_S", 0.0)
    with pytest.raises(HoldfastError, match="were not found within 0 seconds; name fewer paths"):
        asyncio.run(explain(Explain(), seconds=0.05))
    going_on.set()


@pytest.mark.slow
@ON_POSIX
def test_closed_input_ends_it_with_0() -> None:
    with process() as started:
        answers = said(started, in_order(INITIALIZE, INITIALIZED, {"id": 2, "method": "tools/list"}), 2)
        out, err = started.communicate(timeout=30)
    assert (started.returncode, out, err) == (0, b"", b"")
    assert [each["id"] for each in answers] == [1, 2]


@pytest.mark.slow
@ON_POSIX
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "code", "told"), [(signal.SIGINT, 130, b"holdfast: interrupted"), (signal.SIGTERM, 143, b"")]
)
def test_signals_end_it_while_the_client_is_silent(number: signal.Signals, code: int, told: bytes) -> None:
    with process() as started:
        assert said(started, in_order(INITIALIZE), 1)[0]["id"] == 1
        started.send_signal(number)
        assert started.wait(30) == code
        assert started.stderr.read().strip() == told


@pytest.mark.slow
@ON_POSIX
def test_nobody_who_reads_ends_it() -> None:
    with process() as started:
        started.stdout.close()
        started.stdin.write(in_order(INITIALIZE))
        started.stdin.flush()
        assert started.wait(30) == 0
        assert started.stderr.read() == b""


@pytest.mark.slow
@ON_POSIX
def test_lines_that_are_no_messages_do_not_end_it() -> None:
    with process() as started:
        lines = (
            b"{nonsense\n\xff\xfe\n\n" + in_order(INITIALIZE) + b"[1]\n" + in_order({"id": 2, "method": "tools/list"})
        )
        answers = said(started, lines, 2)
        started.communicate(timeout=30)
    assert started.returncode == 0
    assert [(each["id"], "result" in each) for each in answers] == [(1, True), (2, True)]


@pytest.mark.slow
def test_what_prints_does_not_reach_the_protocol() -> None:
    """A print on standard output, from Python and from below it, goes to standard error."""
    script = """
        import os
        from holdfast.cli import main
        from holdfast.cli.mcp import server as mcp_server

        async def loud(asked):
            print("from Python", flush=True)
            os.write(1, b"from below\\n")
            return await mcp_server_explain(asked)

        mcp_server_explain = mcp_server.explain
        mcp_server.explain = loud
        main(["mcp"])
    """
    call = {"id": 2, "method": "tools/call", "params": {"name": "explain", "arguments": {}}}
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    with started:
        lines = said(started, in_order(INITIALIZE, INITIALIZED, call), 2)
        out, err = started.communicate(timeout=30)
    assert [line["id"] for line in lines] == [1, 2]
    assert out == b""
    assert err.decode().splitlines()[:2] == ["from Python", "from below"]


@pytest.mark.slow
def test_without_the_extra_it_says_what_to_install() -> None:
    script = "import sys; sys.modules['mcp'] = None; from holdfast.cli import main; main(['mcp'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, input="", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == "holdfast: `holdfast mcp` needs the MCP SDK, which is not installed: pip install 'holdfast[mcp]'\n"
    )


def test_help_says_how_to_register_it() -> None:
    out = output("mcp", "--help")
    assert "claude mcp add holdfast -- holdfast mcp" in out
    assert '"mcpServers": {"holdfast": {"command": "holdfast", "args": ["mcp"]}}' in out


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
