"""What `holdfast chat` and `holdfast serve` open by the configuration of their directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import facts
from holdfast.agent.log import read_log
from holdfast.cli import serve
from holdfast.records.events.agent import ModelRouted
from tests.cli.chats import Chatting
from tests.tools.mcp.hubs import SERVERS

HAIKU = "anthropic:claude-haiku-4-5"


def test_tools_of_a_server_are_called(chat: Chatting) -> None:
    chat.home.mkdir(parents=True)
    started = json.dumps(["-S", str(SERVERS / "plain.py")])
    (chat.home / "holdfast.toml").write_text(f'[mcp.servers.plain]\ncommand = "python3"\nargs = {started}\n', "utf-8")
    call = '{tool: mcp__plain__echo, input: {text: "over there"}}'
    chat.script.write_text(
        f'rules:\n  - when: {{tool_result: mcp__plain__echo}}\n    say: "It said {{tool_result}}"\n'
        f"  - when: {{contains: CALL-IT}}\n    call: {call}\n",
        "utf-8",
    )
    done = chat("--yes", "CALL-IT")
    assert done.code == 0
    assert "over there" in done.out


def test_the_log_says_that_the_workspace_chose_the_model(chat: Chatting) -> None:
    (chat.workspace / "holdfast.toml").write_text(f'[agent]\nmodel = "{HAIKU}"\n', "utf-8")
    assert chat("Hello").code == 0
    (log,) = chat.logs
    routed = [each.payload for each in read_log(log) if isinstance(each.payload, ModelRouted)]
    assert [(each.model, each.source) for each in routed] == [(HAIKU, "workspace")]


@pytest.fixture
def measured() -> str:
    return 'as_of = 2026-11-02\nsource = "measured"\n[anthropic.models.claude-haiku-4-5]\nfloor = 3000\n'


def test_facts_of_the_workspace_count_in_a_chat(chat: Chatting, measured: str) -> None:
    (chat.workspace / "mine.toml").write_text(measured, "utf-8")
    (chat.workspace / "holdfast.toml").write_text('[facts]\noverrides = ["mine.toml"]\n', "utf-8")
    assert facts.model(HAIKU).floor == 4096
    assert chat("--model", HAIKU, "Hello").code == 0
    assert facts.model(HAIKU).floor == 3000


def test_facts_of_the_directory_count_in_a_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: str
) -> None:
    (tmp_path / "mine.toml").write_text(measured, "utf-8")
    (tmp_path / "holdfast.toml").write_text('[facts]\noverrides = ["mine.toml"]\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    found: list[int] = []
    monkeypatch.setattr(serve, "serve", lambda *_: found.append(facts.model(HAIKU).floor))
    assert CliRunner().invoke(serve.command, ["--port", "0"], catch_exceptions=False).exit_code == 0
    assert found == [3000]
