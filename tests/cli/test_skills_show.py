"""`holdfast skills show` and `search`: one skill whole, and what an agent would find."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import cli
from holdfast.cli.skills import access, command
from holdfast.cli.skills.show import MOST_FILES
from tests.cli.commands import invoke, piped, refused, shown
from tests.skills.skill_files import write_file, write_skill


@pytest.fixture
def here(workspace: Path) -> Path:
    return workspace / ".holdfast" / "skills"


def test_the_fields_the_files_and_the_body(here: Path) -> None:
    directory = write_skill(
        here,
        "pdf",
        description="Reads PDFs.",
        body="# PDF\n\n\tRun scripts/read.py.\n",
        license="MIT",
        compatibility="Needs poppler.",
        metadata={"author": "someone", "version": "1"},
        allowed_tools="Read Bash(git:*)",
    )
    (directory / "scripts").mkdir()
    (directory / "scripts" / "read.py").write_text("print()\n")
    (directory / ".git").mkdir()
    (directory / ".git" / "HEAD").write_text("x")
    (directory / "link").symlink_to("/etc")
    skill = access.find().skills.get("pdf")
    assert piped(command, "show", "pdf").splitlines() == [
        "pdf",
        "  description    Reads PDFs.",
        "  source         workspace",
        f"  where          {directory}",
        f"  version        {skill.version}",
        f"  tokens         about {skill.estimated_body_tokens}",
        "  license        MIT",
        "  compatibility  Needs poppler.",
        "  metadata       author: someone, version: 1",
        "  allowed-tools  Read Bash(git:*) (not enforced: Holdfast neither allows nor forbids a tool by it)",
        "  files          2 files",
        "    link (link or unreadable)",
        "    scripts/read.py (8 bytes)",
        "",
        "# PDF",
        "",
        "    Run scripts/read.py.",
    ]


def test_d66_allowed_tools_are_shown_and_said_not_to_be_enforced(here: Path) -> None:
    write_skill(here, "pdf", allowed_tools="Read")
    assert "allowed-tools  Read (not enforced: " in piped(command, "show", "pdf")
    assert json.loads(piped(command, "show", "pdf", "--json"))["allowed_tools"] == ["Read"]
    assert "not enforced: a skill neither allows nor forbids a tool" in " ".join(
        piped(command, "show", "--help").split()
    )
    write_skill(here, "plain")
    assert "allowed-tools" not in piped(command, "show", "plain")


def test_json_has_everything(here: Path) -> None:
    directory = write_skill(here, "pdf", description="Größe\x1b[1m", body="Do it.\x1b[2J\n")
    raw = piped(command, "show", "pdf", "--json")
    assert raw.isascii()
    assert "\x1b" not in raw
    found = json.loads(raw)
    assert (found["description"], found["body"]) == ("Größe\x1b[1m", "Do it.\x1b[2J\n")
    assert (found["where"], found["files"], found["left_out"]) == (str(directory), [], 0)
    assert (found["license"], found["metadata"], found["allowed_tools"]) == (None, None, [])


def test_d40_the_body_alone_is_to_the_byte_what_an_agent_gets(here: Path) -> None:
    write_skill(here, "pdf", body="Größe\tand \x1b[1mmore\n\n")
    skill = access.find().skills.get("pdf")
    done = CliRunner().invoke(command, ["show", "pdf", "--body"])
    assert done.stdout_bytes == skill.section.encode()
    assert done.stdout_bytes.startswith(b"# Skill: pdf (source: workspace)\n\nGr")


def test_on_a_terminal_the_body_cannot_speak_to_it(here: Path) -> None:
    write_skill(here, "pdf", body="a\tb \x1b[2J\n")
    for arguments in (["pdf", "--body"], ["pdf"]):
        lines = shown(command, "show", *arguments, columns=60)
        assert lines[-1] == "a   b ?[2J"


def test_many_files_are_cut_and_counted(here: Path) -> None:
    directory = write_skill(here, "pdf")
    for number in range(MOST_FILES + 7):
        (directory / f"file-{number:04}").write_bytes(b"")
    text = piped(command, "show", "pdf")
    assert f"  files          {MOST_FILES + 7} files\n" in text
    assert "    and 7 more\n" in text
    assert "    file-0000 (0 bytes)\n" in text
    assert json.loads(piped(command, "show", "pdf", "--json"))["left_out"] == 7


def test_a_long_body_is_said_so(here: Path) -> None:
    write_skill(here, "long", body="word " * 5_000)
    assert "tokens         about 6,2" in piped(command, "show", "long")
    assert ", more than the 5,000 a body should have\n" in piped(command, "show", "long")


def test_one_that_can_never_be_loaded_is_said_so(workspace: Path, here: Path) -> None:
    write_skill(here, "long", body="x" * 4 * 30_001)
    text = piped(command, "show", "long")
    assert "  tokens         about 30,001, more than skills.hard_tokens allows: it is never loaded\n" in text
    assert json.loads(piped(command, "show", "long", "--json"))["loadable"] is False
    (workspace / "holdfast.toml").write_text("skills.hard_tokens = 30001\n")
    assert "hard_tokens" not in piped(command, "show", "long")
    assert json.loads(piped(command, "show", "long", "--json"))["loadable"] is True


def test_one_that_stands_before_another_says_so(workspace: Path, here: Path) -> None:
    other = write_skill(workspace / "home" / ".holdfast" / "skills", "pdf")
    assert "stands before" not in piped(command, "show", "pdf")
    write_skill(here, "pdf")
    assert f"\n  stands before  {other}\n" in piped(command, "show", "pdf")
    assert json.loads(piped(command, "show", "pdf", "--json"))["stands_before"] == [str(other)]


@pytest.mark.parametrize("columns", [30, 60])
def test_fields_fit_the_terminal(here: Path, columns: int) -> None:
    write_skill(here, "pdf", description="Words of a description. " * 30, metadata={"a": "b " * 60})
    lines = shown(command, "show", "pdf", columns=columns)
    assert [line for line in lines if len(line) > columns and "/" not in line] == []


def test_an_unknown_name_gives_the_nearest(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("code-review", "code-format", "pdf"):
        write_skill(here, name)
    assert cli.run(["skills", "show", "code-reviw"]) == 1
    assert capsys.readouterr().err.startswith("holdfast: there is no skill 'code-reviw'; did you mean code-review")
    assert refused("skills", "show", "zzz") == (
        "holdfast: there is no skill 'zzz'; `holdfast skills list` lists what there is\n"
    )
    assert "; did you mean code-review" in refused("skills", "show", "CODE-REVIEW")
    assert refused("skills", "show", "PDF") == "holdfast: there is no skill 'PDF'; did you mean pdf?\n"
    assert cli.run(["skills", "show", "\x1b[2J" * 100]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_one_that_is_there_and_not_loaded_is_told_why(here: Path) -> None:
    write_file(here / "broken", "no frontmatter")
    err = refused("skills", "show", "broken")
    assert err.startswith(f"holdfast: there is no skill 'broken': {here / 'broken' / 'SKILL.md'} is not loaded, ")


def test_body_and_json_are_two_things() -> None:
    done = invoke(command, "show", "x", "--body", "--json")
    assert (done.exit_code, "choose one" in done.output) == (2, True)


def test_it_goes_without_a_file_that_cannot_be_asked(here: Path) -> None:
    directory = write_skill(here, "pdf")
    os.mkfifo(directory / "pipe")
    (directory / "nowhere").symlink_to("missing")
    text = piped(command, "show", "pdf")
    assert "    nowhere (link or unreadable)\n" in text
    assert "    pipe (0 bytes)\n" in text


def test_files_lie_as_deep_as_they_like(here: Path) -> None:
    at = str(write_skill(here, "pdf"))
    made = [at := f"{at}/d" for _ in range(1_100)]
    for each in made:
        os.mkdir(each)  # noqa: PTH102
    try:
        (here / "pdf" / "d" / "d" / "notes.md").write_bytes(b"x")
        assert "    d/d/notes.md (1 byte)\n" in piped(command, "show", "pdf")
    finally:
        (here / "pdf" / "d" / "d" / "notes.md").unlink(missing_ok=True)
        for each in reversed(made):  # what clears directories away after tests does not go so deep
            os.rmdir(each)  # noqa: PTH106


class TestSearch:
    @pytest.fixture(autouse=True)
    def skills(self, here: Path) -> None:
        write_skill(here, "pdf-forms", description="Fills in forms.")
        write_skill(here, "review", description="Reviews a PDF.")
        write_skill(here, "other", description="Does nothing of it.")

    def test_d46_it_is_the_search_of_the_tool(self) -> None:
        store = access.find().skills
        for query in ("pdf", "PDF", "fill forms", "nothing pdf", "", "zzz"):
            found = json.loads(piped(command, "search", *(query.split() or [""]), "--json"))
            assert [each["name"] for each in found["skills"]] == [skill.name for skill in store.search(query)]
            assert found["query"] == query
        assert [line.split()[0] for line in piped(command, "search", "pdf").splitlines()[1:]] == ["pdf-forms", "review"]

    def test_the_limit(self) -> None:
        _, first, *rest = piped(command, "search", "pdf", "--limit", "1").splitlines()
        assert (first.split()[0], rest) == ("pdf-forms", ["", "And 1 more beyond --limit 1."])
        assert json.loads(piped(command, "search", "pdf", "--limit", "1", "--json"))["left_out"] == 1
        assert "more beyond" not in piped(command, "search", "pdf", "--limit", "2")
        assert invoke(command, "search", "pdf", "--limit", "51").exit_code == 2

    def test_nothing_found(self) -> None:
        said = piped(command, "search", "zzz", "\x1b[1m")
        assert said == "No skills match 'zzz ?[1m'. `holdfast skills list` lists all.\n"
        assert json.loads(piped(command, "search", "zzz", "--json")) == {"query": "zzz", "skills": [], "left_out": 0}

    def test_a_query_that_is_no_text(self) -> None:
        found = json.loads(piped(command, "search", "zzz", "\udcff", "--json"))
        assert (found["query"], found["skills"]) == ("zzz \ufffd", [])

    @pytest.mark.parametrize("columns", [40, 60])
    def test_it_fits_the_terminal(self, columns: int) -> None:
        lines = shown(command, "search", "pdf", columns=columns)
        assert [line for line in lines if len(line) > columns] == []
