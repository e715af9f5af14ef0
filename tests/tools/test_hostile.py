"""What a hostile model, server or repository tries, and programs that use tools in ways nobody thought of."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import OffloadSettings, ToolsSettings
from holdfast.errors import HoldfastError
from holdfast.records import Text, ToolUse
from holdfast.tools import Decision, Question, Toolbox
from holdfast.tools.builtin.patch import patch
from holdfast.tools.contract import Cancel, Tool, ToolContext, ToolExecutionError, ToolOutput
from holdfast.tools.dispatcher import AT_ONCE
from holdfast.tools.offload import PREFIX, Offloader
from holdfast.tools.validation import check
from holdfast.tools.workspace import Workspace
from tests.support.toolboxes import toolbox
from tests.tools.dispatch_bench import ALLOW, Bench, call, raises, says, text, tool_named
from tests.tools.offloads import stays, stored, tool

DRAFT = "https://json-schema.org/draft/2020-12/schema"
ENDLESS = "(a+)+$"
LURE = "a" * 40 + "b"


def opened(tmp_path: Path, *tools: Tool, **more: Any) -> Toolbox:
    (tmp_path / "work").mkdir(exist_ok=True)
    return toolbox(tools, **({"workspace": tmp_path / "work", "home": tmp_path / "home", "settings": ALLOW} | more))


def asking(seen: list[str], *, allowed: bool = True) -> Callable[[Question], Any]:
    async def ask(question: Question) -> Decision:
        seen.append(question.text)
        return Decision(allowed, "always")

    return ask


# Schemas of strangers


def pairs(depth: int) -> bytes:
    """A schema of a few lines that stands for two to the power of `depth` checks."""
    parts: dict[str, Any] = {"a0": {"type": "object"}}
    for one in range(1, depth):
        below = {"$ref": f"#/$defs/a{one - 1}"}
        parts[f"a{one}"] = {"allOf": [below, below]}
    return json.dumps({"$defs": parts, "$ref": f"#/$defs/a{depth - 1}"}).encode()


def test_references_that_multiply_do_not_hold_anybody_up() -> None:
    began = time.monotonic()
    with pytest.raises(ToolExecutionError, match="t cannot be called: its schema refers to itself too often"):
        check("t", pairs(60), {}, stranger=True)
    assert time.monotonic() - began < 10
    assert check("t", pairs(8), {}, stranger=True) is None
    with pytest.raises(ToolExecutionError):
        check("t", pairs(8), {}, stranger=True, references=100)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": ENDLESS}}},
        {"properties": {"a": {"$schema": DRAFT, "pattern": ENDLESS}}},
        {"$schema": DRAFT, "properties": {"a": {"pattern": ENDLESS}, "b": {"$ref": "#"}}},
        {"$ref": "#/$defs/x", "$defs": {"x": {"$schema": DRAFT, "properties": {"a": {"pattern": ENDLESS}}}}},
        {"patternProperties": {ENDLESS: {}}, "additionalProperties": False},
    ],
)
def test_no_part_of_a_strangers_schema_applies_a_regular_expression(schema: Any) -> None:
    for raw in (json.dumps(schema).encode(), json.dumps(schema).replace("pattern", "p\\u0061ttern").encode()):
        assert check("t", raw, {"a": LURE, LURE: 1, "b": {"a": LURE}}, stranger=True) is None


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "string"},
        {"not": {"const": 1}},
        {"oneOf": [{"const": 1}, {"type": "integer"}]},
        {"anyOf": [{"const": "x"}, {"type": "array", "contains": {"const": 1}}]},
        {"if": {"type": "integer"}, "then": {"minimum": 2}, "else": {"$ref": "#/$defs/one"}},
        {"properties": {"b": {"$ref": "#"}}, "unevaluatedProperties": False, "type": ["object", "string"]},
    ],
)
@pytest.mark.parametrize("draft", [{}, {"$schema": DRAFT}])
def test_everything_else_of_it_is_applied_as_ever(rule: Any, draft: Any) -> None:
    parts = {"one": {**draft, "enum": ["x", [1]]}}
    schema = json.dumps({**draft, "$defs": parts, "properties": {"a": {**draft, **rule}}}).encode()
    for value in (1, 2, "x", "y", [1], [2], None, {}, {"b": {"a": 1}}, {"b": {"a": "x"}}, {"c": 1}):
        assert check("t", schema, {"a": value}, stranger=True) == check("t", schema, {"a": value})


@pytest.mark.parametrize("length", [10, 20_000])
def test_nor_does_it_for_a_large_input(tmp_path: Path, length: int) -> None:
    schema = json.dumps({"properties": {"a": {"pattern": ENDLESS}}}).encode()
    tool = tool_named("mcp__s__t", says("ran"), input_schema=schema, source="mcp")
    assert text(Bench(tmp_path, tool).one("mcp__s__t", {"a": LURE, "b": "x" * length})) == "ran"


# Programs that run each turn in a loop of its own


def test_a_second_event_loop_takes_turns_as_the_first_one_did(tmp_path: Path) -> None:
    box = opened(tmp_path, tool_named("long", says("x" * 20_000)))
    calls = [call("long", id=str(each)) for each in range(5)]
    for _ in range(3):
        ran = asyncio.run(box.run(calls))
        assert [len(text(answer)) < 8_000 for answer in ran.answers] == [True] * 5


def test_questions_are_asked_in_every_event_loop(tmp_path: Path) -> None:
    async def ask(question: Question) -> Decision:
        await asyncio.sleep(0)
        return Decision(True)

    tools = [tool_named(name, says(), confirm=True) for name in "abc"]
    box = opened(tmp_path, *tools, settings=ToolsSettings(), confirm=ask)
    for _ in range(3):
        ran = asyncio.run(box.run([call(name) for name in "abc"]))
        assert [text(answer) for answer in ran.answers] == ["done"] * 3


def test_a_cancel_that_was_never_said_cancels_nothing_in_another_loop(tmp_path: Path) -> None:
    async def slow(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await asyncio.sleep(0.01)
        return ToolOutput(content="done")

    bench, cancel = Bench(tmp_path, tool_named("slow", slow)), Cancel()
    for _ in range(2):
        assert [text(one) for one in bench.run(call("slow"), cancel=cancel)] == ["done"]
    cancel.set()
    assert bench.run(call("slow"), cancel=cancel)[0].cancelled


def test_an_input_given_as_text_loses_no_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tool_named("t", says()))
    calls = (ToolUse("1", "t", '{"a":1}'), call("t", id="2"))  # type: ignore[arg-type]
    assert [text(answer) for answer in bench.run(*calls)] == ["done", "done"]


def test_a_thousand_calls_are_answered_a_few_at_a_time(tmp_path: Path) -> None:
    going = most = 0

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        nonlocal going, most
        going += 1
        most = max(most, going)
        await asyncio.sleep(0.001)
        going -= 1
        return ToolOutput(content=context.tool_use_id)

    calls = [call("t", id=str(each)) for each in range(1_000)]
    answers = Bench(tmp_path, tool_named("t", run)).run(*calls)
    assert [text(answer) for answer in answers] == [str(each) for each in range(1_000)]
    assert most == AT_ONCE


# Turns that are cut


async def test_a_guide_of_a_turn_that_was_cut_is_given_again(tmp_path: Path) -> None:
    async def forever(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        await asyncio.sleep(60)
        return ToolOutput()

    box = opened(
        tmp_path,
        tool_named("t", says(), guide="how"),
        tool_named("f", forever),
        tool_named("u", says(), guide="why"),
    )
    await box.run([call("u")])
    cut = asyncio.create_task(box.run([call("t"), call("f")]))
    while "tool:t" not in box.guides.delivered:
        await asyncio.sleep(0.01)
    cut.cancel()
    await asyncio.wait({cut})
    assert cut.cancelled()
    assert box.guides.delivered == {"tool:u"}
    ran = await box.run([call("t")])
    assert "how" in text(ran.answers[0])


def test_a_session_that_nobody_closed_takes_its_processes_along(tmp_path: Path) -> None:
    box: Toolbox | None = opened(tmp_path)
    started = call("run_command", {"command": "echo $$ > pid; exec sleep 600", "background": True})
    asyncio.run(box.run([started]))
    found = tmp_path / "work" / "pid"
    while not (found.exists() and found.read_text().strip()):
        time.sleep(0.01)
    box = None
    gc.collect()
    process = Path("/proc", found.read_text().strip())
    for _ in range(500):
        if not process.exists():
            break
        time.sleep(0.01)
    assert not process.exists()


# State that was damaged


def test_a_state_with_any_damage_is_refused_in_words(tmp_path: Path) -> None:
    chance, box = random.Random(7), opened(tmp_path)
    state = bytearray(box.state)
    state[state.index(b"read_file") + 2] = 0xFF
    with pytest.raises(HoldfastError, match="begin a new session"):
        opened(tmp_path, state=bytes(state))
    for _ in range(300):
        state = bytearray(box.state)
        state[chance.randrange(len(state))] = chance.randrange(256)
        try:
            opened(tmp_path, state=bytes(state)).definitions()
        except HoldfastError:
            continue


# What the user is asked


def test_a_link_cannot_hide_what_is_written(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (work / "plain.txt").write_text("x\n")
    seen: list[str] = []
    box = opened(tmp_path, settings=ToolsSettings(), confirm=asking(seen))

    def write(path: str) -> None:
        asyncio.run(box.run([call("write_file", {"path": path, "content": "new\n"})]))

    write("plain.txt")
    write("plain.txt")
    assert seen == ["write_file wants to change a file: plain.txt"]
    (work / "plain.txt").unlink()
    (work / "plain.txt").symlink_to(".git/hooks/pre-commit")
    write("plain.txt")
    assert seen[1:] == ["write_file wants to change a file: plain.txt (plain.txt leads to .git/hooks/pre-commit)"]


def test_a_command_with_a_directory_is_not_the_command_that_is_written_like_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    trap = "x\ntouch pwned\n#"
    (work / trap).mkdir(parents=True)
    seen: list[str] = []
    box = opened(tmp_path, settings=ToolsSettings(), confirm=asking(seen))
    asyncio.run(box.run([call("run_command", {"command": "true #", "cwd": trap})]))
    asyncio.run(box.run([call("run_command", {"command": f"true # (in {trap})"})]))
    assert len(seen) == 2
    asyncio.run(box.run([call("run_command", {"command": "true", "cwd": "."})]))
    assert seen[2] == "run_command wants to run a command: cd -- . && true"


# Our own state


@pytest.mark.parametrize("path", ["confirmations.json", "offload/s/x.txt", "./offload", "holdfast.toml", "admin-token"])
def test_our_own_files_are_closed_where_the_home_is_the_workspace(tmp_path: Path, path: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "confirmations.json").write_text('{"decisions": []}')
    box = opened(tmp_path, home=work)
    ran = asyncio.run(box.run([call("write_file", {"path": path, "content": "x"}), call("list_dir", {"path": "."})]))
    assert "belongs to Holdfast itself" in text(ran.answers[0])
    assert (work / "confirmations.json").read_text() == '{"decisions": []}'
    ran = asyncio.run(box.run([call("grep_files", {"pattern": "decisions"})]))
    assert text(ran.answers[0]) == "[No matches.]"


def test_our_own_files_are_closed_under_any_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "confirmations.json").write_text("{}")
    os.link(home / "confirmations.json", tmp_path / "CONFIRMATIONS.json")
    workspace = Workspace(tmp_path, closed=(home, home / "confirmations.json"))
    with pytest.raises(ToolExecutionError, match="belongs to Holdfast itself"):
        workspace.resolve("CONFIRMATIONS.json", "read")
    assert workspace.resolve("other/new.txt", "write") == tmp_path / "other" / "new.txt"


# References


def test_c42_a_text_that_only_looks_like_a_reference_is_none(tmp_path: Path) -> None:
    offloader = Offloader(OffloadSettings(hard_cap_chars=5_000), tmp_path / "a, b]\nc" / "session, too")
    reference, path = stored(offloader, "x" * 20_000)
    assert stays(offloader, tool(), Text(reference + "y" * 20_000))
    forged = reference.replace(str(path), str(path.parent / "other.txt"))
    for said in (PREFIX, f"{PREFIX}x, 1 characters, /etc/hostname]\n", f"{PREFIX}\0]\n", f"{PREFIX}a, ]", forged):
        assert not stays(offloader, tool(), Text(said + "y" * 20_000)), said


# Words and time


def test_no_address_in_memory_reaches_the_model(tmp_path: Path) -> None:
    found = object(), asyncio.Lock(), says, lambda: None
    bench = Bench(tmp_path, *(tool_named(f"t{n}", raises(KeyError(each))) for n, each in enumerate(found)))
    for n in range(len(found)):
        assert "0x" not in text(bench.one(f"t{n}"))


@pytest.mark.slow
@pytest.mark.parametrize("alphabet", ["01", "0123456789abcdef"])
def test_lines_that_look_alike_do_not_take_minutes(alphabet: str) -> None:
    chance = random.Random(1)
    lines = ["".join(chance.choices(alphabet, k=160)) for _ in range(20_000)]
    began = time.monotonic()
    with pytest.raises(ToolExecutionError, match="old was not found"):
        patch("\n".join(lines), "".join(chance.choices(alphabet, k=160)), "x", "a.txt")
    assert time.monotonic() - began < 15


def test_nor_do_empty_ones() -> None:
    began = time.monotonic()
    with pytest.raises(ToolExecutionError, match="old was not found"):
        patch("\n" * (1 << 20), "\n" * 2_000 + "x", "y", "a.txt")
    assert time.monotonic() - began < 10
    with pytest.raises(ToolExecutionError, match="It stands at line 2 with other white space"):
        patch("a\n  b\nc\n", "b\n c", "y", "a.txt")
