"""Claude Code with `holdfast mcp` among its servers: it lists the tools, calls them and shows the model the answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.cli.shape_logs import log
from tests.clients.programs import KEY, Place, Watched, program

pytestmark = pytest.mark.slow

SCRIPT = """
rules:
  - when: {contains: <session>}
    say: '{"title": "Money"}'
  - when: {contains: what did it cost}
    call: {tool: mcp__holdfast__explain, input: {paths: ["WORK/a.jsonl"]}}
  - when: {tool_result: mcp__holdfast__explain}
    call: {tool: mcp__holdfast__discover_tools, input: {query: weather}}
  - when: {tool_result: mcp__holdfast__discover_tools}
    say: That is what it cost.
"""
TOOLS = [f"mcp__holdfast__{name}" for name in ("explain", "discover_tools", "call_tool")]


def results(bodies: list[dict[str, Any]]) -> list[str]:
    """What the model was answered, call by call."""
    blocks = [block for message in bodies[-1]["messages"] for block in message["content"] if isinstance(block, dict)]
    return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]


def test_claude_code_lists_and_calls_the_tools(tmp_path: Path) -> None:
    claude = program("claude", "Claude Code")
    place = Place(tmp_path)
    log(place.work / "a.jsonl")
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.replace("WORK", str(place.work)), "utf-8")
    servers = {"mcpServers": {"holdfast": {"command": sys.executable, "args": ["-m", "holdfast", "mcp"]}}}
    simulator = Watched(script=load_script(script))
    with running(simulator) as address:
        environment = place.environment(
            ANTHROPIC_BASE_URL=address,
            ANTHROPIC_API_KEY=KEY,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
            ENABLE_TOOL_SEARCH="false",  # otherwise it keeps the tools of servers back until its own search finds them
        )
        options = ["--mcp-config", json.dumps(servers), "--strict-mcp-config", "--allowedTools", ",".join(TOOLS)]
        said = place.run([claude, "-p", "Now, what did it cost?", *options], environment)
    assert said.strip() == "That is what it cost."

    talk = [body for body in simulator.bodies() if body.get("tools")]
    for body in talk:
        assert set(TOOLS) <= {tool["name"] for tool in body["tools"]}
        assert body["tools"] == talk[0]["tools"]  # nothing that is found or called changes the list
    explained, discovered = results(talk)
    assert "## Prompt cache: 2 breaks, $0.0466 lost" in explained
    assert "No MCP servers are configured" in discovered
