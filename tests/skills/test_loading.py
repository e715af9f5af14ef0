"""Roots on disk: what is loaded, what is left out and how that is said, and who stands before whom."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
from pathlib import Path

import pytest

from holdfast.config.sections.agent import SkillsSettings
from holdfast.skills.loader import load_roots, load_skills, roots_of
from holdfast.skills.skill import ShadowedSkill, SkillRoot
from holdfast.skills.store import SkillStore
from tests.skills.skill_files import skill_text, write_file, write_skill

Log = pytest.LogCaptureFixture


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: Log) -> None:
    caplog.set_level(logging.INFO, logger="holdfast.skills")


def said(caplog: Log, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def names(store: SkillStore) -> list[str]:
    return [skill.name for skill in store.list_skills()]


def load(root: Path) -> SkillStore:
    return load_skills(global_dir=root, workspace_dir=None)


def test_d1_d2_a_directory_with_a_skill_md_is_a_skill_whatever_else_it_holds(tmp_path: Path, caplog: Log) -> None:
    skill_dir = write_skill(tmp_path, "pdf", body="Run scripts/fill.py.\n")
    for sibling in ("scripts", "references", "assets", "other"):
        (skill_dir / sibling).mkdir()
        (skill_dir / sibling / "SKILL.md").write_bytes(b"\xff not looked at")
    store = load(tmp_path)
    assert names(store) == ["pdf"]
    assert store.list_skills()[0].skill_dir == skill_dir
    assert caplog.records == []


def test_d34_several_load_sorted(tmp_path: Path) -> None:
    for name in ("zip", "a-b", "pdf", "a", "10", "9"):
        write_skill(tmp_path, name)
    assert names(load(tmp_path)) == ["10", "9", "a", "a-b", "pdf", "zip"]


def test_d34_what_is_left_out_is_sorted_too(tmp_path: Path) -> None:
    for name in ("zip", "b", "a"):
        write_file(tmp_path / name, "no fence")
    assert [skipped.path.parent.name for skipped in load(tmp_path).skipped] == ["a", "b", "zip"]


def test_d14_d64_plain_files_hidden_directories_and_others_are_skipped_silently(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path, "pdf")
    (tmp_path / "README.md").write_text("# Skills")
    (tmp_path / "SKILL.md").write_text("not here")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("x")
    write_skill(tmp_path / "group", "nested")
    write_skill(tmp_path, ".history")
    write_file(tmp_path / ".git", "broken")
    (tmp_path / "link.md").symlink_to("README.md")
    os.mkfifo(tmp_path / "pipe")
    store = load(tmp_path)
    assert names(store) == ["pdf"]
    assert store.skipped == ()
    assert caplog.records == []


@pytest.mark.parametrize("file", ["skill.md", "Skill.md", "SKILL.MD", "SKILL.md.bak"])
def test_d13_lower_case_skill_md_is_refused(tmp_path: Path, caplog: Log, file: str) -> None:
    write_file(tmp_path / "pdf", skill_text(name="pdf", description="d"), file=file)
    assert len(load(tmp_path)) == 0
    assert caplog.records == []


def test_d13_the_directory_is_listed_so_that_case_counts_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path, "pdf")
    real = os.listdir  # stands for a file system that opens skill.md under either name
    monkeypatch.setattr(os, "listdir", lambda path: [name.replace("SKILL", "skill") for name in real(path)])
    assert len(load(tmp_path)) == 0


BROKEN = {
    "no-fence": (b"name: no-fence\n", "line 1: the first line must be `---`"),
    "not-closed": (b"---\nname: not-closed\ndescription: d\n", "not closed"),
    "bad-yaml": (b"---\nname: [\n---\n", "not valid YAML"),
    "latin": (b"---\nname: latin\ndescription: caf\xe9\n---\n", "not UTF-8 from line 3 on"),
    "empty": (b"", "the file is empty"),
    "utf16": ("---\nname: utf16\n---\n".encode("utf-16"), "not UTF-8"),
    "too-long": (b"---\nname: too-long\ndescription: d\n---\n" + b"x" * 1_000_000, "more than 1,000,000 bytes"),
    "other-name": (
        b"---\nname: pdf\ndescription: d\n---\n",
        "line 2: `name` is 'pdf', but the directory is 'other-name'",
    ),
    "deep": (b"---\n" + b"[" * 500_000 + b"\n---\n", "nested too deeply"),
}


def test_d15_d59_3_what_is_invalid_is_left_out_with_one_warning_each_and_the_rest_loads(
    tmp_path: Path, caplog: Log
) -> None:
    for name, (content, _) in BROKEN.items():
        write_file(tmp_path / name, content)
    write_skill(tmp_path, "pdf")
    write_skill(tmp_path, "a-first")
    store = load(tmp_path)
    assert names(store) == ["a-first", "pdf"]
    warnings = said(caplog)
    assert len(warnings) == len(store.skipped) == len(BROKEN)
    for skipped, warning in zip(store.skipped, warnings, strict=True):
        assert skipped.path == tmp_path / skipped.path.parent.name / "SKILL.md"
        assert BROKEN[skipped.path.parent.name][1] in skipped.reason
        assert str(skipped.path) in warning
        assert skipped.reason in warning
        assert "\n" not in warning


def test_d26_every_error_of_an_invalid_one_is_in_its_warning(tmp_path: Path, caplog: Log) -> None:
    write_file(tmp_path / "pdf", "---\nname: Pdf_\nlicense: [x]\nmetadata: {a: ~}\n---\n")
    assert len(load(tmp_path)) == 0
    (warning,) = said(caplog)
    for words in ("line 2: `name` 'Pdf_' has upper-case", "('_')", "the directory is 'pdf'", "`description` is missing",
                  "line 3: `license`", "line 4: `metadata.a`"):  # fmt: skip
        assert words in warning


def test_a_warning_stays_short_and_on_one_line_whatever_the_file_says(tmp_path: Path, caplog: Log) -> None:
    many = "\n".join(f'  "\\e[31m{number}": ~' for number in range(3_000))
    write_file(tmp_path / "evil\n\x1b[2Jname", f"---\nname: x\ndescription: d\nmetadata:\n{many}\n---\n")
    assert len(load(tmp_path)) == 0
    (warning,) = said(caplog)
    assert warning.isprintable()
    assert len(warning) < 3_000


def test_what_is_no_regular_file_neither_hangs_nor_fails_the_rest(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path, "pdf")
    for name in ("device", "folder", "pipe", "socket"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "folder" / "SKILL.md").mkdir()
    (tmp_path / "device" / "SKILL.md").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()  # noqa: PTH109
        os.chdir(tmp_path / "socket")  # the whole path may be longer than a socket's may be
        try:
            listener.bind("SKILL.md")
        finally:
            os.chdir(here)
        store = load(tmp_path)
    assert names(store) == ["pdf"]
    reasons = {skipped.path.parent.name: skipped.reason for skipped in store.skipped}
    assert reasons["pipe"] == "it cannot be read: it is a pipe, not a file"
    assert "leads out" in reasons["device"]
    assert set(reasons) == {"device", "pipe", "socket"}
    assert len(said(caplog)) == 3


def test_d14_a_skill_md_that_is_a_directory_is_skipped_silently(tmp_path: Path, caplog: Log) -> None:
    (tmp_path / "folder" / "SKILL.md").mkdir(parents=True)
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "SKILL.md").symlink_to(tmp_path / "folder")
    write_skill(tmp_path, "pdf")
    store = load(tmp_path)
    assert (names(store), store.skipped, caplog.records) == (["pdf"], (), [])


def test_a_reason_names_the_errors_in_the_order_of_the_lines(tmp_path: Path) -> None:
    write_file(tmp_path / "pdf", "---\nmetadata: 5\ncompatibility: 5\nlicense: 5\ndescription: 5\nname: Pdf\n---\n")
    (skipped,) = load(tmp_path).skipped
    assert [int(found) for found in re.findall(r"line (\d+): ", skipped.reason)] == [2, 3, 4, 5, 6, 6]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_left_out_with_a_warning(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path, "pdf")
    (write_skill(tmp_path, "secret") / "SKILL.md").chmod(0)
    closed = write_skill(tmp_path, "closed")
    closed.chmod(0)
    try:
        assert names(load(tmp_path)) == ["pdf"]
    finally:
        closed.chmod(0o700)
    assert [("closed" in warning, "secret" in warning) for warning in said(caplog)] == [(True, False), (False, True)]


def test_a_file_that_goes_away_while_it_is_read_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        write_skill(tmp_path, name)
    real = os.listdir

    def listed(path: Path) -> list[str]:
        found = real(path)
        if Path(path).name == "b":
            shutil.rmtree(path)
        return found

    monkeypatch.setattr(os, "listdir", listed)
    store = load(tmp_path)
    assert names(store) == ["a", "c"]
    assert "No such file" in store.skipped[0].reason


def test_d30_a_long_body_is_loaded_with_a_warning(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path, "fits", body="x" * 20_003)
    write_skill(tmp_path, "long", body="x" * 20_004)
    store = load(tmp_path)
    assert names(store) == ["fits", "long"]
    assert store.skipped == ()
    (warning,) = said(caplog)
    assert "'long'" in warning
    assert "5,001 tokens" in warning


def test_d20_unknown_fields_are_ignored_silently(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path, "pdf", always=True, hooks={"a": [1, 2]})
    assert names(load(tmp_path)) == ["pdf"]
    assert caplog.records == []


@pytest.mark.parametrize("missing", [None, "gone", "gone/deeper"])
def test_d11_a_missing_root_is_an_empty_set_of_skills(tmp_path: Path, caplog: Log, missing: str | None) -> None:
    write_skill(tmp_path / "there", "pdf")
    root = None if missing is None else tmp_path / missing
    assert len(load_skills(global_dir=root, workspace_dir=root)) == 0
    assert names(load_skills(global_dir=tmp_path / "there", workspace_dir=root)) == ["pdf"]
    assert names(load_skills(global_dir=root, workspace_dir=tmp_path / "there")) == ["pdf"]
    assert caplog.records == []


def test_d32_roots_may_be_given_as_text(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", "pdf")
    write_skill(tmp_path / "b", "zip")
    store = load_skills(global_dir=str(tmp_path / "a"), workspace_dir=str(tmp_path / "b"))
    assert [(skill.name, skill.source) for skill in store.list_skills()] == [("pdf", "global"), ("zip", "workspace")]


def test_a_root_that_is_no_directory_is_a_warning_and_the_others_load(tmp_path: Path, caplog: Log) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    write_skill(tmp_path / "there", "pdf")
    bad = [tmp_path / "file", tmp_path / "file" / "below", tmp_path / "broken", tmp_path / "loop", tmp_path / "nul\0"]
    store = load_roots([SkillRoot(path, "global") for path in (*bad, tmp_path / "there")])
    assert names(store) == ["pdf"]
    assert [skipped.path for skipped in store.skipped] == bad
    assert len(said(caplog)) == len(bad)
    assert "is not a directory" in said(caplog)[0]


def test_a_root_that_cannot_be_listed_is_a_warning(
    tmp_path: Path, caplog: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "closed", "zip")
    write_skill(tmp_path / "there", "pdf")
    real = os.scandir

    def listed(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", listed)
    store = load_skills(global_dir=tmp_path / "closed", workspace_dir=tmp_path / "there")
    assert names(store) == ["pdf"]
    (warning,) = said(caplog)
    assert str(tmp_path / "closed") in warning
    assert "Permission denied" in warning


def test_d3_d33_a_workspace_skill_replaces_the_global_one_wholesale_and_says_so(tmp_path: Path, caplog: Log) -> None:
    there = write_skill(tmp_path / "g", "pdf", description="global", license="MIT", metadata={"a": "b"}, body="G")
    here = write_skill(tmp_path / "w", "pdf", description="workspace", body="W")
    store = load_skills(global_dir=tmp_path / "g", workspace_dir=tmp_path / "w")
    (skill,) = store.list_skills()
    assert (skill.description, skill.body, skill.source, skill.skill_dir) == ("workspace", "W", "workspace", here)
    assert (skill.license, skill.metadata) == (None, None)
    assert store.shadowed == (ShadowedSkill("pdf", there, here),)
    (line,) = said(caplog, logging.INFO)
    assert "skill 'pdf' in workspace overrides global definition" in line
    assert said(caplog) == []


def test_d3_d35_disjoint_roots_both_load_and_each_skill_says_where_it_is_from(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path / "g", "pdf")
    write_skill(tmp_path / "w", "zip")
    store = load_skills(global_dir=tmp_path / "g", workspace_dir=tmp_path / "w")
    assert [(skill.name, skill.source) for skill in store.list_skills()] == [("pdf", "global"), ("zip", "workspace")]
    assert caplog.records == []


def test_an_invalid_workspace_skill_does_not_hide_a_valid_global_one(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path / "g", "pdf", body="G")
    write_file(tmp_path / "w" / "pdf", "broken")
    store = load_skills(global_dir=tmp_path / "g", workspace_dir=tmp_path / "w")
    assert [(skill.body, skill.source) for skill in store.list_skills()] == [("G", "global")]
    assert len(said(caplog)) == 1
    assert store.shadowed == ()


def test_at_each_level_the_first_root_wins_and_the_workspace_beats_both(tmp_path: Path, caplog: Log) -> None:
    for root in ("g1", "g2", "w1", "w2"):
        write_skill(tmp_path / root, "pdf", body=root)
    for root in ("g1", "g2"):
        write_skill(tmp_path / root, "zip", body=root)
    roots = [
        SkillRoot(tmp_path / name, "global" if name[0] == "g" else "workspace") for name in ("g1", "g2", "w1", "w2")
    ]
    store = load_roots(roots)
    assert {skill.name: skill.body for skill in store.list_skills()} == {"pdf": "w1", "zip": "g1"}
    assert [(each.name, each.path.parent.name, each.by.parent.name) for each in store.shadowed] == [
        ("pdf", "w2", "w1"), ("pdf", "g1", "w1"), ("pdf", "g2", "w1"), ("zip", "g2", "g1")
    ]  # fmt: skip
    lines = said(caplog, logging.INFO)
    assert len(lines) == len(store.shadowed) == 4
    assert sum("overrides global definition" in line for line in lines) == 2
    assert sum("first root that has it" in line for line in lines) == 2


def test_d59_1_2_a_skill_is_its_name_and_that_of_its_directory(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    write_file(tmp_path / "other", skill_text(name="pdf", description="d"))
    store = load(tmp_path)
    assert names(store) == ["pdf"]
    assert all(skill.name == skill.skill_dir.name and skill.name in store for skill in store.list_skills())


def test_d9_d59_4_5_a_store_is_a_snapshot(tmp_path: Path) -> None:
    skill_dir = write_skill(tmp_path, "pdf", body="before")
    store = load(tmp_path)
    write_skill(tmp_path, "pdf", body="after")
    write_skill(tmp_path, "zip")
    assert names(store) == ["pdf"]
    assert store.get("pdf").body == "before"  # type: ignore[union-attr]
    shutil.rmtree(skill_dir)
    assert store.get("pdf").body == "before"  # type: ignore[union-attr]
    with pytest.raises(AttributeError):
        store.get("pdf").source = "workspace"  # type: ignore[misc, union-attr]


def test_d31_the_methods_of_a_store(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", description="Fills forms.")
    write_skill(tmp_path, "a", description="First.")
    store = load(tmp_path)
    assert store.discovery_index() == [("a", "First."), ("pdf", "Fills forms.")]
    assert len(store) == 2
    assert "pdf" in store
    assert "gone" not in store
    assert 5 not in store
    assert store.get("gone") is None
    assert [skill.name for skill in store.search("forms")] == ["pdf"]
    assert len(SkillStore.empty()) == 0
    assert SkillStore.empty() == load(tmp_path / "gone")


def test_roots_come_from_the_configuration(tmp_path: Path) -> None:
    settings = SkillsSettings(roots=("/home/me/.holdfast/skills", ".holdfast/skills", "team/../skills", "/opt/skills"))
    assert roots_of(settings, tmp_path) == (
        SkillRoot(Path("/home/me/.holdfast/skills"), "global"),
        SkillRoot(tmp_path / ".holdfast" / "skills", "workspace"),
        SkillRoot(tmp_path / "skills", "workspace"),
        SkillRoot(Path("/opt/skills"), "global"),
    )
    assert [root.source for root in roots_of(settings, None)] == ["global", "global"]
