"""The libraries at work: a conversation with tools, sent by each in its own environment, and our model of it.

`make bench-peers` installs them; without one its tests are skipped by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.caches.prompts import Prompt
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from scripts.install_peers import environment
from tests.clients.programs import Place, Watched
from tests.lab.replay.peers.comparison import compared, sent

pytestmark = pytest.mark.slow

DRIVERS = Path(__file__).parent / "drivers"
TITLES = {"litellm": "LiteLLM", "langchain": "langchain", "pydantic-ai": "pydantic-ai"}
LOOKUPS = 24
"""Parallel calls in the largest turn: more than a provider walks back over, if each counted."""

TOWNS = [{"tool": "lookup", "input": {"name": name}} for name in ("Oslo", "Bergen")]
MANY = [{"tool": "lookup", "input": {"name": f"place {number}"}} for number in range(LOOKUPS)]
RULES = [
    {"when": {"contains": "two towns"}, "say": "I look both up.", "call": TOWNS},
    {"when": {"contains": "everything"}, "call": MANY},
    {"when": {"tool_result": "lookup"}, "call": {"tool": "note", "input": {"name": "places"}}},
    {"when": {"tool_result": "note"}, "say": "All of it is known."},
    {"say": "With pleasure."},
]
TURNS = ["Compare two towns.", "Now look up everything.", "Thank you."]
REQUESTS = 2 * 7
"""Two conversations: two turns with two rounds of tools each and one without."""

SAID = (("user", "Why {}?"), ("assistant", "Because of {}."))
TALK: dict[str, Any] = {
    "system": ["You know the places of a country. " * 40, "Answer in one sentence, and look up what you name."],
    "tools": {"lookup": "Say what is known of a place.", "note": "Write something down."},
    "schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "turns": TURNS,
}
HISTORY = [(role, said.format(number)) for number in range(30) for role, said in SAID]

Session = Callable[[str, str], list[Prompt]]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Runs a driver in a tool's environment and gives what it sent."""

    def run(name: str, route: str) -> list[Prompt]:
        place = environment(name)
        if place is None:
            pytest.skip(f"{TITLES[name]} is not installed; run `make bench-peers`")
        script, talk, home = tmp_path / "script.json", tmp_path / "talk.json", Place(tmp_path)
        script.write_text(json.dumps({"rules": RULES}), "utf-8")
        talk.write_text(json.dumps(TALK | {"histories": [[], HISTORY]}), "utf-8")
        simulator = Watched(script=load_script(script))
        with running(simulator) as address:
            told = {"ADDRESS": address, "TALK": str(talk), "ROUTE": route, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
            driver = str(DRIVERS / f"{name.replace('-', '_')}_session.py")
            home.run([str(place / "bin" / "python"), driver], home.environment(**told))
        assert {record.status for record in simulator.journal.records()} == {200}
        return sent(simulator.calls)

    return run


@pytest.mark.parametrize(
    ("name", "route", "marks"),
    [
        *(("litellm", route, 2) for route in ("messages", "chat", "points")),
        *(("langchain", route, 3) for route in ("deepagents", "agent")),
        *(("pydantic-ai", route, 3) for route in ("cache", "each", "blocks")),
    ],
)
def test_a_library(session: Session, name: str, route: str, marks: int) -> None:
    recorded = session(name, route)
    assert len(recorded) == REQUESTS
    compared(name, recorded)
    assert {len(prompt.marks) for prompt in recorded} == {marks}


@pytest.mark.parametrize("route", ["chat", "responses"])
def test_pydantic_ai_with_openai(session: Session, route: str) -> None:
    place = environment("pydantic-ai")
    if place is not None and not list(place.glob("lib/python*/site-packages/openai")):
        pytest.skip("pydantic-ai is installed without OpenAI's SDK; run `make bench-peers`")
    recorded = session("pydantic-ai", route)
    assert len(recorded) == REQUESTS
    compared("pydantic-ai", recorded)
    assert {len(prompt.marks) for prompt in recorded} == {1}
