"""`holdfast memory export` and `import`: files that come back as they were, and files that are none."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.memory import command, texts
from holdfast.memory.knowledge import Knowledge
from holdfast.store import open_store
from tests.cli.commands import holdfast, piped, refused
from tests.cli.knowledge import entries, entry, remember

pytestmark = pytest.mark.usefixtures("utc")


def test_what_is_exported_is_imported_elsewhere(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(workspace, "Ünïcode", "A line.\n\n## Not a heading\n- id: none", category="gotcha", confidence=0.3)
    remember(workspace, "Everywhere", everywhere=True)
    remember(workspace, "Elsewhere", project="other")
    assert "Wrote 2 entries to notes.md." in piped(command, "export", "notes.md")
    assert "Wrote 3 entries" in piped(command, "export", "notes.md", "--all-projects")
    before = [(each.id, each.title, each.content, each.project, each.confidence) for each in entries(workspace)]
    assert "Imported: 3 unchanged." in piped(command, "import", "notes.md")
    monkeypatch.setenv("HOLDFAST_STORE_URL", f"sqlite:///{workspace / 'fresh.db'}")
    assert "would be: 3 added" in piped(command, "import", "notes.md", "--dry-run")
    assert not (workspace / "fresh.db").exists()
    assert "Imported: 3 added." in piped(command, "import", "notes.md")
    with open_store(workspace / "fresh.db") as store:
        after = Knowledge(store, "local").entries(projects="all")
    assert [(each.id, each.title, each.content, each.project, each.confidence) for each in after] == before
    assert list(workspace.glob(".notes*")) == []


def test_a_pipe_gets_it_to_the_byte(workspace: Path) -> None:
    remember(workspace, "Ünïcode")
    piped(command, "export", "notes.md")
    text = (workspace / "notes.md").read_bytes()
    assert CliRunner().invoke(command, ["export"]).stdout_bytes == text
    done = CliRunner().invoke(command, ["import", "-"], input=text)
    assert "1 unchanged" in done.output


def test_a_dry_run_shows_what_would_change(workspace: Path) -> None:
    id_ = remember(workspace, "Title", "Old text.")
    gone = remember(workspace, "Gone")
    piped(command, "export", "notes.md")
    piped(command, "forget", gone, "--yes")
    text = (workspace / "notes.md").read_text().replace("Old text.", "New text.")
    (workspace / "notes.md").write_text(text + "\n## A new one\n\nIts text.\n")
    lines = piped(command, "import", "notes.md", "--dry-run").splitlines()
    assert f"change {id_}: Title" in lines
    assert any(line.startswith(f"restore {gone}: Gone (changed here ") for line in lines)
    assert f"add: A new one ({workspace.resolve()})" in lines
    assert {"  - Old text.", "  + New text."} <= set(lines)
    assert entry(workspace, id_).content == "Old text."
    assert len(entries(workspace)) == 2
    planned = json.loads(piped(command, "import", "notes.md", "--dry-run", "--json"))
    assert (planned["added"], planned["changed"], planned["newer"]) == ([None], [id_], [gone])
    told = json.loads(piped(command, "import", "notes.md", "--json", "--force"))
    assert (len(told["added"]), told["changed"], told["restored"]) == (1, [id_], [gone])
    assert entry(workspace, id_).content == "New text."


def test_what_was_changed_after_the_file_is_not_undone(workspace: Path) -> None:
    id_, other = remember(workspace, "Title", "Old text."), remember(workspace, "Other", "Old text.")
    piped(command, "export", "notes.md")
    piped(command, "edit", id_, "--content", "Newer text.")
    text = (workspace / "notes.md").read_text().replace("Other\n", "Another\n")
    (workspace / "notes.md").write_text(text)
    out = piped(command, "import", "notes.md", "--dry-run")
    [late] = [line for line in out.splitlines() if "after the file" in line and id_ in line]
    assert late.startswith(f"change {id_}: Title (changed here ")
    assert "1 entry changed after the file was written: that needs --force." in " ".join(out.split())
    said = refused("memory", "import", "notes.md")
    assert id_ in said
    assert other not in said
    assert "--force" in said
    assert (entry(workspace, id_).content, entry(workspace, other).title) == ("Newer text.", "Other")
    piped(command, "import", "notes.md", "--force")
    assert (entry(workspace, id_).content, entry(workspace, other).title) == ("Old text.", "Another")


def test_a_file_may_be_edited_and_imported_again_and_again(workspace: Path) -> None:
    id_ = remember(workspace, "Title", "Old text.")
    piped(command, "export", "notes.md")
    for before, after in (("Old text.", "New text."), ("New text.", "Newest text.")):
        text = (workspace / "notes.md").read_text().replace(before, after)
        (workspace / "notes.md").write_text(text)
        piped(command, "import", "notes.md")
        assert entry(workspace, id_).content == after


def test_all_that_is_wrong_with_a_file_is_said_at_once(workspace: Path) -> None:
    (workspace / "notes.md").write_text(
        "# Holdfast memory\n\n## One\n\n- confidence: many\n- colour: red\n\nText.\n\n"
        "## Two\n\n## Three\n\n- id: x\n\nText.\n"
    )
    said = refused("memory", "import", "notes.md")
    assert re.findall(r"line \d+", said) == ["line 5", "line 6", "line 10", "line 14"]
    (workspace / "notes.md").write_text("# Holdfast memory\n" + "\n## No text\n" * 30)
    said = refused("memory", "import", "notes.md")
    assert len(re.findall(r"line \d+", said)) == 20
    assert "and 10 more" in said


def test_one_wrong_entry_and_nothing_is_imported(workspace: Path) -> None:
    id_ = remember(workspace, "Title", "Old text.")
    piped(command, "export", "notes.md")
    text = (workspace / "notes.md").read_text().replace("Old text.", "New text.")
    (workspace / "notes.md").write_text(text + "\n## Another\n\n- confidence: 7\n\nText.\n")
    assert "line" in refused("memory", "import", "notes.md")
    assert entry(workspace, id_).content == "Old text."


def test_files_that_are_none(workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "latin").write_bytes("# Holdfast memory\n\n## é".encode("latin-1"))
    (workspace / "other.md").write_text("# Something else\n")
    assert "folder cannot be read" in refused("memory", "import", "folder")
    assert "folder cannot be written" in refused("memory", "export", "folder")
    assert "nowhere/notes.md cannot be written" in refused("memory", "export", "nowhere/notes.md")
    assert "missing.md cannot be read" in refused("memory", "import", "missing.md")
    assert "latin is not UTF-8" in refused("memory", "import", "latin")
    assert "no export of memory" in refused("memory", "import", "other.md")
    assert "cannot be read" in refused("memory", "import", "a\x1b\x00b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_files_without_permission(workspace: Path) -> None:
    (workspace / "closed").mkdir(mode=0o500)
    (workspace / "secret.md").write_text("# Holdfast memory\n")
    (workspace / "secret.md").chmod(0)
    assert "Permission denied" in refused("memory", "import", "secret.md")
    assert "Permission denied" in refused("memory", "export", "closed/notes.md")


def test_a_file_that_is_too_large_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MOST_BYTES", 1_000_000)
    (workspace / "large.md").write_text("# Holdfast memory\n" + "x" * 1_000_001)
    assert "more than 1 MB" in refused("memory", "import", "large.md")


@pytest.mark.slow
def test_standard_output_may_be_named_as_a_file(workspace: Path) -> None:
    remember(workspace, "Title")
    plain, named = (
        holdfast("memory", "export", *more, cwd=workspace, HOME=str(workspace / "home"))
        for more in ([], ["/dev/stdout"])
    )
    assert "## Title" in plain.stdout
    assert (named.returncode, named.stdout) == (0, plain.stdout)
    assert "Wrote 1 entry" in named.stderr


def test_a_link_keeps_leading_to_its_file(workspace: Path) -> None:
    (workspace / "link.md").symlink_to("real.md")
    remember(workspace, "Title")
    piped(command, "export", "link.md")
    assert (workspace / "link.md").is_symlink()
    assert "Title" in (workspace / "real.md").read_text()


def test_a_new_file_is_private_and_one_that_is_there_keeps_its_mode(workspace: Path) -> None:
    remember(workspace, "Title")
    (workspace / "shared.md").write_text("before")
    (workspace / "shared.md").chmod(0o644)
    for name, mode in (("shared.md", 0o644), ("new.md", 0o600)):
        piped(command, "export", name)
        assert (workspace / name).stat().st_mode & 0o777 == mode
        assert "Title" in (workspace / name).read_text()
