"""Claude Code against the simulator: a session with tools, its continuation, a sub-agent, and a title on the side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.programs import KEY, Place, Watched, program

pytestmark = pytest.mark.slow

SCRIPT = """
rules:
  - when: {contains: <session>}
    say: '{"title": "Making a note"}'
  - when: {contains: make a note}
    think: A file will do.
    say: I write it down.
    call: {tool: Bash, input: {command: "printf 'buy milk' > note.txt; ls", description: Write the note}}
  - when: {contains: what did I want}
    call:
      - {tool: Read, input: {file_path: "WORK/note.txt"}}
      - {tool: Bash, input: {command: "wc -c note.txt", description: Count}}
  - when: {contains: send somebody}
    call:
      tool: Agent
      input:
        description: Look
        prompt: look for the list
        subagent_type: general-purpose
        model: haiku
        run_in_background: false
  - when: {contains: look for the list}
    call: {tool: Bash, input: {command: "printf 'eggs' > list.txt; ls", description: Write the list}}
  - when: {matches: list.txt}
    say: There is a list now.
  - when: {tool_result: Agent}
    say: Somebody made a list.
  - when: {matches: 8 note.txt}
    say: You wanted to buy milk.
  - when: {tool_result: Bash}
    call: {tool: Read, input: {file_path: "WORK/note.txt"}}
  - when: {tool_result: Read}
    say: The note is written.
"""


class Client(NamedTuple):
    """Claude Code installed, in a place of its own, with a simulator to talk to."""

    program: str
    place: Place
    simulator: Watched
    environment: dict[str, str]

    def ask(self, words: str, *arguments: str) -> str:
        command = [self.program, "-p", words, *arguments, "--allowedTools", "Bash,Read,Agent"]
        return self.place.run(command, self.environment).strip()

    def requests(self) -> list[dict[str, Any]]:
        return self.simulator.requests()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    claude = program("claude", "Claude Code")
    place = Place(tmp_path)
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.replace("WORK", str(place.work)), "utf-8")
    simulator = Watched(script=load_script(script))
    with running(simulator) as address:
        environment = place.environment(
            ANTHROPIC_BASE_URL=address,
            ANTHROPIC_API_KEY=KEY,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
        yield Client(claude, place, simulator, environment)


def markers(body: dict[str, Any]) -> list[str]:
    """Where a request is marked."""
    found = [f"system[{index}]" for index, block in enumerate(body["system"]) if "cache_control" in block]
    found += [f"tools[{index}]" for index, tool in enumerate(body["tools"]) if "cache_control" in tool]
    for index, message in enumerate(body["messages"]):
        blocks = message["content"] if isinstance(message["content"], list) else []
        found += [f"messages[{index}]" for block in blocks if "cache_control" in block]
    return found


def test_a_session_with_tools_and_its_continuation(client: Client) -> None:
    assert client.ask("Please make a note.") == "The note is written."
    assert (client.place.work / "note.txt").read_text() == "buy milk"
    assert client.ask("And what did I want?", "--continue") == "You wanted to buy milk."

    requests = client.requests()
    assert [request["status"] for request in requests] == [200] * 5
    assert {request["state"] for request in requests} == {"complete"}
    assert len({request["session"] for request in requests}) == 1
    assert all(request["session"] for request in requests)

    used = [request["usage"] for request in requests]
    assert used[0]["read"] == 0
    for earlier, later in pairwise(used):
        assert later["read"] == earlier["read"] + earlier["written"]["5m"] > earlier["read"]

    for body in client.simulator.bodies():
        assert markers(body)[:2] == ["system[1]", "system[2]"]
        last = len(body["messages"]) - 1
        assert markers(body)[2:] == [f"messages[{last}]"]


def test_the_thoughts_and_results_come_back_as_they_were_sent(client: Client) -> None:
    client.ask("Please make a note.")
    first, _, third = client.simulator.bodies()
    assert len(first["messages"]) < len(third["messages"])
    kinds = [block["type"] for block in third["messages"][len(first["messages"])]["content"]]
    assert kinds == ["thinking", "text", "tool_use"]
    results = [block for message in third["messages"] for block in message["content"] if isinstance(block, dict)]
    assert "1\tbuy milk" in [block.get("content") for block in results if block["type"] == "tool_result"]


def test_a_sub_agent_on_a_small_model_works_beside_the_conversation(client: Client) -> None:
    assert client.ask("Please send somebody.") == "Somebody made a list."
    assert (client.place.work / "list.txt").read_text() == "eggs"

    requests = client.requests()
    assert len({request["session"] for request in requests}) == 1
    small = [request for request in requests if "haiku" in request["model"]]
    assert [request["state"] for request in small][-2:] == ["complete", "complete"]
    # It tries system messages on this model, which has none, and goes on without them.
    refused = [request["error"] for request in requests if request["state"] == "refused"]
    assert set(refused) <= {"role 'system' is not supported on this model"}
    used = [request["usage"] for request in small if request["state"] == "complete"]
    assert used[-1]["read"] == used[-2]["read"] + used[-2]["written"]["5m"] > 0
    large = [request["usage"] for request in requests if request not in small]
    assert large[-1]["read"] == large[0]["written"]["5m"]


def test_a_session_on_a_terminal_asks_for_a_title_first(client: Client) -> None:
    """What it asks about on the side has no tools, has a JSON schema and does not disturb the conversation."""
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(client.place.work): {"hasTrustDialogAccepted": True}},
    }
    (client.place.home / ".claude.json").write_text(json.dumps(known))
    environment = client.environment | {"DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1"}
    del environment["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"]
    command = [client.program, "Please make a note.", "--allowedTools", "Bash,Read"]

    def complete() -> bool:
        requests = [request for request in client.requests() if request["method"] == "POST"]
        return len(requests) >= 4 and all(request["state"] != "open" for request in requests)

    client.place.attend(command, environment, until=complete)
    assert (client.place.work / "note.txt").read_text() == "buy milk"
    requests = [request for request in client.requests() if request["method"] == "POST"]
    asked = list(zip(client.simulator.bodies(), requests, strict=True))
    titles = [request for body, request in asked if "format" in body.get("output_config", {})]
    talk = [request["usage"] for body, request in asked if body["tools"]]
    assert [request["status"] for request in requests] == [200] * len(requests)
    assert titles
    assert titles[0]["usage"]["read"] == 0
    assert talk[2]["read"] == talk[1]["read"] + talk[1]["written"]["5m"] > talk[1]["read"] > talk[0]["read"]
