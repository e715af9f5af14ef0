"""Deferred tools that a result names: their definitions count where they are named."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from holdfast.caches.prompts import Prompt
from holdfast.facts import estimate_json, model
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from holdfast.wire.tool_references import references

ANTHROPIC = DIALECTS["anthropic"]
FACTS = model("anthropic:claude-opus-4-6")
LATE = {
    "name": "send_mail",
    "description": "Send a mail to one or more people.",
    "input_schema": {"type": "object", "properties": {"to": {"type": "string"}, "body": {"type": "string"}}},
    "defer_loading": True,
}
OTHER = {**LATE, "name": "list_mail", "description": "List mails by folder and date."}
SEARCH = {"name": "discover_tools", "input_schema": {"type": "object"}}


def named(*names: str) -> list[dict[str, Any]]:
    return [{"type": "tool_reference", "tool_name": name} for name in names]


def conversation(*tools: dict[str, Any], content: Any = None) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "t1", "name": "discover_tools", "input": {"query": "mail"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": named("send_mail") if content is None else content}
    return {
        "model": "claude-opus-4-6",
        "max_tokens": 10,
        "tools": [SEARCH, *tools],
        "messages": [
            {"role": "user", "content": "write to Ada"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [{"type": "text", "text": "I can do that."}]},
            {"role": "user", "content": "do it"},
        ],
    }


def read(body: dict[str, Any], separators: tuple[str, str] = (",", ":")) -> Prompt:
    parsed = ANTHROPIC.parse(json.dumps(body, separators=separators).encode())
    return PromptReader().read(parsed, FACTS).prompt


def same_until(one: Prompt, two: Prompt) -> int:
    return sum(a == b for a, b in zip(one.keys, two.keys, strict=False))


RESULT = 3  # the tool, the question, the call, the result


class TestTheResult:
    def test_costs_the_definitions_it_names(self):
        plain, whole = read(conversation()), read(conversation(LATE))
        body = ANTHROPIC.parse(json.dumps(conversation(LATE)).encode())
        assert isinstance(body, Body)
        costs = estimate_json(ANTHROPIC.content(body, 1))
        assert costs > 20
        assert whole.blocks[RESULT].tokens == plain.blocks[RESULT].tokens + costs
        assert whole.tokens == plain.tokens + costs

    def test_the_same_tool_unnamed_costs_nothing_and_changes_nothing(self):
        seen = [read(conversation(*tools)) for tools in ((LATE,), (LATE, OTHER), (OTHER, LATE))]
        assert len({(prompt.keys, prompt.ends) for prompt in seen}) == 1

    @pytest.mark.parametrize(
        "change", [{"description": "Send one mail."}, {"input_schema": {}}, {"strict": True}], ids=str
    )
    def test_a_changed_definition_loses_the_prefix_from_there_on(self, change):
        assert same_until(read(conversation(LATE)), read(conversation({**LATE, **change}))) == RESULT

    def test_a_definition_that_is_gone_loses_it_too(self):
        assert same_until(read(conversation(LATE)), read(conversation(OTHER))) == RESULT

    def test_the_order_of_what_it_names_counts(self):
        one, two = conversation(LATE, OTHER, content=named("send_mail", "list_mail")), conversation(LATE, OTHER)
        two["messages"][2]["content"][0]["content"] = named("list_mail", "send_mail")
        assert read(one).tokens == read(two).tokens
        assert same_until(read(one), read(two)) == RESULT

    def test_every_result_that_names_a_tool_costs_it(self):
        once, twice = conversation(LATE, content=named("send_mail")), conversation(LATE)
        for body, content in ((once, "nothing"), (twice, named("send_mail"))):
            call = {"type": "tool_use", "id": "t2", "name": "discover_tools", "input": {}}
            result = {"type": "tool_result", "tool_use_id": "t2", "content": content}
            body["messages"] += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        one, two = read(once), read(twice)
        assert two.blocks[-1].tokens > one.blocks[-1].tokens + 20
        assert two.blocks[RESULT] == one.blocks[RESULT]

    def test_a_tool_that_is_declared_as_usual_is_in_the_prefix_already(self):
        usual = {key: value for key, value in LATE.items() if key != "defer_loading"}
        assert [block.tokens for block in read(conversation(usual)).blocks[RESULT + 1 :]] == [
            block.tokens for block in read(conversation()).blocks[RESULT:]
        ]

    @pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaces"])
    @pytest.mark.parametrize("marker", [{}, {"ttl": "1h"}], ids=["5m", "1h"])
    @pytest.mark.parametrize("place", ["on", "in"])
    def test_a_marker_on_it_or_in_it_makes_no_difference(self, place, marker, separators):
        marked = copy.deepcopy(conversation(LATE))
        result = marked["messages"][2]["content"][0]
        (result if place == "on" else result["content"][0])["cache_control"] = {"type": "ephemeral", **marker}
        found = read(marked, separators)
        assert (found.keys, found.ends) == (read(conversation(LATE)).keys, read(conversation(LATE)).ends)
        assert [mark.block for mark in found.marks] == [RESULT]

    def test_what_the_provider_s_own_search_found_counts_as_well(self):
        body = conversation(LATE, content=[{"type": "text", "text": "nothing"}])
        found = {"type": "tool_search_tool_search_result", "tool_references": named("send_mail")}
        body["messages"][3]["content"].insert(
            0, {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": found}
        )
        without = copy.deepcopy(body)
        without["tools"].pop()
        assert read(body).tokens > read(without).tokens
        assert same_until(read(body), read(without)) == RESULT + 1

    def test_caches_that_match_token_by_token_have_the_definition_s_tokens(self):
        facts = model("vllm:any")
        body = ANTHROPIC.parse(json.dumps(conversation(LATE)).encode())
        prompt = PromptReader().read(body, facts).prompt
        assert all(block.tokens == len(block.ids) // 4 for block in prompt.blocks)
        assert prompt.blocks[RESULT].tokens > 20


class TestALeaningReader:
    """The same with a memory; `tests/properties/test_prompt_laws.py` has the law."""

    def turns(self) -> list[dict[str, Any]]:
        first = conversation(LATE)
        grown, changed, added, gone = (copy.deepcopy(first) for _ in range(4))
        grown["messages"] += [{"role": "assistant", "content": "sent"}, {"role": "user", "content": "thanks"}]
        changed["tools"][1]["description"] = "Something else."
        added["tools"].insert(1, OTHER)
        gone["tools"].pop()
        return [first, grown, changed, first, added, gone, first, grown]

    def test_reads_what_a_fresh_one_reads(self):
        reader = PromptReader()
        for body in self.turns():
            raw = json.dumps(body, separators=(",", ":")).encode()
            parsed = reader.parse(ANTHROPIC, raw)
            assert reader.read(parsed, FACTS) == PromptReader().read(parsed, FACTS)

    def test_a_definition_is_counted_once(self):
        reader = PromptReader()
        first, grown = self.turns()[:2]
        for body in (first, grown):
            parsed = reader.parse(ANTHROPIC, json.dumps(body, separators=(",", ":")).encode())
            before = reader.canonicalised
            reader.read(parsed, FACTS)
        assert reader.canonicalised - before < 120  # what was added, and no tool


@pytest.mark.parametrize(
    ("block", "names"),
    [
        ({"type": "tool_result", "content": named("a", "b")}, ("a", "b")),
        ({"type": "tool_result", "content": [{"type": "text", "text": "x"}, *named("a", "a")]}, ("a", "a")),
        ({"type": "tool_search_tool_result", "content": {"tool_references": named("a")}}, ("a",)),
        ({"type": "tool_result", "content": '"tool_reference"'}, ()),
        ({"type": "tool_result", "content": [{"type": "tool_reference"}]}, ()),
        ({"type": "tool_result", "content": [{"type": "tool_reference", "tool_name": 7}, 3, None, "x"]}, ()),
        ({"type": "tool_result", "content": {"tool_references": {"type": "tool_reference"}}}, ()),
        ({"type": "tool_result", "content": [{"type": "text", "inner": named("a")}]}, ()),
        ({"type": "tool_reference", "tool_name": "a"}, ()),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_references_of_a_result(block, names):
    assert references(json.dumps(block, separators=(",", ":")).encode()) == names
