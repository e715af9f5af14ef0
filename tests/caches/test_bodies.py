"""Bodies as Anthropic's cache sees them: what of a request is content, what is a setting, and what is neither.

Each test changes one thing in a body and asks which sections keep their keys: tools, system, messages up to the end of
what was there before (A1, A5, A13, A14 of `caches.anthropic`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.caches.prompts import Prompt
from holdfast.facts import model
from holdfast.wire import DIALECTS
from holdfast.wire.prompts import PromptReader

Change = Callable[[dict[str, Any]], object]

MARK = {"type": "ephemeral"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
FOUND = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}
CITED = {"citations": {"enabled": True}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
BODY: dict[str, Any] = {
    "model": "claude-opus-4-6",
    "max_tokens": 10,
    "tools": [{"name": "a", "input_schema": {"type": "object"}}, {"name": "b", "input_schema": {"type": "object"}}],
    "system": [{"type": "text", "text": "one é"}, {"type": "text", "text": "two"}],
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "a", "input": {"x": 1, "y": 2}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
    ],
}
ALL, NO_MESSAGES, ONLY_TOOLS, NOTHING = (True,) * 3, (True, True, False), (True, False, False), (False,) * 3


def read(body: dict[str, Any], *, name: str = "", scope: str = "w", **spelling: Any) -> Prompt:
    parsed = DIALECTS["anthropic"].parse(json.dumps(body, **spelling).encode())
    return PromptReader().read(parsed, model(f"anthropic:{name or body['model']}"), scope=scope).prompt


def sections(prompt: Prompt, messages: int = 3) -> tuple[bytes, bytes, bytes]:
    """The keys at the end of the tools, of the system text and of the first messages."""
    ends = {block.section: index for index, block in enumerate(prompt.blocks) if block.kind != SEARCH["type"]}
    said = [index for index, block in enumerate(prompt.blocks) if 0 <= block.message < messages]
    return prompt.keys[ends["tools"]], prompt.keys[ends["system"]], prompt.keys[said[-1]]


def kept(change: Change, **spelling: Any) -> tuple[bool, ...]:
    changed = copy.deepcopy(BODY)
    change(changed)
    before, after = sections(read(BODY)), sections(read(changed, **spelling))
    return tuple(one == other for one, other in zip(before, after, strict=True))


def put(**members: Any) -> Change:
    return lambda body: body.update(members)


def say(*blocks: dict[str, Any], role: str = "user") -> Change:
    return lambda body: body["messages"].append({"role": role, "content": list(blocks)})


def call(**input: Any) -> Change:
    return say({"type": "tool_use", "id": "t2", "name": "a", "input": input}, role="assistant")


class TestA1Spelling:
    def test_spacing_and_escapes_do_not_matter(self):
        assert kept(put(), indent=1) == kept(put(), ensure_ascii=False) == ALL

    @pytest.mark.parametrize(
        "change",
        [
            lambda body: body["messages"][0].update(content=[{"type": "text", "text": "hi"}]),
            lambda body: body["messages"][2]["content"][0].update(content=[{"type": "text", "text": "done"}]),
        ],
        ids=["message", "tool result"],
    )
    def test_a_string_is_one_text_block(self, change):
        assert kept(change) == ALL

    def test_a_system_string_is_one_text_block(self):
        one, other = {**BODY, "system": "be brief"}, {**BODY, "system": [{"type": "text", "text": "be brief"}]}
        assert read(one).keys == read(other).keys

    def test_key_order_matters(self):
        assert kept(lambda body: body["messages"][1]["content"][0].update(input={"y": 2, "x": 1})) == NO_MESSAGES

    def test_numbers_count_by_their_text(self):
        assert kept(lambda body: body["messages"][1]["content"][0]["input"].update(x=1.0)) == NO_MESSAGES

    def test_the_order_of_top_level_members_does_not_matter(self):
        assert read(dict(reversed(BODY.items()))).keys == read(BODY).keys

    def test_two_messages_of_one_role_are_not_one_message(self):
        """No source says whether the provider tells them apart; a miss is the careful answer."""
        words = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        apart = {**BODY, "messages": [{"role": "user", "content": [word]} for word in words]}
        together = {**BODY, "messages": [{"role": "user", "content": words}]}
        one, other = read(apart).keys, read(together).keys
        assert one[:-1] == other[:-1]
        assert one[-1] != other[-1]

    def test_workspaces_do_not_share(self):
        assert not set(read(BODY).keys) & set(read(BODY, scope="other").keys)

    def test_a_dated_name_is_the_model_and_another_model_is_not(self):
        assert read({**BODY, "model": "claude-opus-4-6-20260101"}).keys == read(BODY).keys
        assert not set(read({**BODY, "model": "claude-opus-4-5"}).keys) & set(read(BODY).keys)


class TestA5Markers:
    @pytest.mark.parametrize(
        "change",
        [
            put(cache_control=MARK),
            lambda body: body["tools"][1].update(cache_control=MARK),
            lambda body: body["system"][0].update(cache_control=MARK | {"ttl": "1h"}),
            lambda body: body["messages"][0].update(content=[{"type": "text", "text": "hi", "cache_control": MARK}]),
            lambda body: body["messages"][1]["content"][0].update(cache_control=MARK),
            lambda body: body["messages"][1]["content"][0].update(cache_control=None),
            lambda body: body["messages"][2]["content"][0].update(
                content=[{"type": "text", "text": "done", "cache_control": MARK}]
            ),
        ],
        ids=["automatic", "tool", "system", "text", "call", "null", "nested"],
    )
    def test_markers_are_not_content(self, change):
        assert kept(change) == ALL

    def test_the_word_inside_a_tools_input_is_content(self):
        assert kept(lambda body: body["messages"][1]["content"][0]["input"].update(cache_control=MARK)) == NO_MESSAGES

    def test_one_nested_in_a_result_counts_for_the_result(self):
        marked = copy.deepcopy(BODY)
        marked["messages"][2]["content"][0]["content"] = [{"type": "text", "text": "done", "cache_control": MARK}]
        assert [(mark.block, mark.ttl) for mark in read(marked).marks] == [(6, "5m")]

    def test_one_on_a_deferred_tool_marks_nothing(self):
        late = {"name": "late", "input_schema": {}, "defer_loading": True, "cache_control": MARK}
        assert read({**BODY, "tools": [late, *BODY["tools"]]}).marks == ()

    def test_the_automatic_one_joins_four_explicit_ones_where_one_of_them_stands(self):
        four = copy.deepcopy(BODY)
        for block in (*four["tools"], four["system"][1], four["messages"][2]["content"][0]):
            block["cache_control"] = MARK
        assert read({**four, "cache_control": MARK}).marks == read(four).marks


class TestA13Settings:
    """The rows of the table, in its order."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda body: body["tools"].append({"name": "c", "input_schema": {}}),
            lambda body: body["tools"].pop(),
            lambda body: body["tools"].reverse(),
            lambda body: body["tools"][1].update(description="edited"),
            put(output_config={"format": {"type": "json_schema", "schema": {}}}),
            put(output_format={"type": "json_schema", "schema": {}}),
        ],
        ids=["added", "removed", "reordered", "edited", "format", "format of old"],
    )
    def test_all_lost(self, change):
        assert kept(change) == NOTHING

    @pytest.mark.parametrize(
        "change",
        [
            lambda body: body["system"][1].update(text="edited"),
            put(speed="fast"),
            lambda body: body["tools"].insert(0, SEARCH),
            lambda body: body["tools"].append({"type": "web_fetch_20250910", "name": "web_fetch"}),
            say(DOCUMENT | CITED),
            say({"type": "tool_result", "tool_use_id": "t2", "content": [FOUND | CITED]}),
        ],
        ids=["text", "speed", "search", "fetch", "citations", "citations in a result"],
    )
    def test_tools_kept(self, change):
        assert kept(change) == ONLY_TOOLS

    @pytest.mark.parametrize(
        "change",
        [
            put(tool_choice={"type": "any"}),
            put(tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
            say(IMAGE),
            say({"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "see"}, IMAGE]}),
            say(DOCUMENT | {"source": {"type": "content", "content": [IMAGE]}}),
            put(thinking={"type": "adaptive"}),
            put(thinking={"type": "enabled", "budget_tokens": 2_000}),
            put(output_config={"effort": "low"}),
        ],
        ids=["choice", "parallel", "image", "image in a result", "image in a document", "adaptive", "budget", "effort"],
    )
    def test_messages_lost(self, change):
        assert kept(change) == NO_MESSAGES

    def test_a_block_removed_loses_from_there_on(self):
        assert kept(lambda body: body["messages"].__delitem__(slice(1, 3))) == NO_MESSAGES
        edited = copy.deepcopy(BODY)
        edited["messages"][1]["content"][0]["id"] = "t9"
        assert [a == b for a, b in zip(read(edited).keys, read(BODY).keys, strict=True)] == [True] * 5 + [False] * 2

    @pytest.mark.parametrize(
        "change",
        [
            put(max_tokens=99, stream=True, metadata={"user_id": "u"}, temperature=1, stop_sequences=["x"]),
            say({"type": "text", "text": "late"}, role="system"),
            lambda body: body["tools"].insert(0, {"name": "z", "input_schema": {}, "defer_loading": True}),
            lambda body: body["tools"].insert(1, {"name": "z", "input_schema": {}, "defer_loading": True}),
            lambda body: body["tools"].append({"name": "z", "input_schema": {}, "defer_loading": True}),
            say(
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "tool_reference", "tool_name": "z"}]}
            ),
            put(thinking=None, tool_choice=None, output_config={"format": None, "effort": None}, speed=None),
        ],
        ids=["no settings", "system message", "deferred first", "deferred between", "deferred last", "found", "null"],
    )
    def test_all_kept(self, change):
        assert kept(change) == ALL

    def test_deferred_tools_alone_are_no_tools(self):
        late = [{"name": "z", "input_schema": {}, "defer_loading": True}]
        assert read({**BODY, "tools": late}).keys == read({**BODY, "tools": []}).keys

    @pytest.mark.parametrize("change", [call(type="image"), call(**CITED), call(citations={"enabled": True, "n": 1})])
    def test_what_looks_like_a_picture_or_a_citation_in_a_tools_input_is_data(self, change):
        assert kept(change) == ALL

    @pytest.mark.parametrize(
        ("name", "one", "other", "same"),
        [
            ("thinking", {"type": "enabled", "budget_tokens": 9}, {"budget_tokens": 9, "type": "enabled"}, True),
            ("thinking", {"type": "adaptive"}, {"type": "adaptive", "display": "omitted"}, True),
            ("thinking", {"type": "enabled", "budget_tokens": 9}, {"type": "enabled", "budget_tokens": 8}, False),
            ("tool_choice", {"type": "tool", "name": "a"}, {"name": "a", "type": "tool"}, True),
            ("tool_choice", {"type": "tool", "name": "a"}, {"name": "b", "type": "tool"}, False),
        ],
    )
    def test_small_settings_count_by_value(self, name, one, other, same):
        assert (read({**BODY, name: one}).keys == read({**BODY, name: other}).keys) is same


ON = {"type": "enabled", "budget_tokens": 2_000}
KEEP = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}


class TestA14Thinking:
    def body(self, *last: dict[str, Any], **more: Any) -> dict[str, Any]:
        thoughts = [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "r"},
        ]
        messages = copy.deepcopy(BODY["messages"])
        messages[1]["content"] = [*thoughts, thoughts[0], *messages[1]["content"]]
        messages[2]["content"] += last
        return {**BODY, "model": "claude-haiku-4-5", "thinking": ON, "messages": messages, **more}

    def thoughts(self, body: dict[str, Any]) -> int:
        return sum(block.kind.endswith("thinking") for block in read(body).blocks)

    def test_results_alone_are_no_new_turn(self):
        assert self.thoughts(self.body()) == 3

    def test_anything_else_the_user_says_is_one_even_beside_results(self):
        assert self.thoughts(self.body({"type": "text", "text": "and?"})) == 0
        assert self.thoughts(self.body(IMAGE)) == 0

    def test_a_system_message_is_no_turn_of_the_user(self):
        late = self.body()
        late["messages"].append({"role": "system", "content": "late"})
        assert self.thoughts(late) == 3

    def test_newer_models_keep_them(self):
        asked = self.body({"type": "text", "text": "and?"}, model="claude-opus-4-6")
        assert self.thoughts(asked) == 3

    @pytest.mark.parametrize("change", [{"thinking": None}, {"thinking": {"type": "disabled"}}])
    def test_without_thinking_nothing_is_dropped(self, change):
        assert self.thoughts(self.body({"type": "text", "text": "and?"}, **change)) == 3

    def test_a_client_may_ask_to_keep_them(self):
        asked = self.body({"type": "text", "text": "and?"}, context_management=KEEP)
        assert self.thoughts(asked) == 3
        one = {"edits": [{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}}]}
        assert self.thoughts({**asked, "context_management": one}) == 0

    def test_asking_is_no_setting_of_the_prefix(self):
        assert read(self.body(context_management=KEEP)).keys == read(self.body()).keys

    def test_what_is_dropped_is_not_counted(self):
        asked = self.body({"type": "text", "text": "and?"})
        assert read(asked).tokens < read({**asked, "context_management": KEEP}).tokens
