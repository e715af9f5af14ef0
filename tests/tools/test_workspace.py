"""Nothing leads out of a workspace: no link at any component, no `..`, no swap between the check and the opening."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.tools import safe_files
from holdfast.tools.contract import ToolExecutionError
from holdfast.tools.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.txt").write_text("a")
    return root


@pytest.mark.parametrize("path", ["src/a.txt", "./src/../src/a.txt", "src//a.txt", "src/./a.txt"])
def test_what_is_inside_is_found(root: Path, path: str) -> None:
    work = Workspace(root)
    assert work.resolve(path, "write") == root / "src" / "a.txt"
    with work.open_read(path) as file:
        assert file.read() == b"a"


def test_absolute_paths_count_by_where_they_lead(root: Path) -> None:
    work = Workspace(root)
    assert work.resolve(str(root / "src" / "a.txt"), "read") == root / "src" / "a.txt"
    assert work.resolve(".", "read") == root
    assert work.resolve("new/file", "write") == root / "new" / "file"


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret",
        "src/../../outside/secret",
        "/etc/passwd",
        "/",
        "missing/../../outside/secret",
        "//etc/passwd",
        "~",
        "~/.ssh/id_rsa",
        "/proc/self/root/etc/passwd",
        "/dev/null",
        "/dev/zero",
    ],
)
@pytest.mark.parametrize("access", ["read", "write"])
def test_what_is_outside_is_refused(root: Path, path: str, access: Any) -> None:
    work = Workspace(root)
    with pytest.raises(ToolExecutionError, match="is outside the workspace; give a path relative to the workspace"):
        work.resolve(path, access, outside=True)
    with pytest.raises(ToolExecutionError, match="is outside the workspace"):
        work.open_read(path)
    with pytest.raises(ToolExecutionError, match="is outside the workspace"):
        work.write(path, b"x")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "is empty"),
        ("a\0b", "zero byte"),
        ("\ud800", "not valid Unicode"),
        ("x" * 5_000, "too long"),
        ("x" * 300, "File name too long"),
        ("/".join(["d"] * 3_000), "too long"),
        ("src/a.txt/b", "Not a directory"),
    ],
)
def test_what_is_no_path_is_said_so(root: Path, path: str, why: str) -> None:
    with pytest.raises(ToolExecutionError, match=why) as raised:
        Workspace(root).write(path, b"")
    assert len(str(raised.value)) < 400
    assert str(raised.value).isprintable()


def test_the_home_directory_may_hold_the_workspace(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    assert Workspace(root).resolve(f"~/{root.name}/src/a.txt", "read") == root / "src" / "a.txt"
    (root / "~x").write_text("tilde")
    assert Workspace(root).resolve("~x", "read") == root / "~x"


def links_out(root: Path) -> list[str]:
    (root / "file").symlink_to(root.parent / "outside" / "secret")
    (root / "directory").symlink_to(root.parent / "outside")
    (root / "dangling").symlink_to(root.parent / "outside" / "new")
    (root / "relative").symlink_to("../outside/secret")
    (root / "root").symlink_to("/")
    (root / "first").symlink_to("second")
    (root / "second").symlink_to("directory")
    (root / "src" / "up").symlink_to("..")
    chain = ["first/secret", "src/up/directory/secret", "src/up/../outside/secret"]
    return ["file", "directory/secret", "dangling", "relative", "root/etc/passwd", *chain]


def test_links_that_lead_out_are_refused(root: Path) -> None:
    work = Workspace(root)
    for path in links_out(root):
        for attempt in (work.open_read, lambda path: work.write(path, b"x"), lambda path: work.resolve(path, "read")):
            with pytest.raises(ToolExecutionError, match="workspace"):
                attempt(path)
    with pytest.raises(ToolExecutionError, match="leads out of the workspace through a link"):
        work.resolve("file", "read")
    assert (root.parent / "outside" / "secret").read_text() == "secret"
    assert not (root.parent / "outside" / "new").exists()


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    (root / "link").symlink_to("src/a.txt")
    (root / "later").symlink_to("src/later.txt")
    work = Workspace(root)
    with work.open_read("link") as file:
        assert file.read() == b"a"
    work.write("later", b"new")
    assert (root / "later").is_symlink()
    assert (root / "src" / "later.txt").read_bytes() == b"new"


def test_links_that_go_round_in_circles(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    for path in ("a", "a/x"):
        with pytest.raises(ToolExecutionError, match="cannot be used"):
            Workspace(root).resolve(path, "read")


def test_a_root_that_is_a_link_and_lies_behind_links(root: Path) -> None:
    (root.parent / "parents").symlink_to(root.parent, target_is_directory=True)
    (root.parent / "link").symlink_to(root.parent / "parents" / "work", target_is_directory=True)
    work = Workspace(root.parent / "link")
    assert work.root == root
    assert work.resolve(str(root.parent / "link" / "src" / "a.txt"), "read") == root / "src" / "a.txt"
    assert work.relative(root.parent / "link" / "src") == "src"
    with pytest.raises(ToolExecutionError, match="outside"):
        work.resolve(str(root.parent / "link" / ".." / "outside" / "secret"), "read")
    with work.open_read("src/a.txt") as file:
        assert file.read() == b"a"


def test_a_workspace_has_to_be_a_directory(root: Path) -> None:
    for path in (root / "missing", root / "src" / "a.txt", Path("a\0b")):
        with pytest.raises(HoldfastError, match="workspace"):
            Workspace(path)


def test_pipes_sockets_and_devices_are_refused_and_hold_nobody_up(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "s"))
        work = Workspace(root)
        for path in ("pipe", "s"):
            with pytest.raises(ToolExecutionError, match=r"it is a (pipe|socket)"):
                work.open_read(path)
            with pytest.raises(ToolExecutionError, match=r"it is a (pipe|socket)"):
                work.write(path, b"x")
    with pytest.raises(OSError, match="it is a pipe, not a file"):  # put there after the check
        safe_files.open_file(root, ("pipe",))
    with pytest.raises(OSError, match=r"pipe|No such device"):
        safe_files.put_file(root, ("pipe",), b"x")
    with pytest.raises(OSError, match="it is a device, not a file"):
        safe_files.open_file(Path("/dev"), ("zero",))


def test_directories_are_not_read_or_written_as_files(root: Path) -> None:
    work = Workspace(root)
    for path in (".", "src"):
        with pytest.raises(ToolExecutionError, match="directory"):
            work.open_read(path)
        with pytest.raises(ToolExecutionError, match="directory"):
            work.write(path, b"x")
    assert sorted(each.name for each in root.iterdir()) == ["src"]


@pytest.mark.parametrize("swapped", ["file", "directory"])
def test_a_link_swapped_in_after_the_check_leads_nowhere(
    root: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Workspace(root)
    checked = work.locate

    def swap(*given: Any) -> Any:
        found = checked(*given)
        (root / "src" / "a.txt").unlink()
        if swapped == "file":
            (root / "src" / "a.txt").symlink_to(root.parent / "outside" / "secret")
        else:
            (root / "src").rmdir()
            (root / "src").symlink_to(root.parent / "outside")
        return found

    monkeypatch.setattr(work, "locate", swap)
    with pytest.raises(ToolExecutionError, match="cannot be read"):
        work.open_read("src/a.txt")
    monkeypatch.setattr(work, "locate", lambda *_: (root, root / "src" / "a.txt"))
    with pytest.raises(ToolExecutionError, match="cannot be written"):
        work.write("src/a.txt", b"overwritten")
    assert sorted(each.name for each in (root.parent / "outside").iterdir()) == ["secret"]
    assert (root.parent / "outside" / "secret").read_text() == "secret"


def test_a_racing_swap_never_shows_what_is_outside(root: Path) -> None:
    work, over = Workspace(root), threading.Event()
    target, link, place = root / "target", root / "link", root / "swapped"
    target.mkdir()
    (target / "secret").write_text("inside")
    link.symlink_to(root.parent / "outside")

    def swap() -> None:
        while not over.is_set():
            for real in (target, link):
                if place.exists() and not place.is_symlink():  # made by a write that found nothing there
                    shutil.rmtree(place, ignore_errors=True)
                with suppress(OSError):
                    real.rename(place)
                    place.rename(real)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set()
    try:
        for _ in range(400):
            with suppress(ToolExecutionError), work.open_read("swapped/secret") as file:
                seen.add(file.read())
            with suppress(ToolExecutionError):
                work.write("swapped/written", b"x")
    finally:
        over.set()
        swapping.join()
    assert seen <= {b"inside"}
    assert sorted(each.name for each in (root.parent / "outside").iterdir()) == ["secret"]


def test_a_file_is_replaced_as_a_whole_and_keeps_its_permissions(root: Path) -> None:
    work = Workspace(root)
    file = root / "src" / "a.txt"
    file.chmod(0o751)
    before = file.stat().st_ino
    with work.open_read("src/a.txt") as old:
        assert work.write("src/a.txt", b"new" * 100_000) == file
        assert old.read() == b"a"
    assert file.read_bytes() == b"new" * 100_000
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert file.stat().st_ino != before
    assert sorted(each.name for each in file.parent.iterdir()) == ["a.txt"]


def test_a_new_file_gets_the_directories_it_needs_and_usual_permissions(root: Path) -> None:
    before = os.umask(0o027)
    try:
        Workspace(root).write("x/y/z.txt", b"z")
    finally:
        os.umask(before)
    assert (root / "x" / "y" / "z.txt").read_bytes() == b"z"
    assert stat.S_IMODE((root / "x" / "y" / "z.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "x" / "y").stat().st_mode) == 0o750


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(ToolExecutionError, match=r"src/a.txt cannot be written: No space left on device"):
        Workspace(root).write("src/a.txt", b"new")
    assert [each.name for each in (root / "src").iterdir()] == ["a.txt"]
    assert (root / "src" / "a.txt").read_text() == "a"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_stays_as_it_is(root: Path) -> None:
    (root / "src" / "a.txt").chmod(0o444)
    with pytest.raises(ToolExecutionError, match="Permission denied"):
        Workspace(root).write("src/a.txt", b"new")


def test_skills_and_offloaded_results_can_be_read_from_outside_and_never_written(root: Path) -> None:
    skills, offloads = root.parent / "skills", root.parent / "offload"
    for each in (skills, offloads):
        each.mkdir()
        (each / "x").write_text(each.name)
        (each / "out").symlink_to(root.parent / "outside" / "secret")
    work = Workspace(root, readable=[skills], offloads=[offloads])
    for each in (skills, offloads):
        with work.open_read(str(each / "x"), outside=True) as file:
            assert file.read() == each.name.encode()
        for path, outside in ((each / "x", False), (each / "out", True), (each / ".." / "outside" / "secret", True)):
            with pytest.raises(ToolExecutionError, match="workspace"):
                work.open_read(str(path), outside=outside)
        with pytest.raises(ToolExecutionError, match="outside the workspace"):
            work.resolve(str(each / "x"), "write", outside=True)
        with pytest.raises(ToolExecutionError, match="outside the workspace"):
            work.write(str(each / "new"), b"")
    assert work.is_offloaded(offloads / "x")
    assert not work.is_offloaded(skills / "x")
    assert not work.is_offloaded(offloads / ".." / "skills" / "x")


def test_an_offload_directory_may_be_made_later(root: Path) -> None:
    offloads = root.parent / "later" / "deep"
    work = Workspace(root, offloads=[offloads])
    offloads.mkdir(parents=True)
    (offloads / "x").write_text("x")
    assert work.is_offloaded(work.resolve(str(offloads / "x"), "read", outside=True))


def test_a_link_in_the_place_of_skills_makes_nothing_readable(root: Path) -> None:
    (root / ".holdfast").mkdir()
    (root / ".holdfast" / "skills").symlink_to(root.parent / "outside")
    work = Workspace(root, readable=[root / ".holdfast" / "skills"])
    for path in (".holdfast/skills/secret", str(root.parent / "outside" / "secret")):
        with pytest.raises(ToolExecutionError, match="workspace"):
            work.open_read(path, outside=True)


def test_our_own_state_is_no_part_of_a_workspace_around_it(root: Path) -> None:
    home = root / ".holdfast"
    (home / "offload").mkdir(parents=True)
    (home / "admin-token").write_text("token")
    (home / "offload" / "x").write_text("x")
    (root / "link").symlink_to(home)
    work = Workspace(root, offloads=[home / "offload"], closed=[home])
    for path in (".holdfast/admin-token", "link/admin-token", ".holdfast/confirmations.json", ".holdfast"):
        with pytest.raises(ToolExecutionError, match="belongs to Holdfast itself"):
            work.resolve(path, "read", outside=True)
        with pytest.raises(ToolExecutionError, match="belongs to Holdfast itself"):
            work.write(path, b"")
    with work.open_read(".holdfast/offload/x", outside=True) as file:
        assert file.read() == b"x"
    inside = Workspace(home, closed=[home, root])
    assert inside.resolve("admin-token", "read") == home / "admin-token"


def test_names_that_are_not_unicode(root: Path) -> None:
    name = os.fsdecode(b"odd-\xff.txt")
    (root / name).write_text("odd")
    work = Workspace(root)
    with work.open_read(name) as file:
        assert file.read() == b"odd"
    assert work.relative(root / name) == "odd-�.txt"
    assert work.relative(root) == "."
    assert work.relative(Path("/etc/x")) == "/etc/x"
