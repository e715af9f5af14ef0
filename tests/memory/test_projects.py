"""A project is the repository that a directory stands in, or the directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.memory.ids import project_of


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = (tmp_path / "home").resolve()
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    return place


def made(place: Path, *, git: str = "") -> Path:
    place.mkdir(parents=True, exist_ok=True)
    if git == "directory":
        (place / ".git").mkdir()
    elif git == "file":
        (place / ".git").write_text("gitdir: ../elsewhere/.git/worktrees/here\n")
    return place


@pytest.mark.parametrize("git", ["directory", "file"])
def test_all_of_a_repository_is_one_project(home: Path, git: str) -> None:
    top = made(home / "shop", git=git)
    assert project_of(top) == top
    assert project_of(made(top / "src" / "deep")) == top


def test_the_nearest_repository_counts(home: Path) -> None:
    made(home / "shop", git="directory")
    inner = made(home / "shop" / "vendor" / "part", git="file")
    assert project_of(made(inner / "src")) == inner


def test_without_a_repository_a_directory_is_its_own_project(home: Path) -> None:
    assert project_of(made(home / "notes" / "deep")) == home / "notes" / "deep"


def test_a_home_that_is_a_repository_is_nobodys_project_but_its_own(home: Path) -> None:
    made(home, git="directory")
    made(home.parent, git="directory")
    assert project_of(made(home / "notes")) == home / "notes"
    assert project_of(home) == home
    assert project_of(made(home.parent / "beside" / "deep")) == home.parent


def test_a_way_there_by_a_link_is_the_same_project(home: Path) -> None:
    top = made(home / "shop", git="directory")
    (home / "link").symlink_to(made(top / "src"))
    assert project_of(home / "link") == top
