"""Codex against the simulator: a session with tools over the Responses API, and its continuation."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.programs import Place, Watched, program

pytestmark = pytest.mark.slow

SCRIPT = """
rules:
  - when: {contains: make a note}
    say: I write it down.
    call: {tool: exec_command, input: {cmd: "printf 'buy milk' > note.txt; ls"}}
  - when: {contains: what did I want}
    call:
      - {tool: exec_command, input: {cmd: "wc -c note.txt"}}
      - {tool: exec_command, input: {cmd: "cat note.txt"}}
  - when: {matches: 8 note.txt}
    say: You wanted to buy milk.
  - when: {contains: buy milk}
    say: The note is written.
  - when: {tool_result: exec_command}
    call: {tool: exec_command, input: {cmd: "cat note.txt"}}
"""


def options(address: str) -> list[str]:
    provider = f'{{name="simulator",base_url="{address}/v1",env_key="SIMULATOR_KEY",wire_api="responses"}}'
    settings = [
        "model_provider=simulator",
        f"model_providers.simulator={provider}",
        'sandbox_mode="danger-full-access"',
    ]
    return ["--skip-git-repo-check", "-m", "gpt-5.5", *(word for each in settings for word in ("-c", each))]


def test_a_session_with_tools_and_its_continuation(tmp_path: Path) -> None:
    codex = program("codex", "Codex")
    place = Place(tmp_path)
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, "utf-8")
    simulator = Watched(script=load_script(script))
    environment = place.environment(SIMULATOR_KEY="sk-dummy")
    with running(simulator) as address:
        said = place.run([codex, "exec", *options(address), "Please make a note."], environment)
        assert said.strip() == "The note is written."
        assert (place.work / "note.txt").read_text() == "buy milk"
        again = [codex, "exec", "resume", "--last", *options(address), "And what did I want?"]
        assert place.run(again, environment).strip() == "You wanted to buy milk."

    requests = [request for request in simulator.requests() if request["method"] == "POST"]
    assert [request["status"] for request in requests] == [200] * 5
    assert {request["state"] for request in requests} == {"complete"}
    assert len({request["session"] for request in requests}) == 1
    assert {body["prompt_cache_key"] for body in simulator.bodies()} == {requests[0]["session"]}
    # It repeats every item as it was, so each request finds the one before whole, in steps of 128 tokens.
    assert requests[0]["usage"]["read"] == 0
    for earlier, later in pairwise(requests):
        assert later["usage"]["read"] == earlier["prompt_tokens"] // 128 * 128 > 0
