"""What Anthropic refuses, in its order and words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import facts
from holdfast.simulator import checks
from holdfast.simulator.messages import HttpRequest
from holdfast.wire import DIALECTS, Body, WireError, dialect_of
from tests import shapes

HEADERS = {"x-api-key": "sk-ant-dummy", "anthropic-version": "2023-06-01"}
FIVE = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
ORDER = (
    "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed "
    "in the following order: `tools`, `system`, `messages`."
)
USER: dict[str, Any] = {"role": "user", "content": "Read the file."}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}],
}
RESULT: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "text"}],
}


def text(words: str, marker: dict[str, str] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": words} | ({"cache_control": marker} if marker else {})


def request(**members: Any) -> dict[str, Any]:
    return {"model": "claude-opus-4-6", "max_tokens": 100, "messages": [USER]} | members


def check(
    body: dict[str, Any] | bytes, *, headers: dict[str, str] | None = None, path: str = "/v1/messages", **options: Any
) -> WireError | None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    parsed = DIALECTS["anthropic"].parse(raw)
    model = facts.model(f"anthropic:{getattr(parsed, 'model', '') or 'none'}")
    call = HttpRequest("POST", path, HEADERS if headers is None else headers, body=raw)
    return checks.check("anthropic", parsed, model, call, **options)


def message(body: dict[str, Any] | bytes, **options: Any) -> str:
    found = check(body, **options)
    assert (found.status, found.kind) == (400, "invalid_request_error")
    return found.message


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


class TestEnvelope:
    def test_a_good_request_passes(self) -> None:
        assert check(request()) is None

    def test_unknown_members_are_accepted_everywhere(self) -> None:
        strange = request(new_thing={"a": 1}, messages=[USER | {"odd": True}], system=[text("x") | {"odd": 1}])
        assert check(strange, headers=HEADERS | {"anthropic-beta": "never-heard-of"}) is None

    def test_no_key(self) -> None:
        found = check(b"not even json", headers={"anthropic-version": "2023-06-01"})
        assert found == WireError(401, "authentication_error", "x-api-key header is required")

    @pytest.mark.parametrize(
        "key", [{"x-api-key": "any"}, {"authorization": "Bearer any"}, {"authorization": "bearer x"}]
    )
    def test_any_key_by_either_header(self, key: dict[str, str]) -> None:
        assert check(request(), headers=key | {"anthropic-version": "2023-06-01"}) is None

    def test_a_configured_list_of_keys(self) -> None:
        assert check(request(), keys={"sk-ant-dummy"}) is None
        found = check(request(), keys={"sk-other"})
        assert found == WireError(401, "authentication_error", "invalid x-api-key")

    def test_version_comes_before_the_body(self) -> None:
        assert message(b"{", headers={"x-api-key": "k"}) == "anthropic-version: header is required"

    def test_not_json(self) -> None:
        assert message(b'{"model":').startswith("The request body is not valid JSON: ")

    def test_no_model(self) -> None:
        assert message(without(request(), "model")) == "model: Field required"

    def test_another_providers_model(self) -> None:
        assert check(request(model="gpt-5")) == WireError(404, "not_found_error", "model: gpt-5")

    def test_any_claude_is_known(self) -> None:
        assert check(request(model="claude-tomorrow-9")) is None

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"max_tokens": "many"}, "max_tokens: Input should be a valid integer"),
            ({"max_tokens": -1}, "max_tokens: Input should be greater than or equal to 0"),
            ({"messages": []}, "messages: at least one message is required"),
            ({"messages": 7}, "messages: Input should be a valid list"),
            ({"messages": [{"content": "x"}]}, "messages.0.role: Field required"),
            ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
            (
                {"messages": [{"role": "user", "content": ["x"]}]},
                "messages.0.content.0: Input should be a valid dictionary",
            ),
            (
                {"messages": [USER, {"role": "tool", "content": "x"}]},
                "messages.1.role: Input should be 'user' or 'assistant'",
            ),
            ({"messages": [{"role": "assistant", "content": "x"}]}, 'messages: first message must use the "user" role'),
        ],
    )
    def test_shapes(self, change: dict[str, Any], expected: str) -> None:
        assert message(request(**change)) == expected

    @pytest.mark.parametrize("name", ["max_tokens", "messages"])
    def test_required(self, name: str) -> None:
        assert message(without(request(), name)) == f"{name}: Field required"

    def test_the_output_limit_comes_before_the_messages(self) -> None:
        assert message({"model": "claude-opus-4-6"}) == "max_tokens: Field required"

    def test_counting_tokens_needs_no_output_limit(self) -> None:
        assert check(without(request(), "max_tokens"), path="/v1/messages/count_tokens") is None

    def test_a_duplicate_key_is_not_json_for_us(self) -> None:
        assert message(b'{"model":"claude-opus-4-6","model":"x"}').startswith("The request body is not valid JSON")


class TestMarkers:
    def test_four_markers_pass(self) -> None:
        assert check(request(system=[text(str(i), FIVE) for i in range(4)])) is None

    def test_five_are_too_many(self) -> None:
        found = message(request(system=[text(str(i), FIVE) for i in range(5)]))
        assert found == "A maximum of 4 blocks with cache_control may be provided. Found 5."

    def test_the_automatic_one_counts(self) -> None:
        found = message(request(system=[text(str(i), FIVE) for i in range(4)], cache_control=FIVE))
        assert found == "A maximum of 4 blocks with cache_control may be provided. Found 5."

    def test_a_marker_spelled_with_escapes_counts(self) -> None:
        raw = json.dumps(request(system=[text(str(i), FIVE) for i in range(5)])).encode()
        assert "Found 5." in message(raw.replace(b'"cache_control"', b'"cache\\u005fcontrol"', 1))

    def test_null_is_no_marker(self) -> None:
        assert check(request(system=[text(str(i)) | {"cache_control": None} for i in range(5)])) is None

    @pytest.mark.parametrize(
        ("members", "place"),
        [
            (
                {"tools": [{"name": "a", "input_schema": {}, "cache_control": FIVE}], "system": [text("s", HOUR)]},
                "system.0",
            ),
            ({"system": [text("a", FIVE), text("b", HOUR)]}, "system.1"),
            (
                {
                    "system": [text("a", FIVE)],
                    "messages": [USER, {"role": "user", "content": [text("x"), text("y", HOUR)]}],
                },
                "messages.1.content.1",
            ),
            (
                {
                    "tools": [
                        {"name": "a", "input_schema": {}, "cache_control": FIVE},
                        {"name": "b", "input_schema": {}, "cache_control": HOUR},
                    ]
                },
                "tools.1",
            ),
        ],
    )
    def test_an_hour_after_five_minutes(self, members: dict[str, Any], place: str) -> None:
        assert message(request(**members)) == f"{place}.cache_control.ttl: {ORDER}"

    def test_an_hour_before_five_minutes_passes(self) -> None:
        assert check(request(system=[text("a", HOUR), text("b", FIVE)])) is None

    def test_too_many_comes_before_the_wrong_order(self) -> None:
        found = message(request(system=[text(str(i), FIVE) for i in range(4)] + [text("x", HOUR)]))
        assert found.startswith("A maximum of 4 blocks")

    def test_automatic_against_its_targets_own(self) -> None:
        last = {"role": "user", "content": [text("x", HOUR)]}
        found = message(request(messages=[last], cache_control=FIVE))
        assert found == (
            "Top-level cache_control has ttl='5m' but the target block already has cache_control with ttl='1h'"
        )

    def test_automatic_with_its_targets_own_passes(self) -> None:
        assert check(request(messages=[{"role": "user", "content": [text("x", HOUR)]}], cache_control=HOUR)) is None

    def test_automatic_walks_back_over_blocks_that_cannot_be_marked(self) -> None:
        content = [text("x", HOUR), text("")]
        assert message(request(messages=[{"role": "user", "content": content}], cache_control=FIVE)).startswith(
            "Top-level"
        )

    def test_automatic_hour_after_explicit_five_minutes(self) -> None:
        assert message(request(system=[text("a", FIVE)], cache_control=HOUR)) == f"cache_control.ttl: {ORDER}"

    def test_the_order_of_blocks_comes_before_the_automatic_ones(self) -> None:
        found = message(request(system=[text("a", FIVE), text("b", HOUR)], cache_control=HOUR))
        assert found.startswith("system.1.cache_control.ttl")

    def test_empty_text(self) -> None:
        content = [text("x"), text("", FIVE)]
        found = message(request(messages=[{"role": "user", "content": content}]))
        assert found == "messages.0.content.1.text: cache_control cannot be set for empty text blocks"

    @pytest.mark.parametrize("kind", ["thinking", "redacted_thinking"])
    def test_thinking(self, kind: str) -> None:
        thought = {"type": kind, "thinking": "hm", "signature": "s", "data": "d", "cache_control": FIVE}
        found = message(request(messages=[USER, {"role": "assistant", "content": [thought, text("a")]}, USER]))
        assert found == f"messages.1.content.0.{kind}.cache_control: Extra inputs are not permitted"

    @pytest.mark.parametrize(
        ("members", "place"),
        [
            ({"system": [text("a", {"type": "ephemeral", "ttl": "2h"})]}, "system.0.cache_control"),
            (
                {"messages": [{"role": "user", "content": [text("a", {"type": "ephemeral", "ttl": "2h"})]}]},
                "messages.0.content.0.text.cache_control",
            ),
            (
                {"tools": [{"name": "a", "input_schema": {}, "cache_control": {"type": "ephemeral", "ttl": "2h"}}]},
                "tools.0.custom.cache_control",
            ),
            ({"cache_control": {"type": "ephemeral", "ttl": "2h"}}, "cache_control"),
        ],
    )
    def test_another_lifetime(self, members: dict[str, Any], place: str) -> None:
        assert message(request(**members)) == f"{place}.ephemeral.ttl: Input should be '5m' or '1h'"

    def test_the_last_nested_block_counts_for_its_parent(self) -> None:
        assert check(request(messages=[USER, CALL, self.nested(text("a"), text("b", FIVE))])) is None

    def test_any_other_nested_block_is_no_place(self) -> None:
        found = message(request(messages=[USER, CALL, self.nested(text("a", FIVE), text("b"))]))
        assert found == "cache_control is not supported at messages.2.content.0.content.0.cache_control"

    def test_two_levels_down_is_no_place(self) -> None:
        document = {"type": "document", "source": {"type": "content", "content": [text("deep", FIVE)]}}
        found = message(request(messages=[USER, CALL, self.nested(text("a"), document)]))
        assert found == "cache_control is not supported at messages.2.content.0.content.cache_control"

    @staticmethod
    def nested(*blocks: dict[str, Any]) -> dict[str, Any]:
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(blocks)}
        return {"role": "user", "content": [result]}

    def test_nested_hour_after_five_minutes_names_the_nested_place(self) -> None:
        body = request(system=[text("s", FIVE)], messages=[USER, CALL, self.nested(text("a"), text("b", HOUR))])
        assert message(body) == f"messages.2.content.0.content.1.cache_control.ttl: {ORDER}"

    def test_a_deferred_tool(self) -> None:
        tool = {"name": "grep", "input_schema": {}, "defer_loading": True, "cache_control": FIVE}
        found = message(request(tools=[{"name": "search", "input_schema": {}}, tool]))
        assert found == (
            "Tool 'grep' cannot have both defer_loading=true and cache_control set. "
            "Tools with defer_loading cannot use prompt caching."
        )

    def test_the_word_in_a_tools_input_is_data(self) -> None:
        call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"cache_control": {"ttl": "9h"}}}
        assert check(request(messages=[USER, {"role": "assistant", "content": [call]}, RESULT])) is None


class TestPrewarm:
    def test_alone_it_passes(self) -> None:
        assert check(request(max_tokens=0, stream=False, thinking={"type": "disabled"})) is None

    @pytest.mark.parametrize(
        ("members", "place"),
        [
            ({"stream": True}, "stream"),
            ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
            ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format"),
            ({"tool_choice": {"type": "any"}}, "tool_choice"),
            ({"tool_choice": {"type": "tool", "name": "read"}}, "tool_choice"),
        ],
    )
    def test_what_it_cannot_be_combined_with(self, members: dict[str, Any], place: str) -> None:
        assert message(request(max_tokens=0, **members)).startswith(f"{place}: ")
        assert check(request(max_tokens=1, **members)) is None

    def test_a_choice_of_tools_is_not_forced(self) -> None:
        assert check(request(max_tokens=0, tool_choice={"type": "auto"})) is None

    def test_a_model_that_has_none(self) -> None:
        found = message(request(model="claude-tomorrow-9", max_tokens=0))
        assert found == "max_tokens: Input should be greater than or equal to 1"


class TestConversation:
    def test_system_messages_only_where_the_model_takes_them(self) -> None:
        messages = [USER, {"role": "system", "content": "It is noon."}]
        assert check(request(model="claude-opus-5-5", messages=messages)) is None
        assert message(request(messages=messages)) == "role 'system' is not supported on this model"

    def test_a_call_with_its_result(self) -> None:
        assert check(request(messages=[USER, CALL, RESULT])) is None

    @pytest.mark.parametrize("after", [[], [USER], [USER, {"role": "assistant", "content": "x"}]])
    def test_a_call_without_one(self, after: list[dict[str, Any]]) -> None:
        assert message(request(messages=[USER, CALL, *after])) == (
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each "
            "`tool_use` block must have a corresponding `tool_result` block in the next message."
        )

    def test_neighbours_of_one_role_are_one_turn(self) -> None:
        more = {"role": "assistant", "content": [text("and"), CALL["content"][0] | {"id": "toolu_2"}]}
        answer = {"role": "user", "content": [RESULT["content"][0] | {"tool_use_id": "toolu_2"}]}
        assert check(request(messages=[USER, CALL, more, RESULT, answer])) is None
        assert "immediately after: toolu_2." in message(request(messages=[USER, CALL, more, RESULT]))

    def test_a_result_without_its_call(self) -> None:
        assert message(request(messages=[USER, RESULT])) == (
            "messages.1.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each `tool_result` "
            "block must have a corresponding `tool_use` block in the previous message."
        )

    def test_cache_errors_come_before_open_calls(self) -> None:
        assert message(request(messages=[USER, CALL], system=[text("", FIVE)])).startswith("system.0.text")

    def test_a_system_message_between_call_and_result(self) -> None:
        messages = [USER, CALL, {"role": "system", "content": "x"}, RESULT]
        assert check(request(model="claude-opus-5-5", messages=messages)) is None


class TestErrorForm:
    def test_body_and_header_name_the_request(self) -> None:
        error = WireError(400, "invalid_request_error", "no")
        answer = checks.error_answer("anthropic", error, HttpRequest("POST", "/v1/messages"), "req_1")
        assert json.loads(answer.body) == {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "no"},
            "request_id": "req_1",
        }
        assert answer.status == 400
        assert dict(answer.headers) == {"content-type": "application/json", "request-id": "req_1"}

    def test_without_an_id(self) -> None:
        error = WireError(400, "invalid_request_error", "no")
        assert "request_id" not in json.loads(checks.error_body("anthropic", error))


CALLS = [shape for shape in shapes.load() if shape.dialect is not None and shape.body is not None]
_PROVIDERS = {"anthropic": "anthropic", "gemini": "gemini"}


@pytest.mark.unmeasured
@pytest.mark.parametrize("shape", CALLS, ids=lambda shape: shape.id)
def test_a_recorded_request_passes(shape: shapes.Shape) -> None:
    path, _, query = shape.path.partition("?")
    found = dialect_of(path)
    assert found is not None
    assert shape.body is not None
    dialect, model = found
    body = dialect.parse(shape.body, model=model)
    assert isinstance(body, Body)
    headers = {name.lower(): value for name, value in shape.headers}
    headers |= {"x-api-key": "dummy", "x-goog-api-key": "dummy", "authorization": "Bearer dummy"}  # not recorded
    call = HttpRequest("POST", path, headers, dict(part.split("=", 1) for part in query.split("&") if part), shape.body)
    known = facts.model(f"{_PROVIDERS.get(dialect.name, 'openai')}:{body.model}")
    assert checks.check(dialect.name, body, known, call) is None


@pytest.mark.parametrize(
    ("headers", "path", "query", "provider"),
    [
        ({"anthropic-version": "2023-06-01", "authorization": "Bearer k"}, "/v1/nothing", {}, "anthropic"),
        ({"x-api-key": "k"}, "/v1/nothing", {}, "anthropic"),
        ({}, "/nothing", {}, "anthropic"),
        ({"authorization": "Bearer k"}, "/v1/nothing", {}, "openai_chat"),
        ({"x-goog-api-key": "k"}, "/v1/nothing", {}, "gemini"),
        ({}, "/v1/nothing", {"key": "k"}, "gemini"),
        ({}, "/v1beta/nothing", {}, "gemini"),
    ],
)
def test_a_path_nobody_serves(headers: dict[str, str], path: str, query: dict[str, str], provider: str) -> None:
    call = HttpRequest("GET", path, headers, query)
    assert checks.provider_of(call) == provider
    answer = checks.not_found(call, "req_1")
    assert answer.status == 404
    words = {"anthropic": "Not found", "gemini": f"GET {path} was not found."}.get(
        provider, f"Invalid URL (GET {path})"
    )
    assert DIALECTS[provider].read_error(404, answer.body).message == words
