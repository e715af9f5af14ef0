"""`holdfast skills new`: a skill that passes, where it belongs, and never over another."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.cli.skills import access, command
from holdfast.skills.skill_file import validate_dir
from tests.cli.commands import clean, piped, refused, run, shown
from tests.skills.skill_files import write_skill

STILL = "`description` is still that of the template; say what it does and when to use it"


@pytest.fixture
def here(workspace: Path) -> Path:
    return workspace / ".holdfast" / "skills"


def problems(*arguments: str) -> list[str]:
    code, out, err = run("skills", "new", *arguments)
    assert (code, out) == (1, "")
    return [line.removeprefix("holdfast: ") for line in err.splitlines()]


def test_it_is_made_in_the_workspace_and_passes(here: Path) -> None:
    assert piped(command, "new", "code-review").splitlines() == [
        "Made .holdfast/skills/code-review/SKILL.md",
        "Write there when to use it and what to do, then check it:",
        "  holdfast skills validate .holdfast/skills/code-review",
        "New sessions find it; those that run keep the skills they began with.",
    ]
    (problem,) = validate_dir(here / "code-review", strict=True)
    assert (problem.message, problem.line, problem.warning) == (STILL, 3, True)
    assert cli.run(["skills", "validate", ".holdfast/skills/code-review", "--strict"]) == 0
    skill = access.find().get("code-review")
    assert (skill.source, skill.body.splitlines()[0]) == ("workspace", "# Code review")


def test_globally_it_is_made_in_the_home_directory(workspace: Path) -> None:
    text = piped(command, "new", "pdf", "--global")
    made = workspace / "home" / ".holdfast" / "skills" / "pdf"
    assert text.startswith("Made home/.holdfast/skills/pdf/SKILL.md\n")
    assert [problem.message for problem in validate_dir(made, strict=True)] == [STILL]
    assert access.find().get("pdf").source == "global"
    assert stat.S_IMODE((workspace / "home" / ".holdfast").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "description",
    [
        "Plain words.",
        "With: a colon, # a hash, 'quotes' and \"more\"",
        "- looks like a list",
        "{looks: like a mapping}",
        "*star &and !tag %percent @at `tick",
        "Two\nlines\n\nand a paragraph",
        "Größe 日本語 🎉 \x85 \u2028 end",
        "true",
        "2026-11-01",
        "---",
        "x" * 1_024,
        "\ttab",
    ],
)
def test_any_description_is_written_so_that_it_is_read_again(here: Path, description: str) -> None:
    piped(command, "new", "one", "--description", description)
    assert validate_dir(here / "one", strict=True) == ()
    assert access.find().get("one").description == description.strip()


@pytest.mark.parametrize("name", ["a", "7", "0", "1e3", "true", "null", "no", "x" * 64, "a-b-c", "2026-11-01", "0x1f"])
def test_every_valid_name_works(here: Path, name: str) -> None:
    piped(command, "new", name)
    assert [problem.message for problem in validate_dir(here / name, strict=True)] == [STILL]
    assert access.find().get(name).name == name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", ["`name` is empty; give it one"]),
        ("Review", ["upper-case"]),
        ("a--b", ["two hyphens in a row"]),
        ("a-", ["ends with a hyphen"]),
        ("../x", ["characters that are not allowed"]),
        ("/etc/x", ["characters that are not allowed"]),
        (".", ["characters that are not allowed"]),
        ("..", ["characters that are not allowed"]),
        ("a b", ["characters that are not allowed"]),
        ("x" * 65, ["has 65 characters; 64 are allowed"]),
        ("A--b-", ["upper-case", "ends with a hyphen", "two hyphens"]),
        ("é", ["characters that are not allowed"]),
        ("\x1b[2J\n", ["upper-case", "characters that are not allowed"]),
    ],
)
def test_d60_a_wrong_name_is_refused_with_every_reason(workspace: Path, name: str, says: list[str]) -> None:
    lines = problems(name)
    assert len(lines) == len(says)
    assert all(words in line for words, line in zip(says, lines, strict=True))
    assert "\x1b" not in "".join(lines)
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize(
    ("description", "says"),
    [("", "`description` is empty"), (" \n", "`description` is empty"), ("x" * 1_025, "has 1025 characters")],
)
def test_a_wrong_description_is_refused(workspace: Path, description: str, says: str) -> None:
    (line,) = problems("one", "--description", description)
    assert says in line
    assert list(workspace.iterdir()) == []


def test_nothing_that_exists_is_changed(here: Path) -> None:
    path = write_skill(here, "pdf", body="Precious.\n") / "SKILL.md"
    before = path.read_bytes()
    (line,) = problems("pdf")
    assert line == f"{here / 'pdf'} exists already and was not changed; choose another name, or edit what is there"
    assert path.read_bytes() == before
    for name, make in {
        "a-file": lambda path: path.write_text("text"),
        "a-link": lambda path: path.symlink_to(here / "pdf"),
        "nowhere": lambda path: path.symlink_to(here / "missing"),
    }.items():
        make(here / name)
        assert "exists already" in problems(name)[0]
    (here / "small").mkdir()
    (here / "small" / "skill.md").write_text("text")
    assert "exists already" in problems("small")[0]
    (here / "linked").mkdir()
    (here / "linked" / "SKILL.md").symlink_to(here / "outside.md")
    assert "exists already" in problems("linked")[0]
    assert not (here / "outside.md").exists()
    assert not (here / "missing").exists()


def test_a_link_to_a_directory_is_not_written_through(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    here.mkdir(parents=True)
    (here / "one").symlink_to(outside)
    assert "exists already" in problems("one")[0]
    assert list(outside.iterdir()) == []


def test_a_file_that_comes_in_between_is_not_overwritten(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = os.listdir

    def just_before(path: Path) -> list[str]:
        found = listed(path)
        if path == here / "one":
            write_skill(here, "one", body="Precious.\n")
        return found

    monkeypatch.setattr(os, "listdir", just_before)
    assert "exists already" in problems("one")[0]
    assert (here / "one" / "SKILL.md").read_text().endswith("Precious.\n")


def test_a_directory_that_has_only_other_files_gets_its_file(here: Path) -> None:
    (here / "pdf" / "scripts").mkdir(parents=True)
    (here / "pdf" / "scripts" / "x.py").write_text("pass")
    piped(command, "new", "pdf", "--description", "Reads PDFs.")
    assert validate_dir(here / "pdf") == ()
    assert (here / "pdf" / "scripts" / "x.py").read_text() == "pass"


def test_of_many_at_once_one_makes_it(tmp_path: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "holdfast", "skills", "new", "one", "--description", f"Number {number}."],
            cwd=tmp_path,
            env=clean(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    done = [(program.communicate(), program.returncode) for program in programs]
    assert sorted(code for _, code in done) == [0, 1, 1, 1]
    assert all("exists already" in err for (_, err), code in done if code)
    (winner,) = (number for number, (_, code) in enumerate(done) if code == 0)
    text = (tmp_path / ".holdfast" / "skills" / "one" / "SKILL.md").read_text()
    assert f"description: Number {winner}.\n" in text


def test_the_first_root_of_its_level_is_taken(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text(
        'skills.roots = [".agents/skills", ".holdfast/skills", "~/.claude/skills"]'
    )
    assert piped(command, "new", "one").startswith("Made .agents/skills/one/SKILL.md\n")
    assert piped(command, "new", "two", "--global").startswith("Made home/.claude/skills/two/SKILL.md\n")


def test_without_a_root_of_its_level_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SKILLS_ROOTS", "mine")
    assert "names no directory such as HOLDFAST_HOME/skills; add one" in problems("x", "--global")[0]
    monkeypatch.setenv("HOLDFAST_SKILLS_ROOTS", "/somewhere")
    assert "names no directory of the workspace, such as .holdfast/skills" in problems("x")[0]


def test_it_says_which_of_two_is_used(workspace: Path, here: Path) -> None:
    piped(command, "new", "pdf", "--global")
    own = workspace / "home" / ".holdfast" / "skills" / "pdf"
    assert f"It is used here in place of {own}.\n" in piped(command, "new", "pdf")
    write_skill(here, "forms")
    assert f"It is not used here: {here / 'forms'} comes before it.\n" in piped(command, "new", "forms", "--global")


def test_a_link_out_of_the_workspace_is_not_followed(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    here.parent.mkdir()
    here.symlink_to(outside)
    assert "leads out of the workspace by a link" in problems("one")[0]
    here.unlink()
    here.symlink_to(outside / "not" / "there")
    assert "leads out of the workspace by a link" in problems("one")[0]
    here.unlink()
    here.parent.rmdir()
    here.parent.symlink_to(outside)
    assert "leads out of the workspace by a link" in problems("one")[0]
    assert list(outside.iterdir()) == []


def test_a_root_that_is_a_link_to_nothing_is_told(here: Path) -> None:
    here.parent.mkdir()
    here.symlink_to("gone")
    assert "a link on the way leads nowhere" in refused("skills", "new", "pdf")


def test_what_cannot_be_made_is_told(workspace: Path, here: Path) -> None:
    (workspace / ".holdfast").write_text("a file")
    (line,) = problems("one")
    assert line.startswith(f"{here / 'one' / 'SKILL.md'} cannot be made (Not a directory)")


def test_a_write_that_fails_leaves_no_half_of_a_skill(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.fdopen

    def full(descriptor: int, *more: object) -> object:
        os.close(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    lines = problems("one")
    monkeypatch.setattr(os, "fdopen", opened)
    assert "cannot be made (No space left on device)" in lines[0]
    assert not (here / "one" / "SKILL.md").exists()
    piped(command, "new", "one")


@pytest.mark.parametrize("columns", [40, 60])
def test_it_fits_the_terminal(columns: int) -> None:
    lines = shown(command, "new", "one", columns=columns)
    assert [line for line in lines if len(line) > columns and "holdfast skills validate" not in line] == []


def test_paths_with_spaces_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SKILLS_ROOTS", "my skills")
    assert "  holdfast skills validate 'my skills/one'\n" in piped(command, "new", "one")
