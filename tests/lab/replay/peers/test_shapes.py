"""The recorded requests of real clients beside our models of these clients."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Mark, Prompt
from tests import shapes
from tests.lab.replay.peers.comparison import compared, ordered, prompts
from tests.shapes import SOURCE, needs_recordings

CLIENTS = {
    "claude-code": ("claude-code-2.1.325", "claude-code-tui", "claude-agent-sdk"),
    "opencode": ("opencode-1.18",),
    "langchain": ("deepagents-0.7",),
    "pydantic-ai": ("pydantic-ai-2.66",),
}
OFF = [("pydantic-ai-2.66", "anthropic")]
"""Runs in which the client's caching was not switched on."""

Recorded = Sequence[tuple[str, str, str, str | None]]
"""Client, run, path and body of each request."""


def told(name: str, recorded: Recorded) -> list[Prompt]:
    """The prompts of the clients that a model stands for."""
    posted = []
    for client, run, path, body in recorded:
        if client in CLIENTS[name] and body is not None and (client, run) not in OFF and not is_title(name, body):
            posted.append((path.partition("?")[0], body.encode("utf-8", "surrogatepass")))
    return [as_with_a_key(prompt) for prompt in prompts(posted)] if name == "claude-code" else prompts(posted)


def is_title(name: str, body: str) -> bool:
    """Claude Code asks for titles beside the conversation, in a form of its own and without any marker."""
    if name != "claude-code" or json.loads(body).get("tools"):
        return False
    assert "cache_control" not in body
    assert json.loads(body)["output_config"]["format"]["type"] == "json_schema"
    return True


def as_with_a_key(prompt: Prompt) -> Prompt:
    """With the switch for one hour all markers have it; without it all have five minutes."""
    if {mark.ttl for mark in prompt.marks} == {"1h"}:
        return replace(prompt, marks=ordered(Mark(mark.block, "5m") for mark in prompt.marks))
    return prompt


@pytest.mark.parametrize("name", CLIENTS)
def test_as_in_the_fixtures(name: str) -> None:
    recorded = [(each.client, each.run, each.path, each.body) for each in shapes.load()]
    compared(name, told(name, [(*each, body and body.decode("utf-8", "surrogatepass")) for *each, body in recorded]))


@needs_recordings
@pytest.mark.parametrize("name", CLIENTS)
def test_as_in_the_recordings(name: str) -> None:
    lines = [line for path in sorted(SOURCE.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    recorded = [json.loads(line) for line in lines]
    compared(name, told(name, [(each["client"], each["run"], each["path"], each["body"]) for each in recorded]))
