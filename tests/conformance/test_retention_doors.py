"""Seed cache-page, C75: `cache.retention` changes nothing on Gemini, through every door.

The same conversation is held with each value; what reaches the provider is the same, byte for byte. On Anthropic it is
not, in the same test and by the same door: so the setting is known to have arrived.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.cache import CacheSettings, GeminiSettings
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.server import running
from tests.agent.bench import Bench, settings
from tests.clients.engine_inside import opened
from tests.gateway.gate import gated
from tests.simulator.http_client import Client

START = 1_800_000_000.0
VALUES = ("none", "short", "long")
SYSTEM = "You keep the records of a library, and answer questions about them. " * 400
GEMINI, ANTHROPIC = "gemini-2.5-pro", "claude-sonnet-5-5"
TURNS = 5


class Watched(Simulator):
    """A simulator that keeps the requests which reach it."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.bodies: list[bytes] = []

    def begin(self, call: HttpRequest) -> Any:
        if call.method == "POST" and "cachedContents" not in call.path:
            self.bodies.append(call.body)
        return super().begin(call)


def cache(retention: str) -> CacheSettings:
    return CacheSettings(strategy="zones", adaptive=False, retention=retention, gemini=GeminiSettings(enabled=True))  # type: ignore[arg-type]


def asked(provider: str, turns: int) -> tuple[str, dict[str, Any], dict[str, str]]:
    """A request of a conversation that grows: path, body, headers."""
    said = [("user", "question 0")]
    for number in range(1, turns):
        said += [("assistant", f"answer {number}"), ("user", f"question {number}")]
    if provider == "gemini":
        contents = [
            {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]} for role, text in said
        ]
        body = {"contents": contents, "systemInstruction": {"parts": [{"text": SYSTEM}]}}
        return f"/v1beta/models/{GEMINI}:generateContent", body, {"x-goog-api-key": "k"}
    messages = [{"role": role, "content": text} for role, text in said]
    body = {"model": ANTHROPIC, "max_tokens": 64, "system": SYSTEM, "messages": messages}
    return "/v1/messages", body, {"x-api-key": "k", "anthropic-version": "2023-06-01"}


def through_the_agent(place: Path, provider: str, retention: str) -> list[bytes]:
    async def talk() -> list[bytes]:
        model = f"gemini:{GEMINI}" if provider == "gemini" else f"anthropic:{ANTHROPIC}"
        config = settings(model=model, cache=cache(retention))
        async with Bench(place / "bench", config=config, persona=SYSTEM) as bench:
            session = await bench.sessions.create()
            for number in range(TURNS):
                turn = await session.ask(f"question {number}")
                assert turn.ended == "completed", turn.problem
                while bench.sessions.contents.under_way:
                    await asyncio.sleep(0)
                bench.clock.advance(30)
            return [raw for _, _, raw in bench.sent]

    return asyncio.run(talk())


@contextmanager
def served() -> Iterator[tuple[Watched, VirtualClock, str]]:
    clock = VirtualClock(START)
    simulator = Watched(clock)
    with running(simulator) as address:
        yield simulator, clock, address


def through_the_gateway(place: Path, provider: str, retention: str) -> list[bytes]:
    flags = {"cache__strategy": "zones", "cache__adaptive": False, "cache__retention": retention}
    with served() as (simulator, clock, upstream), gated(place / "home", upstream, clock.now, **flags) as gate:
        client = Client(gate.address)
        for turns in range(1, TURNS + 1):
            path, body, headers = asked(provider, turns)
            assert client.post(path, body, headers | {"x-holdfast-session": "s"}).status == 200
            clock.advance(30)
        return simulator.bodies


def through_an_sdk_client(place: Path, provider: str, retention: str) -> list[bytes]:
    chosen = CacheSettings(strategy="zones", adaptive=False, retention=retention)  # type: ignore[arg-type]
    with (
        served() as (simulator, clock, upstream),
        opened(place, chosen, clock=clock.now) as inside,
        inside.engine.http_client() as http,
    ):
        for turns in range(1, TURNS + 1):
            path, body, headers = asked(provider, turns)
            raw = json.dumps(body).encode()
            sent = headers | {"content-type": "application/json", "x-holdfast-session": "s"}
            assert http.post(upstream + path, content=raw, headers=sent).status_code == 200
            clock.advance(30)
        return simulator.bodies


@pytest.mark.parametrize("door", [through_the_agent, through_the_gateway, through_an_sdk_client])
def test_c75_retention_changes_nothing_on_gemini(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: Callable[[Path, str, str], list[bytes]]
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    sent: dict[str, list[list[bytes]]] = {"gemini": [], "anthropic": []}
    for provider in sent:
        for retention in VALUES:
            place = tmp_path / "place"  # the same for all: an agent's prompt names it
            place.mkdir()
            sent[provider].append(door(place, provider, retention))
            shutil.rmtree(place)
    none, short, long = sent["gemini"]
    assert len(none) == TURNS
    assert none == short == long
    none, short, long = (b"".join(bodies) for bodies in sent["anthropic"])
    assert b"cache_control" not in none
    assert b"cache_control" in short
    assert b'"1h"' in long
    assert b'"1h"' not in short
