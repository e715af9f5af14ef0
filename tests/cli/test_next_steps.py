"""What `holdfast` alone shows, as it fits what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli import COMMANDS
from holdfast.cli.next_steps import has_store, logs, program, text
from holdfast.report.logs.discovery import places
from holdfast.store import open_store

CLIENTS = {"claude-code": "Claude Code", "codex": "Codex", "pi": "pi", "opencode": "opencode"}


def lines(home: Path) -> list[str]:
    return text({"HOME": str(home)}, "1.0", ".venv/bin/holdfast").splitlines()


def commands(shown: list[str]) -> list[str]:
    return [line.split()[1] for line in shown if line.startswith("  holdfast ")]


def test_in_an_empty_home_it_begins_with_what_needs_nothing(tmp_path: Path) -> None:
    assert commands(lines(tmp_path)) == ["demo", "explain", "run", "serve", "chat", "doctor", "--help"]


def test_where_no_shell_finds_it_it_says_how_to_call_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/holdfast"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == ".venv/bin/holdfast"
    assert lines(tmp_path)[-1] == "  . .venv/bin/activate"
    monkeypatch.setattr("sys.argv", ["/my clone/bin/holdfast"])
    assert program() == "'/my clone/bin/holdfast'"
    assert text({"HOME": str(tmp_path)}, "1.0", program()).endswith("  . '/my clone/bin/activate'")
    monkeypatch.setattr("sys.argv", ["-m"])
    assert program() == "holdfast"
    assert "activate" not in text({"HOME": str(tmp_path)}, "1.0")


def test_a_home_that_cannot_be_looked_into_is_an_empty_one(tmp_path: Path) -> None:
    assert commands(lines(tmp_path / ("x" * 300)))[0] == "demo"
    assert text({"HOME": "~nobody-of-this-name"}, "1.0").startswith("Holdfast 1.0")


def test_with_logs_it_begins_with_explaining_them(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    shown = lines(tmp_path)
    assert "Logs of Claude Code are here:" in shown
    assert commands(shown)[0] == "explain"


def test_with_a_store_it_begins_with_what_went_through(tmp_path: Path) -> None:
    open_store(tmp_path / ".holdfast" / "holdfast.db").close()
    assert has_store({"HOME": str(tmp_path)})
    assert has_store({"HOME": "/nowhere", "HOLDFAST_HOME": str(tmp_path / ".holdfast")})
    assert commands(lines(tmp_path))[:2] == ["sessions", "breaks"]


@pytest.mark.parametrize("what", [(), ("store",), ("logs",), ("store", "logs")])
def test_it_fits_a_small_terminal_and_names_real_commands(tmp_path: Path, what: tuple[str, ...]) -> None:
    if "store" in what:
        open_store(tmp_path / ".holdfast" / "holdfast.db").close()
    if "logs" in what:
        for format_, place in places(tmp_path, {}):
            if format_ != "store":
                place.mkdir(parents=True)
    shown = lines(tmp_path)
    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80
    assert set(commands(shown)) - {"--help"} <= set(COMMANDS)


def test_it_knows_every_place_where_explain_looks(tmp_path: Path) -> None:
    """The list here is a shorter one of its own, to be quick."""
    moved = {
        "CLAUDE_CONFIG_DIR": "a",
        "CODEX_HOME": "~/b",
        "PI_CODING_AGENT_SESSION_DIR": str(tmp_path / "c"),
        "XDG_DATA_HOME": "d",
    }
    for number, environ in enumerate(({}, moved)):
        for index, (format_, _) in enumerate(places(tmp_path, environ)):
            if format_ == "store":
                continue
            home = tmp_path / f"{number}-{index}"
            environ_here = {name: value.replace(str(tmp_path), str(home)) for name, value in environ.items()}
            place = list(places(home, environ_here))[index][1]
            assert logs({"HOME": str(home), **environ_here}) == []
            place.mkdir(parents=True)
            assert logs({"HOME": str(home), **environ_here}) == [CLIENTS[format_]], place
