"""How the tools to compare with are installed: each once, in an environment of its own or the one it is a client in."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers.versions import installed
from scripts import install_peers
from scripts.install_clients import Client, Failed
from scripts.install_peers import PEERS, environment, main, provide


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """Nothing is fetched; what would have been is here."""
    found: list[Client] = []

    def install(client: Client, place: Path) -> None:
        if "headroom" in client.packages[0]:
            raise Failed("pip: no such package")
        found.append(client)

    monkeypatch.setattr(install_peers, "install", install)
    return found


def test_each_is_installed_once(tmp_path: Path, asked: list[Client]) -> None:
    assert environment("litellm", tmp_path) is None
    assert provide("litellm", tmp_path) == "litellm[proxy]==1.106.2 installed"
    assert provide("litellm", tmp_path) == "litellm[proxy]==1.106.2 is there"
    assert environment("litellm", tmp_path) == tmp_path / ".peers" / "litellm"
    assert asked == [Client("pip", PEERS["litellm"])]


def test_a_client_that_is_there_is_used(tmp_path: Path, asked: list[Client]) -> None:
    client = tmp_path / ".clients" / "py-deepagents"
    client.mkdir(parents=True)
    (client / ".installed").write_text(" ".join(PEERS["langchain"]), "utf-8")
    assert provide("langchain", tmp_path).endswith("is there")
    assert environment("langchain", tmp_path) == client
    (client / ".installed").write_text("deepagents==0.1", "utf-8")
    assert provide("langchain", tmp_path).endswith("installed")
    assert environment("langchain", tmp_path) == tmp_path / ".peers" / "langchain"


def test_what_cannot_be_installed_is_named(tmp_path: Path, asked: list[Client]) -> None:
    said = provide("headroom", tmp_path)
    assert said == "headroom-ai[proxy]==0.42.0 could not be installed and is skipped (pip: no such package)"
    assert not (tmp_path / ".peers" / "headroom").exists()


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nobody"]) == 2
    assert "known: litellm, headroom, langchain, pydantic-ai" in capsys.readouterr().err


def test_versions_of_what_is_there(tmp_path: Path) -> None:
    assert installed(tmp_path) == {}
    for name, package in (("litellm", "litellm-1.2.3"), ("langchain", "langchain_anthropic-4.5.6")):
        place = tmp_path / ".peers" / name
        (place / "lib" / "python3.11" / "site-packages" / f"{package}.dist-info").mkdir(parents=True)
        (place / ".installed").write_text("pinned", "utf-8")
    folder = tmp_path / ".clients" / "opencode" / "node_modules" / "opencode-ai"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"version": "7.8.9"}', "utf-8")
    assert installed(tmp_path) == {
        "litellm": "1.2.3",
        "langchain": "langchain-anthropic 4.5.6, deepagents of unknown version",
        "opencode": "7.8.9",
    }
