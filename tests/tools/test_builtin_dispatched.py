"""The built-in tools behind the dispatcher: schemas, paths, offload, cancellation and time limits together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config.sections.agent import ConfirmSettings, OffloadSettings, ToolsSettings
from holdfast.records.events.sessions import ProcessExited, ProcessStarted
from holdfast.records.events.tools import ToolCompleted, ToolOffloaded
from holdfast.tools.builtin import Processes, builtin_tools
from holdfast.tools.contract import Cancel
from holdfast.tools.offload import Offloader, is_reference
from holdfast.tools.results import ResultPipeline
from holdfast.tools.workspace import Workspace
from tests.tools.builtins import running
from tests.tools.dispatch_bench import Bench, call, text, violations

SETTINGS = ToolsSettings(
    confirm=ConfirmSettings(mode="allow"), offload=OffloadSettings(inline_chars=2_000, read_chars=3_000)
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    processes = Processes()
    yield Bench(
        work,
        *builtin_tools(SETTINGS, processes),
        settings=SETTINGS,
        workspace=Workspace(work, offloads=[kept]),
        results=ResultPipeline(Offloader(SETTINGS.offload, kept), None),
        grace_s=2.0,
    )
    asyncio.run(processes.close())


def test_inputs_are_checked_before_anything_happens(bench: Bench) -> None:
    for name, given in (
        ("read_file", {}),
        ("read_file", {"path": "a", "offset": 0}),
        ("read_file", {"path": "a", "lines": 3}),
        ("patch_file", {"path": "a", "old": "", "new": "x"}),
        ("list_dir", {"path": ".", "depth": 99}),
        ("grep_files", {"pattern": ""}),
        ("run_command", {"command": "touch made", "timeout_s": 601}),
        ("run_command", {"command": "touch made", "cwd": ".."}),
        ("write_file", {"path": "../made", "content": ""}),
    ):
        answer = bench.one(name, given)
        assert answer.result.is_error, (name, given)
    assert list(bench.workspace.root.iterdir()) == []


def test_a_turn_of_writes_reads_and_commands_is_answered_in_order(bench: Bench) -> None:
    calls = [
        call("write_file", {"path": "a.txt", "content": "one\n"}, "1"),
        call("patch_file", {"path": "a.txt", "old": "one", "new": "two"}, "2"),
        call("read_file", {"path": "a.txt"}, "3"),
        call("grep_files", {"pattern": "two"}, "4"),
        call("run_command", {"command": "cat a.txt; exit 1"}, "5"),
        call("list_dir", {"path": "."}, "6"),
        call("read_file", {"path": "b.txt"}, "7"),
    ]
    answers = bench.run(*calls)
    assert [text(answer) for answer in answers] == [
        "Wrote a.txt (1 line).",
        "Patched a.txt: 1 replacement at line 1.",
        "two\n",
        "a.txt\n1:two",
        "two\n[exit code 1]",
        "a.txt",
        "b.txt does not exist. Near it: a.txt.",
    ]
    assert [bool(answer.result.is_error) for answer in answers] == [False] * 6 + [True]
    assert not violations(calls, answers)
    completed = {event.tool: event for event in bench.told() if isinstance(event, ToolCompleted)}
    assert completed["write_file"].files_modified == ("a.txt",)
    assert completed["run_command"].command_executed == "cat a.txt; exit 1"


def test_c39_a_long_result_is_recovered_with_read_file(bench: Bench) -> None:
    """The output of a command goes to disk; read at the path in the reference it comes back whole, page by page."""
    answer = bench.one("run_command", {"command": "seq 1 3000; exit 3"})
    assert is_reference(text(answer))
    assert text(answer).endswith("3000\n[exit code 3]")
    (path,) = [event.path for event in bench.told() if isinstance(event, ToolOffloaded)]
    whole, offset = "", 1
    while True:
        page = text(bench.one("read_file", {"path": path, "offset": offset}))
        assert len(page) <= 3_000
        assert not is_reference(page)
        lines, _, note = page.rpartition("\n[")
        whole += lines + "\n"
        if "to the end" in note:
            break
        offset = int(note.removesuffix(".]").rpartition("offset=")[2])
    assert whole == "".join(f"{n}\n" for n in range(1, 3001)) + "[exit code 3]\n"
    assert not any(isinstance(event, ToolOffloaded) for event in bench.told())


def test_c42_what_was_read_is_never_offloaded_again(bench: Bench) -> None:
    """A page of a file is as long as results may be; of an offloaded result as much is given as is asked for."""
    (bench.workspace.root / "a.txt").write_text("line\n" * 10_000)
    assert len(text(bench.one("read_file", {"path": "a.txt"}))) <= 3_000
    assert len(text(bench.one("read_file", {"path": "a.txt", "limit": 5_000}))) <= 3_000
    bench.one("run_command", {"command": "cat a.txt"})
    (path,) = [event.path for event in bench.told() if isinstance(event, ToolOffloaded)]
    assert text(bench.one("read_file", {"path": path, "limit": 5_000})).startswith("line\n" * 5_000)


def test_a_cancelled_turn_leaves_no_process(bench: Bench) -> None:
    token = f"{700 + time.monotonic_ns() % 10**6}.5"
    cancel = Cancel()

    def soon() -> None:
        while not running(f"sleep {token}"):
            time.sleep(0.01)
        cancel.set()

    thread = threading.Thread(target=soon)
    thread.start()
    calls = [call("run_command", {"command": f"sleep {token}"}, "1"), call("run_command", {"command": "echo x"}, "2")]
    answers = bench.run(*calls, cancel=cancel)
    thread.join()
    assert [answer.cancelled for answer in answers] == [True, True]
    assert not violations(calls, answers)
    assert running(token) == []
    told = bench.told()
    assert sum(isinstance(event, ProcessStarted) for event in told) == 1
    assert sum(isinstance(event, ProcessExited) for event in told) == 1


def test_a_process_lives_from_turn_to_turn(bench: Bench) -> None:
    assert text(bench.one("run_command", {"command": "echo up; sleep 600", "background": True})) == "Started as p1."
    while "up" not in (said := text(bench.one("process_output", {"process": "p1"}))):
        assert said == "[p1: running]"
    assert text(bench.one("process_stop", {"process": "p1"})) == "p1 was ended: ended by SIGTERM."
    assert [event for event in bench.told() if isinstance(event, ProcessExited)] == [
        ProcessExited(process="p1", exit_code=-15, background=True)
    ]


def test_without_permission_nothing_is_executed(tmp_path: Path) -> None:
    settings = ToolsSettings(confirm=ConfirmSettings(mode="deny"))
    processes = Processes()
    bench = Bench(tmp_path, *builtin_tools(settings, processes), settings=settings)
    for name, given in (
        ("run_command", {"command": "touch made"}),
        ("write_file", {"path": "made", "content": ""}),
    ):
        assert bench.one(name, given).result.is_error
    assert list(tmp_path.iterdir()) == []
    assert text(bench.one("list_dir", {"path": "."})) == "[The directory is empty.]"
    asyncio.run(processes.close())
