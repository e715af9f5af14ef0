"""grep_files: what it finds, what it passes over, and that no pattern can hold anybody up."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.tools.builtin.grep import grep_files
from holdfast.tools.builtin.grep_program import IgnoreLevel, ignored, main, name_pattern, rules
from holdfast.tools.contract import Cancel, ToolExecutionError
from tests.tools.builtins import Session, children, descriptors, running

ENDLESS = f"(a+)+$|of {os.getpid()}"
"""Takes longer than anybody waits for, and is known by its number among the programs that run."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path)
    yield session
    asyncio.run(session.processes.close())


def write(root: Path, path: str, text: str = "needle\n") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_finds_lines_by_file_and_number(session: Session) -> None:
    write(session.root, "b.py", "x\nneedle one\ny\nanother needle\n")
    write(session.root, "a/c.py", "a needle\r\n")
    assert session.says("grep_files", pattern=r"ne+dle") == (
        "a/c.py\n1:a needle\n\nb.py\n2:needle one\n4:another needle"
    )
    output = session.does("grep_files", pattern="needle", path="b.py")
    assert output.content == "b.py\n2:needle one\n4:another needle"
    assert output.metadata["matches"] == 2
    assert session.says("grep_files", pattern="NEEDLE") == "[No matches.]"
    assert session.says("grep_files", pattern="ONE", ignore_case=True) == "b.py\n2:needle one"
    assert session.says("grep_files", pattern="^$") == "[No matches.]"


def test_shows_lines_around_without_repeating_them(session: Session) -> None:
    write(session.root, "a", "".join(f"{n}\n" for n in range(1, 21)))
    assert session.says("grep_files", pattern="^(5|7|15)$", context=1) == (
        "a\n4-4\n5:5\n6-6\n7:7\n8-8\n--\n14-14\n15:15\n16-16"
    )


def test_a_glob_chooses_files(session: Session) -> None:
    for path in ("a.py", "a.pyi", "src/b.py", "src/deep/c.ts", "src/deep/d.tsx", "docs/e.md"):
        write(session.root, path)

    def files(**input: object) -> list[str]:
        said = session.says("grep_files", pattern="needle", **input)
        return [line for line in said.splitlines() if line and not line.startswith(("1:", "["))]

    assert files(glob="*.py") == ["a.py", "src/b.py"]
    assert files(glob="*.{ts,tsx}") == ["src/deep/c.ts", "src/deep/d.tsx"]
    assert files(glob="src/**/*.ts") == ["src/deep/c.ts"]
    assert files(glob="**/*.py") == ["a.py", "src/b.py"]
    assert files(glob="src/*.py") == ["src/b.py"]
    assert files(glob="deep/*", path="src") == ["src/deep/c.ts", "src/deep/d.tsx"]
    assert files(glob="[a-b].py*") == ["a.py", "a.pyi", "src/b.py"]
    assert files(glob="[!a].py") == ["src/b.py"]


def test_ends_at_its_limit_and_says_so(session: Session) -> None:
    write(session.root, "a", "needle\n" * 500)
    said = session.says("grep_files", pattern="needle")
    assert said.count("needle") == 100
    assert said.endswith("[Ended after 100 matches; there may be more.]")
    assert session.says("grep_files", pattern="needle", limit=1) == (
        "a\n1:needle\n[Ended after 1 match; there may be more.]"
    )


def test_passes_over_what_is_not_the_users_text(session: Session, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    write(outside, "secret")
    write(session.root, ".git/config")
    write(session.root, "sub/.git/config")
    write(session.root, "node_modules/a.js")
    write(session.root, "build/out.txt")
    write(session.root, "sub/build/out.txt")
    write(session.root, "sub/keep.log")
    write(session.root, "sub/other.log")
    write(session.root, ".hidden")
    write(session.root, ".gitignore", "node_modules/\n/build\n*.log\n")
    write(session.root, "sub/.gitignore", "!keep.log\n")
    (session.root / "binary").write_bytes(b"needle\0")
    (session.root / "link").symlink_to(outside / "secret")
    (session.root / "linked").symlink_to(outside)
    os.mkfifo(session.root / "fifo")
    said = session.says("grep_files", pattern="needle")
    assert [line for line in said.splitlines() if line and line != "1:needle"] == [
        ".hidden",
        "sub/build/out.txt",
        "sub/keep.log",
    ]
    # What is asked for by name is searched all the same.
    assert session.says("grep_files", pattern="needle", path="node_modules") == "node_modules/a.js\n1:needle"
    assert session.says("grep_files", pattern="needle", path="sub/other.log") == "sub/other.log\n1:needle"
    assert "out of the workspace" in session.refuses("grep_files", pattern="needle", path="linked")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to compare with")
def test_gitignore_means_what_git_means(tmp_path: Path) -> None:
    patterns = [
        "*.log",
        "!keep.log",
        "/root.txt",
        "dir/",
        "a/**/z",
        "**/cache",
        "x?.py",
        "[ab].c",
        "doc/*.md",
        "#c",
        "\\#d",
    ]
    names = [
        "one.log", "keep.log", "sub/keep.log", "root.txt", "sub/root.txt", "dir/f", "sub/dir/f", "a/z", "a/b/c/z",
        "a/zz", "cache/f", "q/cache/f", "x1.py", "x12.py", "a.c", "c.c", "doc/a.md", "doc/sub/a.md", "sub/doc/a.md",
        "#c", "#d",
    ]  # fmt: skip
    for name in names:
        write(tmp_path, name)
    write(tmp_path, ".gitignore", "\n".join(patterns))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard"], check=True, capture_output=True
    ).stdout.decode()
    session = Session(tmp_path)
    said = session.run(session.said("grep_files", pattern="needle"))
    ours = {line for line in said.splitlines() if line and line != "1:needle"}
    assert ours == set(listed.split("\n")) - {"", ".gitignore"}


def test_long_lines_are_cut_around_the_match(session: Session) -> None:
    write(session.root, "a.json", "x" * 3_000_000 + "needle" + "y" * 100_000)
    said = session.says("grep_files", pattern="needle")
    assert len(said) < 400
    assert re.fullmatch(r"a\.json\n1:…x{100}needley{194}…", said)


@pytest.mark.slow
def test_a_pattern_that_never_ends_is_ended(session: Session) -> None:
    write(session.root, "a.txt", "needle aaaaaa\n")
    write(session.root, "b.txt", "a" * 60 + "b\n")
    slow = grep_files(session.processes, seconds=0.5)
    session.tools["grep_files"] = slow
    said = session.says("grep_files", pattern=ENDLESS)
    assert said.startswith("a.txt\n1:needle aaaaaa\n[The search was ended at its limit of 0.5 s;")
    assert "ended at its limit" in session.refuses("grep_files", pattern=ENDLESS, path="b.txt")
    assert running(ENDLESS) == []


def test_can_be_cancelled(session: Session) -> None:
    write(session.root, "b.txt", "a" * 60 + "b\n")

    async def both_ways() -> None:
        cancel = Cancel()
        searching = asyncio.ensure_future(session.call("grep_files", cancel=cancel, pattern=ENDLESS))
        await asyncio.sleep(0.1)
        assert not searching.done()
        cancel.set()
        with pytest.raises(ToolExecutionError, match="cancelled"):
            await searching
        task = asyncio.ensure_future(session.call("grep_files", pattern=ENDLESS))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    session.run(both_ways())
    assert running(ENDLESS) == []


def test_what_makes_no_sense_is_said(session: Session) -> None:
    write(session.root, "a", "x")
    assert session.refuses("grep_files", pattern="(") == (
        "pattern is not a regular expression: missing ), unterminated subpattern at position 0."
    )
    assert "glob is not a glob" in session.refuses("grep_files", pattern="x", glob="[z-a]")
    assert session.refuses("grep_files", pattern="x", path="gone") == (
        "gone cannot be searched: No such file or directory."
    )
    assert "surrogate" in session.refuses("grep_files", pattern="\ud800")
    assert session.says("grep_files", pattern="[[a]x") == "[No matches.]"  # a pattern that Python warns of


def test_bytes_that_are_not_utf8_do_no_harm(session: Session) -> None:
    (session.root / "latin").write_bytes(b"J\xfcrgen needle\x1b[31m\n")
    Path(os.fsdecode(os.fsencode(session.root) + b"/bad\xff")).write_text("needle\n")
    said = session.says("grep_files", pattern="needle")
    assert said == "bad\\udcff\n1:needle\n\nlatin\n1:J\ufffdrgen needle"


def test_searches_side_by_side_and_leaves_nothing(session: Session) -> None:
    for n in range(50):
        write(session.root, f"{n:02d}.txt", f"needle {n}\n")
    ours = children()
    asyncio.run(session.call("grep_files", pattern="warm up"))
    before = descriptors()

    async def many() -> list[str]:
        return await asyncio.gather(*(session.said("grep_files", pattern=f"needle {n}$") for n in range(8)))

    found = asyncio.run(many())
    assert [one.splitlines()[1] for one in found] == [f"1:needle {n}" for n in range(8)]
    assert descriptors() == before
    asyncio.run(session.processes.close())
    assert children() == ours


def test_the_search_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The program in this process, so that what it does is seen by whoever measures."""
    import json
    import signal

    write(tmp_path, "a/b.txt", "one\nneedle\nthree\n")
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        task = {"pattern": "needle", "limit": 5, "context": 1, "parts": [], "root": root, "seconds": 60}
        main(json.dumps(task))
        main(json.dumps({**task, "pattern": "("}))
        main(json.dumps({**task, "parts": ["gone"]}))
    finally:
        signal.alarm(0)
        os.close(root)
    printed = capfd.readouterr().out
    assert printed.startswith('a/b.txt\n1-one\n2:needle\n3-three\n\0{"matches": 1, "files": 1, "cut": false}')
    assert '"problem": "No such file or directory"' in printed


def test_rules_nearer_to_a_file_win() -> None:
    levels = (IgnoreLevel(0, rules("*.log\n")), IgnoreLevel(1, rules("!*.log\n")))
    assert ignored(("a.log",), False, levels[:1])
    assert not ignored(("sub", "a.log"), False, levels)
    assert ignored(("dir",), True, (IgnoreLevel(0, rules("dir/")),))
    assert not ignored(("dir",), False, (IgnoreLevel(0, rules("dir/")),))
    assert rules("[z-a]\n# remark\n\n") == ()
    assert name_pattern(None) is None
