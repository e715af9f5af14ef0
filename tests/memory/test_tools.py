"""The three tools through a real dispatcher: no questions, one event for each change, errors that help."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.config.sections.agent import ConfirmSettings, MemorySettings, ToolsSettings
from holdfast.memory import MemoryFiles, digest, memory_tools
from holdfast.memory.tools import EMPTY
from holdfast.records import Text
from holdfast.records.events.tools import MemoryUpdated
from holdfast.tools import ToolAnswer
from tests.support.toolboxes import toolbox
from tests.tools.dispatch_bench import Bench

SMALL = MemorySettings(user_soft=30, user_hard=60, notes_soft=30, notes_hard=60)


@pytest.fixture
def files(tmp_path: Path) -> MemoryFiles:
    return MemoryFiles(tmp_path / ".holdfast", SMALL)


@pytest.fixture
def bench(tmp_path: Path, files: MemoryFiles) -> Bench:
    """Somebody who asks before every call that may change something, and allows none."""
    return Bench(tmp_path, *memory_tools(files), settings=ToolsSettings(confirm=ConfirmSettings(mode="deny")))


def said(answer: ToolAnswer) -> str:
    return "\n".join(block.text for block in answer.result.content if isinstance(block, Text))


def updates(bench: Bench) -> list[MemoryUpdated]:
    return [event for event in bench.told() if isinstance(event, MemoryUpdated)]


def test_a_fact_is_added_without_a_question_and_told(bench: Bench, files: MemoryFiles) -> None:
    answer = bench.one("memory_add", {"file": "user", "text": "Likes tea."})
    assert not answer.result.is_error
    assert said(answer) == "USER.md is changed and has 13 of 60 bytes."
    assert updates(bench) == [
        MemoryUpdated(store="USER.md", operation="add", digest=digest("- Likes tea."), text="- Likes tea.")
    ]
    assert files.read("user") == "- Likes tea."


def test_passages_and_whole_files_are_replaced(bench: Bench, files: MemoryFiles) -> None:
    for call in (
        ("memory_add", {"file": "memory", "text": "Port 80 is used for tests."}),
        ("memory_replace", {"file": "memory", "old": "80", "new": "81"}),
        ("memory_consolidate", {"file": "memory", "text": "- Port 81"}),
        ("memory_replace", {"file": "memory", "old": "- Port 81", "new": ""}),
    ):
        assert not bench.one(*call).result.is_error
    told = updates(bench)
    assert [(event.operation, event.text) for event in told] == [
        ("add", "- Port 80 is used for tests."),
        ("replace", "- Port 81 is used for tests."),
        ("consolidate", "- Port 81"),
        ("replace", EMPTY),
    ]
    assert told[-1].digest == digest(files.read("memory")) == digest("")


def test_a_refusal_reaches_the_model_and_nobody_is_told(bench: Bench, files: MemoryFiles) -> None:
    bench.one("memory_add", {"file": "user", "text": "x" * 50})
    bench.told()
    answer = bench.one("memory_add", {"file": "user", "text": "y" * 50})
    assert answer.result.is_error
    assert "USER.md has 53 bytes and would have 106, more than the 60 it may have" in said(answer)
    assert "Consolidate" in said(answer)
    assert updates(bench) == []
    assert files.read("user") == "- " + "x" * 50


@pytest.mark.parametrize(
    "input",
    [
        {"file": "../../etc/passwd", "text": "x"},
        {"file": "USER.md", "text": "x"},
        {"file": "user"},
        {"file": "user", "text": "x", "path": "y"},
        {"file": "user", "text": 1},
    ],
)
def test_there_are_two_files_and_no_others(bench: Bench, tmp_path: Path, input: dict[str, object]) -> None:
    assert bench.one("memory_add", input).result.is_error
    assert list(tmp_path.iterdir()) == []


def test_definitions_say_nothing_of_the_files(tmp_path: Path) -> None:
    one, other = MemoryFiles(tmp_path / "a" / ".holdfast"), MemoryFiles(tmp_path / "b" / ".holdfast", SMALL)
    (tmp_path / "a").mkdir()
    one.add("user", "a secret")

    def definitions(files: MemoryFiles) -> list[tuple[object, ...]]:
        return [(tool.name, tool.description, tool.input_schema, tool.effect) for tool in memory_tools(files)]

    assert definitions(one) == definitions(other)
    (add, replace, consolidate) = memory_tools(one)
    assert [tool.name for tool in (add, replace, consolidate)] == ["memory_add", "memory_replace", "memory_consolidate"]
    assert json.loads(add.input_schema) == {
        "type": "object",
        "properties": {
            "file": {"type": "string", "enum": ["user", "memory"]},
            "text": {"type": "string", "minLength": 1},
        },
        "required": ["file", "text"],
        "additionalProperties": False,
    }
    assert json.loads(replace.input_schema)["required"] == ["file", "old", "new"]


async def test_a_toolbox_declares_them_and_never_defers_them(tmp_path: Path, files: MemoryFiles) -> None:
    (tmp_path / "work").mkdir()
    box = toolbox(memory_tools(files), workspace=tmp_path / "work", home=tmp_path / "home", settings=ToolsSettings())
    names = [getattr(each, "name", "") for each in box.definitions()]
    assert {"memory_add", "memory_replace", "memory_consolidate"} <= set(names)
    assert all(tool.core for tool in memory_tools(files))
    await box.close()
