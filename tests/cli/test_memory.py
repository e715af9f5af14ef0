"""`holdfast memory` as a whole: listing, showing, searching; whose entries, of which project; how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import split
from typing import Any

import pytest

from holdfast import cli
from holdfast.cli.memory import JOBS, command
from holdfast.memory.knowledge import Knowledge
from holdfast.store import open_store
from tests.cli.commands import clean, holdfast, invoke, piped, run, shell, shown
from tests.cli.knowledge import database, remember

pytestmark = pytest.mark.usefixtures("utc")

HOSTILE = "Fine \u202enot\u202c \u2066x"
"""Printable to nobody, and yet no control character of ASCII."""


def test_alone_it_lists(workspace: Path) -> None:
    id_ = remember(workspace, "Tests run with make test")
    assert piped(command) == piped(command, "list")
    assert id_ in piped(command)


def test_every_job_has_help_with_examples() -> None:
    head = piped(command, "--help")
    for name in JOBS:
        assert f"\n  {name} " in head
        assert f"Examples:\n    holdfast memory {name}" in piped(command, name, "--help") or name == "add"
    assert "holdfast memory add" in piped(command, "add", "--help")
    assert "..." not in head.split("Commands:")[1]


def test_wrong_usage_exits_with_2() -> None:
    assert "did you mean 'list'?" in invoke(command, "lst").output
    for arguments in (
        ["lst"],
        ["show"],
        ["search"],
        ["search", " "],
        ["add"],
        ["add", "x", "y", "--confidence", "2"],
        ["add", "x", "y", "--everywhere", "--project", "p"],
        ["list", "--everywhere", "--all-projects"],
        ["list", "--project", "p", "--all-projects"],
        ["search", "x", "--limit", "0"],
        ["forget"],
    ):
        assert invoke(command, *arguments).exit_code == 2, arguments


def test_where_nothing_is_remembered_it_says_what_to_do_and_makes_nothing(workspace: Path) -> None:
    code, out, err = run("memory", "list")
    assert (code, err) == (0, "")
    assert "Nothing is remembered" in out
    assert "holdfast memory add" in out
    assert json.loads(piped(command, "list", "--json"))["entries"] == []
    assert json.loads(piped(command, "search", "x", "--json"))["matches"] == []
    assert "\n## " not in piped(command, "export")
    for arguments in (["show", "k1"], ["history", "k1"], ["why", "k1"], ["forget", "k1", "--yes"], ["restore", "k1"]):
        code, out, err = run("memory", *arguments)
        assert (code, out) == (1, "")
        assert "nothing is stored yet" in err
    assert list(workspace.iterdir()) == []


def test_where_a_tenant_knows_nothing_it_says_what_to_do_for_him(workspace: Path) -> None:
    id_ = remember(workspace, "Theirs", tenant="tenant-a")
    piped(command, "forget", id_, "--yes", "--tenant", "tenant-a")
    lines = piped(command, "list", "--tenant", "tenant-a").splitlines()
    assert lines[0] == "Nothing is remembered for tenant-a."
    done = invoke(command, *split(lines[-1])[2:])
    assert done.exit_code == 0, done.output
    assert "1 entry" in piped(command, "list", "--tenant", "tenant-a")


def test_what_has_only_words_that_all_have_is_no_find_beside_a_better_one(workspace: Path) -> None:
    for number in range(4):
        remember(workspace, f"Tests {number}", "Tests run.")
    deploy = remember(workspace, "Deploy", "Deploy after the tests.")
    found = json.loads(piped(command, "search", "deploy", "tests", "--json"))["matches"]
    assert [each["entry"]["id"] for each in found] == [deploy]
    assert len(json.loads(piped(command, "search", "tests", "--json"))["matches"]) == 5


def test_where_nothing_is_stored_a_list_has_the_same_names(workspace: Path) -> None:
    for arguments in ([], ["--project", "."], ["--project", "org/repo", "--tenant", "loc"], ["--project", "a\udcff"]):
        before = json.loads(piped(command, "list", "--json", *arguments))
        with open_store(database(workspace)):
            pass
        assert json.loads(piped(command, "list", "--json", *arguments)) == before
        assert before["tenant"] == "local"
        database(workspace).unlink()


@pytest.mark.parametrize(("zone", "at"), [("America/New_York", -(10**18)), ("Asia/Tokyo", 2**62)])
def test_an_entry_of_a_clock_that_was_wrong_can_be_seen_and_mended(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, zone: str, at: int
) -> None:
    with open_store(database(workspace)) as store:
        Knowledge(store, "local", project="p", clock=lambda: at / 1_000_000).add("Title", "Text.", id="k0000001")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for job in (["list", "--all-projects"], ["show", "k0000001"], ["history", "k0000001"]):
            assert "Title" in piped(command, *job)
            json.loads(piped(command, *job, "--json"))
        assert "Changed" in piped(command, "edit", "k0000001", "--content", "Other.")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_example_it_shows_works() -> None:
    _, out, _ = run("memory", "list")
    line = out.splitlines()[-1]
    assert cli.run(split(line)[1:]) == 0
    assert "Tests run with make test" in piped(command)


def test_a_list_has_what_belongs_here_and_everywhere(workspace: Path) -> None:
    remember(workspace, "Here")
    remember(workspace, "Everywhere", everywhere=True)
    remember(workspace, "Elsewhere", project="other")
    out = piped(command, "list")
    assert "Here" in out
    assert "Everywhere" in out
    assert "Elsewhere" not in out
    assert "1 more belongs to other projects" in out
    assert "Elsewhere" in piped(command, "list", "--all-projects")
    assert "Elsewhere" in piped(command, "list", "--project", "other")
    only = piped(command, "list", "--everywhere")
    assert ("Everywhere" in only, "Here" in only) == (True, False)


def test_a_project_is_a_directory_or_a_name(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "sub").mkdir()
    remember(workspace, "In sub", project=str(workspace.resolve() / "sub"))
    remember(workspace, "Named", project="org/repo")
    for named in ("sub", "./sub", str(workspace / "sub")):
        assert "In sub" in piped(command, "list", "--project", named)
    assert "Named" in piped(command, "list", "--project", "org/repo")
    monkeypatch.setenv("HOLDFAST_MEMORY_PROJECT", "org/repo")
    assert "Named" in piped(command, "list")
    monkeypatch.delenv("HOLDFAST_MEMORY_PROJECT")
    monkeypatch.chdir(workspace / "sub")
    assert "In sub" in piped(command, "list")


def test_a_directory_reached_by_a_link_is_the_same_project(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to("real")
    monkeypatch.chdir(workspace / "link")
    assert f"in {workspace.resolve() / 'real'}" in piped(command, "add", "By a link", "x")
    monkeypatch.chdir(workspace / "real")
    assert "By a link" in piped(command, "list")


def test_categories_are_chosen_and_left_out(workspace: Path) -> None:
    remember(workspace, "One", category="gotcha")
    remember(workspace, "Two", category="decision")
    remember(workspace, "Three", category="our own")
    assert _titles("--category", "gotcha") == ["One"]
    assert _titles("--category", "gotcha", "--category", "our own") == ["One", "Three"]
    assert _titles("--exclude-category", "gotcha") == ["Two", "Three"]
    assert _titles("--category", "gotcha", "--exclude-category", "gotcha") == ["One"]
    assert "No entry is of this kind" in piped(command, "list", "--category", "nothing")


def _titles(*arguments: str) -> list[str]:
    return [each["title"] for each in json.loads(piped(command, "list", "--json", *arguments))["entries"]]


def test_forgotten_ones_are_listed_on_request(workspace: Path) -> None:
    id_ = remember(workspace, "Gone")
    piped(command, "forget", id_, "--yes")
    assert "Gone" not in piped(command, "list")
    out = piped(command, "list", "--forgotten")
    assert "FORGOTTEN" in out
    assert "Gone" in out


def test_narrow_terminals_keep_id_and_title(workspace: Path) -> None:
    id_ = remember(workspace, "A title that is longer than such a terminal can show in one line")
    lines = shown(command, "list", columns=40)
    assert lines[1].startswith(id_)
    assert "A title that" in lines[1]
    assert all(len(line) <= 40 for line in lines)


def test_another_tenant_is_named_by_a_beginning_and_sees_its_own_alone(workspace: Path) -> None:
    mine = remember(workspace, "Mine")
    theirs = remember(workspace, "Theirs", tenant="tenant-abc")
    remember(workspace, "Others'", tenant="tenant-xyz")
    assert "Theirs" not in piped(command, "list", "--all-projects")
    assert "Mine" not in piped(command, "list", "--tenant", "tenant-a")
    assert "Theirs" in piped(command, "list", "--tenant", "tenant-a")
    assert "Mine" in piped(command, "list", "--tenant", "local")
    for named, what in (("tenant-", "fits more than one tenant"), ("nobody", "is no tenant"), ("", "is no tenant")):
        code, out, err = run("memory", "list", "--tenant", named)
        assert (code, out) == (1, "")
        assert what in err
        assert "tenant-abc" in err
    code, _, err = run("memory", "add", "x", "y", "--tenant", "nobody")
    assert (code, "is no tenant" in err) == (1, True)
    unknown = run("memory", "show", "k0000000")
    foreign = run("memory", "show", theirs)
    assert foreign == (1, "", unknown[2].replace("k0000000", theirs))
    assert run("memory", "show", mine, "--tenant", "tenant-a")[0] == 1


def test_show_has_everything(workspace: Path) -> None:
    id_ = remember(
        workspace, "Staging", "First line.\n\nSecond line.", category="gotcha", confidence=0.25, source="a colleague"
    )
    out = piped(command, "show", id_)
    for words in ("Staging", id_, "gotcha", "0.25", "a colleague", "First line.\n\nSecond line."):
        assert words in out
    told = json.loads(piped(command, "show", id_, "--json"))
    assert (told["content"], told["confidence"], told["forgotten"]) == ("First line.\n\nSecond line.", 0.25, None)
    piped(command, "forget", id_, "--yes")
    assert "forgotten" in piped(command, "show", id_)


def test_search_gives_scores_and_says_how_it_compared(workspace: Path) -> None:
    best = remember(workspace, "Deploy to staging", "Run deploy with the staging flag.")
    remember(workspace, "Deploy", "It can be done.", confidence=0.1)
    remember(workspace, "Tabs", "Indent with four spaces.", category="preference")
    out = piped(command, "search", "deploy", "staging")
    assert out.splitlines()[1].split()[1] == best
    assert "1.00" in out
    assert "Tabs" not in out
    assert "no meanings (vectors): no model is set" in out
    told = json.loads(piped(command, "search", "deploy staging", "--json", "--limit", "1"))
    assert (told["vectors"], [each["entry"]["id"] for each in told["matches"]]) == (False, [best])
    assert "Tabs" not in piped(command, "search", "indent", "--exclude-category", "preference")
    assert "No entry fits 'zebra'" in piped(command, "search", "zebra")


def test_a_model_that_is_not_there_is_said_and_words_are_compared(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = remember(workspace, "Deploy to staging")
    monkeypatch.setenv("HOLDFAST_MEMORY_MODEL_DIR", str(workspace / "nowhere"))
    told = json.loads(piped(command, "search", "deploy", "--json"))
    assert (told["vectors"], [each["entry"]["id"] for each in told["matches"]]) == (False, [id_])
    assert told["words_only"]
    assert told["words_only"].rstrip(".") in piped(command, "search", "deploy")


class Letters:
    """A model to which texts mean the letters they are written with."""

    name = "letters"
    floor = 0.1

    def embed(self, texts: Sequence[str]) -> Any:
        import numpy as np

        rows = np.array([[text.lower().count(chr(letter)) for letter in range(97, 123)] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_with_a_model_meanings_are_compared_too(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    remember(workspace, "zzz", "zzz zz")
    listen = remember(workspace, "Listen", "Listen.")
    monkeypatch.setenv("HOLDFAST_MEMORY_MODEL_DIR", str(workspace))
    monkeypatch.setattr("holdfast.memory.embedder", lambda _: Letters())
    told = json.loads(piped(command, "search", "silent", "--json"))
    assert (told["vectors"], [each["entry"]["id"] for each in told["matches"]]) == (True, [listen])
    assert "Words and meanings (vectors) were compared." in piped(command, "search", "silent")
    assert json.loads(piped(command, "why", listen, "--query", "silent", "--json"))["now"]["why"] == "found"


@pytest.mark.parametrize(
    "query", ['"', "a OR", "NEAR(", "*", "-", "title:x", "'; DROP TABLE knowledge; --", "\x00", "x" * 20_000]
)
def test_a_query_is_words_whatever_stands_in_it(workspace: Path, query: str) -> None:
    remember(workspace, "Something")
    assert run("memory", "search", "--", query)[0] == 0


def test_nothing_that_is_stored_speaks_to_the_terminal(workspace: Path) -> None:
    try:
        id_ = remember(workspace, HOSTILE, HOSTILE)
    except Exception:  # noqa: BLE001  such a text is refused: then none can be shown
        id_ = remember(workspace, "Fine")
    for arguments in (["list"], ["show", id_], ["search", "Fine"], ["history", id_], ["why", id_], ["export"]):
        for line in shown(command, *arguments, columns=120):
            assert line.isprintable(), arguments


@pytest.mark.slow
def test_through_a_real_process(workspace: Path) -> None:
    done = holdfast("memory", "add", "Réponses brèves", "Un mot suffit.", "--json", cwd=workspace)
    assert (done.returncode, done.stderr) == (0, "")
    id_ = json.loads(done.stdout)["id"]
    listed = holdfast("memory", cwd=workspace)
    assert (listed.returncode, listed.stderr, id_ in listed.stdout) == (0, "", True)
    ascii_ = holdfast("memory", "list", cwd=workspace, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (ascii_.returncode, ascii_.stderr, "R\\xe9ponses" in ascii_.stdout) == (0, "", True)
    unknown = holdfast("memory", "show", "k0000000", cwd=workspace)
    assert (unknown.returncode, unknown.stdout, unknown.stderr.count("\n")) == (1, "", 1)
    assert "Traceback" not in unknown.stderr


@pytest.mark.slow
def test_a_reader_that_went_away(workspace: Path) -> None:
    with open_store(workspace / ".holdfast" / "holdfast.db") as store:
        knowledge = Knowledge(store, "local")
        for number in range(300):
            knowledge.add(f"Entry {number} " + "x" * 100, "y" * 500, everywhere=True)
    for job in ("list", "export"):
        done = shell(f"holdfast memory {job} | head -1", workspace)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_traceback(workspace: Path, closed: str) -> None:
    for arguments in ("list", "add Title", "forget k0000000", "export", "import -"):
        done = shell(f"holdfast memory {arguments} </dev/null {closed}", workspace)
        assert done.returncode in (0, 1), (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_store_that_cannot_be_used_is_one_sentence(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "store").mkdir()
    monkeypatch.setenv("HOLDFAST_STORE_URL", f"sqlite:///{workspace / 'store'}")
    for arguments in (["list"], ["add", "x", "y"], ["forget", "k1", "--yes"]):
        code, out, err = run("memory", *arguments)
        assert (code, out, err.count("\n")) == (1, "", 1), arguments


def test_help_of_the_group_imports_no_store(tmp_path: Path) -> None:
    script = """
        import sys
        from holdfast.cli import run
        run(["--help"])
        assert not {"holdfast.memory", "holdfast.store", "numpy"} & set(sys.modules)
        run(["memory", "list"])
        assert not {"numpy", "holdfast.agent"} & set(sys.modules)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env=clean(tmp_path),
        check=True,
        capture_output=True,
    )


def listed(*arguments: str) -> list[str]:
    return [entry["id"] for entry in json.loads(piped(command, "list", "--json", *arguments))["entries"]]


def test_all_of_a_repository_has_what_is_known_at_its_top(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / ".git").mkdir()
    (workspace / "src" / "deep").mkdir(parents=True)
    first = remember(workspace, "Deploy to staging")
    monkeypatch.chdir(workspace / "src" / "deep")
    assert listed() == [first]
    piped(command, "add", "Linting", "ruff checks it.")
    monkeypatch.chdir(workspace)
    assert len(listed()) == 2
    assert listed("--project", "src/deep") == listed("--project", str(workspace)) == listed()
    (workspace / "home").mkdir(exist_ok=True)
    monkeypatch.chdir(workspace / "home")
    assert listed() == []
