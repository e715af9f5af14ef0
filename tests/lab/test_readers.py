"""Reading recorded sessions: three formats, one sentence for every problem."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.lab import Shape, Trace, TraceStep, lanes, read, write
from holdfast.records import Request, validate
from scripts import make_traces
from tests.lab.recordings import OWN, RECORDED, needs_recordings, own, recorded


def request_of(step: TraceStep) -> Request:
    assert isinstance(step.content, Request)
    return step.content


def test_our_own_traces_are_what_the_script_makes(tmp_path: Path) -> None:
    assert make_traces.main([str(tmp_path / "new")]) == 0
    made = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert made == {path.name: path.read_bytes() for path in OWN.iterdir()}


def test_the_script_asks_for_one_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_traces.main([]) == 2
    assert "usage" in capsys.readouterr().err


# Shape traces


def test_a_shape_trace_keeps_numbers_times_usage_and_resets() -> None:
    trace = own("made-1")
    assert trace.source == "shapes.jsonl:1"
    assert [step.number for step in trace.steps] == list(range(1, 25))
    assert trace.timed
    first, reset = trace.steps[0], trace.steps[16]
    assert (first.at, first.first_token_at) == (11.0, 13.5)
    assert (first.usage.read, first.usage.written_for("5m"), first.usage.written_for("1h")) == (0, 6022, 0)
    assert [step.number for step in trace.steps if step.reset] == [17]
    assert reset.reset == "compaction"
    assert isinstance(reset.content, Shape)
    assert [(block.role, block.type, block.chars) for block in reset.content.added] == [
        ("assistant", "text", 120),
        ("user", "text", 700),
    ]


def test_user_turns_are_told_from_tool_loops() -> None:
    users = [step.number for step in own("made-1").steps if step.kind == "user"]
    assert users == [1, 5, 9, 17, 20]


def test_an_interruption_with_results_is_a_user_turn(tmp_path: Path) -> None:
    added = [
        {"role": "assistant", "type": "tool_use", "chars": 5, "tool": "Bash"},
        {"role": "user", "type": "tool_result", "chars": 5, "error": True},
        {"role": "user", "type": "text", "chars": 9},
    ]
    assert read(_file(tmp_path, line(added=added)))[0].steps[0].kind == "user"


def test_a_lane_is_a_model_and_a_side_chain_is_its_own() -> None:
    assert {lane: len(steps) for lane, steps in lanes(own("made-1")).items()} == {
        "claude-opus-4-6": 23,
        "claude-haiku-4-5": 1,
    }
    assert {lane: [step.number for step in steps] for lane, steps in lanes(own("made-2")).items()} == {
        "claude-opus-4-6": [1, 2, 5],
        "claude-opus-4-6#sidechain": [3, 4],
    }


def test_sessions_of_one_file_are_traces_of_their_own_even_when_interleaved(tmp_path: Path) -> None:
    path = _file(tmp_path, line(), line(session="b", at=0.5), line(request=2))
    assert [(trace.name, trace.source, len(trace.steps)) for trace in read(path)] == [
        ("a", "t.jsonl:1", 2),
        ("b", "t.jsonl:2", 1),
    ]


def test_a_shape_trace_is_written_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "shapes.jsonl"
    traces = read(OWN / "shapes.jsonl")
    write(traces, path)
    assert read(path) == traces
    assert [json.loads(each) for each in path.read_text().splitlines()] == [
        json.loads(each) for each in (OWN / "shapes.jsonl").read_text().splitlines()
    ]
    write(traces[0], path)
    assert read(path) == traces[:1]


def test_a_session_with_texts_is_not_written_as_shapes(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="session has texts"):
        write(own("session"), tmp_path / "x.jsonl")
    assert not (tmp_path / "x.jsonl").exists()


# Sessions with texts


def test_call_k_of_a_session_sends_what_stands_before_the_kth_answer() -> None:
    trace = own("session")
    said = json.loads((OWN / "session.json").read_text())["messages"]
    answers = [i for i, message in enumerate(said) if message["role"] == "assistant"]
    assert [len(request_of(step).messages) for step in trace.steps] == [*answers, len(said)]
    assert [step.number for step in trace.steps] == list(range(1, 19))
    assert not trace.timed
    for step in trace.steps:
        assert not validate(request_of(step))
        assert len(request_of(step).tools) == 5
        assert request_of(step).model == "anthropic:"  # the log names none


def test_each_assistant_message_of_a_dialogue_is_a_call() -> None:
    trace = own("dialogue-1")
    said = json.loads((OWN / "dialogues.jsonl").read_text().splitlines()[1])["messages"]
    answers = [i for i, message in enumerate(said) if message["role"] == "assistant"]
    # The system message is the system prompt; what follows the last answer was never sent.
    assert [len(request_of(step).messages) for step in trace.steps] == [i - 1 for i in answers]
    assert [step.kind for step in trace.steps] == ["user", "user", "tools", "user", "user", "tools"]
    assert {tool.name for tool in request_of(trace.steps[0]).tools} == {"look_up", "book", "cancel", "transfer"}  # type: ignore[union-attr]
    assert request_of(trace.steps[0]).dialect == "openai_chat"


def test_each_call_extends_the_one_before() -> None:
    for name in ("session", "dialogue-0", "dialogue-1", "dialogue-2"):
        steps = own(name).steps
        for before, after in pairwise(steps):
            short, long = request_of(before), request_of(after)
            assert long.messages[: len(short.messages)] == short.messages
            assert (long.system_prompt, long.tools) == (short.system_prompt, short.tools)


def test_a_model_can_be_given_where_the_file_names_none() -> None:
    trace = read(OWN / "session.json", model="claude-sonnet-5-5")[0]
    assert (trace.steps[0].model, trace.steps[0].lane) == ("claude-sonnet-5-5", "claude-sonnet-5-5")
    assert request_of(trace.steps[0]).model == "anthropic:claude-sonnet-5-5"


def test_dialogues_without_a_tools_file_have_no_tools(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text((OWN / "dialogues.jsonl").read_text())
    assert request_of(read(path)[0].steps[0]).tools == ()


# Recordings of real sessions


@needs_recordings
def test_every_recorded_trace_is_read() -> None:
    traces = {trace.name: trace for trace in read(RECORDED)}
    assert len(traces) == 53
    assert (len(traces["coding-1"].steps), len(traces["coding-2"].steps)) == (152, 139)
    assert len(traces["session-60"].steps) == 60
    assert [step.number for step in traces["coding-1"].steps if step.reset] == [103]
    assert [step.number for step in traces["coding-2"].steps if step.reset] == [62]
    airline = [trace for name, trace in traces.items() if name.startswith("airline")]
    assert sum(len(trace.steps) for trace in airline) == 642
    assert all(len(request_of(trace.steps[0]).tools) == 14 for trace in airline)


@needs_recordings
def test_a_recorded_shape_trace_is_written_as_it_was_read(tmp_path: Path) -> None:
    trace = recorded("coding-2")
    write(trace, tmp_path / "coding-2.jsonl")
    assert read(tmp_path / "coding-2.jsonl") == [trace]


# Problems


def line(**changes: Any) -> str:
    record: dict[str, Any] = {
        "session": "a",
        "request": 1,
        "at": 1.0,
        "first_token_at": 2.0,
        "model": "claude-opus-4-6",
        "sidechain": False,
        "reset": None,
        "added": [{"role": "user", "type": "text", "chars": 21}],
        "usage": None,
    }
    record |= changes
    return json.dumps({key: value for key, value in record.items() if value is not ...})


def _file(folder: Path, *lines: str, name: str = "t.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(each + "\n" for each in lines))
    return path


def problem(path: Path) -> str:
    with pytest.raises(HoldfastError) as caught:
        read(path)
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said
    return said


BROKEN = [
    ("{", "t.jsonl:2: not JSON ("),
    ("[1]", "t.jsonl:2: not an object"),
    ('{"session": "a"}', "t.jsonl:2: of no known format; known are shape traces"),
    (line(request=2, at=...), "t.jsonl:2: Object missing required field `at`"),
    (line(request=2, at="noon"), "t.jsonl:2: Expected `float | null`, got `str` - at `$.at`"),
    (line(request=2, added=[{"role": "user", "type": "text"}]), "missing required field `chars` - at `$.added[0]`"),
    (
        line(request=2, added=[{"role": "x", "type": "text", "chars": 1}]),
        "Invalid enum value 'x' - at `$.added[0].role`",
    ),
    (
        line(request=2, added=[{"role": "user", "type": "text", "chars": -1}]),
        "Expected `int` >= 0 - at `$.added[0].chars`",
    ),
    (line(request=2, usage={"input": 1}), "t.jsonl:2: Object missing required field `read` - at `$.usage`"),
    (line(request=2, at=0.5), "t.jsonl:2: at goes backwards from 1.0 to 0.5"),
    (line(request=1), "t.jsonl:2: request 1 comes after request 1"),
    (line(request=2, at=3.0, first_token_at=2.9), "t.jsonl:2: first_token_at (2.9) is before at (3.0)"),
    (line(request=2, at=None, first_token_at=None), "t.jsonl:2: at is given for some requests of a only"),
    (line(request=2, at=None), "t.jsonl:2: first_token_at is given without at"),
    ('{"session": "d", "messages": 5}', "t.jsonl:2: Expected `array`, got `int` - at `$.messages`"),
    ('{"session": "d", "messages": [{"role": "boss"}]}', "t.jsonl:2: messages[0]: Invalid enum value 'boss'"),
    ('{"session": "d", "messages": [{"role": "user", "content": "hi"}]}', "t.jsonl:2: no call can be told"),
]


@pytest.mark.parametrize(("broken", "expected"), BROKEN, ids=[expected for _, expected in BROKEN])
def test_a_broken_line_is_one_sentence_with_file_and_line(tmp_path: Path, broken: str, expected: str) -> None:
    assert expected in problem(_file(tmp_path, line(), broken))


def test_bytes_that_are_no_text_are_a_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(model="claude-X").replace("X", "\xff").encode("latin-1") + b"\n")
    assert problem(path).startswith("t.jsonl:1: ")


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_says_so(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert problem(tmp_path / name).startswith(f"{name} is empty; give shape traces")


def test_blank_lines_are_no_problem(tmp_path: Path) -> None:
    assert len(read(_file(tmp_path, line(), "", line(request=2)))[0].steps) == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "t.json: not JSON ("),
        ("{}", "t.json: Object missing required field `messages`"),
        ('{"messages": []}', "t.json: no call can be told"),
        ('{"messages": [{"role": "assistant", "content": "x"}]}', "t.json: no call can be told"),
        ('{"messages": [3]}', "t.json: messages[0]: Expected `object`, got `int`"),
        ('{"messages": [{"role": "user", "content": 3}]}', "t.json: no anthropic conversation"),
    ],
)
def test_a_broken_session_is_one_sentence(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "t.json").write_text(content)
    assert expected in problem(tmp_path / "t.json")


def test_unknown_files_say_which_formats_are_known(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b")
    assert "t.csv is of no known format; known are shape traces" in problem(tmp_path / "t.csv")
    assert "holds no trace" in problem(tmp_path)
    assert "cannot be read (No such file" in problem(tmp_path / "t.jsonl")
    assert "cannot be read (No such file" in problem(tmp_path / "t.json")
    assert "holds tool definitions" in problem(OWN / "dialogues-tools.json")


def test_a_broken_tools_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text((OWN / "dialogues.jsonl").read_text())
    (tmp_path / "d-tools.json").write_text("{}")
    assert problem(tmp_path / "d.jsonl").startswith("d-tools.json: not a list of tool definitions")
    (tmp_path / "d-tools.json").unlink()
    (tmp_path / "d-tools.json").mkdir()
    assert problem(tmp_path / "d.jsonl").startswith("d-tools.json cannot be read")


def test_a_trace_without_steps_has_no_lanes() -> None:
    assert lanes(Trace("empty", "nowhere", ())) == {}
