"""`/effort` and `holdfast chat --effort`: what the provider gets, and what a change costs, said before it is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.records import Request
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import Script
from holdfast.simulator.server import running
from tests.cli.chats import Chatting
from tests.cli.commands import output
from tests.cli.terminals import Program

OPUS, GPT, GEMINI = "anthropic:claude-opus-5-5", "openai:gpt-6.1-sol", "gemini:gemini-3-flash"
LONG = "A long question about everything that there is to know. " * 500
SAID = {
    OPUS: ("output_config", {"effort": "high"}),
    GPT: ("reasoning", {"effort": "high"}),
    GEMINI: ("generationConfig", {"thinkingConfig": {"thinkingLevel": "high"}}),
}


class Provider:
    """What a provider was asked, member by member."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def answer(self, request: Request) -> str:
        self.asked.append({name: json.loads(value) for name, value in request.rest})
        return "Well."


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    found = Provider()
    with running(Simulator(script=Script(name="well", function=found.answer))) as address:
        for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
            monkeypatch.setenv(f"HOLDFAST_UPSTREAM_{name}", address)
        yield found


@pytest.fixture
def chat(provider: Provider, chat: Chatting, monkeypatch: pytest.MonkeyPatch) -> Chatting:
    monkeypatch.setenv("COLUMNS", "400")
    return chat


@pytest.mark.parametrize("model", SAID)
def test_the_option_reaches_the_provider(chat: Chatting, provider: Provider, model: str) -> None:
    name, value = SAID[model]
    assert chat("--model", model, "Hello.", simulate=False).code == 0
    chat.done("--model", model, "--effort", "high", "Hello.", simulate=False)
    without, with_it = provider.asked
    assert {key: item for key, item in with_it.get(name, {}).items() if key in value} == value
    assert not any(key in without.get(name, {}) for key in value)


@pytest.mark.parametrize("model", [OPUS, GPT])
def test_a_change_says_its_price_first_and_is_a_reset(chat: Chatting, provider: Provider, model: str) -> None:
    done = chat.done(
        "--model", model, input=f"{LONG}\n/effort\n/effort high\nAgain?\n/effort\n/cache\n", simulate=False
    )
    name, value = SAID[model]
    assert [each.get(name) for each in provider.asked] == [None, value]
    price = "cached tokens are written again with the next request, for $"
    shown, changed = done.out.index("A change: about"), done.out.index("The effort is high from the next request on.")
    said = done.out.index(price, done.out.index(price) + 1)
    assert shown < said < changed
    assert f"{model} thinks with the effort default; it takes " in done.out
    assert f"{model} thinks with the effort high; it takes " in done.out
    assert "reset: effort_changed" in done.err
    assert "Resets, which have a reason: " in done.out
    assert "effort_changed at " in done.out
    assert "No breaks." in done.out


def test_a_chat_that_goes_on_keeps_it(chat: Chatting, provider: Provider) -> None:
    first = chat("--model", OPUS, "--effort", "low", input="Hello.\n/effort max\n", simulate=False)
    chat.done("--resume", first.session, input="Again.\n/effort default\nOnce more.\n", simulate=False)
    assert [each.get("output_config") for each in provider.asked] == [{"effort": "low"}, {"effort": "max"}, None]
    assert chat("--resume", first.session, "--effort", "low", "And now.", simulate=False).code == 0
    assert provider.asked[-1]["output_config"] == {"effort": "low"}


def test_where_the_cache_does_not_depend_on_it_a_change_costs_nothing(chat: Chatting, provider: Provider) -> None:
    done = chat("--model", GEMINI, input=f"{LONG}\n/effort high\nAgain?\n", simulate=False)
    assert f"It costs nothing, the cache of {GEMINI} does not depend on it." in done.out
    assert "reset:" not in done.err


def test_what_is_not_known_is_refused_with_what_is(chat: Chatting, provider: Provider) -> None:
    done = chat("--model", OPUS, "--effort", "huge", "Hello.", simulate=False)
    assert done.code == 1
    assert f"{OPUS} takes no effort 'huge'; it takes low, medium, high, xhigh, max." in done.err
    done = chat("--model", OPUS, input="Hello.\n/effort minimal\n", simulate=False)
    assert "takes no effort 'minimal'; it takes low, medium" in done.err
    done = chat("--model", "anthropic:claude-haiku-4-5", input="/effort\n/effort low\nHello.\n", simulate=False)
    assert "takes no effort as far as is known" in done.out
    assert "takes no effort as far as is known; leave agent.effort unset" in done.err


def test_the_help_shows_how(chat: Chatting) -> None:
    shown = output("chat", "--help")
    assert "--effort LEVEL" in shown
    assert "--effort high" in shown
    assert (
        "/effort [LEVEL]" in chat(input="/help\n", simulate=False).out or "/effort [LEVEL]" in chat(input="/help\n").out
    )


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_at_a_terminal_somebody_is_asked_before(chat: Chatting, provider: Provider) -> None:
    session = chat("--model", OPUS, input=LONG, simulate=False).session
    environ = {key: value for key, value in chat.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    environ |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with Program("chat", "--resume", session, cwd=chat.workspace, environ=environ, columns=200, rows=24) as program:
        program.prompt()
        program.say("/effort high", until="Change it? y yes, n no:")
        assert "cached tokens are written again with the next request, for $" in program.text
        program.ask("n")
        assert "Nothing was changed." in program.text
        program.say("/effort high", until="Change it? y yes, n no:", times=2)
        program.ask("y")
        assert "The effort is high from the next request on." in program.text
        program.ask("Again.")
        program.type("\x04")
        assert program.ended() == 0
    assert [each.get("output_config") for each in provider.asked] == [None, {"effort": "high"}]
