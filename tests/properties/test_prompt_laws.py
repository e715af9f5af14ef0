"""A prompt is a function of the body alone: reading it with an earlier body at hand changes nothing."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.facts import ModelFacts, model
from holdfast.wire import DIALECTS, Body, Unreadable
from holdfast.wire.prompts import PromptReader
from tests.properties.bodies import BODIES, LAX, MODELS
from tests.shapes import conversations

RARE = ["limit", "thinking", "brings", "deferred", "refers", "refers"]
LATE = ["late", "later", "latest", "unknown"]
BRINGING: list[dict[str, Any]] = [
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR"}},
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "document", "source": {"type": "text", "data": "d"}, "citations": {"enabled": True}},
    {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "text", "text": "\x1b[0m", "cache_control": None}],
    },
    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a", "cache_control": {}}]},
    {"type": "tool_use", "id": "t", "name": "n", "input": {"cache_control": {"type": "ephemeral"}}},
    {"type": "text", "text": "a", "cache_control": None},
]


def late_tool(random: Random) -> dict[str, Any]:
    words = "says more of it " * random.choice([0, 1, 40])
    return {"name": random.choice(LATE[:3]), "description": words, "input_schema": {}, "defer_loading": True}


def defer(tools: list[dict[str, Any]], random: Random) -> None:
    """A deferred tool comes, changes or goes, anywhere in the array."""
    deferred = [place for place, tool in enumerate(tools) if tool.get("defer_loading")]
    match random.choice(["add", "add", "change", "drop"]):
        case "change" if deferred:
            tools[random.choice(deferred)]["description"] = f"changed {random.randrange(3)}"
        case "drop" if deferred:
            del tools[random.choice(deferred)]
        case _:
            tools.insert(random.randrange(len(tools) + 1), late_tool(random))


def referring(random: Random) -> dict[str, Any]:
    """A result that names tools: the client's own, or the provider's search."""
    named = [{"type": "tool_reference", "tool_name": name} for name in random.sample(LATE, random.choice([1, 1, 3]))]
    if random.random() < 0.3:
        found = {"type": "tool_search_tool_search_result", "tool_references": named}
        return {"type": "tool_search_tool_result", "tool_use_id": "s", "content": found}
    if random.random() < 0.3:
        named[-1]["cache_control"] = {"type": "ephemeral"}
    said = [{"type": "text", "text": '"tool_reference"'}] if random.random() < 0.5 else []
    return {"type": "tool_result", "tool_use_id": "t", "content": [*said, *named]}


def facts_for(dialect: str) -> ModelFacts:
    return model(MODELS[dialect])


def same_parse(dialect: str, raw: bytes, like: Body | Unreadable) -> Body | Unreadable:
    """Parsed on its own and leaning on an earlier body: the same addresses, the same refusal."""
    alone = DIALECTS[dialect].parse(raw, model="gemini-2.5-pro")
    if isinstance(like, Body):
        assert DIALECTS[dialect].parse(raw, model="gemini-2.5-pro", like=like) == alone
    return alone


def turn(random: Random, number: int) -> list[dict[str, Any]]:
    calls = [
        {"type": "tool_use", "id": f"t{number}.{i}", "name": "bash", "input": {"n": number}}
        for i in range(random.choice([1, 1, 3]))
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call["id"], "content": f"]}},{{ {number} \\u00e9"} for call in calls
    ]
    words: Any = random.choice(["plain", [{"type": "text", "text": f"said {number}"}]])
    return random.choice(
        [
            [{"role": "assistant", "content": calls}, {"role": "user", "content": results}],
            [{"role": "assistant", "content": words}, {"role": "user", "content": words}],
        ]
    )


def changed(body: dict[str, Any], random: Random, number: int, rare: list[str]) -> dict[str, Any]:
    """What a client does between two requests: mostly it appends, sometimes it edits, drops or marks."""
    body = copy.deepcopy(body)
    messages = body["messages"]
    for _ in range(random.choice([0, 1, 1, 1, 3])):
        messages += turn(random, number)
    what = random.choice(
        ["nothing", "nothing", "move", "move", "edit", "drop", "mark", "tools", "order", "extra", *rare]
    )
    place = random.randrange(len(messages))
    if what == "edit":
        messages[place] = {"role": "user", "content": [{"type": "text", "text": f"edited {number}"}]}
    elif what == "drop":
        del messages[place]
        messages = body["messages"] = messages or turn(random, number)
    elif what == "mark" and isinstance(messages[-1]["content"], list):
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral", "ttl": random.choice(["5m", "1h"])}
    elif what == "tools":
        body["tools"] = [{"name": f"tool{number}", "input_schema": {"type": "object"}}]
    elif what == "order":
        keys = random.sample(sorted(body), len(body))
        body = {key: body[key] for key in keys}
    elif what == "extra":
        messages[place]["x_unknown"] = {"n": number}
    elif what == "limit":
        body["max_tokens"] = number
    elif what == "thinking":
        body["thinking"] = {"type": "enabled", "budget_tokens": 1024 + number % 2}
    elif what == "deferred":
        defer(body["tools"], random)
    elif what == "refers" and isinstance(messages[place]["content"], list):
        messages[place]["content"].append(referring(random))
    elif what == "brings" and isinstance(messages[place]["content"], list):
        messages[place]["content"].append(copy.deepcopy(random.choice(BRINGING)))
    if what == "move":
        moved_on(messages, {"type": "ephemeral"} if random.random() < 0.5 else {"type": "ephemeral", "ttl": "1h"})
    return body


def moved_on(messages: list[dict[str, Any]], marker: dict[str, Any]) -> None:
    """The client's marker goes from where it was to the last block."""
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    for block in blocks:
        block.pop("cache_control", None)
    if blocks:
        blocks[-1]["cache_control"] = marker


def session(random: Random, length: int, rare: list[str] = RARE) -> list[bytes]:
    body: dict[str, Any] = {
        "model": "claude-opus-4-6",
        "max_tokens": 10,
        "system": [{"type": "text", "text": "be brief"}],
        "tools": [{"name": "bash", "input_schema": {"type": "object"}}, {"name": "late", "defer_loading": True}],
        "messages": [{"role": "user", "content": "start"}],
    }
    if rare:
        body["system"] += random.choice([[], [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2"}]])
        body["tools"] += random.choice([[], [{"type": "web_search_20250305", "name": "web_search"}]])
    body = {key: body[key] for key in random.choice([list(body), random.sample(sorted(body), len(body))])}
    spacing = random.choice([(",", ":"), (",", ":"), (", ", ": ")])
    raws = []
    for number in range(length):
        body = changed(body, random, number, rare)
        raws.append(json.dumps(body, separators=spacing, ensure_ascii=random.random() < 0.5).encode())
    return raws


@LAX
@given(st.randoms(use_true_random=False), st.integers(2, 8))
def test_a_session_parses_the_same_with_and_without_its_past(random, length):
    raws = session(random, length)
    for before, after in pairwise(raws):
        same_parse("anthropic", after, DIALECTS["anthropic"].parse(before))
    cut = raws[-1][: random.randrange(len(raws[-1]))]
    assert isinstance(same_parse("anthropic", cut, DIALECTS["anthropic"].parse(raws[-1])), Unreadable)


@LAX
@given(st.randoms(use_true_random=False), st.integers(2, 8))
def test_a_session_gives_the_same_prompts_with_and_without_its_past(random, length):
    facts, remembering = facts_for("anthropic"), PromptReader(kept_blocks=random.choice([1, 3, 100]))
    for raw in session(random, length):
        body = remembering.parse(DIALECTS["anthropic"], raw)
        fresh = PromptReader().read(body, facts, scope="w")
        assert remembering.read(body, facts, scope="w") == fresh


def searching_session(random: Random, length: int) -> list[bytes]:
    """An agent that finds tools as it goes on, with its marker always at the end."""
    tools = [{"name": "search", "input_schema": {}}, *(late_tool(random) for _ in range(2))]
    body: dict[str, Any] = {"model": "claude-opus-4-6", "tools": tools, "messages": [{"role": "user", "content": "go"}]}
    raws = []
    for number in range(length):
        if random.random() < 0.7:
            asked = {"type": "tool_use", "id": f"s{number}", "name": "search", "input": {}}
            body["messages"] += [
                {"role": "assistant", "content": [asked]},
                {"role": "user", "content": [referring(random) for _ in range(random.choice([1, 1, 2]))]},
            ]
        else:
            body["messages"] += turn(random, number)
        if random.random() < 0.3:
            defer(tools, random)
        if random.random() < 0.9:
            moved_on(body["messages"], {"type": "ephemeral"} | random.choice([{}, {"ttl": "1h"}]))
        raws.append(json.dumps(body, separators=(",", ":")).encode())
    return raws


@LAX
@given(st.randoms(use_true_random=False), st.integers(2, 8))
def test_tools_that_are_found_on_the_way_count_the_same_with_and_without_the_past(random, length):
    facts, remembering = facts_for("anthropic"), PromptReader(kept_blocks=random.choice([1, 100]))
    for raw in searching_session(random, length):
        body = remembering.parse(DIALECTS["anthropic"], raw)
        assert remembering.read(body, facts) == PromptReader().read(body, facts)


@pytest.mark.slow
@LAX
@given(st.randoms(use_true_random=False), st.integers(2, 6))
def test_sessions_that_take_turns_give_the_same_prompts(random, length):
    """One reader for several conversations, models and scopes, some parsed and never read."""
    remembering = PromptReader()
    both = zip(session(random, length), session(random, length), strict=True)
    for raw in [raw for raws in both for raw in raws]:
        scope = random.choice("vw")
        body = remembering.parse(DIALECTS["anthropic"], raw)
        assert isinstance(body, Body)
        facts = random.choice([facts_for("anthropic"), model("anthropic:claude-sonnet-4")])
        if random.random() < 0.8:
            assert remembering.read(body, facts, scope=scope) == PromptReader().read(body, facts, scope=scope)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", sorted(BODIES))
@LAX
@given(st.data())
def test_odd_bodies_parse_the_same_after_one_another(dialect, data):
    one, two = data.draw(BODIES[dialect]), data.draw(BODIES[dialect])
    at = data.draw(st.integers(0, len(one)))
    like = DIALECTS[dialect].parse(one, model="gemini-2.5-pro")
    for raw in (two, one, one[:at] + two[at:], one[:at] + b" " + one[at:]):
        same_parse(dialect, raw, like)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", sorted(BODIES))
@LAX
@given(st.data())
def test_odd_bodies_become_prompts(dialect, data):
    """Whatever a client sends and we can read has a prompt; every token is counted once, and no block twice."""
    raw = data.draw(BODIES[dialect])
    body = DIALECTS[dialect].parse(raw, model="gemini-2.5-pro")
    if isinstance(body, Unreadable):
        return
    facts = facts_for(dialect)
    reading = PromptReader().read(body, facts)
    prompt = reading.prompt
    assert len(prompt.keys) == len(prompt.ends) == len(prompt.blocks) <= len(body.blocks)
    assert len(set(prompt.keys)) == len(prompt.keys)
    assert prompt.tokens == sum(block.tokens for block in prompt.blocks)
    assert all(0 <= mark.block < len(prompt.blocks) for mark in prompt.marks)
    assert all(block.tokens == len(block.ids) // 4 for block in prompt.blocks if block.ids)
    origin = prompt.origin or tuple(range(len(prompt.blocks)))
    for index, block in zip(origin, prompt.blocks, strict=True):
        assert block.role == body.blocks[index].role


RUNS = [run for run in conversations().items() if run[1][0].dialect is not None]


@pytest.mark.parametrize(("name", "shapes"), RUNS, ids=["-".join(name) for name, _ in RUNS])
def test_recorded_clients_give_the_same_prompts_with_and_without_their_past(name, shapes):
    remembering = PromptReader()
    for shape in shapes:
        if shape.dialect is None or shape.body is None:
            continue
        dialect, facts = DIALECTS[shape.dialect], facts_for(shape.dialect)
        body = remembering.parse(dialect, shape.body, model="gemini-2.5-pro")
        assert body == dialect.parse(shape.body, model="gemini-2.5-pro")
        assert remembering.read(body, facts) == PromptReader().read(body, facts)


@LAX
@given(st.randoms(use_true_random=False), st.integers(2, 6))
def test_keys_are_equal_exactly_as_far_as_the_content_is(random, length):
    """Law 1's measure: two prompts share a key at a block if and only if everything up to it says the same."""
    dialect, facts = DIALECTS["anthropic"], facts_for("anthropic")
    reader, prompts = PromptReader(), []
    for raw in session(random, length, rare=[]):
        body = dialect.parse(raw)
        said = [
            (body.blocks[i].section, body.blocks[i].role, body.blocks[i].message, dialect.content(body, i))
            for i in range(len(body.blocks))
            if not dialect.deferred(body, i)
        ]
        prompts.append((reader.read(body, facts).prompt, said))
    for (one, said_one), (two, said_two) in pairwise(prompts):
        tools = [[each for each in said if each[0] == "tools"] for said in (said_one, said_two)]
        for index, (a, b) in enumerate(zip(one.keys, two.keys, strict=False)):
            assert (a == b) == (tools[0] == tools[1] and said_one[: index + 1] == said_two[: index + 1])
