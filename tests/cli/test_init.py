"""`holdfast init`: what it writes, what it leaves alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import cli
from holdfast.config import KEYS, SECTIONS, load, load_config
from holdfast.config.document import DEFAULT
from holdfast.config.file_writer import FIRST, as_toml

KEY = re.compile(r"^#(?=\w+ = )", re.MULTILINE)


def init(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["init", *arguments])


@pytest.mark.parametrize("workspace", [True, False])
def test_as_it_is_nothing_is_set_and_without_the_marks_everything_is_as_before(tmp_path: Path, workspace: bool) -> None:
    place, empty = tmp_path / "place", tmp_path / "empty"
    place.mkdir()
    where = {"workspace": place, "home": empty} if workspace else {"workspace": empty, "home": place}
    text = as_toml(workspace=workspace)
    (place / "holdfast.toml").write_text(text, encoding="utf-8")
    config = load(**where, environ={"HOME": str(tmp_path)})
    assert {value.origin for value in config.values().values()} == {DEFAULT}
    (place / "holdfast.toml").write_text(KEY.sub("", text), encoding="utf-8")
    all_set = load(**where, environ={"HOME": str(tmp_path)})
    assert all_set.settings == config.settings
    named = {name for name, value in all_set.values().items() if value.origin != DEFAULT}
    assert named == {name for name, key in KEYS.items() if not (workspace and key.guarded)}


def test_every_section_and_key_says_what_it_means() -> None:
    text = as_toml(workspace=False)
    words = " ".join(re.sub(r"^# ?", "", text, flags=re.MULTILINE).split())
    for section, meaning in SECTIONS.items():
        assert f"[{section}]" in text
        assert " ".join(meaning.split()) in words
    for key in KEYS.values():
        assert " ".join(key.description.split()) in words, key.name
    assert max(map(len, as_toml(workspace=True).splitlines())) <= 160
    assert set(FIRST) <= set(KEYS)


def test_it_says_what_it_wrote_and_never_overwrites(workspace: Path) -> None:
    done = init()
    assert done.exit_code == 0
    assert "Wrote holdfast.toml" in done.output
    assert "holdfast doctor" in done.output
    assert load_config().files == (str(workspace / "holdfast.toml"),)
    (workspace / "holdfast.toml").write_text("# mine\n")
    assert "--force" in str(init().exception)
    assert (workspace / "holdfast.toml").read_text() == "# mine\n"
    assert init("--force").exit_code == 0
    assert (workspace / "holdfast.toml").read_text() == as_toml(workspace=True)
    assert [path.name for path in workspace.iterdir()] == ["holdfast.toml"]


def test_global_is_in_the_home(workspace: Path) -> None:
    assert init("--global").exit_code == 0
    assert (workspace / "home" / ".holdfast" / "holdfast.toml").read_text() == as_toml(workspace=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--path", "nowhere"), "cannot be written"),
        (("--path", "file"), "cannot be written"),
        (("--path", "taken"), "is a directory"),
        (("--path", ".", "--global"), "choose one"),
    ],
)
def test_what_cannot_be_written_is_an_error_that_says_so(
    workspace: Path, arguments: tuple[str, ...], said: str
) -> None:
    (workspace / "file").write_text("")
    (workspace / "taken" / "holdfast.toml").mkdir(parents=True)
    done = init(*arguments)
    assert done.exit_code in (1, 2)
    assert said in done.output + str(done.exception)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_directory_without_the_right_to_write(workspace: Path) -> None:
    (workspace / "locked").mkdir(mode=0o500)
    assert "cannot be written" in str(init("--path", "locked").exception)


def test_who_may_read_the_file_stays_as_it_was(workspace: Path) -> None:
    file = workspace / "holdfast.toml"
    file.write_text("x = 1")
    file.chmod(0o600)
    assert init("--force").exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_system_without_links(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert init().exit_code == 0
    assert (workspace / "holdfast.toml").read_text() == as_toml(workspace=True)
    assert init().exit_code == 1
    assert [each.name for each in workspace.glob("*.toml*")] == ["holdfast.toml"]
