"""Scripts: what can be written in them, what they choose, and the one sentence for everything else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest

from holdfast.errors import HoldfastError
from holdfast.records import Image, Message, Opaque, Text, ToolDefinition, ToolResult
from holdfast.simulator.messages import Reply, ReplySettings, Thought, ToolCall, Words
from holdfast.simulator.model import respond
from holdfast.simulator.script import ECHO, Script, ScriptRule, ScriptStep, When, load_script
from holdfast.simulator.script.schema_inputs import fit
from tests.shapes import load as recorded

from .conversations import CLOCK, WEATHER, asks, calls, results, says

TOOLS = (WEATHER, CLOCK)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a script beside the test and loads it by its bare name, as a user in that directory would."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "script.yaml") -> Script:
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
        return load_script(name)

    return write


def text_of(reply: Reply) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Words))


def calls_of(reply: Reply) -> list[tuple[str, object]]:
    return [(part.name, json.loads(part.input)) for part in reply.parts if isinstance(part, ToolCall)]


# Echo


def test_echo_answers_with_the_last_message() -> None:
    reply = respond(ECHO, asks("first", says("first"), "and now this"))
    assert text_of(reply) == "and now this"
    assert (reply.stop, ECHO.tools) == ("end", ())


def test_echo_takes_the_last_text_of_a_message_and_shortens_it_between_words() -> None:
    message = Message("user", (Text("a reminder"), Text("word " * 200)))
    text = text_of(respond(ECHO, asks(message)))
    assert text.startswith("word word")
    assert text.endswith("word …")
    assert len(text) <= 402


def test_echo_of_a_tool_result_is_its_text() -> None:
    assert text_of(respond(ECHO, asks("go", calls("clock"), results("noon")))) == "noon"


def test_echo_of_a_picture_is_empty() -> None:
    reply = respond(ECHO, asks(Message("user", (Image(url="https://example.com/a.png"),))))
    assert (reply.parts, reply.tokens, reply.stop) == ((), 0, "end")


def test_echo_of_nothing_is_empty() -> None:
    assert respond(ECHO, asks()).parts == ()


def test_a_note_of_the_system_does_not_hide_the_message_before_it() -> None:
    note = Message("system", (Text("remember"),))
    assert text_of(respond(ECHO, asks("hello", note))) == "hello"
    assert text_of(respond(ECHO, asks("hello", says("hi"), note))) == "remember"


def test_an_answer_the_client_began_is_echoed() -> None:
    assert text_of(respond(ECHO, asks("hello", says("I think")))) == "I think"


# Rules


def test_the_first_rule_that_holds_is_taken(script) -> None:
    rules = script(
        """
        rules:
          - when: {contains: weather, role: user}
            say: it rains
          - when: {matches: "^[0-9]+$"}
            say: a number
          - say: otherwise
        """
    )
    assert text_of(respond(rules, asks("the weather?"))) == "it rains"
    assert text_of(respond(rules, asks("42"))) == "a number"
    assert text_of(respond(rules, asks("else"))) == "otherwise"


def test_a_script_without_a_fitting_rule_echoes(script) -> None:
    rules = script("rules: [{when: {contains: x}, say: y}]")
    assert text_of(respond(rules, asks("hello"))) == "hello"


def test_a_bare_list_is_the_rules_and_a_bare_text_is_said(script) -> None:
    assert text_of(respond(script("- just this"), asks("hello"))) == "just this"


@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_rule_on_a_tool_result_holds_however_the_dialect_sends_it(script, role: str) -> None:
    rules = script(
        """
        rules:
          - when: {tool_result: get_weather, role: tool}
            say: "It is {tool_result}."
        """
    )
    answered = asks("weather?", calls("get_weather"), results("rain", role=role), tools=TOOLS)
    assert text_of(respond(rules, answered)) == "It is rain."
    other = asks("time?", calls("clock"), results("noon", role=role), tools=TOOLS)
    assert text_of(respond(rules, other)) == "noon"


def test_several_results_in_messages_of_their_own_are_one_message(script) -> None:
    rules = script("rules: [{when: {tool_result: any, matches: 'rain\\snoon'}, say: '{tool_result}'}]")
    both = asks(
        "go", calls("get_weather", "clock"), results("rain", role="tool"), results("noon", first=2, role="tool")
    )
    assert text_of(respond(rules, both)) == "rain\nnoon"


def test_a_result_followed_by_a_text_is_still_a_result(script) -> None:
    rules = script("rules: [{when: {tool_result: clock, role: user}, say: seen}]")
    message = Message("user", (ToolResult("t1", (Text("noon"),)), Text("go on")))
    assert text_of(respond(rules, asks("go", calls("clock"), message))) == "seen"


def test_a_result_nobody_asked_for_belongs_to_no_tool(script) -> None:
    rules = script("rules: [{when: {tool_result: clock}, say: seen}, {when: {role: user}, say: no}, {say: lost}]")
    assert text_of(respond(rules, asks("go", says("x"), results("noon")))) == "lost"


def test_turns_are_counted_from_the_messages(script) -> None:
    rules = script("rules: [{when: {turn: 2}, say: second}, {say: 'turn {turn}'}]")
    said = [
        text_of(respond(rules, asks(*talk)))
        for talk in (["a"], ["a", says("1"), "b"], ["a", says("1"), "b", says("2"), "c"])
    ]
    assert said == ["turn 1", "second", "turn 3"]


def test_a_rule_is_taken_no_more_often_than_it_may(script) -> None:
    rules = script(
        """
        rules:
          - {when: {contains: go}, times: 2, call: {tool: clock, input: {zone: UTC}}}
          - say: enough
        """
    )
    talk = ["go", calls("clock"), "go", calls("clock"), "something else", says("enough"), "go"]
    said = [calls_of(respond(rules, asks(*talk[:n], tools=TOOLS))) for n in (1, 3, 5, 7)]
    assert said == [[("clock", {"zone": "UTC"})], [("clock", {"zone": "UTC"})], [], []]


def test_turns_are_played_first_and_in_order(script) -> None:
    played = script(
        """
        turns:
          - call: {tool: clock}
          - say: it was {tool_result}
        rules:
          - {times: 1, say: once}
          - say: rules now
        """
    )
    talk = ["go", calls("clock"), results("noon"), says("it was noon"), "on", says("once"), "on"]
    first, second, third, fourth = (respond(played, asks(*talk[:n], tools=TOOLS)) for n in (1, 3, 5, 7))
    assert calls_of(first) == [("clock", {})]
    assert [text_of(second), text_of(third), text_of(fourth)] == ["it was noon", "once", "rules now"]


def test_placeholders_are_filled_in_and_other_braces_are_safe(script) -> None:
    rules = script(
        """
        rules:
          - say: '{last} {turn} {tool_result}{x} {} {{last}} {"a": 1}'
            call: {tool: clock, input: {zone: "{last}", more: ["{turn}", 3, {deep: "{last}"}]}}
        """
    )
    reply = respond(rules, asks("hey {turn}", tools=TOOLS))
    assert text_of(reply) == 'hey {turn} 1 {x} {} {hey {turn}} {"a": 1}'
    assert calls_of(reply) == [("clock", {"zone": "hey {turn}", "more": ["1", 3, {"deep": "hey {turn}"}]})]


def test_a_lone_surrogate_is_not_repeated(script) -> None:
    assert text_of(respond(script("- 'x{last}'"), asks("\ud83d!"))) == "x?!"


def test_yaml_types_become_json(script) -> None:
    rules = script(
        """
        rules:
          - say: 1.10
            call:
              tool: clock
              input: {a: 1, b: 1e2, c: true, d: null, e: 2026-01-01, f: [no], g: {h: "1"}, i: ~, j: , k: 12:30}
        """
    )
    reply = respond(rules, asks("go", tools=TOOLS))
    empty = dict.fromkeys("dij")
    words = {"e": "2026-01-01", "f": ["no"], "g": {"h": "1"}, "k": "12:30"}
    expected = {"a": 1, "b": 100.0, "c": True, **words, **empty}
    assert calls_of(reply) == [("clock", expected)]
    assert text_of(reply) == "1.10"
    assert text_of(respond(script("rules: [{when: {contains: no}, say: yes}]"), asks("no"))) == "yes"


def test_json_is_read_with_its_tabs_and_escapes(script) -> None:
    text = '{\n\t"rules": [\n\t\t{"say": "\\ud83d\\ude00 \\u00e9 a\\/b"}\n\t]\n}'
    assert text_of(respond(script(text, "script.json"), asks("x"))) == "😀 é a/b"


def test_delays_have_defaults_that_a_rule_replaces(script) -> None:
    rules = script(
        """
        delay: {first_token: 0.2, per_token: 0.01}
        rules:
          - {when: {contains: slow}, say: x, first_token: 3}
          - say: y
        """
    )
    slow, plain, echo = respond(rules, asks("slow")), respond(rules, asks("x")), respond(ECHO, asks("x"))
    assert (slow.first_token_delay, slow.token_delay) == (3.0, 0.01)
    assert (plain.first_token_delay, plain.token_delay) == (0.2, 0.01)
    assert (echo.first_token_delay, echo.token_delay) == (0.0, 0.0)


# Tools


def test_several_calls_are_made_in_parallel_with_ids_of_their_own(script) -> None:
    rules = script("rules: [{say: both, call: [{tool: get_weather, input: {city: Rome, unit: C}}, clock]}]")
    assert rules.tools == ("clock", "get_weather")
    reply = respond(rules, asks("go", tools=TOOLS))
    assert calls_of(reply) == [("get_weather", {"city": "Rome", "unit": "C"}), ("clock", {})]
    assert reply.stop == "tools"
    assert len({part.id for part in reply.parts if isinstance(part, ToolCall)}) == 2


def test_ids_follow_from_the_conversation(script) -> None:
    rules = script("rules: [{call: clock}]")
    one, again = respond(rules, asks("go", tools=TOOLS)), respond(rules, asks("go", tools=TOOLS))
    other = respond(rules, asks("go on", tools=TOOLS))
    assert one == again
    assert one.parts[0].id != other.parts[0].id
    assert one.parts[0].id.startswith("toolu_")
    assert respond(rules, asks("go", tools=TOOLS, dialect="openai_chat")).parts[0].id.startswith("call_")


def test_any_calls_one_offered_tool_after_the_other(script) -> None:
    rules = script("rules: [{call: [{tool: any}, {tool: any}, {tool: any}]}]")
    assert rules.tools == ()
    names = [name for name, _ in calls_of(respond(rules, asks("go", tools=TOOLS)))]
    assert names == ["get_weather", "clock", "get_weather"]
    second = respond(rules, asks("go", says("x"), "go", tools=TOOLS))
    assert [name for name, _ in calls_of(second)] == ["clock", "get_weather", "clock"]


def test_an_input_is_made_to_fit(script) -> None:
    rules = script("rules: [{call: get_weather}]")
    assert calls_of(respond(rules, asks("go", tools=TOOLS))) == [("get_weather", {"city": "text", "unit": "C"})]


SHAPES = [shape for shape in recorded() if shape.dialect is not None and b'"tools"' in (shape.body or b"")]


@pytest.mark.unmeasured
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_any_tool_of_a_real_client_gets_an_input_that_its_schema_accepts(shape) -> None:
    tools = json.loads(shape.body).get("tools") or []
    functions = [inner for tool in tools for inner in tool.get("functionDeclarations", [tool.get("function", tool)])]
    for function in functions:
        schema = next((function[key] for key in ("input_schema", "parametersJsonSchema") if key in function), None)
        schema = function.get("parameters") if schema is None and shape.dialect != "gemini" else schema
        if schema is not None:
            jsonschema.validate(fit(json.dumps(schema).encode()), schema)


SCHEMAS: list[dict] = [
    {},
    {"type": "object", "required": ["x"]},
    {"type": "object", "required": ["x"], "additionalProperties": {"type": "integer"}},
    {"required": ["a"], "properties": {"a": {"const": 7}}},
    {"required": ["a"], "properties": {"a": {"type": ["null", "integer"], "minimum": 5}}},
    {"required": ["a"], "properties": {"a": {"type": "integer", "maximum": -3, "multipleOf": 2}}},
    {"required": ["a"], "properties": {"a": {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 2}}},
    {"required": ["a"], "properties": {"a": {"type": "integer", "exclusiveMinimum": 1}}},
    {"required": ["a"], "properties": {"a": {"type": "string", "minLength": 11}}},
    {"required": ["a"], "properties": {"a": {"type": "string", "maxLength": 2}}},
    {"required": ["a"], "properties": {"a": {"type": "array", "minItems": 2, "items": {"type": "boolean"}}}},
    {"required": ["a"], "properties": {"a": {"minItems": 3, "uniqueItems": True, "items": {"type": "string"}}}},
    {"required": ["a"], "properties": {"a": {"minItems": 3, "uniqueItems": True, "items": {"type": "integer"}}}},
    {"required": ["a"], "properties": {"a": {"prefixItems": [{"type": "integer"}], "minItems": 2, "items": {}}}},
    {"required": ["a"], "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}},
    {"required": ["a"], "properties": {"a": {"oneOf": [{"type": "null"}]}}},
    {"required": ["a"], "properties": {"a": {"enum": [None, 1]}}},
    {
        "$defs": {"n~1/": {"type": "object", "required": ["b"], "properties": {"b": {"type": "number"}}}},
        "required": ["a"],
        "properties": {"a": {"$ref": "#/$defs/n~01~1"}},
    },
    {
        "allOf": [
            {"required": ["a"], "properties": {"a": {"type": "integer"}}},
            {"required": ["b"], "properties": {"b": {"type": "boolean"}}},
        ]
    },
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_a_made_input_is_valid(schema: dict) -> None:
    jsonschema.validate(fit(json.dumps(schema).encode()), schema)


def test_formats_are_kept() -> None:
    schema = {"required": ["at"], "properties": {"at": {"type": "string", "format": "date"}}}
    assert fit(json.dumps(schema).encode()) == {"at": "2026-01-01"}


@pytest.mark.parametrize(
    "schema",
    [
        b"[]",
        b"not json",
        b'{"type":"string"}',
        b'{"allOf":[1,{"$ref":"#/nowhere"}]}',
        b'{"$ref":"#"}',
        b'{"type":"object","required":7}',
    ],
)
def test_a_schema_that_says_nothing_gets_an_empty_object(schema: bytes) -> None:
    assert fit(schema) == {}


def test_a_schema_that_never_ends_is_cut_off() -> None:
    endless = {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}}
    depth, value = 0, fit(json.dumps(endless).encode())
    while value:
        depth, value = depth + 1, value["next"]
    assert 10 < depth < 50
    assert fit(b'{"required":["a"],"properties":{"a":{"minItems":"many","type":"array"}}}') == {"a": []}


def test_gemini_s_own_schema_and_anthropic_s_own_tools_can_be_called(script) -> None:
    rules = script("rules: [{call: {tool: any}}]")
    parameters = b'{"type":"OBJECT","required":["q"],"properties":{"q":{"type":"INTEGER"}}}'
    tool = ToolDefinition("ask", None, b"{}", (("parameters", parameters),))
    assert calls_of(respond(rules, asks("go", tools=(tool,), dialect="gemini"))) == [("ask", {"q": 1})]
    own = (
        Opaque("web_search_20250305", b'{"name":"web_search"}'),
        Opaque("bash_20250124", b'{"name":"bash"}'),
        Opaque("x", b"1"),
    )
    assert calls_of(respond(rules, asks("go", tools=own))) == [("bash", {})]  # type: ignore[arg-type]
    deferred = (ToolDefinition("later", extra=(("defer_loading", b"true"),)), CLOCK)
    assert calls_of(respond(rules, asks("go", tools=deferred))) == [("clock", {})]


# What is wrong, in one sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rules: [", "script.yaml:1: the script is not valid YAML"),
        ("rules:\n  - say: x\n - say: y", "script.yaml:3: the script is not valid YAML"),
        ("rules:\n  - say: x\x00", "script.yaml:2: the script holds a character that YAML does not allow"),
        ("", "script.yaml:1: the script is empty; give it a list of `rules`"),
        ("rules: []", "script.yaml:1: the script has no rules"),
        ("delay: {first_token: 1}", "script.yaml:1: the script has no rules"),
        ("rule: []", "script.yaml:1: unknown key `rule` in a script; did you mean `rules`?"),
        ("rules:\n  - sya: x", "script.yaml:2: unknown key `sya` in a rule; did you mean `say`?"),
        ("turns:\n  - say: x\n    when: {}", "script.yaml:3: unknown key `when` in a turn"),
        (
            "rules:\n  - when: {contain: x}\n    say: y",
            "script.yaml:2: unknown key `contain` in `when`; did you mean `contains`?",
        ),
        ("rules:\n  - when: x\n    say: y", "script.yaml:2: `when` must be a mapping, not a text"),
        ("rules: x", "script.yaml:1: `rules` must be a list, not a text"),
        ("42", "script.yaml:1: a script must be a mapping, not a number"),
        ("rules:\n  - 42", "script.yaml:2: a rule must be a mapping, not a number"),
        ("rules:\n  - when: {turn: 1}", "script.yaml:2: the rule says nothing; give it one of say, think, call"),
        ("rules:\n  - say: [x]", "script.yaml:2: `say` must be a text, not a list"),
        ("rules:\n  - say:\n", "script.yaml:2: `say` must be a text, not nothing"),
        ("rules:\n  - say: {a: b}", "script.yaml:2: `say` must be a text, not a mapping"),
        ("rules:\n  - say: x\n    stop: refuse", "script.yaml:3: `stop` is 'refuse'; did you mean `refusal`?"),
        ("rules:\n  - say: x\n    tokens: -1", "script.yaml:3: `tokens` is -1; it must be between 0 and 1000000"),
        ("rules:\n  - say: x\n    tokens: many", "script.yaml:3: `tokens` must be a whole number, not a text"),
        ("rules:\n  - say: x\n    times: 0", "script.yaml:3: `times` is 0; it must be at least 1"),
        ("rules:\n  - say: x\n    first_token: soon", "script.yaml:3: `first_token` must be a number of seconds"),
        ("delay: {per_token: -1}\nrules: [x]", "script.yaml:1: `per_token` must be a number of seconds"),
        (
            "rules:\n  - say: x\n    when: {role: bot}",
            "script.yaml:3: `role` is 'bot'; known are assistant, system, tool, user.",
        ),
        (
            "rules:\n  - when:\n      matches: '('\n    say: x",
            "script.yaml:3: `matches` is no regular expression (missing )",
        ),
        ("rules:\n  - call: []", "script.yaml:2: `call` is an empty list"),
        ("rules:\n  - call: {input: {}}", "script.yaml:2: `call` names no tool; add `tool`"),
        ("rules:\n  - call: {tool: x, input: [1]}", "script.yaml:2: `input` must be a mapping, not a list"),
        ("rules:\n  - call: {tool: x, with: 1}", "script.yaml:2: unknown key `with` in `call`"),
        ("rules:\n  - say: x\n    say: y", "script.yaml:3: the key `say` stands here a second time"),
        ("rules:\n  - {[a]: b}", "script.yaml:2: a key must be a plain word"),
        ("rules:\n  - call: {tool: x, input: {a: 1e999}}", "script.yaml:2: 1e999 has no form in JSON"),
        ("rules:\n  - call: {tool: x, input: {a: " + "9" * 5000 + "}}", "script.yaml:2: 999"),
        ("rules: &a\n  - *a", "script.yaml:1: the script's aliases lead back to themselves"),
        ("rules: " + "[" * 5000, "script.yaml:1: the script is"),
    ],
)
def test_a_wrong_script_is_one_sentence_with_file_and_line(script, text: str, sentence: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        script(text)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_aliases_that_explode_are_refused(script) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(HoldfastError, match="aliases"):
        script("\n".join(lines))


def test_files_that_cannot_be_read(script, tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match=r"the script `missing.yaml` cannot be read \(No such file"):
        load_script("missing.yaml")
    with pytest.raises(HoldfastError, match=r"the script `script.txt` is of no known kind; its name must end in .yaml"):
        script("x", "script.txt")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(HoldfastError, match=r"`folder.yaml` is no file of reasonable size"):
        load_script("folder.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"rules:\n  - say: \xe9\n")
    with pytest.raises(HoldfastError, match=r"^latin.yaml:2: the script is not UTF-8"):
        load_script("latin.yaml")


def test_a_tool_that_is_not_offered_is_named_with_those_that_are(script) -> None:
    rules = script("rules:\n  - say: x\n    call:\n      - tool: clock\n      - tool: foo\n")
    sentence = (
        "script.yaml:5: the rule calls the tool 'foo', which the request does not offer (offered: get_weather, clock)"
    )
    with pytest.raises(HoldfastError) as caught:
        respond(rules, asks("go", tools=TOOLS))
    assert str(caught.value) == sentence
    later = ToolDefinition("later", None, b"{}", (("defer_loading", b"true"),))
    with pytest.raises(HoldfastError, match=r"^script.yaml:1: the rule calls any tool, but the request offers none"):
        respond(script("rules: [{call: {tool: any}}]"), asks("go", tools=(later,)))


def test_a_request_without_tools_gets_the_words_alone(script) -> None:
    """Clients ask for titles with the user's message and without tools."""
    assert text_of(respond(script("rules:\n  - say: x\n    call: clock\n"), asks("go"))) == "x"
    assert text_of(respond(script("rules:\n  - call: clock\n"), asks("go"))) == "go"
    assert text_of(respond(script("turns:\n  - call: {tool: any}\n"), asks("go"))) == "go"


def test_an_input_beyond_json_is_refused(script) -> None:
    rules = script(
        "def reply(request):\n    return {'call': {'tool': 'clock', 'input': {'at': object()}}}\n", "script.py"
    )
    with pytest.raises(HoldfastError, match=r"^script.py:1: the call's `input` has no form in JSON"):
        respond(rules, asks("go", tools=TOOLS))


# Python


def test_a_python_script_sees_the_canonical_request(script) -> None:
    answers = script(
        """
        from dataclasses import dataclass

        @dataclass
        class Memory:
            size: int

        def reply(request):
            size = Memory(len(request.messages)).size
            if size == 1:
                return {"think": "hm", "say": "turn {turn}", "call": [{"tool": "clock"}], "first_token": 1}
            if size == 3:
                return ["one", {"call": "clock"}, {"say": "two", "stop": "refusal"}]
            return "plain {last}"
        """,
        "script.py",
    )
    thinking = ReplySettings(thinking=True)
    first = respond(answers, asks("a", tools=TOOLS), thinking)
    assert [type(part) for part in first.parts] == [Thought, Words, ToolCall]
    assert (text_of(first), first.first_token_delay) == ("turn 1", 1.0)
    second = respond(answers, asks("a", says("b"), "c", tools=TOOLS))
    assert [type(part) for part in second.parts] == [Words, ToolCall, Words]
    assert second.stop == "refusal"
    assert text_of(respond(answers, asks("a", says("b")))) == "plain b"
    assert answers.tools == ()


def test_a_python_script_may_build_the_reply_itself(script) -> None:
    answers = script(
        """
        from holdfast.simulator.messages import Reply, Thought, ToolCall, Words

        def reply(request):
            call = ToolCall("id", "any_tool", b'{"a": 1}' if len(request.messages) == 1 else b"[]")
            call = ToolCall("id", "any_tool", b"{") if len(request.messages) == 3 else call
            return Reply((Thought("hm"), Words("x" * 5), call), "tools", 99, token_delay=0.5)
        """,
        "script.py",
    )
    reply = respond(answers, asks("a"))
    assert reply.parts == (Words("xxxxx"), ToolCall("id", "any_tool", b'{"a":1}'))
    assert (reply.stop, reply.token_delay, reply.thought_tokens) == ("tools", 0.5, 0)
    assert 0 < reply.tokens < 99
    silent = script(
        "from holdfast.simulator.messages import Reply\ndef reply(r):\n    return Reply((), 'tools', 0)\n", "s.py"
    )
    assert respond(silent, asks("a")).stop == "end"
    with pytest.raises(HoldfastError, match=r"^script.py:4: the input of the call to 'any_tool' must be an object"):
        respond(answers, asks("a", says("b")))
    with pytest.raises(HoldfastError, match=r"^script.py:4: the input of the call to 'any_tool' is not JSON"):
        respond(answers, asks("a", says("b"), "c"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def reply(:\n", "script.py:1: the script is not valid Python (invalid syntax); correct it"),
        ("x = '\x00'", "script.py:1: the script is not valid Python"),
        (
            "\n\nimport nothing_of_that_name\n",
            "script.py:3: the script fails when it is loaded (ModuleNotFoundError: No",
        ),
        ("replay = 1\n", "script.py:1: the script has no function `reply`; define reply(request)"),
    ],
)
def test_a_wrong_python_script_is_one_sentence(script, text: str, sentence: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        script(text, "script.py")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("return helper()", "script.py:2: `reply` fails (ZeroDivisionError: division by zero); correct it"),
        ("return request.nothing", "script.py:5: `reply` fails (AttributeError: "),
        ("return None", "script.py:4: `reply` returns NoneType; return a text, a dict"),
        ("return []", "script.py:4: `reply` returns an empty list"),
        ("return [1]", "script.py:4: `reply` returns int"),
        ("return {'sya': 'x'}", "script.py:4: unknown key `sya` in a turn; did you mean `say`?"),
        ("return {'say': (1,)}", "script.py:4: `say` must be a text, not a list"),
        ("raise ValueError('two\\nlines')", "script.py:5: `reply` fails (ValueError: two lines)"),
        ("return {'say': True}", "script.py:4: `say` must be a text, not yes or no"),
        ("return {'say': set()}", "script.py:4: `say` must be a text, not a set"),
        ("raise SystemExit(7)", "script.py:5: `reply` fails (SystemExit: 7); correct it"),
        ("return {'say': 'x', 'first_token': float('nan')}", "script.py:4: `first_token` must be a number of seconds"),
        ("return {'say': 'x', 'per_token': float('inf')}", "script.py:4: `per_token` must be a number of seconds"),
        ("d = {}; d['call'] = d; return d", "script.py:4: `reply` returns something that holds itself"),
        ("return wait()", "script.py:4: `reply` returns coroutine; return a text"),
        ("return Reply((Words(5),), 'end', 1)", "script.py:4: `reply` returns a Reply that is wrong (Expected `str`"),
        ("return Reply((), 'huh', 1)", "script.py:4: `reply` returns a Reply that is wrong (Invalid enum value"),
        (
            "return Reply((), 'end', 1, token_delay=float('nan'))",
            "script.py:4: `reply` returns a Reply that is wrong (a delay is no number of seconds)",
        ),
    ],
)
def test_what_goes_wrong_in_reply_is_one_sentence(script, line: str, sentence: str) -> None:
    imports = "from holdfast.simulator.messages import Reply, Words"
    helper = "async def wait(): pass" if "wait" in line else "def helper(): return 1 / 0"
    answers = script(f"{imports}\n{helper}\n\ndef reply(request):\n    {line}\n", "script.py")
    with pytest.raises(HoldfastError) as caught:
        respond(answers, asks("a"))
    assert str(caught.value).startswith(sentence)


def test_a_sentence_of_our_own_passes_through_reply(script) -> None:
    answers = script(
        "from holdfast.errors import HoldfastError\ndef reply(request):\n    raise HoldfastError('mine')\n", "script.py"
    )
    with pytest.raises(HoldfastError, match=r"^mine$"):
        respond(answers, asks("a"))


# The documentation

PAGE = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```(yaml|python)\n(.*?)```", re.split(r"^## ", PAGE, flags=re.MULTILINE)[1], re.DOTALL)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_documented_scripts_answer(script, kind: str, text: str) -> None:
    documented = script(text, "script.py" if kind == "python" else "script.yaml")
    for word in ("weather", "compare", "hello", "explain", "else"):
        request = asks(word, tools=TOOLS)
        reply = respond(documented, request, ReplySettings(thinking=True))
        assert reply.parts
        made = calls_of(reply)
        if made:
            after = asks(word, calls(*(name for name, _ in made)), results(*("ok" for _ in made)), tools=TOOLS)
            assert text_of(respond(documented, after))


def test_the_documentation_shows_every_key() -> None:
    for key in (*ScriptStep.__struct_fields__, *When.__struct_fields__, *ScriptRule.__struct_fields__):
        assert key in ("calls", "line", "step") or f"`{key}`" in PAGE
