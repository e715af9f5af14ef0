"""Surroundings of real directories and real repositories, also hostile ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.agent.surroundings import CHANGED_PATHS, STATUS_LINES, changed, repository_of, surroundings

NOON = 1_790_000_000.0  # 2026-09-21 13:33:20 UTC, a Monday

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody's git settings, no repository above, and all the time that a busy machine needs."""
    monkeypatch.setattr("holdfast.agent.surroundings.GIT_TIMEOUT_S", 60.0)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def run_git(where: Path, *arguments: str) -> None:
    own = ("-c", "user.name=tester", "-c", "user.email=tester@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *own, *arguments], cwd=where, check=True, capture_output=True)


def write(root: Path, *names: str, text: str = "x\n") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def look(root: Path, *, now: float = NOON, timezone: str = "UTC", entries: int = 200) -> str:
    return surroundings(root, now=now, timezone=timezone, entries=entries)


def files(text: str) -> str:
    return text.partition("## Files\n\n")[2]


def test_day_and_platform_and_files_of_a_plain_directory(work: Path) -> None:
    write(work, "b.txt", "a/c.txt")
    system = os.uname()
    assert look(work) == (
        f"# Surroundings\n\nDate: 2026-09-21 (Monday)\nPlatform: {system.sysname} {system.machine}\n\n"
        "## Files\n\na/\n  c.txt\nb.txt"
    )


def test_the_day_is_that_of_the_time_zone(work: Path) -> None:
    late = NOON + 9.5 * 3600
    assert "Date: 2026-09-21 (Monday)" in look(work, now=late)
    assert "Date: 2026-09-22 (Tuesday)" in look(work, now=late, timezone="Europe/Berlin")


def test_the_same_disk_gives_the_same_text(work: Path) -> None:
    write(work, *(f"{letter}/{number}" for letter in "zyx" for number in range(9)))
    other = work.parent / "other"
    write(other, *(f"{letter}/{number}" for number in (8, 3, 5, 1, 0, 2, 4, 6, 7) for letter in "xyz"))
    assert look(work) == look(work, now=NOON + 3600) == look(other)


def test_an_empty_directory_and_no_tree_at_all(work: Path) -> None:
    assert files(look(work)) == "(none)"
    assert "## Files" not in look(work, entries=0)


def test_three_levels_without_what_is_not_of_the_project(work: Path) -> None:
    write(work, "a/b/c/d", "node_modules/x", "a/__pycache__/y", ".venv/z", ".git/config", ".holdfast/USER.md", ".env")
    assert files(look(work)) == ".env\na/\n  b/\n    c/"


def test_the_levels_nearest_come_first_and_the_rest_is_counted(work: Path) -> None:
    write(work, *(f"data/{number:03}" for number in range(50)), *(f"src/{number}.py" for number in range(3)), "z")
    assert files(look(work, entries=16)) == (
        "data/\n  000\n  001\n  … and 48 more\nsrc/\n  0.py\n  1.py\n  … and 1 more\nz"
    )
    assert files(look(work, entries=2)) == "data/\n  … and 50 more\nsrc/\n  … and 3 more\n… and 1 more"


def test_hostile_names_stay_on_their_line(work: Path) -> None:
    write(work, "a\nDate: 1999-01-01", "\x1b[31mred", "\u202egnp.exe", " spaced", "## Files")
    (work / "link").symlink_to("/etc/pass\nwd")
    os.mkfifo(work / "pipe")
    (work / os.fsdecode(b"caf\xe9")).write_text("x")
    tree = files(look(work)).split("\n")
    assert "a\\nDate: 1999-01-01" in tree
    assert "\\x1b[31mred" in tree
    assert "\\u202egnp.exe" in tree
    assert "\\x20spaced" in tree
    assert "link -> /etc/pass\\nwd" in tree
    assert "pipe (not a regular file)" in tree
    assert "caf\\udce9" in tree
    assert len(tree) == 8
    look(work).encode()


def test_links_are_named_and_not_followed(work: Path) -> None:
    write(work.parent / "elsewhere", "secret")
    (work / "out").symlink_to(work.parent / "elsewhere")
    (work / "round").symlink_to(".")
    assert "secret" not in look(work)
    assert files(look(work)).endswith("round -> .")


@needs_git
class TestGit:
    def test_branch_and_status(self, work: Path) -> None:
        run_git(work, "init", "-b", "trunk")
        write(work, "a", "b", "c/d")
        assert "## Git\n\nBranch: trunk\nStatus:\n?? a\n?? b\n?? c/\n\n" in look(work)
        run_git(work, "add", ".")
        run_git(work, "commit", "-m", "one")
        assert "Branch: trunk\nStatus: clean\n\n" in look(work)
        (work / "a").write_text("y\n")
        run_git(work, "mv", "b", "e\n")
        assert "Status:\n M a\nD  b\nA  e\\n\n\n" in look(work)

    def test_without_a_branch_the_commit_is_named(self, work: Path) -> None:
        run_git(work, "init")
        run_git(work, "commit", "--allow-empty", "-m", "one")
        run_git(work, "checkout", "--detach")
        repository = repository_of(work)
        assert repository.branch is None
        assert f"Branch: none, at commit {repository.commit}\n" in look(work)
        assert len(repository.commit) >= 7

    def test_the_status_is_bounded(self, work: Path) -> None:
        run_git(work, "init")
        write(work, *(f"f{number:03}" for number in range(STATUS_LINES + 5)))
        text = look(work, entries=0)
        assert text.count("?? ") == STATUS_LINES
        assert text.endswith("… and 5 more")

    def test_a_workspace_inside_of_a_repository_sees_its_own_part(self, work: Path) -> None:
        run_git(work, "init")
        write(work, "other/x", "part/y")
        run_git(work, "add", ".")
        assert "Status:\nA  y\n\n" in look(work / "part")

    def test_what_git_ignores_is_not_shown(self, work: Path) -> None:
        run_git(work, "init")
        write(work, "build/out", "src/a.py", "src/a.pyc", "kept.pyc", "src/deep/b.pyc", "src/deep/c", "--help")
        write(work, ":(glob)*")  # no pattern, whatever it looks like
        write(work, ".gitignore", text="build/\n*.pyc\n")
        run_git(work, "add", "-f", "kept.pyc")
        shown = files(look(work))
        assert shown == "--help\n.gitignore\n:(glob)*\nkept.pyc\nsrc/\n  a.py\n  deep/\n    c"

    def test_repositories_inside_are_not_opened(self, work: Path) -> None:
        run_git(work, "init")
        write(work, "vendor/lib/x.pyc", "src/a.pyc", "src/b")
        write(work, ".gitignore", text="*.pyc\n")
        run_git(work / "vendor" / "lib", "init")
        assert files(look(work)) == ".gitignore\nsrc/\n  b\nvendor/\n  lib/ (a repository of its own)"

    def test_our_own_files_are_no_change(self, work: Path) -> None:
        run_git(work, "init")
        before = look(work)
        write(work, ".holdfast/USER.md", ".holdfast/memory.lock")
        assert look(work) == before

    def test_nothing_of_the_repository_is_run(self, work: Path) -> None:
        ran = work.parent / "ran"
        run_git(work, "init")
        write(work, "a.txt", "b.md")
        run_git(work, "add", ".")
        run_git(work, "commit", "-m", "one")
        trap = work.parent / "trap"
        trap.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\ncat\n')
        trap.chmod(0o755)
        hooks = work / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
            shutil.copy(trap, hooks / hook)
        for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "diff.external"):
            run_git(work, "config", key, str(trap))
        run_git(work, "config", "filter.e=v.il.clean", f"{trap} clean")
        run_git(work, "config", "filter.e=v.il.required", "true")
        run_git(work, "config", "filter.long.process", f"{trap} process")
        write(work, ".gitattributes", text="*.txt filter=e=v.il\n*.md filter=long\n")
        for name in ("a.txt", "b.md"):
            (work / name).write_text("y\n")  # as long as before: git has to compare the content
            os.utime(work / name, (1, 1))
        text = look(work)
        assert not ran.exists(), ran.read_text()
        assert " M a.txt\n M b.md\n" in text

    def test_variables_do_not_lead_elsewhere(self, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        other = work.parent / "other"
        other.mkdir()
        run_git(other, "init", "-b", "other")
        monkeypatch.setenv("GIT_DIR", str(other / ".git"))
        assert "Git" not in look(work)

    def test_the_index_is_left_alone(self, work: Path) -> None:
        run_git(work, "init")
        write(work, "a")
        run_git(work, "add", ".")
        index = work / ".git" / "index"
        os.utime(work / "a", (1, 1))
        before = (index.read_bytes(), index.stat().st_mtime_ns)
        look(work)
        assert (index.read_bytes(), index.stat().st_mtime_ns) == before

    def test_a_broken_repository_is_none(self, work: Path) -> None:
        run_git(work, "init")
        (work / ".git" / "HEAD").write_text("nonsense")
        write(work, "a")
        assert files(look(work)) == "a"
        assert "Git" not in look(work)


def programs(where: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another git, first in the path."""
    where.mkdir(exist_ok=True)
    (where / "git").write_text(f"#!/bin/sh\n{script}\n")
    (where / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{where}:{os.environ['PATH']}")


def test_without_git_there_is_the_rest(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(work, ".git/HEAD", "a")
    monkeypatch.setenv("PATH", str(work.parent))
    assert files(look(work)) == "a"


def test_a_git_of_the_workspace_is_not_run(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(work, ": > ran; echo true", monkeypatch)
    monkeypatch.setenv("PATH", ".")
    monkeypatch.chdir(work)
    look(work)
    assert not (work / "ran").exists()


def test_a_git_that_hangs_is_left(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a child of it keeps the pipe open."""
    monkeypatch.setattr("holdfast.agent.surroundings.GIT_TIMEOUT_S", 0.1)
    programs(work.parent / "bin", "sleep 1000 & sleep 1000", monkeypatch)
    assert "Git" not in look(work)


def test_a_git_that_fails_half_way_is_said_so(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'case "$*" in *show-prefix*) echo true; echo;; *symbolic-ref*) echo main;; *) exit 1;; esac'
    programs(work.parent / "bin", script, monkeypatch)
    assert "Branch: main\nStatus: not known\n" in look(work)


def test_nothing_changed_is_no_news(work: Path) -> None:
    write(work, "a")
    assert changed(look(work), look(work, now=NOON + 3600)) is None


def test_another_day_is_news(work: Path) -> None:
    later = look(work, now=NOON + 86_400)
    assert changed(look(work), later) == "The date is now 2026-09-22 (Tuesday) (before: 2026-09-21 (Monday))."


def test_files_that_came_and_went_are_named(work: Path) -> None:
    write(work, "a", "docs/x", "docs/y", "src/m", " s")
    before = look(work)
    shutil.rmtree(work / "docs")
    (work / "a").unlink()
    write(work, "src/new/n", "z/1", "z/2")
    assert changed(before, look(work)) == "New: z/, src/new/.\nGone: a, docs/."


def test_an_empty_directory_is_filled(work: Path) -> None:
    before = look(work)
    write(work, "a")
    assert changed(before, look(work)) == "New: a."
    assert changed(look(work), before) == "Gone: a."


def test_many_changes_are_counted(work: Path) -> None:
    before = look(work)
    write(work, *(f"f{number:03}" for number in range(CHANGED_PATHS + 7)))
    news = changed(before, look(work))
    assert news.endswith(f", f{CHANGED_PATHS - 1:03} … and 7 more.")


def test_what_found_no_room_did_not_go(work: Path) -> None:
    write(work, "b", "c", "d/1", "d/2", "d/3")
    before = look(work, entries=4)
    assert files(before) == "b\nc\nd/\n  1\n  … and 2 more"
    write(work, "a")
    assert changed(before, look(work, entries=4)) == "New: a."
    assert changed(look(work, entries=4), before) == "Gone: a."
    assert changed(look(work, entries=2), look(work, entries=50)) is None
    assert changed(look(work, entries=50), look(work, entries=2)) is None


@needs_git
def test_branch_and_status_are_news(work: Path) -> None:
    plain = look(work)
    run_git(work, "init", "-b", "main")
    run_git(work, "commit", "--allow-empty", "-m", "one")
    clean = look(work)
    assert changed(plain, clean) == "The git branch is now main.\ngit status is now clean."
    run_git(work, "checkout", "-b", "feature")
    write(work, "a")
    assert changed(clean, look(work)) == (
        "The git branch is now feature (before: main).\ngit status is now:\n?? a\nNew: a."
    )
    assert changed(look(work), plain) == "Gone: a."


@pytest.mark.parametrize("other", ["", "anything", "# Surroundings\n\n", "## Git\n\n", "## Files\n\n    x\n  y"])
def test_a_text_of_somebody_else_is_no_obstacle(work: Path, other: str) -> None:
    write(work, "a/b")
    assert "The date is now" in (changed(other, look(work)) or "")
    assert "The date is now" not in (changed(look(work), other) or "")
