"""The Gemini CLI against the simulator: a session with tools, some of them in parallel."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from tests.clients.programs import Place, Watched, program

pytestmark = pytest.mark.slow

SEED = 16
"""Whether an implicit hit comes is drawn; with this seed the first five all come."""

SCRIPT = """
rules:
  - when: {contains: make a note}
    say: I write it down.
    call: {tool: run_shell_command, input: {command: "printf 'buy milk' > note.txt; ls"}}
  - when: {matches: 8 note.txt}
    say: The note has eight letters.
  - when: {tool_result: run_shell_command}
    call:
      - {tool: read_file, input: {file_path: note.txt}}
      - {tool: run_shell_command, input: {command: "wc -c note.txt"}}
"""


def test_a_session_with_tools(tmp_path: Path) -> None:
    gemini = program("gemini", "Gemini CLI")
    place = Place(tmp_path)
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT, "utf-8")
    settings = place.home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
    simulator = Watched(script=load_script(script), seed=SEED)
    with running(simulator) as address:
        environment = place.environment(
            GEMINI_API_KEY="dummy", GOOGLE_GEMINI_BASE_URL=address, GEMINI_CLI_TRUST_WORKSPACE="true"
        )
        command = [gemini, "-m", "gemini-2.5-pro", "--yolo", "-p", "Please make a note."]
        assert place.run(command, environment).strip().endswith("The note has eight letters.")
        assert (place.work / "note.txt").read_text() == "buy milk"

    requests = simulator.requests()
    assert [request["status"] for request in requests] == [200] * 3
    assert {request["state"] for request in requests} == {"complete"}
    # It repeats every part as it was, so each request shares the whole of the one before.
    assert requests[0]["usage"]["read"] == 0
    for earlier, later in pairwise(requests):
        assert later["usage"]["read"] == earlier["prompt_tokens"] > 5000
    results = [part["functionResponse"] for part in simulator.bodies()[-1]["contents"][-1]["parts"]]
    assert [result["name"] for result in results] == ["read_file", "run_shell_command"]
    assert results[0]["response"]["output"] == "buy milk"
