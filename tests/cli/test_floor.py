"""A prompt that is too short to be cached: the cost line of a chat, `/cost`, `/cache` and `holdfast doctor` say so."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from holdfast.config import load_config
from holdfast.core.operating_context import SECTIONS
from holdfast.gateway.server import running as gateway
from holdfast.records import Request, Text
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import Script
from holdfast.simulator.server import running
from tests.cli.chats import Chatting
from tests.cli.commands import output
from tests.cli.terminals import Program

HAIKU = "anthropic:claude-haiku-4-5"
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
SAYS_SO = "below the 4,096 it needs"


@pytest.fixture
def systems() -> list[str]:
    """The system texts of all requests that a provider got."""
    return []


@pytest.fixture
def chat(chat: Chatting, monkeypatch: pytest.MonkeyPatch, systems: list[str]) -> Iterator[Chatting]:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("HOLDFAST_AGENT_MODEL", HAIKU)
    monkeypatch.setenv("HOLDFAST_GATEWAY_PORT", "0")

    def answer(request: Request) -> str:
        said = request.system_prompt or ""
        systems.append(said if isinstance(said, str) else "".join(each.text for each in said if isinstance(each, Text)))
        return "Well."

    with running(Simulator(script=Script(name="well", function=answer))) as address:
        monkeypatch.setenv("HOLDFAST_UPSTREAM_ANTHROPIC", address)
        yield chat


def test_without_padding_the_chat_says_that_nothing_was_cached(chat: Chatting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE_PADDING", "off")
    done = chat.done(input="Hello.\n/cost\n/cache\n", simulate=False)
    assert SAYS_SO in done.err
    for sentence in (
        "Nothing was cached: the prompt's ",
        f"tokens are below the 4,096 that {HAIKU} needs",
        'cache.padding = "economic" fills the prompt of a new session where that pays',
    ):
        assert done.out.count(sentence) == 2  # of /cost and of /cache


def test_where_padding_does_not_pay_it_says_why(chat: Chatting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE_STRATEGY", "passthrough")
    done = chat(input="Hello.\n/cost\n", simulate=False)
    assert 'cache.padding = "economic" left it as it is (no marker is set' in done.out


def test_one_message_is_not_padded_and_keeps_its_bytes_when_it_goes_on(chat: Chatting, systems: list[str]) -> None:
    """An hour of a longer prompt, bought for one question, costs three times what the question does."""
    done = chat.done("Hello.", simulate=False)
    assert SAYS_SO in done.err
    again = chat.done("--resume", done.session, input="Again.\n/cost\n" * 6, simulate=False)
    (system,) = set(systems)
    assert SECTIONS[0] not in system
    assert "does not pay within 4 calls" in again.out


def test_as_many_messages_as_a_conversation_has_are_padded(chat: Chatting, systems: list[str]) -> None:
    assert chat(input="Hello.\n/cost\n" * 5, simulate=False).code == 0
    (system,) = set(systems)
    assert SECTIONS[0] in system


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_a_conversation_at_a_terminal_is_padded(chat: Chatting, systems: list[str]) -> None:
    environ = {key: value for key, value in chat.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    environ |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with Program("chat", cwd=chat.workspace, environ=environ, columns=200, rows=24) as program:
        for text in ("Hello.", "Again."):
            program.prompt()
            program.say(text)
        program.prompt()
        program.type("\x04")
        assert program.ended() == 0
    (system,) = set(systems)
    assert SECTIONS[0] in system
    assert SAYS_SO not in program.text


def test_a_padded_chat_has_nothing_to_say_of_it(chat: Chatting) -> None:
    done = chat.done(input="Hello.\n/cost\n" * 5, simulate=False)
    assert SAYS_SO not in done.err
    assert "Nothing was cached" not in done.out


def notes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = json.loads(output("doctor", "--offline", "--json"))["lines"]
    return [f"{line['what']}; {line['cure']}" for line in lines if line["topic"] == "floor"]


def test_the_doctor_says_so_too(
    chat: Chatting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert notes(capsys) == []
    monkeypatch.setenv("HOLDFAST_CACHE_PADDING", "off")
    (note,) = notes(capsys)
    assert f"cache.padding is off, and {HAIKU} caches no prompt below 4,096 tokens" in note
    assert chat("Hello.", simulate=False).code == 0
    configured, stored = notes(capsys)
    assert configured == note
    assert f"{HAIKU} has cached nothing in 1 call: prompts of about " in stored
    assert "tokens are below the 4,096 it needs" in stored
    monkeypatch.delenv("HOLDFAST_CACHE_PADDING")
    assert chat(input="Hello.\n/cost\n" * 5, simulate=False).code == 0
    assert notes(capsys) == []


def test_the_prompts_of_a_client_are_not_padded_and_the_doctor_says_that_they_are_too_short(
    chat: Chatting, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the gateway: what arrives is what was sent, and nothing of it is cached."""
    body = {"model": "claude-haiku-4-5", "max_tokens": 9, "system": "Be brief.", "messages": []}
    with gateway(load_config()) as address, httpx.Client(base_url=address) as client:
        for number in range(3):
            asked = body | {"messages": [{"role": "user", "content": f"Question {number}?"}]}
            answer = client.post("/v1/messages", json=asked, headers=HEADERS)
            assert answer.status_code == 200, answer.text
            used = answer.json()["usage"]
            assert used["input_tokens"] < 100
            assert (used["cache_read_input_tokens"], used["cache_creation_input_tokens"]) == (0, 0)
    (note,) = notes(capsys)
    assert f"{HAIKU} has cached nothing in 3 calls: prompts of about " in note
    assert "only the prompts of `holdfast chat` and open_agent are padded" in note
