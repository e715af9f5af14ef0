"""Memory for programs on the official SDKs: `memory.inject` with the engine inside their HTTP clients."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest

from holdfast import Engine, notices
from holdfast.config import Settings
from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.engine.identity.identities import LOCAL
from holdfast.errors import HoldfastError
from holdfast.memory.injection import MemoryInjector
from holdfast.memory.knowledge import Knowledge
from holdfast.store import SqliteStore, open_store
from holdfast.store.rows import Call

FACT = "Deployments are made on Thursdays, by the night shift."
ASKED = "When do we deploy, and who does it?"
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-6",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 2},
}
SESSION = {"x-holdfast-session": "s"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    notices.forget()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "holdfast.db") as opened:
        Knowledge(opened, LOCAL, clock=time.time).add("When to deploy", FACT, everywhere=True)
        yield opened


def settings(**memory: Any) -> Settings:
    limits = LimitSettings(stages_ms=60_000, wait_ms=60_000)
    return Settings(
        memory=MemorySettings(**{"inject": True, "inject_as": "local"} | memory), gateway=GatewaySettings(limits=limits)
    )


class Asking:
    """Programs with an engine; keeps what the provider gets."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.sent = engine, list[dict[str, Any]]()

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(json.loads(request.content))
        return httpx2.Response(200, json=ANSWER)

    def ask(self, *said: str, key: str = "k", **headers: str) -> Any:
        with self.engine.http_client(transport=httpx2.MockTransport(self._answer)) as http:
            client = anthropic.Anthropic(api_key=key, http_client=http, max_retries=0)
            return client.messages.with_raw_response.create(**_request(said, headers)).headers

    async def ask_async(self, *said: str) -> Any:
        async with self.engine.async_http_client(transport=httpx2.MockTransport(self._answer)) as http:
            client = anthropic.AsyncAnthropic(api_key="k", http_client=http, max_retries=0)
            return (await client.messages.with_raw_response.create(**_request(said, {}))).headers


def recorded(program: Asking, store: SqliteStore) -> list[Call]:
    program.engine.core.close(now=time.time())  # so that a program can go on
    store.flush()
    return store.calls()


def _request(said: tuple[str, ...], headers: dict[str, str]) -> Any:
    messages: list[dict[str, str]] = []
    for text in said:
        messages += [{"role": "assistant", "content": "Hello."}] if messages else []
        messages.append({"role": "user", "content": text})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "model": "claude-opus-4-6",
        "max_tokens": 64,
        "system": "You are careful.",
        "messages": messages,
        "extra_headers": SESSION | named,
    }


def test_what_was_given_stands_in_every_later_request(store: SqliteStore) -> None:
    program = Asking(Engine(settings(), store=store))
    headers = program.ask(ASKED)
    program.ask(ASKED, "Thanks.")
    first, second = program.sent
    assert "stable" in headers["x-holdfast-memory"]
    assert FACT in json.dumps(first)
    assert second["system"][1]["text"] == first["system"][1]["text"]
    assert FACT in json.dumps(second)


def test_another_process_goes_on_with_the_same_bytes(store: SqliteStore) -> None:
    program = Asking(Engine(settings(), store=store))
    program.ask(ASKED)
    program.engine.close(now=time.time())
    later = Asking(Engine(settings(), store=store))
    later.ask(ASKED, "Thanks.")
    assert later.sent[0]["system"][1]["text"] == program.sent[0]["system"][1]["text"]


def test_by_default_each_credential_has_a_memory_of_its_own(store: SqliteStore) -> None:
    program = Asking(Engine(settings(inject_as="tenant"), store=store))
    program.ask(ASKED)
    assert FACT not in json.dumps(program.sent)
    Knowledge(store, recorded(program, store)[0].tenant, clock=time.time).add("When to deploy", FACT, everywhere=True)
    for key, known in (("k", True), ("other", False)):
        program.ask(ASKED, key=key, x_holdfast_session=f"new-{key}")
        assert (FACT in json.dumps(program.sent[-1])) is known


def test_only_tenants_that_are_named_are_given_some(store: SqliteStore) -> None:
    program = Asking(Engine(settings(inject_tenants=("t-nobody",)), store=store))
    assert "x-holdfast-memory" not in program.ask(ASKED)
    assert FACT not in json.dumps(program.sent)


def test_a_request_can_say_that_it_wants_none(store: SqliteStore) -> None:
    program = Asking(Engine(settings(), store=store))
    assert program.ask(ASKED, x_holdfast_memory="off")["x-holdfast-memory"] == "off"
    assert FACT not in json.dumps(program.sent)


def test_it_may_be_set_for_one_agent(store: SqliteStore) -> None:
    program = Asking(Engine(lambda agent: settings(inject=agent == "helper"), store=store))
    program.ask(ASKED)
    program.ask(ASKED, x_holdfast_agent="helper", x_holdfast_session="two")
    assert [FACT in json.dumps(body) for body in program.sent] == [False, True]


def test_switched_off_it_departs_with_a_reason(store: SqliteStore) -> None:
    program = Asking(Engine(settings(), store=store))
    program.ask(ASKED)
    assert recorded(program, store)
    later = Asking(Engine(settings(inject=False), store=store))
    later.ask(ASKED, "Thanks.")
    assert FACT not in json.dumps(later.sent)
    (call,) = [call for call in recorded(later, store) if call.reset not in (None, "session_start")]
    assert call.reset == "bypassed"


def test_whatever_fails_the_programs_own_bytes_go(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise HoldfastError("no store")

    monkeypatch.setattr(MemoryInjector, "remember", broken)
    program = Asking(Engine(settings(), store=store))
    program.ask(ASKED)
    assert program.sent[0]["messages"] == [{"role": "user", "content": ASKED}]


def test_without_a_store_there_is_none_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    program = Asking(Engine(settings()))
    with caplog.at_level(logging.WARNING, "holdfast"):
        program.ask(ASKED)
    assert FACT not in json.dumps(program.sent)
    assert [each.getMessage() for each in caplog.records] == [
        "memory.inject is on, but nothing is stored; give the engine a store: Engine(…, store=…)"
    ]


def test_with_a_store_nothing_is_said(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "holdfast"):
        Asking(Engine(settings(), store=store)).ask(ASKED)
    assert not caplog.records


def test_an_event_loop_does_not_wait_for_the_store(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    whole = MemoryInjector.remember

    def watched(injecting: MemoryInjector, reminder: Any) -> Any:
        threads.append(threading.current_thread())
        return whole(injecting, reminder)

    monkeypatch.setattr(MemoryInjector, "remember", watched)
    program = Asking(Engine(settings(), store=store))
    asyncio.run(program.ask_async(ASKED))
    assert FACT in json.dumps(program.sent)
    assert threads
    assert threading.main_thread() not in threads


def test_a_request_that_is_given_up_meanwhile_is_abandoned(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()
    whole = MemoryInjector.remember

    def slow(injecting: MemoryInjector, reminder: Any) -> Any:
        entered.set()
        go_on.wait(20)
        return whole(injecting, reminder)

    monkeypatch.setattr(MemoryInjector, "remember", slow)
    program = Asking(Engine(settings(), store=store))

    async def main() -> None:
        asked = asyncio.create_task(program.ask_async(ASKED))
        await asyncio.to_thread(entered.wait, 20)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        go_on.set()

    asyncio.run(main())
    assert not program.sent
    assert [call.status for call in recorded(program, store)] == ["abandoned"]
