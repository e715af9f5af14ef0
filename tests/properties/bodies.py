"""Generated bodies as clients could send them: odd spacing, escapes, number texts, unknown fields, half surrogates.

A body is built as a tree in which a `Lit` stands for JSON text that must appear as it is, and written out with
spacing and escapes drawn at random, so that no two spellings of a value look alike.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from holdfast.wire import DIALECTS
from tests.shapes import load

LAX = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
SHAPES = [shape for shape in load() if shape.body is not None and shape.dialect is not None]


class Lit(str):
    """JSON text that is written as it stands."""


NUMBERS = st.sampled_from(["0", "-0", "1", "1.0", "1E5", "1e+05", "100000", "-3.14", "1e-300", "9" * 40, "0.1"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["", " ", "\n", '"', "\\", "/", "\x7f", "é", "😀", "\u2028", '{"a":1}', "cache_control", '"cache_control"', "]}"]
)
ODD_STRINGS = st.sampled_from([r'"\ud83d"', r'"a\udc00b"', r'"\u00e9\/"', r'"\\ud83d"', r'"\ud83d\ude00"'])
SCALARS = TEXTS | st.booleans() | st.none() | NUMBERS.map(Lit) | ODD_STRINGS.map(Lit)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(st.sampled_from(["x_new", "citations", "é", "meta data", "a\nb"]), ANYTHING, max_size=2)
STRINGS = TEXTS | ODD_STRINGS.map(Lit)
MARKERS = st.sampled_from(
    [{"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}, {"ttl": "5m", "type": "ephemeral"}]
)
NO_MARKERS = st.sampled_from([None, "ephemeral", []])
MAYBE_MARKED = st.just({}) | (MARKERS | NO_MARKERS).map(lambda value: {"cache_control": value})
BREAKPOINTS = st.sampled_from([{}, {}, {"prompt_cache_breakpoint": {"mode": "explicit"}}])
LIMITS = st.sampled_from([{}, {"n": Lit("1024")}, {"n": None}, {"n": "many"}, {"n": Lit("1E5")}])
DESCRIPTIONS = st.sampled_from([{}, {"description": "d"}, {"description": None}, {"description": ["odd"]}])


def write(value: Any, random: Random) -> str:
    """A JSON text of the tree with random spacing and escapes."""
    space = random.choice(["", "", " ", "\n\t"])
    if isinstance(value, Lit):
        return value
    if isinstance(value, str):
        return _string(value, random)
    if isinstance(value, dict):
        items = (f"{_string(k, random)}{space}:{space}{write(v, random)}" for k, v in value.items())
        return "{" + space + f"{space},{space}".join(items) + space + "}"
    if isinstance(value, list):
        return "[" + space + f"{space},{space}".join(write(v, random) for v in value) + space + "]"
    return json.dumps(value)


def _string(text: str, random: Random) -> str:
    if isinstance(text, Lit):
        return text
    if text.isascii() and text.isidentifier() and random.random() < 0.02:
        return f'"\\u{ord(text[0]):04x}{text[1:]}"'
    return json.dumps(text, ensure_ascii=random.random() < 0.3)


def shuffled(members: dict[str, Any], random: Random) -> dict[str, Any]:
    """The members in another order, sometimes."""
    keys = list(members)
    if random.random() < 0.3:
        random.shuffle(keys)
    return {key: members[key] for key in keys}


def _limit(limit: dict[str, Any], name: str) -> dict[str, Any]:
    return {name: limit["n"]} if limit else {}


@st.composite
def anthropic_bodies(draw: st.DrawFn) -> bytes:
    random = Random(draw(st.integers(0, 999)))
    text = st.builds(lambda t, u: {"type": "text", "text": t, **u}, STRINGS, UNKNOWN)
    inner = st.builds(lambda b, m: shuffled({**b, **m}, random), text, MAYBE_MARKED)
    held = inner | ANYTHING.map(lambda v: {"type": "search_result", "content": v})
    nested = st.lists(held | inner.map(lambda b: {"type": "search_result", "content": [b]}), max_size=2)
    block = st.one_of(
        text,
        st.builds(lambda t: {"type": "thinking", "thinking": t, "signature": "c2ln"}, STRINGS),
        st.builds(lambda i, u: {"type": "tool_use", "id": "t1", "name": "bash", "input": i, **u}, ANYTHING, UNKNOWN),
        st.builds(lambda c: {"type": "tool_result", "tool_use_id": "t1", "content": c}, STRINGS | nested),
        st.builds(lambda v: {"type": "future_kind", "payload": v}, ANYTHING),
        st.builds(lambda v: {"type": "document", "source": {"type": "content", "content": v}}, nested),
        st.builds(lambda v: {"type": "document", "source": v}, ANYTHING),
        st.just({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}),
    )
    marked = st.builds(lambda b, m: shuffled({**b, **m}, random), block, MAYBE_MARKED)
    content = STRINGS | st.lists(marked, max_size=4)
    message = st.builds(
        lambda r, c, u: shuffled({"role": r, "content": c, **u}, random),
        st.sampled_from(["user", "assistant", "system"]),
        content,
        UNKNOWN,
    )
    tool = st.builds(
        lambda s, m, d, u: shuffled({"name": "t", "input_schema": s, **d, **u, **m}, random),
        ANYTHING,
        MAYBE_MARKED,
        DESCRIPTIONS,
        UNKNOWN | st.just({"defer_loading": True}),
    )
    system = STRINGS | st.lists(inner, max_size=3)
    members = {"model": "claude-opus-5-5", "messages": draw(st.lists(message, max_size=4))}
    members |= _limit(draw(LIMITS), "max_tokens")
    if draw(st.booleans()):
        members["tools"] = draw(st.lists(tool, max_size=3))
    if draw(st.booleans()):
        members["system"] = draw(system)
    if draw(st.booleans()):
        members["cache_control"] = draw(MARKERS | NO_MARKERS)
    return _finish(members, draw(UNKNOWN), random)


@st.composite
def chat_bodies(draw: st.DrawFn, model: str = "gpt-6.1-sol") -> bytes:
    random = Random(draw(st.integers(0, 999)))
    images = st.sampled_from([{"url": "data:image/png;base64,aGk="}, {"url": "https://a/b.png", "detail": "low"}])
    files = st.sampled_from([{"file_id": "f"}, {"filename": "a", "file_data": "data:application/pdf;base64,aGk="}])
    part = st.one_of(
        st.builds(lambda t, u, m: {"type": "text", "text": t, **u, **m}, STRINGS, UNKNOWN, MAYBE_MARKED | BREAKPOINTS),
        st.builds(lambda v: {"type": "image_url", "image_url": v}, images | ANYTHING),
        st.builds(lambda v: {"type": "file", "file": v}, files | ANYTHING),
        st.just({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}),
    )
    call = st.one_of(
        st.builds(lambda a: {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": a}}, STRINGS),
        st.builds(lambda a: {"id": "c2", "function": {"name": "bash", "arguments": a}}, ANYTHING),
        st.builds(lambda a: {"id": "c3", "type": "custom", "custom": {"name": "free", "input": a}}, STRINGS),
    )
    message = st.one_of(
        st.builds(
            lambda r, c, u: {"role": r, "content": c, **u},
            st.sampled_from(["user", "system", "developer"]),
            STRINGS | st.lists(part, max_size=3),
            UNKNOWN,
        ),
        st.builds(
            lambda c, t, u: {"role": "assistant", "content": c, "tool_calls": t, **u},
            st.none() | STRINGS,
            st.lists(call, max_size=2),
            UNKNOWN,
        ),
        st.builds(lambda c: {"role": "tool", "tool_call_id": "c1", "content": c}, STRINGS | st.lists(part, max_size=2)),
        st.builds(lambda c: {"role": "function", "name": "bash", "content": c}, STRINGS),
    ).map(lambda m: shuffled(m, random))
    tool = st.one_of(
        st.builds(
            lambda s, d, u: {"type": "function", "function": {"name": "t", "parameters": s, **d}, **u},
            ANYTHING,
            DESCRIPTIONS,
            UNKNOWN,
        ),
        st.builds(lambda v: {"type": "custom", "custom": v}, ANYTHING),
    )
    members: dict[str, Any] = {"model": model, "messages": draw(st.lists(message, max_size=4))}
    members |= _limit(draw(LIMITS), "max_tokens") | _limit(draw(LIMITS), "max_completion_tokens")
    if draw(st.booleans()):
        members["tools"] = draw(st.lists(tool, max_size=3))
    return _finish(members, draw(UNKNOWN), random)


@st.composite
def responses_bodies(draw: st.DrawFn, model: str = "gpt-6.1-sol") -> bytes:
    random = Random(draw(st.integers(0, 999)))
    part = st.one_of(
        st.builds(lambda t, u, m: {"type": "input_text", "text": t, **u, **m}, STRINGS, UNKNOWN, BREAKPOINTS),
        st.builds(lambda u: {"type": "input_image", "file_id": "f", **u}, UNKNOWN),
    )
    item = st.one_of(
        st.builds(
            lambda r, c, u: {"role": r, "content": c, **u},
            st.sampled_from(["user", "assistant", "developer"]),
            STRINGS | st.lists(part, max_size=3),
            UNKNOWN | st.just({"type": "message", "id": "msg_1"}),
        ),
        st.builds(
            lambda a, u: {"type": "function_call", "call_id": "c1", "name": "sh", "arguments": a, **u},
            STRINGS | ANYTHING,
            UNKNOWN,
        ),
        st.builds(
            lambda o: {"type": "function_call_output", "call_id": "c1", "output": o},
            STRINGS | st.lists(part, max_size=2) | ANYTHING,
        ),
        st.builds(lambda v: {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": v}, ANYTHING),
        st.builds(
            lambda s, u: {"type": "additional_tools", "role": "developer", "tools": s, **u},
            st.lists(st.builds(lambda p: {"type": "function", "name": "late", "parameters": p}, ANYTHING), max_size=2),
            UNKNOWN | st.just({"id": "at_1"}),
        ),
    ).map(lambda m: shuffled(m, random))
    tool = st.builds(lambda s, d: {"type": "function", "name": "t", "parameters": s, **d}, ANYTHING, DESCRIPTIONS)
    members: dict[str, Any] = {"model": model, "input": draw(STRINGS | st.lists(item, max_size=4))}
    members |= _limit(draw(LIMITS), "max_output_tokens")
    if draw(st.booleans()):
        members["instructions"] = draw(STRINGS | st.none())
    if draw(st.booleans()):
        members["tools"] = draw(st.lists(tool, max_size=3))
    return _finish(members, draw(UNKNOWN), random)


@st.composite
def gemini_bodies(draw: st.DrawFn) -> bytes:
    random = Random(draw(st.integers(0, 999)))
    part = st.one_of(
        st.builds(lambda t, u: {"text": t, **u}, STRINGS, UNKNOWN),
        st.builds(lambda a: {"functionCall": {"name": "sh", "args": a}, "thoughtSignature": "c2ln"}, ANYTHING),
        st.builds(lambda t, s: {"text": t, "thought": True, "thoughtSignature": s}, STRINGS, SCALARS),
        st.builds(lambda v: {"inlineData": v}, st.just({"mimeType": "image/png", "data": "aGk="}) | ANYTHING),
        st.builds(lambda a: {"functionResponse": {"name": "sh", "response": a}}, ANYTHING),
    )
    content = st.builds(
        lambda r, p, u: shuffled({"role": r, "parts": p, **u}, random),
        st.sampled_from(["user", "model", "function", "system"]),
        st.lists(part, max_size=3),
        UNKNOWN,
    )
    tool = st.one_of(
        st.builds(lambda s, d: {"functionDeclarations": [{"name": "t", "parameters": s, **d}]}, ANYTHING, DESCRIPTIONS),
        st.just({"googleSearch": {}}),
    )
    members: dict[str, Any] = {"contents": draw(st.lists(content, max_size=4))}
    if draw(st.booleans()):
        members["generationConfig"] = {"temperature": Lit("1E0"), **_limit(draw(LIMITS), "maxOutputTokens")}
    if draw(st.booleans()):
        members["systemInstruction"] = {"parts": draw(st.lists(part, max_size=2))}
    if draw(st.booleans()):
        members["tools"] = draw(st.lists(tool, max_size=3))
    return _finish(members, draw(UNKNOWN), random)


def _finish(members: dict[str, Any], unknown: dict[str, Any], random: Random) -> bytes:
    return write(shuffled({**members, **unknown}, random), random).encode("utf-8")


BODIES = {
    "anthropic": anthropic_bodies(),
    "openai_chat": chat_bodies(),
    "openai_responses": responses_bodies(),
    "gemini": gemini_bodies(),
    "openrouter": chat_bodies(model="anthropic/claude-opus-4.6"),
}

MODELS = {
    "anthropic": "anthropic:claude-opus-4-6",
    "openai_chat": "openai:gpt-6.1-sol",
    "openai_responses": "openai:gpt-5.5",
    "gemini": "gemini:gemini-2.5-pro",
    "openrouter": "openrouter:anthropic/claude-opus-4-6",
}
"""A model that each dialect is spoken to. With its bodies this puts a dialect under all laws of the wire."""
assert set(BODIES) == set(MODELS) == set(DIALECTS), "a dialect without bodies or a model"
