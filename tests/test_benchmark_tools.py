"""The comparison that docs/tools.md speaks of holds what it says, on a short session."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import tools
from benchmarks.tools_catalogue import SIZES, catalogue


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "dialect", "setting", "carrier"),
    [
        ("anthropic:claude-opus-4-6", "anthropic", "auto", "references"),
        ("openai:gpt-6.1-sol", "openai_responses", "auto", "additional"),
        ("openai:gpt-5.5", "openai_chat", "auto", "call_tool"),
    ],
)
def test_deferral_saves_definitions_and_changes_no_outcome(
    model: str, dialect: str, setting: tools.Setting, carrier: str
) -> None:
    tasks = tools._tasks(5)
    plain, deferred = (asyncio.run(tools._play(model, dialect, mode, setting, tasks)) for mode in ("never", "always"))
    assert deferred.carrier == carrier
    assert deferred.answers == plain.answers
    assert len(plain.answers) == len(tasks)
    assert plain.breaks == deferred.breaks == 0
    assert deferred.searches > 0
    assert deferred.definitions < plain.definitions / 5
    assert deferred.prompt < plain.prompt


def test_the_catalogue_is_as_long_as_what_real_clients_send() -> None:
    found = catalogue()
    assert len({(one.server, one.name) for one in found}) == 60
    total = sum(len(one.description) + len(str(one.schema)) + len(one.name) for one in found)
    assert 0.9 < total / len(found) / (sum(SIZES) / len(SIZES)) < 1.1
