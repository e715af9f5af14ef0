"""Settings of the cache page that every door has, for an agent, behind the gateway and in an SDK."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import OpenAI

from holdfast import Engine
from holdfast.agent.stable_text import PERSONA
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.cache import OpenAISettings as StoreCompletions
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.server import running as simulating
from tests.agent.bench import START
from tests.agent.open_agents import opened
from tests.gateway.gate import RecordingSimulator, eventually, gated
from tests.simulator.http_client import ANTHROPIC, LONG, OPENAI, Client

MODEL = "openai:gpt-6.1-sol"
ANSWER = {
    "id": "resp_1",
    "object": "response",
    "created_at": 0,
    "status": "completed",
    "model": "gpt-6.1-sol",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11},
}
ASKED: dict[str, Any] = {"model": "gpt-6.1-sol", "input": "hello"}
each_way = pytest.mark.parametrize("on", [True, False])


@each_way
def test_c16_an_agents_completions_are_stored_if_the_settings_say_so(tmp_path: Path, on: bool) -> None:
    async def main() -> dict[str, Any]:
        toml = f"[cache.openai]\nstore_completions = {json.dumps(on)}\n"
        async with opened(tmp_path, toml, flags={"agent.model": MODEL}) as agent:
            await agent.begin("hello")
            return agent.bodies[0]

    assert asyncio.run(main())["store"] is on


@each_way
def test_c16_and_those_of_a_client_behind_the_gateway(tmp_path: Path, on: bool) -> None:
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream, gated(tmp_path, upstream, cache__openai__store_completions=on) as gate:
        assert Client(gate.address).post("/v1/responses", ASKED, OPENAI).status == 200
    assert simulator.last.get("store") is (True if on else None)


@each_way
def test_c16_and_those_of_an_sdk(on: bool) -> None:
    received: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        received.append(request.content)
        return httpx2.Response(200, json=ANSWER)

    cache = CacheSettings(openai=StoreCompletions(store_completions=on))
    engine = Engine(
        Settings(cache=cache, gateway=GatewaySettings(limits=LimitSettings(stages_ms=60_000, wait_ms=60_000)))
    )
    with engine.http_client(transport=httpx2.MockTransport(answer)) as http:
        OpenAI(api_key="k", http_client=http).responses.create(**ASKED)
    assert json.loads(received[0]).get("store") is (True if on else None)


THRESHOLDS = [({}, 1), ({"min_tokens": 1_000_000}, 0), ({"min_drop": 1.0}, 0)]


@pytest.mark.parametrize(("thresholds", "reports"), THRESHOLDS)
async def test_c6_the_thresholds_of_a_break_act_for_an_agent(
    tmp_path: Path, thresholds: dict[str, float], reports: int
) -> None:
    place = tmp_path / "reports"
    toml = f'[cache]\npadding = "always"\n[cache.breaks]\ndir = "{place}"\n'
    toml += "".join(f"{name} = {value}\n" for name, value in thresholds.items())
    clock = VirtualClock(START)
    simulator = Simulator(clock=clock)
    async with opened(tmp_path, toml, clock=clock, simulator=simulator) as agent:
        session = await agent.sessions.create()
        for turn in range(3):
            if turn == 2:
                simulator.reset()  # what was cached is gone, and nobody has said why
            await session.ask(f"turn {turn}")
    assert len(list(place.glob("*.jsonl"))) == reports


@pytest.mark.parametrize(("thresholds", "breaks"), THRESHOLDS)
def test_c6_the_thresholds_of_a_break_act_behind_the_gateway(
    tmp_path: Path, thresholds: dict[str, float], breaks: int
) -> None:
    flags = {f"cache__breaks__{name}": value for name, value in thresholds.items()}
    simulator, said = RecordingSimulator(), list[dict[str, str]]()
    with simulating(simulator) as upstream, gated(tmp_path, upstream, **flags) as gate:
        store = gate.gateway.store
        for turn in range(3):
            if turn == 2:
                simulator.reset()
            said.append({"role": "user", "content": f"turn {turn}"})
            body = {"model": "claude-opus-4-6", "max_tokens": 100, "system": LONG, "messages": said}
            headers = ANTHROPIC | {"x-holdfast-session": "s"}
            assert Client(gate.address).post("/v1/messages", body, headers).status == 200
            said.append({"role": "assistant", "content": "Yes."})
            eventually(lambda: sum(call.status == "settled" for call in store.calls()) == len(said) // 2)
        assert len([each for each in store.breaks() if each.reason is None]) == breaks


async def test_c22_what_the_system_text_is_made_of(tmp_path: Path) -> None:
    folder = tmp_path / "work" / "library" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Fills forms.\n---\n\nDo it.\n", "utf-8")
    (tmp_path / "work" / "AGENTS.md").write_text("Run `make test` before you say that it works.", "utf-8")
    async with opened(tmp_path, '[skills]\nroots = ["library"]\n[cache]\npadding = "off"\n') as agent:
        await agent.begin("hello")
        text = agent.system()
    parts = [text.index(part) for part in (PERSONA, "# Security", "Run `make test`", "- pdf: Fills forms.")]
    assert parts == sorted(parts)
    assert "Do it." not in text
