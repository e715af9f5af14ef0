"""Settings that a gateway hands on: to its engine, to its reports, to the agents that it serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.simulator.server import running as simulating
from tests.simulator.served import ANTHROPIC, LONG, Client

from .gate import eventually, gated
from .test_memory import ON, QUESTION, Kept, ask, learn

HOUR = {"type": "ephemeral", "ttl": "1h"}


def said(*texts: str) -> dict[str, Any]:
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "claude-opus-4-6", "max_tokens": 500, "system": LONG, "messages": messages}


def test_c7_a_break_is_reported_where_the_settings_say(tmp_path: Path) -> None:
    reports, simulator = tmp_path / "reports", Kept()
    with simulating(simulator) as upstream, gated(tmp_path, upstream, cache__breaks__dir=str(reports)) as gate:
        client, headers = Client(gate.address), ANTHROPIC | {"x-holdfast-session": "s"}
        assert client.post("/v1/messages", said("one"), headers).status == 200
        assert client.post("/v1/messages", said("one", "yes", "two"), headers).status == 200
        assert not list(reports.glob("*"))
        simulator.reset()  # what was cached is gone, and nobody has said why
        assert client.post("/v1/messages", said("one", "yes", "two", "yes", "three"), headers).status == 200
        eventually(lambda: list(reports.glob("*.jsonl")))
    (report,) = reports.glob("*.jsonl")
    assert b'"cause":"likely_server_side"' in report.read_bytes()


def test_an_agents_own_settings_count_for_its_requests(tmp_path: Path) -> None:
    home = tmp_path / "holdfast"
    home.mkdir()
    toml = '[cache]\nstrategy = "two-point"\n\n[agents.clerk.cache]\nstrategy = "passthrough"\n'
    (home / "holdfast.toml").write_text(toml, "utf-8")
    simulator = Kept()
    with simulating(simulator) as upstream, gated(tmp_path, upstream) as gate:
        for agent in ("", "clerk"):
            headers = ANTHROPIC | ({"x-holdfast-agent": agent} if agent else {})
            assert Client(gate.address).post("/v1/messages", said("one"), headers).status == 200
    first, second = (json.loads(body) for body in simulator.bodies)
    assert first["system"][0]["cache_control"]
    assert second == said("one")


@pytest.mark.parametrize("strategy", ["two-point", "rolling", "zones", "three-block", "economic"])
def test_e3_under_every_strategy_the_preferences_are_kept_for_an_hour(tmp_path: Path, strategy: str) -> None:
    simulator = Kept()
    with simulating(simulator) as upstream, gated(tmp_path, upstream, **ON, cache__strategy=strategy) as gate:
        learn(gate)
        ask(gate, QUESTION)
    host, stable = simulator.last["system"]
    assert "cache_control" not in host
    assert stable["cache_control"] == HOUR


@pytest.mark.parametrize(("subscriptions", "marked"), [("observe", False), ("manage", True)])
def test_a_subscriptions_requests_are_planned_only_if_the_user_says_so(
    tmp_path: Path, subscriptions: str, marked: bool
) -> None:
    flags = {"cache__strategy": "two-point", "gateway__subscriptions": subscriptions}
    headers = {"authorization": "Bearer sk-ant-oat01-x", "anthropic-version": "2023-06-01"}
    simulator = Kept()
    with simulating(simulator) as upstream, gated(tmp_path, upstream, **flags) as gate:
        assert Client(gate.address).post("/v1/messages", said("one"), headers).status == 200
    assert (b"cache_control" in simulator.bodies[0]) is marked
