"""A setting that changes nothing in a door says so when the door is opened: once, in one line."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from holdfast import Engine
from holdfast.agent import open_agent
from holdfast.cli import cli
from holdfast.config import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.server import FactsSettings
from holdfast.simulator import Simulator
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.server import running as simulating
from tests.cli.chats import Chatting
from tests.cli.serve_program import ServeProgram

AUTO = (
    'cache.placement has no effect in {door}: "auto" is "single" with every provider that is served so far; set '
    '"multi-zone" for up to three markers.'
)
BREAKER = "cache.keepalive.breaker has no effect in {door}: only used with cache.keepalive.enabled = true."


@pytest.fixture(autouse=True)
def placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE_STRATEGY", "zones")
    monkeypatch.setenv("HOLDFAST_CACHE_PLACEMENT", "auto")


def test_config_show() -> None:
    shown = CliRunner().invoke(cli, ["config", "show", "--changed"], catch_exceptions=False).output
    assert 'Note: cache.placement is set, but "auto" is "single" with every provider' in shown


def test_doctor() -> None:
    done = CliRunner().invoke(cli, ["doctor", "--json", "--offline"], catch_exceptions=False)
    (line,) = [each for each in json.loads(done.stdout)["lines"] if "cache.placement" in each["what"]]
    assert (line["state"], line["topic"]) == ("warning", "configuration")


@pytest.mark.slow
def test_serve(tmp_path: Path) -> None:
    with simulating(Simulator()) as upstream, ServeProgram(tmp_path, upstream) as program:
        assert program.out.count(AUTO.format(door="the gateway")) == 1


@pytest.mark.slow
def test_run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOLDFAST_GATEWAY_PORT", "0")
    from holdfast.cli import run as main

    assert main(["run", "--", sys.executable, "-c", "pass"]) == 0
    assert capfd.readouterr().err.count(AUTO.format(door="the gateway").rstrip(".")) == 1


def test_chat(chat: Chatting) -> None:
    done = chat.done(input="Hello\n/cost\nAnd again")
    assert " ".join(done.err.split()).count(AUTO.format(door="the agent")) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), False),
        (("--agent", "scout"), True),
        (("--agent", "scout", "--model", "gemini:gemini-2.5-pro"), False),
    ],
)
def test_chat_says_it_of_its_own_agent_and_model(
    chat: Chatting, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: bool
) -> None:
    monkeypatch.delenv("HOLDFAST_CACHE_PLACEMENT")
    model = 'model = "anthropic:claude-haiku-4-5"\n'
    text = f"[agent]\n{model}[agents.scout.cache.gemini]\nenabled = true\n"
    (chat.workspace / "holdfast.toml").write_text(text, "utf-8")
    done = chat.done(*options, "Hello")
    assert ("cache.gemini.enabled has no effect in the agent" in " ".join(done.err.split())) is said


async def test_open_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("HOLDFAST_CACHE_PLACEMENT")
    monkeypatch.setenv("HOLDFAST_CACHE_KEEPALIVE_BREAKER", "5")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            async with open_agent(tmp_path, home=tmp_path / "home", provider=Simulated(Simulator())):
                pass
    assert [record.getMessage() for record in caplog.records] == [BREAKER.format(door="the agent")]


def test_the_clients_of_sdks(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(cache=CacheSettings(padding="always"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            engine = Engine(settings)
            assert isinstance(engine.http_client(), httpx2.Client)
            assert isinstance(engine.async_http_client(), httpx2.AsyncClient)
    assert [record.getMessage() for record in caplog.records] == [
        "cache.padding has no effect in SDK clients: the prompt of a client is never padded; "
        "only the agent pads its own."
    ]


def test_facts_of_ones_own_for_the_clients_of_sdks(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Engine(Settings(facts=FactsSettings(overrides=("seed-floors",)))).http_client()
    assert [record.getMessage() for record in caplog.records] == [
        "facts.overrides has no effect in SDK clients: facts are those of the whole process; "
        "share yours with use(Facts.load([…])) of holdfast.facts."
    ]


@pytest.mark.parametrize(("key", "value"), [("cache.repair", "on"), ("cache.client_markers", "manage")])
async def test_what_is_for_clients_is_said_to_a_program_that_gives_it_to_its_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, key: str, value: str
) -> None:
    monkeypatch.delenv("HOLDFAST_CACHE_PLACEMENT")
    with caplog.at_level(logging.WARNING):
        given = {"home": tmp_path / "home", "provider": Simulated(Simulator())}
        async with open_agent(tmp_path, flags={key: value}, **given):  # type: ignore[arg-type]
            pass
    assert [record.getMessage() for record in caplog.records] == [
        f"{key} has no effect in the agent: it is for clients of the gateway and of the SDKs only."
    ]


def test_nothing_is_said_where_nothing_is_set(
    chat: Chatting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("STRATEGY", "PLACEMENT"):
        monkeypatch.delenv(f"HOLDFAST_CACHE_{name}")
    done = chat("Hello")
    assert "no effect" not in done.err
    with caplog.at_level(logging.WARNING):
        Engine(Settings()).http_client()
    assert caplog.records == []
