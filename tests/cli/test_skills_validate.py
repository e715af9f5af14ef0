"""`holdfast skills validate`: every error with its line, what a path may name, how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.cli.skills import access, command
from holdfast.skills.skill_file import validate_dir
from tests.cli.commands import piped, refused, run, shown
from tests.skills.skill_files import skill_text, write_file, write_skill

WRONG = """---
name: Code--Review
license: MIT
colour: red
metadata:
  version: 1.0
compatibility: [a, b]
---

Do it.
"""


def validated(*arguments: str) -> tuple[int, list[str]]:
    code, out, err = run("skills", "validate", *arguments)
    assert err == ""
    return code, out.splitlines()


def test_every_error_has_its_path_and_line(workspace: Path) -> None:
    write_file(workspace / "code-review", WRONG)
    code, lines = validated("code-review")
    *found, total = lines
    assert code == 1
    marks = [line.split(" ")[0] for line in found]
    path = "code-review/SKILL.md"
    assert marks == [f"{path}:{number}:" for number in (1, 2, 2, 2, 4, 6, 7)]
    assert found == [
        f"{path}:{problem.line}: {'warning: ' if problem.warning else ''}{problem.message}"
        for problem in validate_dir(workspace / "code-review")
    ]
    assert [line.split()[1] == "warning:" for line in found] == [False] * 4 + [True, True, False]
    assert total == "1 skill checked: 5 errors, 2 warnings."


def test_d60_each_mistake_in_a_name_has_its_own_message(workspace: Path) -> None:
    write_file(workspace / "x", skill_text(name="-Bad--name-", description="Something."))
    _, lines = validated("x")
    for words in ("upper-case", "begins with a hyphen", "ends with a hyphen", "two hyphens", "the directory is 'x'"):
        assert len([line for line in lines if words in line]) == 1


def test_what_is_right_needs_few_words(workspace: Path) -> None:
    write_skill(workspace, "pdf")
    assert validated("pdf") == (0, ["1 skill checked, nothing to complain of."])


def test_warnings_do_not_fail_and_strict_does(workspace: Path) -> None:
    write_skill(workspace, "pdf", colour="red", metadata={"version": 1})
    code, lines = validated("pdf")
    assert code == 0
    assert [line.split()[1] for line in lines[:-1]] == ["warning:", "warning:"]
    assert lines[-1] == "1 skill checked: 0 errors, 2 warnings. What has only warnings is loaded."
    code, lines = validated("pdf", "--strict")
    assert code == 1
    assert lines[-1] == "1 skill checked: 2 errors, 0 warnings."
    assert not any("warning:" in line for line in lines)


def test_a_path_may_be_the_file_the_directory_or_a_directory_of_skills(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = workspace / "skills"
    write_skill(root, "good")
    write_file(root / "bad", "no frontmatter")
    write_file(root / "small", skill_text(name="small", description="x"), file="skill.md")
    write_file(root / ".hidden", "no frontmatter")
    (root / "empty").mkdir()
    (root / "README.md").write_text("text")
    code, lines = validated("skills")
    assert code == 1
    assert [line.split(":")[0] for line in lines[:-1]] == ["skills/bad/SKILL.md", "skills/small/SKILL.md"]
    assert "rename it to SKILL.md" in lines[1]
    assert lines[-1].startswith("3 skills checked: ")

    for path in ("skills/good", "skills/good/", "skills/good/SKILL.md", str(root / "good")):
        assert validated(path) == (0, ["1 skill checked, nothing to complain of."])
    assert validated("skills/.hidden")[0] == 1, "what is named is checked"
    for path in (".", "SKILL.md", "../good", str(root / "good" / ".." / "good")):
        monkeypatch.chdir(root / "good")
        assert validated(path)[0] == 0, path
    monkeypatch.chdir(root / "bad")
    assert validated("SKILL.md")[1][0].startswith("SKILL.md:1: ")


def test_several_paths_each_once(workspace: Path) -> None:
    write_skill(workspace / "skills", "one")
    write_skill(workspace / "skills", "two")
    _, lines = validated("skills/one", "skills", "skills/one/SKILL.md")
    assert lines == ["2 skills checked, nothing to complain of."]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nothing", "nothing: there is no such file or directory; "),
        ("nothing/SKILL.md", "nothing/SKILL.md: there is no such file or directory; "),
        ("notes.txt", "notes.txt: this is no SKILL.md; "),
        ("empty", "empty: there are no skills in this directory: neither it nor one in it has a SKILL.md"),
        ("dangling", "dangling: this is no SKILL.md; "),
        ("far", "far: this cannot be read (File name too long); "),
        ("far/SKILL.md", "far/SKILL.md: this cannot be read (File name too long); "),
        ("z" * 300 + "/SKILL.md", "z" * 300 + "/SKILL.md: this cannot be read (File name too long); "),
        ("pipe", "pipe: this is no SKILL.md; "),
        ("piped/SKILL.md", "piped/SKILL.md: this is no SKILL.md; "),
        ("odd", "odd/SKILL.md: odd cannot be read: it is a directory, not a file"),
        ("odd/SKILL.md", "odd/SKILL.md: there are no skills in this directory"),
        ("\x1b[2J", "?[2J: there is no such file or directory; "),
        ("a" * 5_000, "aaaaa"),
    ],
)
def test_paths_without_a_skill_are_errors(workspace: Path, path: str, says: str) -> None:
    (workspace / "notes.txt").write_text("text")
    (workspace / "empty").mkdir()
    (workspace / "dangling").symlink_to("missing")
    (workspace / "far").symlink_to("z" * 300)
    os.mkfifo(workspace / "pipe")
    (workspace / "piped").mkdir()
    os.mkfifo(workspace / "piped" / "SKILL.md")
    (workspace / "odd" / "SKILL.md").mkdir(parents=True)
    write_skill(workspace, "good")
    code, lines = validated(path, "good")
    assert code == 1
    assert lines[0].startswith(says)
    number = "2 skills" if path == "odd" else "1 skill"
    assert lines[-1] == f"{number} checked: 1 error, 0 warnings."


def test_a_directory_without_skills_names_those_below_it(workspace: Path) -> None:
    write_skill(workspace / ".claude" / "skills", "pdf")
    write_skill(workspace / ".holdfast" / "skills", "pdf")
    (workspace / ".agents").mkdir()
    code, lines = validated(".claude")
    assert code == 1
    assert lines == [
        ".claude: there are no skills in this directory: neither it nor one in it has a SKILL.md; "
        "did you mean .claude/skills?",
        "0 skills checked: 1 error, 0 warnings.",
    ]
    assert validated(".")[1][0].endswith("; did you mean .holdfast/skills or .claude/skills?")
    assert validated(".agents")[1][0].endswith(" has a SKILL.md")


class TestAgreesWithTheLoader:
    """A directory of skills is judged as it is loaded; a skill that is named by itself is followed."""

    @pytest.fixture
    def root(self, workspace: Path) -> Path:
        return workspace / ".holdfast" / "skills"

    def test_links_of_a_directory_of_skills(self, workspace: Path, root: Path) -> None:
        secret = workspace / "secret.txt"
        secret.write_text("password\n")
        write_skill(root, "good")
        outside = write_skill(workspace / "outside", "out")
        shared = write_skill(workspace / "home" / ".holdfast" / "skills" / ".shared", "shared")
        (root / "shared").symlink_to(shared)  # into another root
        (root / "out").symlink_to(outside)
        (root / "gone").symlink_to("missing")
        (root / "loop").symlink_to("loop")
        (root / "notes").symlink_to(secret)  # no directory: passed over
        (root / "leak").mkdir()
        (root / "leak" / "SKILL.md").symlink_to(secret)
        (root / "dangling").mkdir()
        (root / "dangling" / "SKILL.md").symlink_to("missing")
        for arguments in ([".holdfast/skills"], []):
            code, (*lines, total) = validated(*arguments)
            assert (code, total) == (1, "4 skills checked: 5 errors, 0 warnings.")
            at = ".holdfast/skills"
            assert [line.partition(": ")[0] for line in lines] == [
                f"{at}/dangling/SKILL.md",
                f"{at}/gone",
                f"{at}/leak/SKILL.md",
                f"{at}/loop",
                f"{at}/out",
            ]
            assert "password" not in "".join(lines)
            assert lines[1].endswith(": its link leads nowhere; remove it or correct it")
            assert f": its link leads out of every skills root, to {outside}; " in lines[4]
        store = access.find().skills
        assert [skill.name for skill in store.list_skills()] == ["good", "shared"]
        assert [str(each.path.relative_to(workspace)) for each in store.skipped] == [
            line.partition(": ")[0] for line in lines
        ]

    def test_what_is_named_by_itself_is_followed(self, workspace: Path, root: Path) -> None:
        write_skill(workspace / "outside", "out")
        root.mkdir(parents=True)
        (root / "out").symlink_to(workspace / "outside" / "out")
        (workspace / "mine").symlink_to(workspace / "outside")
        for path in (".holdfast/skills/out", ".holdfast/skills/out/SKILL.md", "mine"):
            assert validated(path) == (0, ["1 skill checked, nothing to complain of."])

    def test_links_inside_a_directory_that_no_root_names(self, workspace: Path) -> None:
        (workspace / "mine").mkdir()
        (workspace / "mine" / "pdf").symlink_to(write_skill(workspace / "mine" / ".store", "pdf"))
        assert validated("mine") == (0, ["1 skill checked, nothing to complain of."])

    def test_a_root_that_leads_out_of_the_workspace(self, root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        outside = tmp_path_factory.mktemp("outside")
        write_file(outside / "evil", "password")
        root.parent.mkdir()
        root.symlink_to(outside)
        for arguments in ([".holdfast/skills"], []):
            code, lines = validated(*arguments)
            assert code == 1
            assert lines[0].startswith(".holdfast/skills: it leads out of the workspace; ")
            assert lines[1:] == ["0 skills checked: 1 error, 0 warnings."]

    def test_a_skill_md_beside_skills_counts_no_more_than_it_does_there(self, root: Path) -> None:
        write_skill(root, "pdf")
        (root / "SKILL.md").write_text("notes")
        for arguments in ([".holdfast/skills"], []):
            assert validated(*arguments) == (0, ["1 skill checked, nothing to complain of."])


def test_without_a_path_the_configured_roots_are_checked(workspace: Path) -> None:
    home = workspace / "home" / ".holdfast" / "skills"
    write_skill(home, "good")
    assert validated() == (0, ["1 skill checked, nothing to complain of."])
    (workspace / ".holdfast" / "skills").mkdir(parents=True)
    assert validated()[0] == 0, "one of them may be empty"
    write_file(workspace / ".holdfast" / "skills" / "bad", "no frontmatter")
    code, lines = validated()
    assert (code, lines[0].split(" ")[0]) == (1, ".holdfast/skills/bad/SKILL.md:1:")
    assert lines[1:] == ["2 skills checked: 1 error, 0 warnings."]


def test_without_a_path_and_without_skills_it_says_where_it_looked(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused("skills", "validate") == (
        "holdfast: there are no skills in home/.holdfast/skills or .holdfast/skills; "
        "`holdfast skills new NAME` makes one, or name a PATH\n"
    )
    (workspace / "holdfast.toml").write_text("skills.roots = []\n")
    assert cli.run(["skills", "validate"]) == 1
    assert capsys.readouterr().err.startswith("holdfast: skills.roots names no directory; ")


def test_a_link_that_cannot_be_followed_does_not_keep_others_from_being_checked(workspace: Path) -> None:
    write_skill(workspace / "skills", "good")
    (workspace / "skills" / "far").symlink_to("z" * 300)
    code, lines = validated("skills")
    assert code == 1
    assert lines[0].startswith("skills/far: this cannot be read (File name too long); ")
    assert lines[1] == "1 skill checked: 1 error, 0 warnings."


def test_a_current_directory_that_is_gone_is_an_error(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = workspace / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code = cli.run(["skills", "validate", "."])
    monkeypatch.chdir(workspace)
    assert code == 1
    assert capsys.readouterr().err == "holdfast: the current directory no longer exists; change to one that does\n"


def test_a_zero_byte_in_a_path_is_an_error_and_no_crash() -> None:
    code, lines = validated("a\0b")
    assert code == 1
    assert lines[0].startswith("a?b: ")


def test_json_says_the_same(workspace: Path) -> None:
    write_file(workspace / "skills" / "code-review", WRONG)
    write_skill(workspace / "skills", "pdf")
    done = json.loads(_stdout("skills", "nothing", "--json"))
    assert (done["valid"], done["errors"], done["warnings"]) == (False, 6, 2)
    wrong, right, missing = done["skills"]
    assert (wrong["path"], right["path"], missing["path"]) == (
        "skills/code-review/SKILL.md",
        "skills/pdf/SKILL.md",
        "nothing",
    )
    assert wrong["problems"][0].keys() == {"message", "line", "field", "warning"}
    assert [each["line"] for each in wrong["problems"]] == [1, 2, 2, 2, 4, 6, 7]
    assert right["problems"] == []
    assert missing["problems"][0]["line"] is None
    assert json.loads(piped(command, "validate", "skills/pdf", "--json"))["valid"] is True


def _stdout(*arguments: str) -> str:
    from click.testing import CliRunner

    return CliRunner().invoke(command, ["validate", *arguments]).stdout


def test_hostile_text_cannot_speak_to_the_terminal(workspace: Path) -> None:
    name = "e\x1b[2Jvil\n"
    write_file(workspace / name, skill_text(name=name, description="x", **{"\x1b]0;x\x07": "y"}))
    code, lines = validated(name)
    assert code == 1
    assert not any(character in "\n".join(lines) for character in "\x1b\x07")
    assert all(line.startswith("e?[2Jvil?/SKILL.md:") for line in lines[:-1])
    assert "\x1b" not in _stdout(name, "--json")


def test_problems_are_not_wrapped_on_a_terminal(workspace: Path) -> None:
    write_file(workspace / "x", skill_text(name="x", description="y" * 2_000))
    lines = shown(command, "validate", "x", columns=60)
    assert lines[0].startswith("x/SKILL.md:3: ")
    assert lines[1:] == ["1 skill checked: 0 errors, 1 warning. What has only warnings", "is loaded."]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told(workspace: Path) -> None:
    write_skill(workspace / "skills", "pdf").chmod(0)
    try:
        code, lines = validated("skills")
    finally:
        (workspace / "skills" / "pdf").chmod(0o700)
    assert code == 1
    assert "cannot be read" in lines[0]


def test_an_unknown_option_is_wrong_usage() -> None:
    assert cli.run(["skills", "validate", "--nothing", "x"]) == 2
