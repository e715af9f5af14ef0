"""`holdfast skills` and `list`: what is there, what it takes, what was left out, what others have."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.cli.skills import JOBS, access, command
from holdfast.facts.tokens import heuristic_tokens
from holdfast.skills.index import render_index
from tests.cli.commands import holdfast, invoke, piped, shell, shown
from tests.skills.skill_files import skill_text, write_file, write_skill

HOSTILE = "Fine\x1b[31m and\x07 \u202enot\u202c"


@pytest.fixture
def here(workspace: Path) -> Path:
    """The workspace's own root."""
    return workspace / ".holdfast" / "skills"


@pytest.fixture
def home(workspace: Path) -> Path:
    """HOLDFAST_HOME."""
    return workspace / "home" / ".holdfast"


def test_alone_it_lists(here: Path) -> None:
    write_skill(here, "pdf")
    assert piped(command) == piped(command, "list")
    assert "pdf" in piped(command)


def test_every_job_has_help_with_examples() -> None:
    head = piped(command, "--help")
    for name in JOBS:
        assert f"\n  {name} " in head
        text = piped(command, name, "--help")
        assert f"Examples:\n    holdfast skills {name}" in text
    assert "..." not in head.split("Commands:")[1]


def test_wrong_usage_exits_with_2() -> None:
    near = invoke(command, "lst")
    assert (near.exit_code, "No such command 'lst'; did you mean 'list'?" in near.output) == (2, True)
    assert invoke(command, "zzz").exit_code == 2
    assert invoke(command, "list", "more").exit_code == 2
    for name in ("show", "search", "new"):
        assert invoke(command, name).exit_code == 2


def test_a_line_for_each_by_name_and_what_the_index_takes(here: Path, home: Path) -> None:
    write_skill(here, "review", description="Reviews a branch.", body="Look at it.\n" * 20)
    write_skill(home / "skills", "pdf", description="Reads\nPDFs.")
    title, first, second, empty, total = piped(command, "list").splitlines()
    assert title.split() == ["NAME", "SOURCE", "TOKENS", "VERSION", "WHERE", "DESCRIPTION"]
    found = access.find()
    pdf, review = found.skills.list_skills()
    assert first.split()[:3] == ["pdf", "global", "1"]
    assert first.endswith("  Reads PDFs.")
    assert second.split()[:3] == ["review", "workspace", str(review.estimated_body_tokens)]
    assert (first.split()[3:5], empty) == ([pdf.version, "home/.holdfast/skills/pdf"], "")
    tokens = heuristic_tokens(render_index(found.skills, found.config.settings.skills))
    assert total == f"2 skills. The index takes about {tokens} tokens of every prompt."


def test_d62_a_capped_index_says_how_many_it_leaves_out(workspace: Path, here: Path) -> None:
    for number in range(8):
        write_skill(here, f"skill-{number}", description="x" * 100)
    (workspace / "holdfast.toml").write_text("skills.index_chars = 500\n")
    found = json.loads(piped(command, "list", "--json"))
    assert found["index"]["mode"] == "capped"
    assert 0 < found["index"]["left_out"] < 8
    left = found["index"]["left_out"]
    names = [each["name"] for each in found["skills"] if not each["listed"]]
    marked = [line.split()[0] for line in piped(command).splitlines() if "  left out  " in line]
    assert (len(names), names) == (left, marked)
    assert f"prompt; {left} are left out by skills.index_chars, skill_search finds them." in piped(command)
    (workspace / "holdfast.toml").write_text('skills.index = "full"\n')
    full = json.loads(piped(command, "list", "--json"))
    assert (full["index"]["left_out"], [each["listed"] for each in full["skills"]]) == (0, [True] * 8)
    assert "INDEX" not in piped(command)
    (workspace / "holdfast.toml").write_text('skills.index = "off"\n')
    assert "8 skills. The index is off (skills.index): no prompt names them" in piped(command)
    assert "left out" not in piped(command)


def test_one_that_is_left_out_is_not_called_several(workspace: Path, here: Path) -> None:
    write_skill(here, "a", description="x" * 1_000)
    write_skill(here, "b")
    (workspace / "holdfast.toml").write_text("skills.index_chars = 300\n")
    assert "; 1 is left out by skills.index_chars, skill_search finds it." in piped(command)


def test_without_roots_it_says_so(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text("skills.roots = []\n")
    assert piped(command) == "There are no skills here: skills.roots names no directory.\n"


def test_a_root_named_twice_is_told_once(workspace: Path) -> None:
    (workspace / "holdfast.toml").write_text('skills.roots = ["a", "./a", "a/", "b"]\n')
    found = json.loads(piped(command, "list", "--json"))
    assert [root["path"] for root in found["roots"]] == [str(workspace / "a"), str(workspace / "b")]


def test_nothing_says_where_it_looked_and_how_to_begin(workspace: Path, home: Path) -> None:
    assert piped(command, "list").splitlines() == [
        "There are no skills here. These directories were looked into:",
        f"  {home / 'skills'} (global, which does not exist)",
        f"  {workspace / '.holdfast' / 'skills'} (workspace, which does not exist)",
        "`holdfast skills new NAME` makes one.",
    ]
    found = json.loads(piped(command, "list", "--json"))
    assert (found["skills"], found["skipped"], found["index"]["tokens"]) == ([], [], 0)
    assert [root["exists"] for root in found["roots"]] == [False, False]
    (workspace / ".holdfast" / "skills").mkdir(parents=True)
    assert f"{workspace / '.holdfast' / 'skills'} (workspace)\n" in piped(command)
    assert not home.exists(), "looking makes nothing"


def test_d15_what_could_not_be_loaded_follows_with_file_and_reason(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(here, "good")
    write_file(here / "wrong", skill_text(name="other", description="Something."))
    write_file(here / "latin", b"---\nname: latin\n---\n\xff\xfe")
    done = holdfast("skills", cwd=here.parent.parent)
    assert (done.returncode, done.stderr) == (0, ""), "said once, not by the log too"
    lines = done.stdout.splitlines()
    (wrong,) = (line for line in lines if "wrong" in line)
    assert wrong.startswith(".holdfast/skills/wrong/SKILL.md: not loaded: ")
    assert "make them equal" in wrong
    assert any(line.startswith(".holdfast/skills/latin/SKILL.md: not loaded: ") and "UTF-8" in line for line in lines)
    assert lines.count("") == 2, "before the sum and before the problems, not between them"
    listed = json.loads(piped(command, "list", "--json"))["skipped"]
    assert [Path(each["path"]).parent.name for each in listed] == ["latin", "wrong"]
    assert caplog.records == []
    logging.getLogger("holdfast.skills.loader").warning("afterwards it speaks again")
    assert len(caplog.records) == 1


def test_only_broken_skills_are_still_told(here: Path) -> None:
    write_file(here / "broken", "no frontmatter")
    text = piped(command)
    assert text.startswith("There are no skills here.")
    assert "\n.holdfast/skills/broken/SKILL.md: not loaded: " in text


def test_d33_a_shadowed_skill_is_mentioned(here: Path, home: Path) -> None:
    write_skill(here, "pdf")
    write_skill(home / "skills", "pdf")
    text = piped(command)
    assert "pdf in home/.holdfast/skills/pdf is not used: .holdfast/skills/pdf comes before it\n" in text
    (one,) = json.loads(piped(command, "list", "--json"))["shadowed"]
    assert one == {"name": "pdf", "path": str(home / "skills" / "pdf"), "by": str(here / "pdf")}


def test_d30_a_long_body_is_named(here: Path) -> None:
    write_skill(here, "long", body="word " * 5_000)
    assert "Longer than 5,000 tokens, which is more than a body should be: long\n" in piped(command)


def test_a_body_that_can_never_be_loaded_is_named(workspace: Path, here: Path) -> None:
    write_skill(here, "at-most", body="x" * 4 * 6_000)
    write_skill(here, "beyond", body="x" * 4 * 6_001)
    assert "Never loaded" not in piped(command)
    (workspace / "holdfast.toml").write_text("skills.hard_tokens = 6000\nskills.warn_tokens = 100\n")
    lines = piped(command).splitlines()
    assert lines[-2:] == [
        "Longer than 5,000 tokens, which is more than a body should be: at-most",
        "Never loaded, as it is longer than skills.hard_tokens (6,000): beyond",
    ]


def test_a_root_that_leads_out_is_told(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    write_skill(outside, "evil")
    here.parent.mkdir()
    here.symlink_to(outside)
    text = piped(command)
    assert "evil" not in text
    assert "\n.holdfast/skills: not loaded: it leads out of the workspace" in text


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_it_fits_the_terminal(here: Path, home: Path, columns: int) -> None:
    write_skill(here, "a-skill-with-a-rather-long-name", description="Describes. " * 40)
    write_skill(here, "短い名前".encode().hex(), description="日本語の説明 " * 20)
    write_skill(home / "skills", "a-skill-with-a-rather-long-name")
    write_file(here / "broken", "no frontmatter")
    lines = shown(command, "list", columns=columns)
    assert [line for line in lines if len(line) > columns] == []
    assert lines[0].startswith("NAME")
    if columns >= 60:
        assert "DESCRIPTION" in lines[0]
        assert lines[1].startswith("a-skill-with-a-rather-long-name ")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_longest_name_is_shown_whole_where_that_is_possible(here: Path, columns: int) -> None:
    name = "x" * 64
    write_skill(here, name)
    lines = shown(command, "list", columns=columns)
    assert [line for line in lines if len(line) > columns] == []
    assert lines[1].split()[0] == (f"{'x' * 59}…" if columns == 60 else name)


def test_where_is_short_and_cut_at_its_beginning(workspace: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(here, "pdf")
    write_skill(workspace / "home" / ".holdfast" / "skills", "at-home")
    write_skill(here, "a-skill-with-a-rather-long-name", description="word " * 50)
    (workspace / "below").mkdir()
    assert "  .holdfast/skills/pdf  " in piped(command).splitlines()[3]
    lines = shown(command, "list", columns=110)
    assert lines[1].endswith("  …skill-with-a-rather-long-name")
    monkeypatch.chdir(workspace / "below")
    assert f"  {workspace / 'home' / '.holdfast/skills/at-home'}  " in piped(command), "no program expands a ~"
    lines = shown(command, "list", columns=110)
    assert lines[1].endswith("  ~/.holdfast/skills/at-home")


def test_hostile_descriptions_and_names_cannot_speak_to_the_terminal(here: Path) -> None:
    write_skill(here, "evil", description=HOSTILE)
    write_file(here / "bad\x1b[2J\nname", "no frontmatter")
    for arguments in (["list"], ["list", "--json"], ["search", "fine"], ["show", "evil"], ["show", "evil", "--json"]):
        text = piped(command, *arguments)
        assert not any(character in text for character in "\x1b\x07\u202e"), arguments
    assert "Fine?[31m and? ?not?" in piped(command, "list")
    assert json.loads(piped(command, "list", "--json"))["skills"][0]["description"] == HOSTILE


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere file names are text")
def test_file_names_that_are_no_text(here: Path) -> None:
    (here / os.fsdecode(b"caf\xe9")).mkdir(parents=True)
    (here / os.fsdecode(b"caf\xe9") / "SKILL.md").write_text("no frontmatter")
    assert "not loaded" in piped(command, "list")
    assert len(json.loads(piped(command, "list", "--json"))["skipped"]) == 1


class TestSkillsOfOthers:
    def put(self, text: str, workspace: Path, home: Path) -> None:
        """Do what the hint says."""
        place, line = text.splitlines()[-2:]
        file = Path(place.rpartition(" of " if " of " in place else " in ")[2].rstrip(":"))
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text() if file.exists() else ""
        if "at the top of" in place:
            file.write_text(f"{line.strip()}\n{before}")
        elif "below [skills]" in place:
            file.write_text(before.replace("[skills]", f"[skills]\n{line.strip()}"))
        else:
            lines = before.splitlines()
            number = int(place.partition("in line ")[2].partition(" ")[0])
            lines[number - 1] = line.strip()
            file.write_text("\n".join(lines))

    @pytest.mark.parametrize(
        ("file", "before"),
        [
            ("home/.holdfast/holdfast.toml", None),
            ("home/.holdfast/holdfast.toml", '[cache]\nstrategy = "zones"\n'),
            ("home/.holdfast/holdfast.toml", '[cache]\nstrategy = "zones"\n[skills]\nindex = "full"\n'),
            ("home/.holdfast/holdfast.toml", '[skills]\nindex = "full"\nroots = ["HOLDFAST_HOME/skills"]\n'),
            ("holdfast.toml", 'skills.roots = [".holdfast/skills", "HOLDFAST_HOME/skills"]\n[cache]\n'),
            ("holdfast.toml", '[skills]\nroots = [".holdfast/skills"]\n'),
            ("holdfast.toml", '[skills]\nindex = "full"\n'),
        ],
    )
    def test_the_hint_is_the_exact_line_and_does_it(
        self, workspace: Path, home: Path, file: str, before: str | None
    ) -> None:
        write_skill(workspace / ".claude" / "skills", "from-claude")
        write_skill(workspace / "home" / ".agents" / "skills", "from-agents")
        if before is not None:
            (workspace / file).parent.mkdir(parents=True, exist_ok=True)
            (workspace / file).write_text(before)
        text = piped(command)
        assert "Not used: 1 skill in .claude/skills, 1 skill in ~/.agents/skills. To have them too, " in text
        assert "from-claude" not in text
        self.put(text, workspace, home)
        text = piped(command)
        assert "Not used" not in text
        found = json.loads(piped(command, "list", "--json"))
        assert [(each["name"], each["source"]) for each in found["skills"]] == [
            ("from-agents", "global"),
            ("from-claude", "workspace"),
        ]

    def test_the_line_keeps_what_is_configured(self, workspace: Path) -> None:
        write_skill(workspace / ".claude" / "skills", "from-claude")
        assert piped(command).splitlines()[-1] == (
            '  skills.roots = ["HOLDFAST_HOME/skills", ".holdfast/skills", ".claude/skills"]'
        )

    def test_a_variable_that_names_the_roots_is_named(self, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_skill(workspace / ".agents" / "skills", "one")
        monkeypatch.setenv("HOLDFAST_SKILLS_ROOTS", "mine")
        line = piped(command).splitlines()[-1].strip()
        assert line == """HOLDFAST_SKILLS_ROOTS='["mine", ".agents/skills"]'"""
        monkeypatch.setenv("HOLDFAST_SKILLS_ROOTS", line.partition("=")[2].strip("'"))
        assert "one" in piped(command)

    def test_without_skills_there_or_when_they_are_the_same_directory_nothing_is_said(
        self, workspace: Path, here: Path
    ) -> None:
        (workspace / ".claude" / "skills" / "empty").mkdir(parents=True)
        write_skill(workspace / ".claude" / "skills", ".hidden")
        (workspace / ".agents").write_text("a file")
        assert "Not used" not in piped(command)
        write_skill(here, "one")
        (workspace / "home" / ".claude").mkdir(parents=True)
        (workspace / "home" / ".claude" / "skills").symlink_to(here)
        assert "Not used" not in piped(command)


def test_without_a_home_of_its_own_and_without_a_store_nothing_is_made(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = holdfast("skills", "list", cwd=workspace)
    assert (done.returncode, done.stderr) == (0, "")
    for arguments in ("search x", "usage", "list --json", "usage --json"):
        assert cli.run(["skills", *arguments.split()]) == 0, arguments
    assert capsys.readouterr().err == ""
    for arguments in ("show x", "validate x"):
        assert cli.run(["skills", *arguments.split()]) == 1, arguments
    assert list(workspace.iterdir()) == []


def test_an_interrupt_ends_it_cleanly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(access, "load_roots", interrupted)
    assert cli.run(["skills"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "holdfast: interrupted"
    assert logging.getLogger("holdfast.skills").propagate


def test_a_wrong_configuration_is_one_sentence(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "holdfast.toml").write_text('skills.index = "some"\n')
    assert cli.run(["skills"]) == 1
    assert capsys.readouterr().err.startswith("holdfast: ")


class TestInAPipe:
    """The real program, read by other programs."""

    @pytest.fixture
    def many(self, workspace: Path, here: Path) -> Path:
        for number in range(400):
            write_skill(
                here, f"skill-with-a-rather-long-name-{number:03}", description=f"Does {number}. " + "Words. " * 100
            )
        write_skill(here, "pdf", description="Fill forms.")
        return workspace

    def test_a_skill_is_one_line_with_its_whole_name_path_and_description(self, many: Path) -> None:
        done = shell("holdfast skills list | grep -- '^skill-with-a-rather-long-name-007 '", many)
        (line,) = done.stdout.splitlines()
        assert "  .holdfast/skills/skill-with-a-rather-long-name-007  " in line
        assert line.endswith("Does 7. " + " ".join(["Words."] * 100))
        (short,) = shell("holdfast skills list | grep '^pdf '", many).stdout.splitlines()
        assert len(short) < 200, "the longest description widens no other line"

    def test_a_reader_that_stops_early_makes_no_noise(self, many: Path) -> None:
        for line in ("holdfast skills list | head -2", "holdfast skills list --json | head -2"):
            done = shell(line, many)
            assert (len(done.stdout.splitlines()), done.stderr) == (2, "")


class TestLongDescriptions:
    def test_list_and_validate_say_that_the_index_cuts_one(self, workspace: Path, here: Path) -> None:
        write_skill(here, "claude-api", description="word " * 213 + "end")
        assert "Cut in the index, as the description has more than 1,024 characters: claude-api" in piped(command)
        done = holdfast("skills", "validate", cwd=workspace)
        said = ".holdfast/skills/claude-api/SKILL.md:3: warning: `description` has 1068 characters; 1024 are allowed"
        assert (done.returncode, said in done.stdout) == (0, True)
        strict = holdfast("skills", "validate", "--strict", cwd=workspace)
        assert (strict.returncode, ":3: `description` has 1068 characters" in strict.stdout) == (1, True)

    def test_d15_d22_with_skills_strict_it_is_not_loaded_and_an_error(self, workspace: Path, here: Path) -> None:
        write_skill(here, "claude-api", description="word " * 213 + "end")
        write_skill(here, "pdf")
        (workspace / "holdfast.toml").write_text("skills.strict = true\n")
        assert [each["name"] for each in json.loads(piped(command, "list", "--json"))["skills"]] == ["pdf"]
        assert "claude-api/SKILL.md: not loaded: line 3: `description` has 1068 characters" in piped(command)
        done = holdfast("skills", "validate", cwd=workspace)
        assert (done.returncode, ":3: `description` has 1068 characters" in done.stdout) == (1, True)
