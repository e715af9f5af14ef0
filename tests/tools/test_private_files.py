"""Where offloaded results are kept: disks that are full, links that lead elsewhere."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import OffloadSettings
from holdfast.records import Image, Text
from holdfast.tools import safe_files
from holdfast.tools.offload import Offloader, directory_of, is_reference
from holdfast.tools.safe_files import write_private
from tests.tools.offloads import names, numbered, only, stays, stored, tool


@pytest.fixture
def offloader(tmp_path: Path) -> Offloader:
    return Offloader(OffloadSettings(), tmp_path / "offload" / "session")


# When it cannot be written


def blocked(offloader: Offloader) -> None:
    offloader.directory.parent.mkdir(parents=True, exist_ok=True)
    offloader.directory.write_text("a file is in the way")


def test_what_cannot_be_saved_stays_whole_up_to_the_hard_cap(
    offloader: Offloader, caplog: pytest.LogCaptureFixture
) -> None:
    blocked(offloader)
    for _ in range(3):
        assert stays(offloader, tool(), Text("x" * 100_000))
    assert len(caplog.records) == 1  # said once
    assert str(offloader.directory) in caplog.text


def test_beyond_the_hard_cap_it_is_cut_and_says_so(offloader: Offloader) -> None:
    blocked(offloader)
    text = numbered(1_000_000)
    blocks, gone = offloader.store(tool(), "t", (Text(text), Image("image/png", "A" * 90_000)))
    cut = only(blocks)
    assert gone is None
    assert not is_reference(cut)
    assert 99_000 < len(cut) <= 100_000
    first, _, shown = cut.partition("\n")
    assert first == (
        "This result of run_command is too long to be shown, 1090000 characters, and could not be saved to disk "
        "(Not a directory). Only a part of it follows; ask for less at a time to see the rest."
    )
    assert shown.startswith(text[:70_000])
    assert shown.endswith(text[-20_000:] + "\n[image/png left out here]")


def test_a_hard_cap_smaller_than_the_sentence_leaves_the_sentence(tmp_path: Path) -> None:
    offloader = Offloader(OffloadSettings(hard_cap_chars=10), tmp_path / "x")
    blocked(offloader)
    blocks, gone = offloader.store(tool(), "t", (Text("x" * 1_000),))
    assert gone is None
    assert "could not be saved" in only(blocks)
    assert "xxx" not in only(blocks)


def test_a_full_disk_loses_nothing_and_leaves_nothing_half_written(
    offloader: Offloader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, path = stored(offloader, "saved " * 3_000)

    def full(*arguments: object, **members: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(safe_files.os, "rename", full)
    assert stays(offloader, tool(), Text("x" * 9_000))
    blocks, gone = offloader.store(tool(), "t", (Text("x" * 200_000),))
    assert gone is None
    assert "(No space left on device)" in only(blocks)
    assert names(offloader.directory) == [path.name]
    assert stored(offloader, "saved " * 3_000) == (reference, path)  # what is there already needs no room


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_device_that_takes_no_byte_loses_nothing(offloader: Offloader, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_CREAT:
            return real("/dev/full", os.O_WRONLY)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(safe_files.os, "open", full)
    assert stays(offloader, tool(), Text("x" * 50_000))


@pytest.mark.parametrize("name", ["nul\x00", "n" * 300, "\udcff"], ids=["nul", "too long", "not unicode"])
def test_a_directory_that_cannot_be_is_no_error(tmp_path: Path, name: str) -> None:
    assert stays(Offloader(OffloadSettings(), tmp_path / name), tool(), Text("x" * 9_000))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_not_used(offloader: Offloader) -> None:
    offloader.directory.mkdir(parents=True)
    os.chown(offloader.directory, 12_345, 12_345)
    assert stays(offloader, tool(), Text("x" * 9_000))
    assert not names(offloader.directory)


# Symlinks


def test_a_directory_that_is_a_symlink_is_not_used(offloader: Offloader, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    (elsewhere / "precious").write_text("stays")
    offloader.directory.parent.mkdir(parents=True)
    offloader.directory.symlink_to(elsewhere)
    assert stays(offloader, tool(), Text("x" * 9_000))
    assert names(elsewhere) == ["precious"]
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
    offloader.directory.unlink()
    offloader.directory.symlink_to(tmp_path / "nowhere")
    assert stays(offloader, tool(), Text("x" * 9_000))
    assert not (tmp_path / "nowhere").exists()


def test_what_stands_in_the_place_of_the_file_is_replaced_and_never_followed(
    offloader: Offloader, tmp_path: Path
) -> None:
    text = "x" * 9_000
    reference, path = stored(offloader, text)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    twin = tmp_path / "twin"
    twin.write_text(text)
    twin.chmod(0o600)

    def symlink() -> None:
        path.symlink_to(victim)

    def symlink_to_the_same() -> None:
        path.symlink_to(twin)

    def hard_link() -> None:
        path.hardlink_to(twin)

    def pipe() -> None:
        os.mkfifo(path)

    def changed() -> None:
        path.write_text("y" * 9_000)
        path.chmod(0o600)

    def open_to_all() -> None:
        path.write_text(text)
        path.chmod(0o644)

    for place in (symlink, symlink_to_the_same, hard_link, pipe, changed, open_to_all):
        path.unlink()
        place()
        assert stored(offloader, text) == (reference, path)
        assert path.is_file()
        assert not path.is_symlink()
        assert path.read_text() == text
        assert path.stat().st_nlink == 1
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert victim.read_text() == "precious"


def test_a_directory_in_the_place_of_the_file_is_no_error(offloader: Offloader) -> None:
    _, path = stored(offloader, "x" * 9_000)
    path.unlink()
    path.mkdir()
    assert stays(offloader, tool(), Text("x" * 9_000))


def test_results_stored_side_by_side_are_all_whole(offloader: Offloader) -> None:
    texts = [f"{number} " * 5_000 for number in range(4)]
    seen: list[tuple[str, Path, str]] = []

    def work() -> None:
        for text in texts:
            seen.append((*stored(offloader, text), text))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 16
    assert len({(reference, path) for reference, path, _ in seen}) == 4
    assert all(path.read_text() == text for _, path, text in seen)
    assert len(names(offloader.directory)) == 4


# Sessions


def test_every_session_has_a_directory_of_its_own(tmp_path: Path) -> None:
    sessions = ["s", "S!", "../s", "", "a" * 900, "s/../s", "\ud800"]
    directories = {directory_of(tmp_path, session, tenant) for session in sessions for tenant in ("", "t")}
    assert len(directories) == 2 * len(sessions)
    assert all(directory.parent == tmp_path / "offload" for directory in directories)
    first = next(iter(directories)).name
    assert directory_of(tmp_path, first) not in directories  # a session cannot name itself into another's


def test_private_files_are_written_as_a_whole(tmp_path: Path) -> None:
    write_private(tmp_path / "a" / "b", {"x": b"1", "y": b""})
    assert {path.name: path.read_bytes() for path in (tmp_path / "a" / "b").iterdir()} == {"x": b"1", "y": b""}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
