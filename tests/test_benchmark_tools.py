"""The comparison that docs/tools.md speaks of holds what it says, on a short session."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import tools
from benchmarks.tools_catalogue import ASKED, SIZES, catalogue


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
    tasks = tools.workload_tasks(5)
    plain, deferred = (asyncio.run(tools.play(model, dialect, mode, setting, tasks)) for mode in ("never", "always"))
    assert deferred.carrier == carrier
    assert deferred.answers == plain.answers
    assert len(plain.answers) == len(tasks)
    assert plain.breaks == deferred.breaks == 0
    assert deferred.searches > 0
    assert deferred.definitions < plain.definitions / 3, "with those that searches brought"
    assert deferred.prompt < plain.prompt


def test_the_catalogue_is_as_long_as_what_real_clients_send() -> None:
    found = catalogue()
    assert len({(one.server, one.name) for one in found}) == 60
    total = sum(len(one.description) + len(str(one.schema)) + len(one.name) for one in found)
    assert 0.9 < total / len(found) / (sum(SIZES) / len(SIZES)) < 1.1


def test_tools_are_asked_for_in_other_words_than_their_own() -> None:
    """Else every search would find what it looks for at once."""
    shared = []
    for one in catalogue():
        asked, own = (set(text.lower().split()) for text in (ASKED[one.name], one.description.partition(".")[0]))
        shared.append(len(asked & own) / len(asked))
    assert len(ASKED) == len(catalogue())
    assert sum(shared) / len(shared) < 0.4
