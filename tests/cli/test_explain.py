"""`holdfast explain`: what it reads, several files too, the four forms of its report, exit codes, interruptions."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.cli import run as run_holdfast
from holdfast.cli.explain import log_reader
from holdfast.cli.explain.command import PAGE, command
from holdfast.report.explainer import results
from holdfast.report.explainer.results import BreakFinding, ExplainReport, SessionFindings, Totals
from holdfast.report.logs.records import Source
from tests.cli.commands import invoke, piped, refused, shown
from tests.cli.shape_logs import HEAD, log, report, shape
from tests.lab.recordings import OWN, RECORDED, needs_recordings

SHAPES = OWN / "shapes.jsonl"


def test_the_json_has_the_documented_fields(tmp_path: Path) -> None:
    found = report(str(log(tmp_path / "a.jsonl")))
    assert list(found) == list(ExplainReport.__struct_fields__)
    (session,) = found["sessions"]
    assert list(session) == list(SessionFindings.__struct_fields__)
    assert list(found["totals"]) == list(Totals.__struct_fields__)
    assert [list(each) for each in session["breaks"]] == [list(BreakFinding.__struct_fields__)] * 2
    assert [each["request"] for each in session["breaks"]] == [2, 3]
    assert session["breaks"][0]["cost_usd"] == pytest.approx(4_000 * 5.75e-6)
    size = (tmp_path / "a.jsonl").stat().st_size
    assert found["read"] == [{"path": str(tmp_path / "a.jsonl"), "format": "shapes", "client": "", "size": size}]
    assert report(str(tmp_path), "--json") == found


@needs_recordings
def test_recorded_sessions() -> None:
    found = report(str(RECORDED / "coding-1.jsonl"), str(RECORDED / "coding-2.jsonl"))
    numbers = {each["session"]: [one["request"] for one in each["breaks"]] for each in found["sessions"]}
    assert numbers == {"coding-1": [32, 103, 150], "coding-2": [19, 62, 114, 138]}


def test_a_pipe_gets_everything(tmp_path: Path) -> None:
    text = piped(command, str(log(tmp_path / "a.jsonl")))
    assert text.startswith("Read 1 log of shape traces (0.0 MB).\n\nSESSION ")
    assert "$0.0230  messages_rewritten   4,000  10 s  s " in text
    assert "messages_rewritten (2 breaks, $0.0466): The read fell back" in text
    assert "Where the money went: $0.0" in text
    assert "paid again after breaks" in text
    assert "  no cache" in text
    assert "1 session, 4 requests: $0.0" in text.splitlines()[-1]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_is_never_too_narrow(columns: int, tmp_path: Path) -> None:
    log(tmp_path / "a.jsonl", session="a-session-with-a-rather-long-name")
    shutil.copy(SHAPES, tmp_path / "b.jsonl")
    lines = shown(command, str(tmp_path), columns=columns)
    assert [line for line in lines if len(line) > columns] == []


def test_the_limit_cuts_both_tables(tmp_path: Path) -> None:
    for name in "abc":
        log(tmp_path / f"{name}.jsonl", session=name)
    text = piped(command, str(tmp_path), "--limit", "2")
    assert "and 1 session more; --limit shows more" in text
    assert "and 4 more, which cost less; --limit shows more" in text


def test_markdown_has_no_markup_of_the_log(tmp_path: Path) -> None:
    text = piped(command, str(log(tmp_path / "a.jsonl", session="x|y`<b>")), "--format", "md")
    assert text.startswith("## Prompt cache: 2 breaks, $0.0466 lost\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) in (4, 9) for row in rows)
    assert "`x\\|y'<b>`" in text
    assert "`holdfast run -- CLIENT`" in text


def test_html_is_a_page_of_its_own(tmp_path: Path) -> None:
    log(tmp_path / "a.jsonl")
    assert piped(command, "a.jsonl", "--format", "html").lower().startswith("<!doctype html>")
    lines = shown(command, "a.jsonl", "--format", "html", columns=80)
    assert lines == []
    assert Path(PAGE).read_text(encoding="utf-8").lower().startswith("<!doctype html>")


def test_the_report_goes_where_it_is_sent(tmp_path: Path) -> None:
    log(tmp_path / "a.jsonl")
    done = invoke(command, "a.jsonl", "--json", "--output", "found.json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "the report is in found.json" in done.stderr
    assert json.loads(Path("found.json").read_text())["totals"]["breaks"] == 2
    assert run_holdfast(["explain", "a.jsonl", "--output", "no/such/place"]) == 1


@pytest.mark.parametrize(("limit", "code"), [("0", 3), ("0.0466", 0), ("$0.04", 3), ("5", 0)])
def test_fail_over_counts_breaks(tmp_path: Path, limit: str, code: int) -> None:
    done = invoke(command, str(log(tmp_path / "a.jsonl")), "--fail-over", limit)
    assert done.exit_code == code
    assert "2 breaks lost" in done.stdout
    assert ("of --fail-over" in done.stderr) == (code == 3)


def test_fail_over_does_not_count_resets(tmp_path: Path) -> None:
    lines = [shape(1, HEAD, 4_000), shape(2, HEAD, 4_100, reset="compaction")]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    done = invoke(command, "a.jsonl", "--fail-over", "0")
    assert done.exit_code == 0
    assert "No breaks; 1 reset, which had a reason" in done.stdout
    assert invoke(command, "a.jsonl", "--fail-over", "much").exit_code == 2


def test_broken_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl")
    path.write_text(path.read_text() + "{nonsense\n" * 7)
    done = invoke(command, "a.jsonl", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["broken"] == 7
    assert found["broken_lines"][0]["source"] == "a.jsonl:5"
    assert "7 lines could not be read and were left out:" in done.stderr
    assert "a.jsonl:5" in done.stderr
    assert "and 2 more" in done.stderr
    assert found["totals"]["breaks"] == 2


def test_nothing_that_can_be_read_is_an_error(tmp_path: Path) -> None:
    text = shape(1, HEAD, 4_000)
    (tmp_path / "a.jsonl").write_text(text.replace('"read": 6000', '"read": "many"') + "\n")
    assert "nothing could be read of 1 log of shape traces" in refused("explain", "a.jsonl")
    assert run_holdfast(["explain", "missing.jsonl"]) == 1


def test_without_logs_it_says_what_to_try() -> None:
    text = piped(command)
    assert "No logs of known clients were found" in text
    assert "holdfast explain requests.jsonl" in text
    assert report()["sessions"] == []


def test_logs_under_the_home_directory_are_found(workspace: Path) -> None:
    home = workspace / "home" / ".claude" / "projects" / "work"
    home.mkdir(parents=True)
    lines = []
    for number, read in enumerate((0, 9_000, 2_000), 1):
        usage = {"input_tokens": 3, "cache_read_input_tokens": read, "output_tokens": 9}
        usage["cache_creation_input_tokens"] = 9_000 if not read else 100
        about = {"isSidechain": False, "sessionId": "one", "parentUuid": None, "uuid": f"u{number}"}
        at = {"timestamp": f"2026-11-01T09:0{number}:00Z"}
        lines.append({**about, **at, "type": "user", "message": {"role": "user", "content": "Go on."}})
        message = {"id": f"m{number}", "model": "claude-opus-4-6", "role": "assistant", "content": [], "usage": usage}
        lines.append({**about, **at, "type": "assistant", "message": message, "requestId": f"r{number}"})
    (home / "one.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = piped(command)
    assert text.startswith("Read 1 log of Claude Code (0.0 MB), found under your home directory.\n")
    found = report()
    assert [(each["session"], each["client"], each["requests"]) for each in found["sessions"]] == [
        ("one", "claude-code", 3)
    ]
    assert [each["request"] for each in found["sessions"][0]["breaks"]] == [3]


def test_windows_and_sessions(tmp_path: Path) -> None:
    log(tmp_path / "a.jsonl", session="first")
    log(tmp_path / "b.jsonl", session="second")
    found = report(".", "--session", "sec")
    assert [each["session"] for each in found["sessions"]] == ["second"]
    found = report(".", "--since", "2026-09-21T14:13:50+00:00", "--until", "2026-09-21T14:14:00+00:00")
    assert [(each["session"], each["requests"]) for each in found["sessions"]] == [("first", 1), ("second", 1)]
    assert "fits --session, --since or --until" in piped(command, ".", "--session", "third")
    assert invoke(command, ".", "--since", "1d", "--until", "2d").exit_code == 2
    assert report(".", "--min-tokens", "4100")["totals"]["breaks"] == 0


def test_what_a_log_says_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    log(tmp_path / "a.jsonl", session="\x1b[2Jred")
    for form in ("table", "json", "md", "html"):
        assert "\x1b" not in piped(command, "a.jsonl", "--format", form)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_shows_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the second log is read."""
    log(tmp_path / "a.jsonl", session="a")
    log(tmp_path / "b.jsonl", session="b")
    records = log_reader.LogReader.records

    def interrupted(self: Any, source: Source, advance: Any) -> Any:
        if source.path.name == "b.jsonl":
            os.kill(os.getpid(), signal.SIGINT)
        return records(self, source, advance)

    monkeypatch.setattr(log_reader.LogReader, "records", interrupted)
    done = invoke(command, ".", "--json")
    assert done.exit_code == 130
    found = json.loads(done.stdout)
    assert found["partial"] is True
    assert found["sessions"][0]["session"] == "a"
    assert "interrupted: this is what was found in the first" in done.stderr
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    for name in range(40):
        log(tmp_path / f"{name}.jsonl", breaks=50, session=f"session-{name}")
    arguments = [sys.executable, "-m", "holdfast", "explain", str(tmp_path), "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait() in (0, 1)  # which one depends on how much the pipe had taken


def test_large_logs_have_a_progress_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log(tmp_path / "a.jsonl")
    monkeypatch.setattr(log_reader, "BAR_FROM", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    command.main(["a.jsonl"], standalone_mode=False)
    assert "Reading 0.0 MB" in capsys.readouterr().err
    command.main(["a.jsonl", "--quiet"], standalone_mode=False)
    assert capsys.readouterr().err == ""


def test_the_page_on_it_names_every_field() -> None:
    page = (OWN.parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    found = msgspec.json.decode(example.encode(), type=ExplainReport)
    assert list(json.loads(example)) == list(ExplainReport.__struct_fields__)
    assert list(json.loads(example)["sessions"][0]["breaks"][0]) == list(BreakFinding.__struct_fields__)
    assert found.totals.money.rewritten == found.totals.break_cost_usd
    tables = page[page.index("| in `sessions` |") :]
    for kind in vars(results).values():
        for name in getattr(kind, "__struct_fields__", ()):
            assert f"`{name}`" in tables, name


def test_the_line_of_a_log_on_the_page_is_read(tmp_path: Path) -> None:
    page = (OWN.parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"```jsonl\n(.*?)```", page, re.DOTALL)
    (tmp_path / "requests.jsonl").write_text(line)
    ran = invoke(command, str(tmp_path / "requests.jsonl"), "--json", "--quiet")
    (session,) = json.loads(ran.stdout)["sessions"]
    assert (session["session"], session["models"], session["requests"]) == ("s1", ["claude-opus-4-6"], 1)
    assert (session["usage"]["read"], session["started"]) == (4_000, 1_793_525_400)


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    page = (OWN.parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    projects = tmp_path / "home" / ".claude" / "projects"
    projects.mkdir(parents=True)
    log(projects / "a.jsonl")
    log(tmp_path / "requests.jsonl", breaks=0)
    for line in block.splitlines():
        words = [word.replace("~", str(tmp_path / "home")) for word in shlex.split(line, comments=True)]
        assert words[:2] == ["holdfast", "explain"]
        assert invoke(command, *words[2:]).exit_code == 0, line
    assert Path("report.html").exists()


def test_a_copied_log_is_counted_once_and_told(tmp_path: Path) -> None:
    alone = report(str(log(tmp_path / "a.jsonl")))
    (tmp_path / "backup").mkdir()
    shutil.copy(tmp_path / "a.jsonl", tmp_path / "backup" / "a.jsonl")
    found = report(str(tmp_path))
    assert len(found["read"]) == 2
    assert found["totals"] == alone["totals"]
    assert [one["request"] for one in found["sessions"][0]["breaks"]] == [2, 3]
    assert "holdfast: 4 requests in two files, counted once" in invoke(command, str(tmp_path)).stderr.splitlines()


def test_quiet_is_quiet_about_models_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(shape(1, 5, 5, model="nobody-knows-it") + "\n", "utf-8")
    run = [sys.executable, "-m", "holdfast", "explain", str(path)]
    assert "nobody-knows-it" in subprocess.run(run, capture_output=True, text=True, check=True).stderr
    assert subprocess.run([*run, "--quiet"], capture_output=True, text=True, check=True).stderr == ""


def test_more_tokens_than_any_prompt_has(tmp_path: Path) -> None:
    """A line that is counted as broken; no form of the report fails on it."""
    path = tmp_path / "a.jsonl"
    path.write_text(f"{shape(1, 5, 10**30)}\n{shape(2, 5, 10**400)}\n{shape(3, 5, 5)}\n", "utf-8")
    for form in ("table", "md", "html", "json"):
        done = invoke(command, str(path), "--format", form)
        assert done.exit_code == 0
        assert "2 lines could not be read" in done.stderr
