"""The scripted model within the limits of a request, and where each dialect keeps them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.facts import estimate
from holdfast.simulator.messages import HttpRequest, Reply, ReplySettings, Thought, ToolCall, Words
from holdfast.simulator.model import respond, respond_to, settings, tokens_of
from holdfast.simulator.script import ECHO, CallStep, Script, ScriptRule, ScriptStep
from holdfast.wire import DIALECTS, Body
from tests.shapes import Shape
from tests.shapes import load as recorded

from .conversations import CLOCK, WEATHER, asks, body_of

TOOLS = (WEATHER, CLOCK)
LONG = "All happy families are alike; every unhappy family is unhappy in its own way. " * 20


def says(**members) -> Script:
    return Script(name="script.yaml", rules=(ScriptRule(ScriptStep(**members)),))


# Limits


def test_a_reply_within_the_limit_is_whole() -> None:
    reply = respond(ECHO, asks("hello there"), ReplySettings(limit=2))
    assert (reply.parts, reply.stop, reply.tokens) == ((Words("hello there"),), "end", 2)


@pytest.mark.parametrize("limit", [1, 2, 17, 100])
def test_a_longer_one_is_cut_at_the_limit(limit: int) -> None:
    reply = respond(says(say=LONG), asks("go"), ReplySettings(limit=limit))
    (part,) = reply.parts
    assert LONG.startswith(part.text)
    assert estimate(part.text) == limit
    assert (reply.stop, reply.tokens) == ("limit", limit)


@given(st.text(max_size=300), st.integers(0, 60))
def test_no_text_is_longer_than_its_limit(text: str, limit: int) -> None:
    reply = respond(says(say=text), asks("go"), ReplySettings(limit=limit))
    said = "".join(part.text for part in reply.parts)
    assert text.encode("utf-8", "replace").decode().startswith(said)
    assert estimate(said) <= reply.tokens <= limit


def test_a_limit_of_nothing_gives_no_output() -> None:
    reply = respond(
        says(say="x", think="y", calls=(CallStep("clock"),)), asks("go", tools=TOOLS), ReplySettings(limit=0)
    )
    assert (reply.parts, reply.stop, reply.tokens) == ((), "limit", 0)


def test_thoughts_count_towards_the_limit_and_come_first() -> None:
    reply = respond(says(think=LONG, say="done"), asks("go"), ReplySettings(thinking=True, limit=10))
    (part,) = reply.parts
    assert isinstance(part, Thought)
    assert (reply.stop, reply.tokens, reply.thought_tokens) == ("limit", 10, 10)


def test_a_call_that_does_not_fit_is_not_made_nor_anything_after_it() -> None:
    script = says(say="ok", calls=(CallStep("clock", {"zone": LONG}), CallStep("clock", {})))
    reply = respond(script, asks("go", tools=TOOLS), ReplySettings(limit=50))
    assert (reply.parts, reply.stop, reply.tokens) == ((Words("ok"),), "limit", 50)


def test_a_call_that_fits_is_kept_when_the_next_does_not() -> None:
    script = says(calls=(CallStep("clock", {}), CallStep("clock", {"zone": LONG})))
    reply = respond(script, asks("go", tools=TOOLS), ReplySettings(limit=50))
    assert [part.input for part in reply.parts] == [b"{}"]
    assert reply.stop == "limit"


# Stop sequences


@pytest.mark.parametrize(
    ("sequences", "text", "met"),
    [
        (("STOP",), "one ", "STOP"),
        (("three", "two"), "one STOP ", "two"),
        (("STO", "STOP"), "one ", "STOP"),
        (("", "absent"), "one STOP two three", None),
    ],
)
def test_text_ends_before_the_first_stop_sequence(sequences: tuple[str, ...], text: str, met: str | None) -> None:
    reply = respond(ECHO, asks("one STOP two three"), ReplySettings(stop_sequences=sequences))
    assert reply.parts == (Words(text),)
    assert (reply.stop, reply.stop_sequence) == ("end" if met is None else "stop_sequence", met)


def test_nothing_follows_a_stop_sequence() -> None:
    script = says(say="STOP", calls=(CallStep("clock"),))
    reply = respond(script, asks("go", tools=TOOLS), ReplySettings(stop_sequences=("STOP",)))
    assert (reply.parts, reply.stop, reply.tokens) == ((), "stop_sequence", 0)


def test_what_comes_first_ends_the_reply() -> None:
    late = respond(says(say=LONG + "STOP"), asks("go"), ReplySettings(limit=5, stop_sequences=("STOP",)))
    early = respond(says(say="one STOP" + LONG), asks("go"), ReplySettings(limit=5, stop_sequences=("STOP",)))
    assert (late.stop, late.stop_sequence) == ("limit", None)
    assert (early.stop, early.stop_sequence) == ("stop_sequence", "STOP")


# Thoughts, stops, lengths


def test_thoughts_need_to_be_asked_for() -> None:
    script = says(think="hm, {last}", say="yes")
    assert respond(script, asks("go")).parts == (Words("yes"),)
    reply = respond(script, asks("go"), ReplySettings(thinking=True))
    assert reply.parts == (Thought("hm, go"), Words("yes"))
    assert (reply.thought_tokens, reply.tokens) == (estimate("hm, go"), estimate("hm, go") + 1)


def test_a_rule_may_say_how_it_stops() -> None:
    assert respond(says(say="no", stop="refusal"), asks("go")).stop == "refusal"
    assert respond(says(say="cut", stop="limit"), asks("go")).stop == "limit"
    assert respond(says(calls=(CallStep("clock"),), stop="end"), asks("go", tools=TOOLS)).stop == "end"


@pytest.mark.parametrize("tokens", [1, 2, 30, 1000])
@pytest.mark.parametrize("say", [None, "Hello, world!", "a list:\n\n", "1 2 3 ", "x = 'y"])
def test_filler_makes_the_output_exactly_as_long(tokens: int, say: str | None) -> None:
    script = says(say=say, think="hm", calls=(CallStep("clock", {"zone": "UTC"}),), tokens=tokens)
    reply = respond(script, asks("go", tools=TOOLS), ReplySettings(thinking=True))
    alone = sum(tokens_of(part) for part in (Thought("hm"), ToolCall("", "clock", b'{"zone":"UTC"}')))
    least = alone + estimate(say or "")
    assert reply.tokens == max(tokens, least)
    text = "".join(part.text for part in reply.parts if isinstance(part, Words))
    assert text.startswith((say or "").rstrip())


def test_the_same_request_gets_the_same_reply() -> None:
    script = says(say="{last}", calls=(CallStep("any"), CallStep("any")), tokens=50)
    one = respond(script, asks("go", tools=TOOLS), ReplySettings(limit=60))
    assert one == respond(script, asks("go", tools=TOOLS), ReplySettings(limit=60))
    assert [type(part) for part in one.parts] == [Words, ToolCall, ToolCall]


# Settings


@pytest.mark.parametrize(
    ("dialect", "members", "expected"),
    [
        ("anthropic", {}, ReplySettings()),
        (
            "anthropic",
            {"max_tokens": 7, "stop_sequences": ["a", 1, "b"], "stream": True, "thinking": {"type": "enabled"}},
            ReplySettings(limit=7, stop_sequences=("a", "b"), stream=True, thinking=True),
        ),
        (
            "anthropic",
            {"max_tokens": 0, "thinking": {"type": "adaptive", "display": "omitted"}},
            ReplySettings(limit=0, thinking=True, show_thoughts=False),
        ),
        ("anthropic", {"max_tokens": True, "thinking": {"type": "disabled"}, "stream": 1}, ReplySettings()),
        ("openai_chat", {"model": "gpt-5.5"}, ReplySettings(include_usage=False, show_thoughts=False)),
        (
            "openai_chat",
            {"model": "gpt-5.5", "max_tokens": 9, "max_completion_tokens": 8, "stop": "x", "reasoning_effort": "low"},
            ReplySettings(limit=8, stop_sequences=("x",), thinking=True, include_usage=False, show_thoughts=False),
        ),
        (
            "openai_chat",
            {
                "model": "deepseek-chat",
                "max_tokens": 9,
                "stop": ["x", "y"],
                "stream": True,
                "stream_options": {"include_usage": True},
                "thinking": {"type": "enabled"},
            },
            ReplySettings(limit=9, stop_sequences=("x", "y"), stream=True, thinking=True),
        ),
        ("openai_chat", {"model": "deepseek-reasoner"}, ReplySettings(thinking=True, include_usage=False)),
        (
            "openai_chat",
            {"model": "gpt-5.5", "reasoning_effort": "none", "stream_options": None, "max_tokens": 1e300},
            ReplySettings(include_usage=False, show_thoughts=False),
        ),
        ("openai_responses", {"reasoning": None}, ReplySettings(show_thoughts=False)),
        (
            "openai_responses",
            {
                "max_output_tokens": 5,
                "stream": True,
                "reasoning": {"effort": "high", "summary": "auto"},
                "include": ["reasoning.encrypted_content"],
            },
            ReplySettings(limit=5, stream=True, thinking=True, encrypted_thoughts=True),
        ),
        ("openai_responses", {"reasoning": {"effort": "none", "summary": "auto"}}, ReplySettings()),
        ("gemini", {"generationConfig": 7}, ReplySettings(show_thoughts=False)),
        (
            "gemini",
            {
                "generationConfig": {
                    "maxOutputTokens": 3,
                    "stopSequences": ["z"],
                    "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1},
                }
            },
            ReplySettings(limit=3, stop_sequences=("z",), thinking=True),
        ),
        (
            "gemini",
            {
                "generation_config": {
                    "max_output_tokens": 3,
                    "stop_sequences": ["z"],
                    "thinking_config": {"include_thoughts": True, "thinking_budget": 0},
                }
            },
            ReplySettings(limit=3, stop_sequences=("z",)),
        ),
    ],
)
def test_settings_are_read_where_the_dialect_keeps_them(dialect: str, members: dict, expected: ReplySettings) -> None:
    assert settings(dialect, body_of(dialect, members)) == expected


def test_an_unreadable_member_is_as_good_as_none() -> None:
    body = DIALECTS["anthropic"].parse(b'{"messages":[],"max_tokens":' + b"9" * 5000 + b"}")
    assert isinstance(body, Body)
    assert settings("anthropic", body) == ReplySettings()


@pytest.mark.parametrize(
    ("path", "query", "stream", "sse"),
    [
        ("/v1beta/models/m:generateContent", {}, False, True),
        ("/v1beta/models/m:streamGenerateContent", {"alt": "sse"}, True, True),
        ("/v1beta/models/m:streamGenerateContent", {}, True, False),
    ],
)
def test_gemini_streams_by_path(path: str, query: dict[str, str], stream: bool, sse: bool) -> None:
    asked = settings("gemini", body_of("gemini", {}), HttpRequest("POST", path, query=query))
    assert (asked.stream, asked.sse) == (stream, sse)


# A body, looked at no further than need be

GLANCES = {
    "echo": ECHO,
    "turn": says(say="{turn} {last} {tool_result}"),
    "call": says(say="{turn}", calls=(CallStep("any"),)),
    "times": Script(
        name="s", rules=(ScriptRule(ScriptStep(say="once"), times=1), ScriptRule(ScriptStep(say="{turn}")))
    ),
}


def outcome(answer: Callable[..., Reply], *arguments: object) -> Reply | str:
    """A reply, or the sentence that says why there is none (a script that calls a tool where none is offered)."""
    try:
        return answer(*arguments)
    except HoldfastError as problem:
        return str(problem)


SHAPES = [shape for shape in recorded() if shape.dialect is not None and shape.body is not None]


@pytest.mark.unmeasured
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
@pytest.mark.parametrize("name", GLANCES)
def test_a_glance_at_a_real_request_gives_the_same_reply(shape: Shape, name: str) -> None:
    body = DIALECTS[shape.dialect].parse(shape.body, model="gemini-3-pro")
    request = DIALECTS[shape.dialect].decode(body)
    asked = settings(shape.dialect, body)
    assert outcome(respond_to, GLANCES[name], body, asked) == outcome(respond, GLANCES[name], request, asked)


def test_a_body_that_is_one_string_is_answered() -> None:
    assert respond_to(ECHO, body_of("openai_responses", {"input": "hello"}), ReplySettings()).parts == (Words("hello"),)
    assert respond_to(ECHO, body_of("gemini", {"contents": []}), ReplySettings()).parts == ()
