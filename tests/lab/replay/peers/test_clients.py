"""Claude Code and opencode at work, where they are installed, beside our models of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Mark
from tests.clients.agents import Agent
from tests.clients.agents.claude_code import ClaudeCode
from tests.clients.agents.opencode import OpenCode
from tests.clients.comparison import provider, task
from tests.clients.programs import Place
from tests.lab.replay.peers.comparison import compared, sent

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("agent", [ClaudeCode(), OpenCode()], ids=["claude-code", "opencode"])
def test_a_task(agent: Agent, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Two runs, the second of which resumes the first, with tools one by one and side by side."""
    program = agent.find()
    with provider(agent, tmp_path) as (simulator, address):
        task(agent, program, tmp_path / "run", simulator, address)
    recorded = sent(simulator.calls)
    assert len(recorded) >= 5
    compared(request.node.callspec.id, recorded)


def test_opencode_with_a_file(tmp_path: Path) -> None:
    """A user's message of several texts, and the request for a title that is made of it."""
    agent = OpenCode()
    program = agent.find()
    with provider(agent, tmp_path) as (simulator, address):
        place = Place(tmp_path / "run")
        (place.work / "list.txt").write_text("eggs", "utf-8")
        command = [program, "run", "-m", "anthropic/claude-sonnet-4-5", "Please make a note.", "-f", "list.txt"]
        place.run(command, agent.environment(place, address))
    recorded = sent(simulator.calls)
    assert any(len(prompt.blocks) == 5 and prompt.blocks[0].section == "system" for prompt in recorded)
    compared("opencode", recorded)


@pytest.mark.parametrize("arguments", [["--tools", ""], ["--model", "claude-sonnet-4-5"]], ids=["no-tools", "sonnet"])
def test_claude_code_otherwise(arguments: list[str], tmp_path: Path) -> None:
    agent = ClaudeCode()
    program = agent.find()
    with provider(agent, tmp_path) as (simulator, address):
        place = Place(tmp_path / "run")
        place.run([program, "-p", "Say something.", *arguments], agent.environment(place, address))
    compared("claude-code", sent(simulator.calls))


def test_claude_code_with_its_switch_for_one_hour(tmp_path: Path) -> None:
    agent = ClaudeCode()
    program = agent.find()
    with provider(agent, tmp_path) as (simulator, address):
        place = Place(tmp_path / "run")
        environment = agent.environment(place, address) | {"ENABLE_PROMPT_CACHING_1H": "1"}
        place.run([program, "-p", "Say something."], environment)
    recorded = sent(simulator.calls)
    assert {mark.ttl for prompt in recorded for mark in prompt.marks} == {"1h"}
    shorter = [[Mark(mark.block, "5m") for mark in prompt.marks] for prompt in recorded]
    compared("claude-code", [replace(p, marks=tuple(m)) for p, m in zip(recorded, shorter, strict=True)])
