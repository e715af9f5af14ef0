"""A gateway and a simulator on one clock, for what is done between requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.gateway import assembly
from holdfast.gateway.chores import Chores
from holdfast.simulator.clock import VirtualClock
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.simulator.http_client import Client

from .gate import Gated, eventually, gated

START = 1_790_000_000.0


SYSTEM = "You keep the records of a library, and answer questions about them. "


GEMINI = "/v1beta/models/gemini-3-pro:generateContent"


class Here(Chores):
    """Chores that can be begun from outside of their loop."""

    def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        super().start()


class Driven:
    """A gateway and a simulator on one clock."""

    def __init__(self, gate: Gated, simulator: str, clock: VirtualClock) -> None:
        self.gate, self.clock = gate, clock
        self.client, self.simulator = Client(gate.address), Client(simulator)

    @property
    def chores(self) -> Here:
        found = self.gate.gateway.app.chores
        assert isinstance(found, Here)
        return found

    def round(self) -> None:
        asyncio.run_coroutine_threadsafe(self.chores.run_due(), self.chores.loop).result(20)
        eventually(lambda: not self.chores.under_way)

    def anthropic(self, turns: int) -> Any:
        messages = [{"role": "user", "content": "question 0"}]
        for number in range(1, turns):
            messages += [{"role": "assistant", "content": "answer"}, {"role": "user", "content": f"question {number}"}]
        body = {"model": "claude-sonnet-5-5", "max_tokens": 64, "system": SYSTEM * 60, "messages": messages}
        headers = {
            "x-api-key": "sk-ant-dummy",
            "anthropic-version": "2023-06-01",
            "x-holdfast-session": "s1",
            "user-agent": "some-client/1.0",
            "x-of-the-client": "1",
        }
        response = self.client.post("/v1/messages?beta=true", body, headers)
        assert response.status == 200
        return response.json["usage"]

    def gemini(self, turns: int, query: str = "", headers: dict[str, str] | None = None, session: str = "s1") -> Any:
        contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": f"question 0 of {session}"}]}]
        for turn in range(1, turns):
            contents += [
                {"role": "model", "parts": [{"text": f"answer {turn}"}]},
                {"role": "user", "parts": [{"text": f"question {turn}"}]},
            ]
        body = {"contents": contents, "systemInstruction": {"parts": [{"text": session + SYSTEM * 500}]}}
        sent = {"x-holdfast-session": session} | ({"x-goog-api-key": "dummy"} if headers is None else headers)
        before = len(self.gate.calls)
        response = self.client.post(GEMINI + query, body, sent)
        eventually(lambda: len(self.gate.calls) > before and not self.chores.under_way)
        return response

    def objects(self, query: str = "", headers: dict[str, str] | None = None) -> list[str]:
        found = self.simulator.send(
            "GET", f"/v1beta/cachedContents{query}", headers={"x-goog-api-key": "dummy"} if headers is None else headers
        )
        return [each["name"] for each in found.json.get("cachedContents", [])]

    def last(self) -> dict[str, Any]:
        found = self.simulator.get("/_sim/requests?limit=50")["requests"]
        return [each for each in found if each["path"].endswith(":generateContent")][-1]  # type: ignore[no-any-return]


@contextmanager
def driven(home: Path, **flags: Any) -> Iterator[Driven]:
    clock = VirtualClock(START)
    with (
        pytest.MonkeyPatch.context() as patched,
        simulating(Simulator(clock=clock)) as upstream,
    ):
        patched.setattr(assembly, "Chores", Here)
        with gated(home, upstream, clock.now, **flags) as gate:
            yield Driven(gate, upstream, clock)
