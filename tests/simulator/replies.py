"""Replies and envelopes to render, and a client's transport that is answered by the scripted model itself."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
from hypothesis import strategies as st

from holdfast.records import Usage, usage
from holdfast.simulator import replies
from holdfast.simulator.messages import HttpRequest, Part, Reply, ReplyEnvelope, ReplySettings, Thought, ToolCall, Words
from holdfast.simulator.model import respond, settings, tokens_of
from holdfast.simulator.script import CallStep, Script, ScriptRule, ScriptStep, When
from holdfast.wire import Body, dialect_of

from .conversations import MODELS

TEXT = 'Ünïcode 😀 and "quotes", back\\slashes,\nlines and a tail that is long enough for several pieces.'
CALL = ToolCall("call_1", "get_weather", '{"city":"São Paulo \\"x\\"","days":[1,2.5,null],"unit":"C"}'.encode())
OTHER = ToolCall("call_2", "clock", b"{}")
FULL = (Thought("Let me think about this for a while."), Words(TEXT), CALL, OTHER)

WEATHER_TALK = Script(
    name="script.yaml",
    rules=(
        ScriptRule(ScriptStep(say="It is {tool_result}."), When(tool_result="get_weather")),
        ScriptRule(
            ScriptStep(
                think="The city?", say=TEXT, calls=(CallStep("get_weather"), CallStep("get_weather", {"city": "é"}))
            )
        ),
    ),
)
"""A thought, a text and two calls of a tool, then what the tool answered."""
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def reply_of(*parts: Part, stop: Any = None, stop_sequence: str | None = None) -> Reply:
    natural = "tools" if any(isinstance(part, ToolCall) for part in parts) else "end"
    thoughts = sum(tokens_of(part) for part in parts if isinstance(part, Thought))
    return Reply(parts, stop or natural, sum(map(tokens_of, parts)), stop_sequence, thoughts)


def envelope_of(dialect: str, reply: Reply, used: Usage | None = None, **members: Any) -> ReplyEnvelope:
    used = usage(input=7, read=1000, writes=WRITES[dialect], output=reply.tokens) if used is None else used
    return ReplyEnvelope("resp_1", members.pop("model", MODELS[dialect]), 1_790_000_000, used, **members)


WRITES: dict[str, dict[str, int]] = {
    "anthropic": {"5m": 40, "1h": 20},
    "openai_chat": {"30m": 300},
    "openai_responses": {"30m": 300},
    "gemini": {},
}

_texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=200)
_inputs = st.dictionaries(_texts, st.one_of(_texts, st.integers(-(2**53), 2**53), st.booleans(), st.none()), max_size=3)


def _call(index: int, name: str, members: dict[str, Any]) -> ToolCall:
    return ToolCall(f"call_{index}", name, msgspec.json.encode(members))


@st.composite
def any_reply(draw: st.DrawFn) -> Reply:
    """Thoughts, texts and calls as the scripted model orders them, ended in any way."""
    thoughts = draw(st.lists(st.builds(Thought, _texts), max_size=1))
    texts = draw(st.lists(st.builds(Words, _texts), max_size=2))
    inputs = draw(st.lists(_inputs, max_size=3))
    calls = [_call(index, f"tool_{index}", members) for index, members in enumerate(inputs)]
    stop = draw(st.sampled_from([None, "limit", "stop_sequence", "refusal"]))
    return reply_of(*thoughts, *texts, *calls, stop=stop, stop_sequence="X" if stop == "stop_sequence" else None)


@st.composite
def any_usage(draw: st.DrawFn, dialect: str) -> Usage:
    counts = st.integers(0, 2_000_000)
    writes = {ttl: draw(counts) for ttl in WRITES[dialect]}
    return usage(input=draw(counts), read=draw(counts), writes=writes, output=draw(counts))


def scripted(script: Script, seen: list[ReplySettings] | None = None) -> httpx2.MockTransport:
    """A transport for the SDKs' clients: what they send is answered by the scripted model, without any server."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        path, query = request.url.path, dict(request.url.params)
        found = dialect_of(path)
        assert found is not None, path
        dialect, model = found
        body = dialect.parse(request.read(), model=model)
        assert isinstance(body, Body)
        asked = settings(dialect.name, body, HttpRequest("POST", path, query=query))
        if seen is not None:
            seen.append(asked)
        reply = respond(script, dialect.decode(body), asked)
        used = usage(input=10, read=5, output=reply.tokens)
        envelope = ReplyEnvelope("resp_1", body.model, 1_790_000_000, used, asked.stream, {}, asked)
        answer = replies.answer(dialect.name, reply, envelope)
        content = answer.body if answer.chunks is None else b"".join(answer.chunks)
        return httpx2.Response(answer.status, headers=list(answer.headers), content=content)

    return httpx2.MockTransport(handle)
