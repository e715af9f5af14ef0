"""How clients are installed: each by itself, once, and those that cannot be are named with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import install_clients
from scripts.install_clients import CLIENTS, main, provide
from tests.clients.agents import AGENTS
from tests.clients.agents.sdks import Sdk


def fake_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_client_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, monkeypatch, f'echo "$@" >> {tmp_path}/asked')
    assert provide("codex", tmp_path / "clients") == "@openai/codex@0.166.0 installed"
    assert provide("codex", tmp_path / "clients") == "@openai/codex@0.166.0 is there"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 1
    assert f"--prefix {tmp_path}/clients/codex" in asked[0]


def test_another_version_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, monkeypatch, "exit 0")
    old = tmp_path / "clients" / "codex"
    old.mkdir(parents=True)
    (old / ".installed").write_text("@openai/codex@0.1.0")
    (old / "rest").touch()
    assert provide("codex", tmp_path / "clients").endswith("installed")
    assert not (old / "rest").exists()


def test_what_fails_is_named_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, monkeypatch, 'echo "npm error network is down" >&2; exit 1')
    said = provide("codex", tmp_path / "clients")
    assert "could not be installed, its tests are skipped (npm: npm error network is down)" in said
    assert not (tmp_path / "clients" / "codex").exists()


def test_without_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provide("claude", tmp_path).endswith("its tests are skipped (there is no npm)")


def test_what_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install_clients, "TIMEOUT", 0.2)
    fake_npm(tmp_path, monkeypatch, "exec sleep 30")
    assert "npm took longer than 0.2 seconds" in provide("codex", tmp_path / "clients")


def test_every_agent_has_its_pins(capsys: pytest.CaptureFixture[str]) -> None:
    folders = {agent.folder.removeprefix("py-") for agent in AGENTS if not isinstance(agent, Sdk)}
    assert folders == set(CLIENTS)
    assert main(["nobody"]) == 2
    assert "known: claude" in capsys.readouterr().err
