"""What a chat and a gateway open by the configuration of their directory; and model names that nobody knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import facts
from holdfast.agent.log import read_log
from holdfast.cli import serve
from holdfast.facts import catalogue
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
    done = chat.done("--yes", "CALL-IT")
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


MISSPELT = "anthropic:claude-sonet-5-5"
MEANT = "did you mean anthropic:claude-sonnet-5-5?"


@pytest.fixture(autouse=True)
def facts_of_a_new_process() -> None:
    catalogue.shipped.cache_clear()


def words(text: str) -> str:
    return " ".join(text.split())


def test_an_unknown_model_is_asked_and_the_nearest_named_once(chat: Chatting) -> None:
    done = chat.done("--model", MISSPELT, input="One\n/cost\nTwo\n/model\nThree\n")
    assert MISSPELT in done.err
    assert words(done.err).count("did you mean") == 1
    assert MEANT in words(done.err)
    assert words(done.err).count(f"model '{MISSPELT}'") == 1  # not once more for its price


def test_a_later_version_is_no_misspelling(chat: Chatting) -> None:
    done = chat.done("--model", "anthropic:claude-sonnet-5-9", "Hello")
    assert "did you mean" not in done.err
    assert "the nearest that is known is anthropic:claude-sonnet-5-" in words(done.err)


def test_one_that_is_like_no_other_is_asked_without_a_guess(chat: Chatting) -> None:
    done = chat("--model", "anthropic:zzyzx", "Hello")
    assert "no facts about model 'anthropic:zzyzx'" in done.err
    assert "nearest" not in done.err
    assert "did you mean" not in done.err


def test_one_behind_a_route_is_named_once(chat: Chatting) -> None:
    done = chat("--model", "openrouter:anthropic/claude-sonet-5-5", "Hello")
    assert words(done.err).count("no facts about model") == 1
    assert "did you mean openrouter:anthropic/claude-sonnet-5-5?" in words(done.err)


def test_the_command_of_a_chat_names_the_nearest(chat: Chatting) -> None:
    done = chat(input="Hello\n/model claude-sonet-5-5\n/model anthropic:claude-sonet-5-5\nAgain\n")
    said = words(done.err)
    assert f"no model is named 'claude-sonet-5-5'; {MEANT}" in said
    assert f"'{MISSPELT}': careful values are used until an override describes it; {MEANT}" in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (f'model = "{MISSPELT}"', MEANT),
        ('model = "claude-sonet-5-5"', f'of the form provider:name, or "unset"; {MEANT}'),
        (f'model = "anthropic:claude-haiku-5-5"\nfallback = ["{MISSPELT}"]', MEANT),
        ('model = "anthropic:claude-haiku-5-5"\nfallback = ["claude-sonet-5-5"]', "agent.fallback: no model is named "),
    ],
)
def test_the_settings_are_looked_at_too(chat: Chatting, settings: str, said: str) -> None:
    (chat.workspace / "holdfast.toml").write_text(f"[agent]\n{settings}\n", "utf-8")
    done = chat("Hello")
    assert said in words(done.err)
    assert words(done.err).count("did you mean") == 1


def test_a_fallback_without_its_provider_is_found(chat: Chatting) -> None:
    (chat.workspace / "holdfast.toml").write_text(
        '[agent]\nmodel = "anthropic:claude-haiku-5-5"\nfallback = ["claude-sonnet-5-5"]\n', "utf-8"
    )
    done = chat(input="Hello\n/model\n")
    assert "If it cannot answer: anthropic:claude-sonnet-5-5 (agent.fallback)." in done.out


def test_warnings_are_said_once(chat: Chatting) -> None:
    broken = chat.workspace / ".holdfast" / "skills" / "broken"
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_text("no front matter", "utf-8")
    done = chat.done(input="One\n/fork\nTwo\n/fork\nThree\n")
    assert words(done.err).count("is left out") == 1
