"""Links: they may lead from one root into another, and nowhere else."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from holdfast import notices
from holdfast.config.sections.agent import SkillsSettings
from holdfast.skills import loader
from holdfast.skills.loader import load_roots, load_skills, skill_store_factory
from holdfast.skills.skill import SkillRoot
from holdfast.skills.store import SkillStore
from holdfast.tools.workspace import Workspace
from tests.skills.skill_files import skill_text, write_file, write_skill

Log = pytest.LogCaptureFixture


def names(store: SkillStore) -> list[str]:
    return [skill.name for skill in store.list_skills()]


def load(root: Path) -> SkillStore:
    return load_skills(global_dir=root, workspace_dir=None)


def only_reason(store: SkillStore, caplog: Log) -> str:
    (skipped,) = store.skipped
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(skipped.path) in record.getMessage()
    assert skipped.reason in record.getMessage()
    return skipped.reason


def test_d65_a_directory_that_leads_out_of_every_root_is_left_out(tmp_path: Path, caplog: Log) -> None:
    secret = write_skill(tmp_path / "elsewhere", "pdf")
    root = tmp_path / "root"
    write_skill(root, "zip")
    (root / "pdf").symlink_to(secret)
    store = load(root)
    assert names(store) == ["zip"]
    reason = only_reason(store, caplog)
    assert "leads out of every skills root" in reason
    assert str(secret) in reason
    assert "skills.roots" in reason


def test_d65_what_lies_outside_is_not_even_looked_at(tmp_path: Path, caplog: Log) -> None:
    (tmp_path / "elsewhere").mkdir()  # without a SKILL.md, inside a root it would be passed over
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "pdf").symlink_to(tmp_path / "elsewhere")
    store = load(tmp_path / "root")
    assert "leads out of every skills root" in only_reason(store, caplog)
    assert store.skipped[0].path == tmp_path / "root" / "pdf"


def test_d65_a_file_that_leads_out_of_every_root_is_left_out(tmp_path: Path, caplog: Log) -> None:
    secret = write_skill(tmp_path / "elsewhere", "pdf")
    root = tmp_path / "root"
    (root / "pdf").mkdir(parents=True)
    (root / "pdf" / "SKILL.md").symlink_to(secret / "SKILL.md")
    assert "leads out of every skills root" in only_reason(load(root), caplog)


def test_d65_a_chain_of_links_counts_by_its_end(tmp_path: Path, caplog: Log) -> None:
    secret = write_skill(tmp_path / "elsewhere", "pdf")
    root = tmp_path / "root"
    (root / ".hidden").mkdir(parents=True)
    (root / ".hidden" / "step").symlink_to(secret)
    (root / "pdf").symlink_to(Path(".hidden", "step"))
    assert "leads out of every skills root" in only_reason(load(root), caplog)


def test_d65_a_neighbour_whose_name_begins_like_a_root_is_outside(tmp_path: Path, caplog: Log) -> None:
    other = write_skill(tmp_path / "root-of-others", "pdf")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "pdf").symlink_to(other)
    assert "leads out" in only_reason(load(tmp_path / "root"), caplog)


def test_d65_links_inside_a_root_and_between_roots_are_followed(tmp_path: Path, caplog: Log) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    shared = write_skill(b / ".shared", "pdf", body="shared")
    stored = write_skill(b / ".shared", "zip", body="stored")
    a.mkdir()
    (a / "pdf").symlink_to(shared)
    (b / "zip").mkdir()
    (b / "zip" / "SKILL.md").symlink_to(Path("..", ".shared", "zip", "SKILL.md"))
    store = load_skills(global_dir=b, workspace_dir=a)
    assert {skill.name: (skill.body, skill.source, skill.skill_dir) for skill in store.list_skills()} == {
        "pdf": ("shared", "workspace", shared),
        "zip": ("stored", "global", b / "zip"),
    }
    assert stored != b / "zip"
    assert caplog.records == []


def test_the_files_beside_a_linked_skill_can_be_read_by_tools(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    (write_skill(home / ".shared", "pdf") / "forms.md").write_text("how to")
    root = workspace / ".holdfast" / "skills"
    root.mkdir(parents=True)
    (root / "pdf").symlink_to(home / ".shared" / "pdf")
    store = load_roots([SkillRoot(home, "global"), SkillRoot(root, "workspace")], workspace=workspace)
    (skill,) = store.list_skills()
    assert skill.source == "workspace"
    files = Workspace(workspace, readable=[skill.skill_dir])
    with files.open_read(str(skill.skill_dir / "forms.md"), outside=True) as file:
        assert file.read() == b"how to"


@pytest.mark.parametrize("target", ["gone", "loop"])
@pytest.mark.parametrize("what", ["directory", "file"])
def test_d65_a_link_that_leads_nowhere_is_a_warning(tmp_path: Path, caplog: Log, what: str, target: str) -> None:
    write_skill(tmp_path, "zip")
    at = tmp_path / "loop" if what == "directory" else write_file(tmp_path / "pdf", "", file="other") / "SKILL.md"
    at.symlink_to(at.name if target == "loop" else target)
    store = load(tmp_path)
    assert names(store) == ["zip"]
    reason = only_reason(store, caplog)
    assert ("leads nowhere" if target == "gone" else "symbolic links") in reason
    assert store.skipped[0].path == at


def test_hidden_links_are_not_looked_at(tmp_path: Path, caplog: Log) -> None:
    (tmp_path / ".old").symlink_to("/etc")
    (tmp_path / ".gone").symlink_to("gone")
    assert len(load(tmp_path)) == 0
    assert caplog.records == []


@pytest.mark.parametrize("swapped", ["directory", "file"])
def test_d65_a_link_swapped_in_after_the_check_leads_nowhere(
    tmp_path: Path, caplog: Log, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    secret = write_skill(tmp_path / "elsewhere", "pdf", body="secret")
    root = tmp_path / "root"
    skill_dir = write_skill(root, "pdf", body="mine")
    real = loader.read_bytes

    def swap(base: Path, path: Path) -> bytes:
        if swapped == "directory":
            skill_dir.rename(tmp_path / "moved")
            skill_dir.symlink_to(secret)
        else:
            path.unlink()
            path.symlink_to(secret / "SKILL.md")
        return real(base, path)

    monkeypatch.setattr(loader, "read_bytes", swap)
    store = load(root)
    assert len(store) == 0
    assert "cannot be read" in only_reason(store, caplog)


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="directories above a root are followed where there is no O_PATH")
def test_d65_a_link_swapped_in_above_a_root_leads_nowhere(
    tmp_path: Path, caplog: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "elsewhere" / "skills", "pdf", body="secret")
    above = tmp_path / "above"
    write_skill(above / "skills", "pdf", body="mine")
    real = loader.read_bytes

    def swap(base: Path, path: Path) -> bytes:
        above.rename(tmp_path / "moved")
        above.symlink_to(tmp_path / "elsewhere")
        return real(base, path)

    monkeypatch.setattr(loader, "read_bytes", swap)
    store = load(above / "skills")
    assert len(store) == 0
    assert "cannot be read" in only_reason(store, caplog)


def test_a_root_may_be_a_link(tmp_path: Path, caplog: Log) -> None:
    skill_dir = write_skill(tmp_path / "real", "pdf")
    (tmp_path / "root").symlink_to("real")
    store = load(tmp_path / "root")
    assert [skill.skill_dir for skill in store.list_skills()] == [skill_dir]
    assert caplog.records == []


def test_a_root_inside_the_workspace_must_not_lead_out_of_it(tmp_path: Path, caplog: Log) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    write_skill(outside, "pdf")
    (workspace / ".holdfast").mkdir(parents=True)
    (workspace / ".holdfast" / "skills").symlink_to(outside)
    store = skill_store_factory(SkillsSettings(roots=(".holdfast/skills",)), workspace)()
    assert len(store) == 0
    assert (
        only_reason(store, caplog)
        == f"it leads out of the workspace; if that is wanted, put {outside} into skills.roots"
    )
    caplog.clear()
    # ... and what the message says helps.
    store = skill_store_factory(SkillsSettings(roots=(".holdfast/skills", str(outside))), workspace)()
    assert names(store) == ["pdf"]
    assert caplog.records == []


def test_links_out_of_the_workspace_do_not_vouch_for_one_another(tmp_path: Path, caplog: Log) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    write_skill(outside / "below", "pdf")
    workspace.mkdir()
    (workspace / "a").symlink_to(outside)
    (workspace / "b").symlink_to(outside / "below")
    (workspace / "good").mkdir()
    (workspace / "good" / "pdf").symlink_to(outside / "below" / "pdf")
    store = skill_store_factory(SkillsSettings(roots=("a", "b", "good")), workspace)()
    assert len(store) == 0
    assert len(store.skipped) == len(caplog.records) == 3


def test_a_workspace_may_be_reached_through_a_link(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path / "real" / "skills", "pdf")
    (tmp_path / "workspace").symlink_to("real")
    for workspace in (tmp_path / "workspace", tmp_path / "real"):
        assert names(skill_store_factory(SkillsSettings(roots=("skills",)), workspace)()) == ["pdf"]
    assert names(
        load_roots([SkillRoot(tmp_path / "real" / "skills", "workspace")], workspace=tmp_path / "workspace")
    ) == ["pdf"]
    assert caplog.records == []


def test_the_same_directory_twice_counts_once_and_for_the_workspace(tmp_path: Path, caplog: Log) -> None:
    caplog.set_level(logging.INFO, logger="holdfast.skills")
    root = tmp_path / "skills"
    write_skill(root, "pdf")
    write_file(root / "broken", "x")
    (tmp_path / "alias").symlink_to(root)
    for paths in ((root, root), (root, tmp_path / "alias"), (tmp_path / "alias", root / ".." / "skills")):
        caplog.clear()
        notices.forget()
        store = load_roots(
            [SkillRoot(paths[0], "global"), SkillRoot(paths[1], "workspace"), SkillRoot(paths[1], "global")]
        )
        assert [(skill.name, skill.source) for skill in store.list_skills()] == [("pdf", "workspace")]
        assert store.shadowed == ()
        assert len(store.skipped) == len(caplog.records) == 1  # the broken one, once


def test_a_directory_of_both_levels_keeps_its_place_among_those_of_the_workspace(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_skill(first, "pdf", body="first")
    write_skill(second, "pdf", body="second")
    store = load_roots([SkillRoot(second, "global"), SkillRoot(first, "workspace"), SkillRoot(second, "workspace")])
    assert [(skill.body, skill.source) for skill in store.list_skills()] == [("first", "workspace")]


def test_links_are_judged_by_all_of_many_roots(tmp_path: Path, caplog: Log) -> None:
    roots = [tmp_path / f"root-{number}" for number in range(300)]
    for root in roots:
        root.mkdir()
    write_skill(tmp_path / "outside", "zip")
    (roots[0] / "pdf").symlink_to(write_skill(roots[-1] / ".shared", "pdf"))
    (roots[0] / "zip").symlink_to(tmp_path / "outside" / "zip")
    (tmp_path / "root-0" / "all").symlink_to(roots[-1])
    write_file(roots[-1], skill_text(name="all", description="The root itself."))
    store = load_roots([SkillRoot(root, "workspace") for root in roots], workspace=tmp_path)
    assert names(store) == ["all", "pdf"]
    assert "leads out of every skills root" in only_reason(store, caplog)


def test_roots_may_contain_one_another(tmp_path: Path, caplog: Log) -> None:
    caplog.set_level(logging.INFO, logger="holdfast.skills")
    outer, inner = tmp_path, tmp_path / "team"
    write_skill(outer, "pdf")
    write_skill(inner, "zip")
    (outer / "zip").symlink_to(inner / "zip")  # the same directory by two ways
    (inner / "self").symlink_to(".")
    for roots in ([outer, inner], [inner, outer]):
        store = load_roots([SkillRoot(path, "global") for path in roots])
        assert names(store) == ["pdf", "zip"]
        assert store.shadowed == store.skipped == ()
        assert caplog.records == []


def test_a_link_under_another_name_is_another_skill_and_its_name_is_wrong(tmp_path: Path, caplog: Log) -> None:
    write_skill(tmp_path, "pdf")
    (tmp_path / "forms").symlink_to("pdf")
    store = load(tmp_path)
    assert names(store) == ["pdf"]
    assert "the directory is 'forms'" in only_reason(store, caplog)


def test_nothing_is_left_open(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf")
    write_file(tmp_path / "broken", b"\xff")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    for _ in range(20):
        load(tmp_path)
    after = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0  # noqa: PTH208
    assert after == before
