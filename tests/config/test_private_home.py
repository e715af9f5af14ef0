"""A HOLDFAST_HOME that others may look into is closed by every door that opens on it, or somebody is told why not."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
from pathlib import Path

import pytest

from holdfast.agent import open_agent
from holdfast.config.private_home import close_to_others
from holdfast.engine import EngineCore
from holdfast.simulator import Simulator
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.server import running
from holdfast.store import open_store
from tests.cli.commands import holdfast
from tests.cli.serve_program import ServeProgram
from tests.gateway.gate import gated

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
SECRETS = ("access-key", "admin-token", "tenant-key", "holdfast.db")


def opened(home: Path, mode: int = 0o755) -> Path:
    """A home as an older version, a backup or an administrator left it."""
    (home / "sessions").mkdir(parents=True)
    (home / "cache-breaks").mkdir()
    for name in SECRETS[:3]:
        (home / name).write_text("planted-secret-of-this-home\n")
    for each in (*home.iterdir(), home):
        each.chmod(0o755 if each.is_dir() else 0o644)
    home.chmod(mode)
    return home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def closed(home: Path) -> None:
    assert mode(home) == 0o700
    assert {name: mode(home / name) for name in ("sessions", "cache-breaks")} == dict.fromkeys(
        ("sessions", "cache-breaks"), 0o700
    )
    assert {mode(home / name) for name in SECRETS if (home / name).exists()} == {0o600}


@pytest.mark.slow
@pytest.mark.parametrize("before", [0o755, 0o777, 0o750])
def test_serve_closes_it_and_says_so_once(tmp_path: Path, before: int) -> None:
    home = opened(tmp_path / "home", before)
    for expected in (1, 0):
        with running(Simulator()) as upstream, ServeProgram(tmp_path, upstream) as program:
            closed(home)
            said = program.printed.with_suffix(".err").read_text()
        assert said.count(f"was open to other users (mode {before:03o}); it is closed now (700)") == expected


def test_a_gateway_that_stores_elsewhere_closes_it_too(tmp_path: Path) -> None:
    home = opened(tmp_path / "holdfast")
    elsewhere = f"sqlite:///{tmp_path / 'data' / 'holdfast.db'}"
    with running(Simulator()) as upstream, gated(tmp_path, upstream, store__url=elsewhere) as gate:
        assert gate.config.home == home
        closed(home)


@pytest.mark.slow
def test_run_closes_it(tmp_path: Path) -> None:
    home = opened(tmp_path / "home")
    done = holdfast("run", "--", sys.executable, "-c", "pass", cwd=tmp_path, HOLDFAST_HOME=str(home))
    assert done.returncode == 0, done.stderr
    closed(home)
    assert "was open to other users (mode 755)" in done.stderr


@pytest.mark.slow
def test_chat_closes_it(tmp_path: Path) -> None:
    home = opened(tmp_path / "home")
    done = holdfast("chat", "--simulate", "Hello.", cwd=tmp_path, HOLDFAST_HOME=str(home))
    assert done.returncode == 0, done.stderr
    closed(home)
    assert "was open to other users (mode 755)" in done.stderr


def test_an_agent_closes_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = opened(tmp_path / "home")

    async def main() -> None:
        flags: dict[str, object] = {"agent.model": "anthropic:claude-haiku-4-5"}
        async with open_agent(tmp_path, home=home, provider=Simulated(Simulator()), flags=flags):
            closed(home)

    asyncio.run(main())
    assert "was open to other users" in caplog.text


def test_an_engine_with_a_store_closes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = opened(tmp_path / "home")
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    with open_store(home / "holdfast.db") as store:
        EngineCore(store=store).close(now=0.0)
    closed(home)


def test_a_store_elsewhere_leaves_its_directory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    open_store(shared / "holdfast.db").close()
    assert mode(shared) == 0o755


def told(home: Path, caplog: pytest.LogCaptureFixture, why: str) -> None:
    """It is left as it is, and that is said once, however many doors open on it."""
    before = mode(home)
    with caplog.at_level(logging.WARNING):
        close_to_others(home)
        close_to_others(home)
    assert mode(home) == before
    (record,) = caplog.records
    assert f"is open to other users (mode {before:03o}) and {why}" in record.getMessage()
    assert ("chmod" in record.getMessage()) == ("more than Holdfast" not in why)  # what others need stays open
    assert "set HOLDFAST_HOME to a directory of your own" in record.getMessage()


def test_a_link_is_told_and_what_it_leads_to_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    opened(tmp_path / "elsewhere")
    (tmp_path / "home").symlink_to(tmp_path / "elsewhere")
    told(tmp_path / "home", caplog, "is a link")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives a directory away")
def test_another_users_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = opened(tmp_path / "home")
    os.chown(home, 12_345, 12_345)
    told(home, caplog, "belongs to another user")


def test_a_workspace_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = opened(tmp_path / "work")
    (home / ".git").mkdir()
    told(home, caplog, "is used by more than Holdfast")


def test_a_workspace_without_a_repository_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An agent that keeps its things where it works: others may serve or read what lies there."""
    place = opened(tmp_path / "site")
    (place / "index.html").write_text("for everyone")

    async def play() -> None:
        async with open_agent(place, home=place, provider=Simulated(Simulator())):
            pass

    asyncio.run(play())
    assert mode(place) == 0o755
    assert f"{place} is open to other users (mode 755) and is used by more than Holdfast" in caplog.text
    assert {mode(place / name) for name in SECRETS[:3]} == {0o600}


def test_a_directory_of_a_repository_is_told_unless_it_is_ours_by_its_name(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    package, ours = opened(tmp_path / "package"), opened(tmp_path / ".holdfast")
    for each in (package, ours):
        close_to_others(each)
    assert (mode(package), mode(package / "sessions")) == (0o755, 0o755)
    closed(ours)


def test_who_has_no_home_is_no_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    home = opened(tmp_path / "data")
    close_to_others(home)
    closed(home)


def test_the_users_own_home_and_directories_for_all_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home = opened(tmp_path / "user")
    monkeypatch.setenv("HOME", str(home))
    told(home, caplog, "is used by more than Holdfast")
    caplog.clear()
    everybodys = opened(tmp_path / "everybodys", 0o1777)
    told(everybodys, caplog, "is used by more than Holdfast")


@pytest.mark.parametrize("place", ["/", "/tmp"])
def test_the_root_and_tmp_are_never_touched(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("nothing there is ours to change")

    monkeypatch.setattr(Path, "chmod", fail)
    close_to_others(Path(place))


def test_files_are_closed_where_the_directory_is_not(tmp_path: Path) -> None:
    opened(tmp_path / "elsewhere")
    (tmp_path / "home").symlink_to(tmp_path / "elsewhere")
    close_to_others(tmp_path / "home")
    assert {mode(tmp_path / "elsewhere" / name) for name in SECRETS[:3]} == {0o600}


@pytest.mark.slow
def test_doctor_says_that_it_is_open(tmp_path: Path) -> None:
    home = opened(tmp_path / "home")
    done = holdfast("doctor", "--offline", cwd=tmp_path, HOLDFAST_HOME=str(home))
    assert f"home: {home} is open to other users (mode 755), and holds keys" in done.stdout
    assert mode(home) == 0o755, "looking changes nothing"


def test_one_that_is_closed_or_missing_is_not_spoken_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    close_to_others(tmp_path / "home")
    close_to_others(tmp_path / "missing")
    assert caplog.records == []
