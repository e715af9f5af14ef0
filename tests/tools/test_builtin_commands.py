"""run_command, process_output and process_stop with real processes: that hang, fork, flood, ignore signals and die."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config.sections.agent import CommandSettings, ToolsSettings
from holdfast.facts.credentials import MASK
from holdfast.records.events.sessions import ProcessExited, ProcessStarted
from holdfast.tools import descendants
from holdfast.tools.builtin import Processes, builtin_tools, groups
from holdfast.tools.builtin.safe_text import clean, whole_characters
from holdfast.tools.contract import Cancel, ToolExecutionError
from tests.tools.builtins import Session, children, descriptors, end_running, running


@pytest.fixture
def token() -> Iterator[str]:
    """Seconds that nobody else sleeps: by them a process of this test is known."""
    seconds = f"{600 + time.monotonic_ns() % 10**6}.{os.getpid()}"
    yield seconds
    end_running(seconds)


@pytest.fixture
def session(tmp_path: Path, token: str) -> Iterator[Session]:
    before, ours = descriptors(), children()
    session = Session(tmp_path)
    yield session
    asyncio.run(session.processes.close())
    assert until(lambda: descriptors() == before), descriptors() ^ before
    assert running(token) == []
    assert children() == ours


def until(true: object, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return bool(true())  # type: ignore[operator]


class TestACommand:
    def test_gives_both_outputs_in_order_and_its_exit_code(self, session: Session) -> None:
        output = session.does("run_command", command="echo one; echo two >&2; echo three; exit 3")
        assert output.content == "one\ntwo\nthree\n[exit code 3]"
        assert output.command_executed == "echo one; echo two >&2; echo three; exit 3"
        assert output.metadata == {"exit_code": 3, "output_bytes": 14, "dropped_bytes": 0, "timed_out": False}
        assert session.says("run_command", command="true") == "[exit code 0]"
        assert session.says("run_command", command="printf x") == "x\n[exit code 0]"
        assert session.says("run_command", command="kill -9 $$") == "[ended by SIGKILL]"
        assert session.says("run_command", command="nosuchprogram").endswith("not found\n[exit code 127]")

    def test_runs_in_the_workspace_or_below(self, session: Session) -> None:
        (session.root / "sub").mkdir()
        (session.root / "file").touch()
        assert session.says("run_command", command="pwd") == f"{session.root}\n[exit code 0]"
        assert session.says("run_command", command="pwd", cwd="sub").startswith(f"{session.root}/sub\n")
        assert "is not a directory" in session.refuses("run_command", command="pwd", cwd="file")
        assert "is not a directory" in session.refuses("run_command", command="pwd", cwd="gone")
        assert "outside the workspace" in session.refuses("run_command", command="pwd", cwd="/")

    def test_has_nothing_to_read_and_no_terminal(self, session: Session) -> None:
        assert session.says("run_command", command="cat; echo read") == "read\n[exit code 0]"
        assert session.says("run_command", command="test -t 0 || test -t 1 || echo none").startswith("none")
        assert "exit code 0" not in session.says("run_command", command="cat </dev/tty")

    def test_gets_our_environment_without_our_credentials(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_GATEWAY_KEY", "hush1")
        monkeypatch.setenv("HOLDFAST_ADMIN_TOKEN", "hush2")
        monkeypatch.setenv("HOLDFAST_STORE_URL", "postgresql://me:hush3@db/x")
        monkeypatch.setenv("HOLDFAST_HOME", "/somewhere")
        monkeypatch.setenv("OTHER_KEY", "theirs")
        monkeypatch.setenv("OPENAI_API_KEY", "hush4")
        monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "hush5")
        monkeypatch.setenv("SOME_NAME", "sk-" + "ant-api03-hush6hush6hush6")
        said = session.says("run_command", command="env")
        assert "hush" not in said
        assert "HOLDFAST_HOME=/somewhere" in said
        assert "OTHER_KEY=theirs" in said
        monkeypatch.setenv("HOLDFAST_STORE_URL", "sqlite:///x")
        assert "HOLDFAST_STORE_URL=sqlite:///x" in session.says("run_command", command="env")

    def test_is_told_of(self, session: Session) -> None:
        session.does("run_command", command="exit 4")
        assert session.told == [
            ProcessStarted(process="call_1", command="exit 4", directory="."),
            ProcessExited(process="call_1", exit_code=4),
        ]

    async def test_says_nothing_that_changes_from_run_to_run(self, session: Session) -> None:
        commands = [("sleep 0.05 & echo x", 9), ("(sleep 0.05; exit) >&- 2>&- & echo x", 9), ("sleep 5", 0.1)]
        first, second = [
            [await session.said("run_command", command=command, timeout_s=limit) for command, limit in commands]
            for _ in range(2)
        ]
        assert first == second

    def test_harmful_output_is_made_harmless(self, session: Session) -> None:
        said = session.says("run_command", command=r"printf 'a\000b\377c \033[31mred\033[0m\r\n50%%\r100%%\007\n'")
        assert said == "ab\ufffdc red\n50%\n100%\n[exit code 0]"
        said.encode("utf-8")

    def test_no_key_is_streamed_even_in_pieces(self, session: Session) -> None:
        key = "sk-" + "ant-api03-Abc123Def456"
        script = f"printf 'a {key[:12]}'; sleep 0.1; echo '{key[12:]} b'; printf '{key}'"
        session.does("run_command", command=script)
        assert "".join(session.streamed) == f"a sk-ant-{MASK} b\nsk-ant-{MASK}"

    def test_is_streamed_while_it_runs(self, session: Session) -> None:
        async def watch() -> str:
            running = asyncio.ensure_future(
                session.said("run_command", command="echo first; while ! test -e go; do sleep 0.01; done; echo last")
            )
            while not session.streamed:
                await asyncio.sleep(0.005)
            assert session.streamed == ["first\n"]
            (session.root / "go").touch()
            return await running

        assert asyncio.run(watch()) == "first\nlast\n[exit code 0]"
        assert "".join(session.streamed) == "first\nlast\n"

    def test_a_watcher_that_fails_does_no_harm(self, session: Session) -> None:
        def fail(text: str) -> None:
            raise ValueError(text)

        session.watch = fail
        assert session.says("run_command", command="echo x") == "x\n[exit code 0]"

    def test_what_cannot_be_started_is_said(self, session: Session) -> None:
        for command in ("x" * 3_000_000, "a\0b", "\ud800"):
            assert session.refuses("run_command", command=command).startswith("The command could not be started:")

    async def test_where_no_thread_is_left_nothing_runs(
        self, session: Session, token: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none_left(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", none_left)
            with pytest.raises(ToolExecutionError, match="too many threads"):
                await session.call("run_command", command=f"sleep {token}")
        assert running(token) == []

    def test_many_run_side_by_side(self, session: Session) -> None:
        async def many() -> list[str]:
            return await asyncio.gather(*(session.said("run_command", command=f"echo {n}; exit {n}") for n in range(8)))

        assert asyncio.run(many()) == [f"{n}\n[exit code {n}]" for n in range(8)]


class TestItsEnd:
    def test_at_the_time_limit_the_whole_group_ends(self, session: Session, token: str) -> None:
        output = session.does(
            "run_command", command=f"echo begun; (sleep {token} & sleep {token}); echo no", timeout_s=0.2
        )
        assert isinstance(output.content, str)
        assert output.content == (
            "begun\n[Ended at its time limit of 0.2 s. A longer timeout_s, at most 600, or background gives it more.]\n"
            "[ended by SIGTERM]"
        )
        assert output.metadata["timed_out"] is True
        assert running(token) == []

    @pytest.mark.slow
    def test_who_does_not_want_to_end_is_ended_by_force(self, session: Session, token: str) -> None:
        said = session.says("run_command", command=f"trap '' TERM; sleep {token}; sleep {token}", timeout_s=0.2)
        assert said.endswith("[ended by SIGKILL]")
        assert running(token) == []

    def test_a_last_word_after_the_request_to_end_is_heard(self, session: Session) -> None:
        said = session.says(
            "run_command", command="trap 'echo goodbye; exit 5' TERM; while :; do sleep 0.01; done", timeout_s=0.2
        )
        assert "goodbye\n[Ended at its time limit" in said
        assert said.endswith("[exit code 5]")

    async def test_cancelled_it_ends(self, session: Session, token: str) -> None:
        cancel = Cancel()
        call = asyncio.ensure_future(session.call("run_command", cancel=cancel, command=f"sleep {token}"))
        await until_running(token)
        cancel.set()
        with pytest.raises(ToolExecutionError, match="cancelled"):
            await call
        assert running(token) == []
        call = asyncio.ensure_future(session.call("run_command", command=f"sleep {token}"))
        await until_running(token)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert running(token) == []
        assert [type(event) for event in session.told] == [ProcessStarted, ProcessExited] * 2

    async def test_cancelled_twice_it_still_ends(self, session: Session, token: str) -> None:
        call = asyncio.ensure_future(
            session.call("run_command", command=f"trap '' TERM; sleep {token}; sleep {token}; :")
        )
        await until_running(token)
        call.cancel()
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert until(lambda: running(token) == [])

    @pytest.mark.slow
    def test_what_it_leaves_behind_neither_holds_it_up_nor_stays(self, session: Session, token: str) -> None:
        left = "[Processes that it left behind were ended. Use background for what is to go on running.]\n[exit code 0]"
        assert session.says("run_command", command=f"sleep {token} & echo x") == f"x\n{left}"
        assert session.says("run_command", command=f"sleep {token} >/dev/null 2>&1 & echo x") == f"x\n{left}"
        assert session.says("run_command", command=f"nohup sleep {token} 2>/dev/null & echo x") == f"x\n{left}"
        assert running(token) == []

    def test_a_daemon_that_keeps_the_pipe_does_not_hold_it_up(self, session: Session, token: str) -> None:
        said = session.says("run_command", command=f"setsid sleep {token} & echo x; sleep 0.1")
        assert said.startswith("x\n[Processes that it left behind were ended.")
        assert said.endswith("[exit code 0]")
        assert running(token) == []

    def test_without_proc_process_groups_have_to_do(
        self, session: Session, token: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(descendants, "_PROC", Path("/nowhere"))
        said = session.says("run_command", command=f"echo x; sleep {token} & sleep {token}", timeout_s=0.2)
        assert said.endswith("[ended by SIGTERM]")
        assert running(token) == []

    def test_output_that_comes_a_little_late_is_heard(self, session: Session) -> None:
        said = session.says("run_command", command="(sleep 0.1; echo late) & echo early")
        assert said.startswith("early\nlate\n")

    def test_is_noticed_on_systems_that_do_not_tell(
        self, session: Session, token: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(groups, "_exit_descriptor", lambda process: None)
        assert session.says("run_command", command="echo x; exit 3") == "x\n[exit code 3]"
        assert session.says("run_command", command="exec >&- 2>&-; sleep 0.1; exit 6") == "[exit code 6]"
        said = session.says("run_command", command=f"echo x; sleep {token}; :", timeout_s=0.2)
        assert said.endswith("[ended by SIGTERM]")
        assert session.says("run_command", command=f"sleep {token} & echo x").endswith("[exit code 0]")
        assert running(token) == []

    def test_a_closed_output_is_no_end(self, session: Session) -> None:
        assert session.says("run_command", command="exec >&- 2>&-; sleep 0.2; exit 6") == "[exit code 6]"


class TestMuchOutput:
    def test_what_is_more_than_is_kept_is_counted_and_dropped(self, tmp_path: Path) -> None:
        session = Session(tmp_path, ToolsSettings(command=CommandSettings(max_output_bytes=1000)))
        output = session.run(session.call("run_command", command="yes 123456789 | head -n 100000; echo end; exit 2"))
        assert output.content == (
            "123456789\n" * 100 + "[Only the first 1000 of 1000004 bytes of output were kept.]\n[exit code 2]"
        )
        assert output.metadata["dropped_bytes"] == 999_004

    @pytest.mark.slow
    def test_a_hundred_megabytes_pass_without_holding_up_the_loop(self, session: Session) -> None:
        async def flooded() -> tuple[str, int]:
            beats = 0

            async def beat() -> None:
                nonlocal beats
                while True:
                    await asyncio.sleep(0.01)
                    beats += 1

            heart = asyncio.ensure_future(beat())
            try:
                said = await session.said("run_command", command="head -c 100000000 /dev/zero | tr '\\0' a")
            finally:
                heart.cancel()
            return said, beats

        said, beats = asyncio.run(flooded())
        assert said.startswith("a" * 1000)
        assert said.endswith("\n[Only the first 50000000 of 100000000 bytes of output were kept.]\n[exit code 0]")
        assert len(said) < 50_000_200
        assert beats > 5
        assert sum(map(len, session.streamed)) <= 100_000_000

    async def test_a_slow_watcher_misses_some_and_is_told(self, session: Session) -> None:
        call = asyncio.ensure_future(session.said("run_command", command="head -c 1000000 /dev/zero | tr '\\0' a"))
        await asyncio.sleep(0)
        time.sleep(0.3)  # the loop stands still, the command does not
        await call
        assert "bytes not shown]" in "".join(session.streamed)


class TestInTheBackground:
    async def test_is_named_read_and_ended(self, session: Session, token: str) -> None:
        output = await session.call("run_command", command=f"echo ready; sleep {token}", background=True)
        assert output.content == "Started as p1."
        assert output.command_executed
        said = ""
        while "ready" not in said:
            said = await session.said("process_output", process="p1")
        assert said == "ready\n[p1: running]"
        assert await session.said("process_output", process="p1") == "[p1: running]"
        assert await session.said("process_stop", process="p1") == "p1 was ended: ended by SIGTERM."
        assert running(token) == []
        assert await session.said("process_output", process="p1") == "[p1: ended by SIGTERM]"
        assert await session.said("process_stop", process="p1") == "p1 had ended before: ended by SIGTERM."
        assert session.told == [
            ProcessStarted(process="p1", command=f"echo ready; sleep {token}", directory=".", background=True),
            ProcessExited(process="p1", exit_code=-signal.SIGTERM, background=True),
        ]

    def test_a_key_that_comes_in_pieces_is_masked(self, session: Session) -> None:
        first, second = "sk-" + "ant-api03-Abc123", "Def456Ghi789"
        pem = "-----BEGIN PRIVATE KEY-----\\n" + "Abc123Def456" * 5 + "\\n"
        rest = "Def456Abc123" * 5 + "\\n-----END PRIVATE KEY-----\\n"
        script = f"printf 'a {first}'; cat gate1; printf '{second} b\\n{pem}'; cat gate2; printf '{rest}'"
        for name in ("gate1", "gate2"):
            os.mkfifo(session.root / name)

        async def whole() -> list[str]:
            await session.call("run_command", command=script, background=True)
            said = [""]
            for gate, wanted in (("gate1", "a "), ("gate2", "-----BEGIN"), (None, "exit")):
                while wanted not in said[-1]:
                    said[-1] += await session.said("process_output", process="p1", wait_s=0.02)
                if gate:
                    await asyncio.to_thread((session.root / gate).write_text, "")
                    said.append("")
            return said

        pieces = [piece.replace("[p1: running]", "").strip() for piece in session.run(whole())]
        assert pieces == [
            "a",
            f"sk-ant-{MASK} b\n-----BEGIN PRIVATE KEY-----{MASK}",
            f"{MASK}-----END PRIVATE KEY-----\n[p1: exit code 0]",
        ]

    def test_its_end_can_be_waited_for(self, session: Session) -> None:
        async def whole() -> str:
            await session.call("run_command", command="echo a; sleep 0.1; echo b; exit 7", background=True)
            return await session.said("process_output", process="p1", wait_s=10)

        assert asyncio.run(whole()) == "a\nb\n[p1: exit code 7]"
        assert session.told[-1] == ProcessExited(process="p1", exit_code=7, background=True)

    async def test_waiting_ends_with_the_time_and_with_a_cancellation(self, session: Session, token: str) -> None:
        await session.call("run_command", command=f"sleep {token}", background=True)
        assert await session.said("process_output", process="p1", wait_s=0.05) == "[p1: running]"
        cancel = Cancel()
        cancel.set()
        output = await session.call("process_output", cancel=cancel, process="p1", wait_s=100)
        assert output.content == "[p1: running]"

    def test_outlives_the_loop_that_started_it(self, session: Session, token: str) -> None:
        session.does("run_command", command=f"echo x; sleep {token}", background=True)
        assert until(lambda: "running" in session.says("process_output", process="p1"))
        # Not at once: while a shell becomes its last command, the system shows neither of the two.
        assert until(lambda: running(f"sleep {token}") != [])
        assert session.says("process_stop", process="p1") == "p1 was ended: ended by SIGTERM."

    def test_one_that_ends_at_once_is_told_in_order(self, session: Session) -> None:
        for n in range(20):
            session.does("run_command", command="exit 1", background=True)
            session.says("process_output", process=f"p{n + 1}", wait_s=5)
        kinds = [(type(event).__name__, event.process) for event in session.told]  # type: ignore[attr-defined]
        assert kinds == [(kind, f"p{n + 1}") for n in range(20) for kind in ("ProcessStarted", "ProcessExited")]

    def test_names_count_on_after_a_restart(self, tmp_path: Path) -> None:
        session = Session(tmp_path)
        session.processes = Processes(started=4)
        session.tools = {tool.name: tool for tool in builtin_tools(ToolsSettings(), session.processes)}

        async def start() -> str:
            said = await session.said("run_command", command="true", background=True)
            await session.said("process_output", process="p5", wait_s=5)
            return said

        assert session.run(start()) == "Started as p5."
        assert session.processes.started == 5

    def test_there_are_only_so_many(self, tmp_path: Path, token: str) -> None:
        session = Session(tmp_path, ToolsSettings(command=CommandSettings(max_background=2)))

        async def start() -> None:
            for _ in range(2):
                await session.call("run_command", command=f"sleep {token}", background=True)
            with pytest.raises(ToolExecutionError, match=r"2 background processes .* process_stop: p1, p2"):
                await session.call("run_command", command="true", background=True)
            await session.call("process_stop", process="p1")
            assert await session.said("run_command", command="true", background=True) == "Started as p3."

        session.run(start())
        assert running(token) == []

    def test_an_unknown_name_is_answered_with_the_known(self, session: Session) -> None:
        assert session.refuses("process_output", process="p1") == (
            "There is no background process 'p1'; there are: none."
        )
        session.does("run_command", command="true", background=True)
        assert session.refuses("process_stop", process="x") == "There is no background process 'x'; there are: p1."

    def test_much_output_comes_in_pieces_that_are_whole(self, session: Session) -> None:
        async def whole() -> tuple[str, int]:
            command = (
                "i=0; while [ $i -lt 3 ]; do head -c 700000 /dev/zero | tr '\\0' x | sed 's/x/€/g'; i=$((i+1)); done"
            )
            await session.call("run_command", command=command, background=True)
            await session.call("process_output", process="p1", wait_s=20)
            text, calls = "", 0
            while True:
                calls += 1
                said = await session.said("process_output", process="p1")
                if said.endswith("[p1: exit code 0]") and "There is more" not in said:
                    return text + said, calls
                text += said.replace("[There is more: call process_output again.]\n[p1: exit code 0]", "").rstrip("\n")

        text, calls = asyncio.run(whole())
        assert "\ufffd" not in text
        assert text.count("€") == 2_100_000 - 349_525
        assert calls == 6

    def test_old_ones_are_forgotten(self, session: Session) -> None:
        async def many() -> None:
            for n in range(40):
                await session.call("run_command", command=f"echo {n}", background=True)
                await session.call("process_output", process=f"p{n + 1}", wait_s=5)

        asyncio.run(many())
        assert "no background process 'p1'" in session.refuses("process_output", process="p1")
        assert session.says("process_output", process="p40") == "[p40: exit code 0]"


class TestNothingStays:
    @pytest.mark.slow
    def test_closing_ends_all(self, tmp_path: Path, token: str) -> None:
        session, ours = Session(tmp_path), children()

        async def start() -> None:
            for command in (f"sleep {token}", f"trap '' TERM; sleep {token}; sleep {token}"):
                await session.call("run_command", command=command, background=True)
            while len(running(f"sleep {token}")) < 3:
                await asyncio.sleep(0.01)

        session.run(start())
        assert running(token) == []
        assert children() == ours
        assert "closed" in session.refuses("run_command", command="true")
        asyncio.run(session.processes.close())

    def test_a_session_that_nobody_closed_ends_with_its_tools(self, tmp_path: Path, token: str) -> None:
        before, ours = descriptors(), children()
        session = Session(tmp_path)
        session.does("run_command", command=f"sleep {token}", background=True)
        assert until(lambda: running(token) != [])
        del session
        gc.collect()
        assert until(lambda: running(token) == [] and children() == ours and descriptors() == before)

    @pytest.mark.parametrize("way", ["kill -9", "exit"])
    def test_if_we_are_killed_our_commands_end_too(self, tmp_path: Path, token: str, way: str) -> None:
        program = f"""
import asyncio, os, signal, sys, time
from pathlib import Path
from tests.tools.builtins import Session
session = Session(Path({str(tmp_path)!r}))
session.does("run_command", command="sleep {token} & sleep {token}", background=True)
print("ready", flush=True)
sys.stdin.read() if {way!r} == "exit" else time.sleep(60)
"""
        with subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        ) as process:
            assert process.stdin is not None
            assert process.stdout.readline() == b"ready\n"
            assert until(lambda: len(running(f"sleep {token}")) > 1)
            if way == "exit":
                process.stdin.close()
            else:
                process.kill()
        assert until(lambda: running(token) == [])

    @pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
    def test_if_we_are_killed_just_after_a_command_began_it_ends_too(self, tmp_path: Path, token: str) -> None:
        program = f"""
import os, signal, time
from pathlib import Path
from holdfast.tools.builtin import processes
from tests.tools.builtins import Session, running
add = processes.Guardian.add
def killed(self, group, mark):
    if group:
        while len(running("sleep {token}")) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    add(self, group, mark)
processes.Guardian.add = killed
Session(Path({str(tmp_path)!r})).does("run_command", command="sleep {token} & sleep {token}", background=True)
"""
        done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=False)
        assert done.returncode == -signal.SIGKILL
        assert until(lambda: running(token) == [])

    def test_threads_end_with_their_commands(self, session: Session) -> None:
        before = threading.active_count()
        for _ in range(5):
            session.does("run_command", command="true")
        assert until(lambda: threading.active_count() <= before)


def test_cleaning_keeps_the_words() -> None:
    assert clean("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b(B") == "textlink"
    assert clean("N\x08NA\x08AM\x08ME\x08E") == "NAME"
    assert clean("\x1b]unfinished\nnext") == "\nnext"
    text = "x\x1b[1m\n" * 100_000 + "y" * 600_000
    assert clean(text) == "x\n" * 100_000 + "y" * 600_000


def test_a_character_is_not_cut() -> None:
    data = "a€😀ü".encode()
    for end in range(len(data) + 1):
        whole = data[: whole_characters(data[:end])]
        whole.decode("utf-8")
        assert end - len(whole) < 4
    assert whole_characters(b"\xff\xff") == 2
    assert whole_characters(b"\x80" * 8) == 8


async def until_running(token: str) -> None:
    while not running(f"sleep {token}"):
        await asyncio.sleep(0.01)
