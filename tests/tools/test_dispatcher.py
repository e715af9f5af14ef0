"""Every call is answered once, in order, in words the model can use; what a tool says beside it reaches the trace."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import ConfirmSettings, OffloadSettings, ToolsSettings
from holdfast.errors import HoldfastError
from holdfast.records import Image, Opaque, Text, Thinking, ToolUse
from holdfast.records.events import encode_payload
from holdfast.records.events.tools import ToolCalled, ToolCompleted, ToolFailed
from holdfast.tools import validation
from holdfast.tools.confirmation import Confirmations, Decision, Question
from holdfast.tools.contract import ResolvedCall, ToolExecutionError, ToolOutput, Touch
from holdfast.tools.results import NO_OUTPUT
from tests.tools.dispatch_bench import ALLOW, Bench, call, raises, says, text, tool_named

PATH = b'{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'


def test_a_success_reaches_the_model_and_the_trace(tmp_path: Path) -> None:
    run = says("42", metadata={"lines": 3}, files_modified=("a.txt",), command_executed="make")
    bench = Bench(tmp_path, tool_named("t", run))
    answer = bench.one("t", {"x": 1})
    assert (text(answer), answer.result.is_error, answer.error, answer.tool) == ("42", False, None, "t")
    called, completed = bench.told()
    assert called == ToolCalled(tool="t", tool_use_id="toolu_t", input='{"x": 1}')
    assert isinstance(completed, ToolCompleted)
    assert (completed.output, completed.files_modified, completed.command_executed) == ("42", ("a.txt",), "make")
    assert json.loads(completed.metadata) == {"lines": 3}
    assert completed.elapsed_us == answer.elapsed_us


def test_the_text_of_an_error_reaches_the_model_and_its_metadata_the_trace(tmp_path: Path) -> None:
    said = "activation budget exhausted: 3 skills already activated.\n  Already loaded: [a, b]."
    bench = Bench(tmp_path, tool_named("t", raises(ToolExecutionError(said, {"limit": 3}))))
    answer = bench.one("t")
    assert answer.result.is_error
    assert text(answer) == answer.error == said
    failed = bench.told()[-1]
    assert isinstance(failed, ToolFailed)
    assert (failed.error_message, json.loads(failed.metadata)) == (said, {"limit": 3})


@pytest.mark.parametrize("kind", [ToolExecutionError, ValueError])
def test_no_error_holds_a_key(tmp_path: Path, kind: type[Exception]) -> None:
    key = "sk-ant-api03-" + "Ab1_" * 20
    bench = Bench(tmp_path, tool_named("t", raises(kind(f"refused for {key} today"))))
    answer = bench.one("t")
    assert key not in text(answer) + "".join(map(str, bench.told()))
    assert "refused for" in text(answer)


def test_no_refusal_of_an_input_holds_a_key(tmp_path: Path) -> None:
    schema = b'{"type":"object","properties":{"mode":{"enum":["a","b"]}}}'
    key = "sk-ant-api03-" + "Ab1_" * 20
    bench = Bench(tmp_path, tool_named("t", says("42"), input_schema=schema))
    answer = bench.one("t", {"mode": key})
    assert answer.result.is_error
    assert key not in text(answer) + str(bench.told()[-1])


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("bad \ud800 luck"), "t failed: ValueError: bad � luck"),
        (KeyError(), "t failed: KeyError"),
        (Mute(), "t failed: Mute"),
        (Odd("base"), "t failed: Odd: base"),
        (GeneratorExit(), "t failed: GeneratorExit"),
        (SystemExit(3), "t failed: it tried to end the program (exit 3)."),
        (asyncio.CancelledError(), "t failed: it cancelled itself."),
        (TimeoutError("slow"), "t failed: TimeoutError: slow"),
        (StopAsyncIteration(), "t failed: StopAsyncIteration"),
        (BaseExceptionGroup("many", [Odd(), ValueError()]), "t failed: BaseExceptionGroup: many (2 sub-exceptions)"),
        (HoldfastError("no such server; start it"), "no such server; start it"),
        (ToolExecutionError(""), "t failed and did not say why."),
        (ToolExecutionError("  "), "t failed and did not say why."),
        (ToolExecutionError("\ud800"), "�"),
    ],
)
def test_whatever_a_tool_raises_is_answered_without_a_traceback(
    tmp_path: Path, error: BaseException, said: str
) -> None:
    bench = Bench(tmp_path, tool_named("t", raises(error), "write"), tool_named("after", says()))
    first, second = bench.run(call("t"), call("after"))
    assert (text(first), first.result.is_error, first.cancelled) == (said, True, False)
    assert text(second) == "done"
    assert bench.types() == ["tool.called", "tool.failed", "tool.called", "tool.completed"]


def test_ctrl_c_ends_the_program_and_not_just_the_call(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tool_named("t", raises(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        bench.one("t")


def not_async(input: Any, context: Any) -> Any:
    return ToolOutput(content="x")


@pytest.mark.parametrize("run", [not_async, lambda *_: None, says(5), says((Text("a"), "b")), says({1, 2})])
def test_a_wrong_return_is_an_error_and_not_a_crash(tmp_path: Path, run: Any) -> None:
    answer = Bench(tmp_path, tool_named("t", run)).one("t")
    assert answer.result.is_error
    assert text(answer).startswith(("t ran, but", "t failed: TypeError"))


def test_a_string_instead_of_an_output_is_named(tmp_path: Path) -> None:
    async def run(input: Any, context: Any) -> Any:
        return "text"

    assert text(Bench(tmp_path, tool_named("t", run)).one("t")) == "t ran, but returned str and no ToolOutput."


@pytest.mark.parametrize("content", ["", " \n", (), (Text(""),), (Text("\t"), Text(""))])
def test_an_empty_output_still_says_something(tmp_path: Path, content: Any) -> None:
    answer = Bench(tmp_path, tool_named("t", says(content))).one("t")
    assert answer.result.content == (Text(NO_OUTPUT),)
    assert not answer.result.is_error


def test_blocks_stay_as_they_are_and_those_that_cannot_stand_in_a_result_are_refused(tmp_path: Path) -> None:
    picture, late = Image("image/png", "AAAA"), Opaque("tool_reference", b'{"type":"tool_reference"}')
    bench = Bench(
        tmp_path,
        tool_named("fine", says((Text("a"), Text(" "), picture, late))),
        tool_named("thinks", says((Thinking("hm"),))),
        tool_named("calls", says((ToolUse("x", "y", b"{}"),))),
    )
    fine, thinks, calls = bench.run(call("fine"), call("thinks"), call("calls"))
    assert fine.result.content == (Text("a"), picture, late)
    assert text(thinks) == "thinks ran, but what it returned cannot be shown: a block of the kind thinking."
    assert calls.result.is_error
    assert bench.told()[-1].type == "tool.failed"


def test_lone_surrogates_never_leave(tmp_path: Path) -> None:
    run = says("a\ud800b", metadata={"k\udfff": "\ud800", "odd": object, b"b": 1}, files_modified=("\udcff" * 5000,))
    bench = Bench(tmp_path, tool_named("t", run))
    answers = bench.run(call("t", b'{"x":"\\ud800"}', id="\ud800" * 300), call("\udfff" * 300))
    assert text(answers[0]) == "a�b"
    assert answers[0].result.tool_use_id == "\ud800" * 300
    events = bench.told()
    assert [event.type for event in events] == ["tool.called", "tool.called", "tool.failed", "tool.completed"]
    assert all(encode_payload(event) for event in events)


@pytest.mark.parametrize("metadata", [{"a": {1, 2}}, {"f": float("nan")}, {(1, 2): 3}, None, 5, {"o": object()}])
def test_any_metadata_can_be_told(tmp_path: Path, metadata: Any) -> None:
    bench = Bench(tmp_path, tool_named("t", says("x", metadata=metadata, files_modified=None, command_executed=b"x")))
    assert text(bench.one("t")) == "x"
    assert bench.types() == ["tool.called", "tool.completed"]


def test_metadata_that_goes_round_in_circles_is_left_out(tmp_path: Path) -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    bench = Bench(tmp_path, tool_named("t", says("x", metadata=circle)))
    bench.one("t")
    completed = bench.told()[-1]
    assert isinstance(completed, ToolCompleted)
    assert json.loads(completed.metadata) == {"unreadable": "ValueError"}


def test_an_unknown_name_gets_the_nearest_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tool_named("read_file", says()), tool_named("write_file", says()))
    assert text(bench.one("reed_file")).startswith("There is no tool named 'reed_file'. Did you mean read_file")
    assert text(bench.one("zzz")) == "There is no tool named 'zzz'. There are: read_file, write_file."
    assert len(text(bench.one("x" * 1_000_000))) < 1_000
    assert Bench(tmp_path).one("a").result.is_error


def test_a_look_up_that_fails_is_an_answer(tmp_path: Path) -> None:
    def resolve(call: ToolUse) -> Any:
        raise RuntimeError("index gone")

    assert text(Bench(tmp_path, resolve=resolve).one("t")) == "t could not be looked up (RuntimeError: index gone)."


@pytest.mark.parametrize(
    "raw", [b'{"a":', b"[1]", b"5", b'{"a":NaN}', b"\xff", b"[" * 100_000, b'{"a":1' + b"0" * 9999 + b"}", b"null"]
)
def test_input_that_is_no_json_object_is_said_so(tmp_path: Path, raw: bytes) -> None:
    ran = []
    bench = Bench(tmp_path, tool_named("t", lambda *given: ran.append(given)))
    answer = bench.one("t", raw)
    assert answer.result.is_error
    assert "Call it again with one JSON object." in text(answer)
    assert bench.types() == ["tool.called", "tool.input_invalid"]
    assert not ran


def test_no_input_at_all_is_an_empty_object(tmp_path: Path) -> None:
    assert text(Bench(tmp_path, tool_named("t", says())).one("t", b" ")) == "done"


def test_input_that_is_not_an_object_after_the_look_up_is_refused(tmp_path: Path) -> None:
    tool = tool_named("t", says())
    bench = Bench(tmp_path, resolve=lambda call: ResolvedCall(tool, [1]))
    assert text(bench.one("t")) == "The input of t is not a JSON object."
    assert bench.types() == ["tool.called", "tool.input_invalid"]


def test_problems_of_an_input_are_listed_with_their_places(tmp_path: Path) -> None:
    schema = b"""{"type":"object","required":["path"],"additionalProperties":false,
      "properties":{"path":{"type":"string"},
      "edits":{"type":"array","items":{"type":"object","properties":{"old one":{"type":"string"},
      "n":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}}}}"""
    bench = Bench(tmp_path, tool_named("t", says(), input_schema=schema))
    said = text(bench.one("t", {"edits": [{"old one": 5}, {"n": "x"}], "more": 1}))
    assert said.startswith("The input of t is not valid:\n")
    assert "\n- edits[0][\"old one\"]: 5 is not of type 'string'" in said
    assert "\n- edits[1].n: 'x' is not " in said
    assert "\n- input: 'path' is a required property" in said
    assert "\n- input: Additional properties are not allowed ('more' was unexpected)" in said
    assert said.endswith("Correct the input and call it again.")
    assert bench.types() == ["tool.called", "tool.input_invalid"]


def test_only_a_few_short_problems_are_listed(tmp_path: Path) -> None:
    schema = b'{"properties":{"all":{"items":{"type":"integer"}}}}'
    said = text(Bench(tmp_path, tool_named("t", says(), input_schema=schema)).one("t", {"all": ["x" * 5_000] * 50}))
    assert said.count("\n- ") == validation.MOST + 1
    assert len(said) < 2_500


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (b'{"type":"objekt"}', "its schema is not valid"),
        (b"{", "its schema is not JSON"),
        (b"[" * 100_000, "its schema is not JSON"),
        (b"5", "its schema is neither"),
        (b'{"$ref":"http://127.0.0.1:9/schema.json"}', "its schema cannot be applied"),
        (b'{"$ref":"#"}', "its schema cannot be applied"),
        (b'{"$ref":"#/$defs/missing"}', "its schema cannot be applied"),
        (b'{"$schema":5}', "its schema"),
        (b'{"properties":{"path":{"pattern":"("}}}', "its schema"),
    ],
)
def test_a_schema_that_is_none_is_an_error_text(tmp_path: Path, schema: bytes, said: str) -> None:
    answer = Bench(tmp_path, tool_named("t", says(), input_schema=schema)).one("t", {"path": "a"})
    assert answer.result.is_error
    assert said in text(answer)


@pytest.mark.parametrize("schema", [b"true", b'{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}'])
def test_other_drafts_are_taken(tmp_path: Path, schema: bytes) -> None:
    assert text(Bench(tmp_path, tool_named("t", says(), input_schema=schema)).one("t")) == "done"


def test_a_strangers_regular_expressions_are_not_applied(tmp_path: Path) -> None:
    """This one would take years on this input. A tool of the program's own has its patterns checked."""
    schema = (
        b'{"type":"object","properties":{"word":{"type":"string","pattern":"^(a+)+$"},"n":{"type":"integer"}},'
        b'"patternProperties":{"^(b+)+$":{"type":"string"}},"additionalProperties":false}'
    )
    theirs = tool_named("mcp__s__t", says("ok"), input_schema=schema, source="mcp", server="s")
    ours = tool_named("t", says("ok"), input_schema=b'{"properties":{"word":{"pattern":"^[a-z]+$"}}}')
    bench = Bench(tmp_path, theirs, ours)
    assert text(bench.one("mcp__s__t", {"word": "a" * 200 + "!", "b" * 200 + "!": "x"})) == "ok"
    assert "n: 'one' is not of type 'integer'" in text(bench.one("mcp__s__t", {"n": "one"}))
    assert bench.one("t", {"word": "A!"}).result.is_error


def test_a_schema_is_compiled_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tool_named("t", says(), input_schema=PATH))
    validation.compile_schema.cache_clear()
    for _ in range(3):
        bench.one("t", {"path": "a"})
    assert validation.compile_schema.cache_info().misses == 1


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "find_spec", lambda name: None)
    with pytest.raises(HoldfastError, match=r"pip install 'holdfast\[agent\]'"):
        Bench(tmp_path)


def test_a_megabyte_of_input_and_output_passes(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, tool_named("t", says("y" * 1_000_000), input_schema=b'{"properties":{"a":{"type":"string"}}}')
    )
    fine, wrong = bench.run(call("t", {"a": "x" * 1_000_000}), call("t", {"a": ["x" * 1_000_000]}, id="2"))
    assert len(text(fine)) == 1_000_000
    assert len(text(wrong)) < 1_000


def test_paths_are_checked_before_anybody_is_asked_or_anything_runs(tmp_path: Path) -> None:
    asked = []

    async def ask(question: Question) -> Decision:
        asked.append(question)
        return Decision(True)

    tool = tool_named("t", says("ran"), "write", paths=(Touch("path", "write"), Touch("all", "read")))
    bench = Bench(tmp_path, tool, settings=ToolsSettings(), confirmations=Confirmations(ConfirmSettings(), ask=ask))
    for wrong in ({"path": "../x"}, {"path": "/etc/passwd"}, {"path": "a", "all": ["b", "../c"]}, {"path": 5}):
        assert "path" in text(bench.one("t", wrong))
    assert not asked
    assert text(bench.one("t", {"path": "a", "all": ["b"]})) == "ran"
    assert len(asked) == 1


def test_a_second_call_with_the_same_id_is_not_run(tmp_path: Path) -> None:
    ran = []

    async def run(input: Any, context: Any) -> ToolOutput:
        ran.append(input)
        return ToolOutput(content="ok")

    bench = Bench(tmp_path, tool_named("t", run, "write"))
    first, second = bench.run(call("t", {"a": 1}, id="x"), call("t", {"a": 2}, id="x"))
    assert (text(first), ran) == ("ok", [{"a": 1}])
    assert text(second) == "The id x stands for another call of this turn; this one was not run."


def test_the_tool_behind_another_is_what_runs_and_is_told(tmp_path: Path) -> None:
    behind = tool_named("mcp__s__t", says("behind"), "network")
    bench = Bench(tmp_path, resolve=lambda call: ResolvedCall(behind, {"a": 1}, via="call_tool"))
    answer = bench.one("call_tool", {"name": "mcp__s__t", "arguments": {"a": 1}})
    assert (answer.tool, text(answer)) == ("mcp__s__t", "behind")
    assert bench.told()[0] == ToolCalled(tool="mcp__s__t", tool_use_id="toolu_call_tool", input='{"a": 1}')


def test_a_call_gets_what_it_may_touch(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def run(input: Any, context: Any) -> ToolOutput:
        seen.append(context)
        context.stream("half")
        return ToolOutput(content="ok")

    shown: list[tuple[str, str]] = []
    skills, memory = object(), object()
    bench = Bench(tmp_path, tool_named("t", run), skills=skills, memory=memory, stream=lambda *said: shown.append(said))
    bench.one("t")
    (context,) = seen
    assert (context.session, context.turn, context.tool_use_id) == ("s", "t1", "toolu_t")
    assert (context.workspace, context.bus) == (bench.workspace, bench.bus)
    assert (context.skills, context.memory) == (skills, memory)
    assert shown == [("toolu_t", "half")]


def test_a_listener_that_fails_does_not_fail_the_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run(input: Any, context: Any) -> ToolOutput:
        context.stream("x")
        return ToolOutput(content="ok")

    def stream(id: str, text: str) -> None:
        raise OSError("terminal gone")

    assert text(Bench(tmp_path, tool_named("t", run), stream=stream).one("t")) == "ok"
    assert "could not be shown" in caplog.text


def test_shaping_changes_the_result_of_a_success_only(tmp_path: Path) -> None:
    def shape(tool: Any, call: Any, output: ToolOutput, context: Any) -> ToolOutput:
        return ToolOutput(content=(*output.blocks, Text(f"guide of {tool.name} for {call.id}")), metadata={"shaped": 1})

    bench = Bench(tmp_path, tool_named("t", says("")), tool_named("bad", raises(ToolExecutionError("no"))), shape=shape)
    good, bad = bench.run(call("t"), call("bad"))
    assert text(good) == "(no output)\nguide of t for toolu_t"
    assert text(bad) == "no"
    assert good.output.metadata == {"shaped": 1}


@pytest.mark.parametrize("fails", [lambda *_: 1 / 0, lambda *_: None, lambda *_: ToolOutput(content=(Thinking("x"),))])
def test_a_failure_of_shaping_never_loses_the_output(tmp_path: Path, fails: Any, caplog: Any) -> None:
    settings = ToolsSettings(confirm=ALLOW.confirm, offload=OffloadSettings(hard_cap_chars=100))
    bench = Bench(
        tmp_path, tool_named("t", says("x" * 500)), tool_named("u", says("y")), shape=fails, settings=settings
    )
    long, short = bench.run(call("t"), call("u"))
    assert text(short) == "y"
    assert text(long).startswith("xxx")
    assert "[… 400 characters left out …]" in text(long)
    assert not long.result.is_error
    assert any(record.levelno == logging.ERROR for record in caplog.records)


def test_an_endless_error_text_is_cut_at_the_hard_cap(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tool_named("t", raises(ToolExecutionError("e" * 2_000_000))))
    assert 100_000 <= len(text(bench.one("t"))) < 100_100


def test_a_refusal_by_default_tells_the_model(tmp_path: Path) -> None:
    bench = Bench(tmp_path, tool_named("t", says(), "execute"), settings=ToolsSettings(confirm=ConfirmSettings()))
    answer = bench.one("t")
    assert text(answer) == "The call was not run. t needs the user's consent, and nobody can be asked here."
    failed = bench.told()[-1]
    assert isinstance(failed, ToolFailed)
    assert json.loads(failed.metadata) == {"refused": True}
