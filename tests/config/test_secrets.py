"""Secrets of an installation: made once, for this user only, the same for everybody who asks."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from holdfast.config.private_home import secret
from holdfast.errors import HoldfastError


def test_made_on_first_use_and_kept(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    made = secret(home, "admin-token")
    assert len(made) >= 40
    assert secret(home, "admin-token") == made
    assert secret(home, "access-key") != made
    assert sorted(path.name for path in home.iterdir()) == ["access-key", "admin-token"]
    assert stat.S_IMODE((home / "admin-token").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_all_who_begin_at_once_agree(tmp_path: Path) -> None:
    found: list[str] = []
    together = threading.Barrier(8)

    def ask() -> None:
        together.wait()
        found.append(secret(tmp_path, "tenant-key"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (8, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["tenant-key"]


def test_a_file_that_others_could_read_is_closed(tmp_path: Path) -> None:
    (tmp_path / "access-key").write_text("chosen-by-the-user-1234\n")
    (tmp_path / "access-key").chmod(0o644)
    assert secret(tmp_path, "access-key") == "chosen-by-the-user-1234"
    assert stat.S_IMODE((tmp_path / "access-key").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "\n", "short", "with spaces in between it", "späte-schlüssel-sind-lang"])
def test_what_is_no_secret(tmp_path: Path, text: str) -> None:
    (tmp_path / "access-key").write_text(text)
    with pytest.raises(HoldfastError, match="access-key holds no secret; remove the file") as problem:
        secret(tmp_path, "access-key")
    assert not text.strip() or text not in str(problem.value).replace(str(tmp_path), "")


def test_what_cannot_be_read_or_made(tmp_path: Path) -> None:
    (tmp_path / "admin-token").mkdir()
    with pytest.raises(HoldfastError, match="admin-token cannot be used"):
        secret(tmp_path, "admin-token")
    (tmp_path / "file").write_text("x")
    with pytest.raises(HoldfastError, match="HOLDFAST_HOME"):
        secret(tmp_path / "file", "admin-token")
    (tmp_path / "tenant-key").write_bytes(b"\xff" * 40)
    with pytest.raises(HoldfastError, match="it is not text"):
        secret(tmp_path, "tenant-key")
