"""What OpenAI refuses in Chat Completions and Responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import facts
from holdfast.simulator import checks
from holdfast.simulator.checks import Refusal
from holdfast.simulator.messages import HttpRequest
from holdfast.wire import DIALECTS, WireError

HEADERS = {"authorization": "Bearer sk-dummy"}
NEW, OLD = "gpt-5.6", "gpt-5.5"
USER = {"role": "user", "content": "Read the file."}
CALL = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "read"}}]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "text"}
MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def check(dialect: str, body: dict[str, Any] | bytes, headers: dict[str, str] | None = None, **options: Any) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    parsed = DIALECTS[dialect].parse(raw)
    model = facts.model(f"openai:{getattr(parsed, 'model', '') or 'none'}")
    call = HttpRequest("POST", "/v1/chat/completions", HEADERS if headers is None else headers, body=raw)
    return checks.check(dialect, parsed, model, call, **options)


def chat(body: dict[str, Any] | bytes, **options: Any) -> Any:
    return check("openai_chat", body, **options)


def responses(body: dict[str, Any] | bytes, **options: Any) -> Any:
    return check("openai_responses", body, **options)


def chat_request(**members: Any) -> dict[str, Any]:
    return {"model": NEW, "messages": [USER]} | members


def responses_request(**members: Any) -> dict[str, Any]:
    return {"model": NEW, "input": "Read the file."} | members


def refusal(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    return Refusal(400, "invalid_request_error", message, param, code)


class TestEnvelope:
    def test_good_requests_pass(self) -> None:
        assert chat(chat_request(new_thing=1)) is None
        assert responses(responses_request(new_thing=1)) is None

    def test_no_key(self) -> None:
        found = chat(b"{", headers={})
        assert (found.status, found.kind, found.code) == (401, "invalid_request_error", None)
        assert found.message.startswith("You didn't provide an API key.")

    def test_a_configured_list_of_keys(self) -> None:
        assert chat(chat_request(), keys={"sk-dummy"}) is None
        found = chat(chat_request(), keys={"sk-other"})
        assert (found.status, found.code) == (401, "invalid_api_key")
        assert "sk-dummy" not in found.message

    def test_not_json(self) -> None:
        assert chat(b"{").message.startswith("We could not parse the JSON body of your request.")

    def test_no_model(self) -> None:
        assert chat({"messages": [USER]}) == refusal("you must provide a model parameter")
        assert responses({"input": "x"}) == refusal(
            "Missing required parameter: 'model'.", "model", "missing_required_parameter"
        )

    def test_no_messages(self) -> None:
        assert chat({"model": NEW}) == refusal(
            "Missing required parameter: 'messages'.", "messages", "missing_required_parameter"
        )
        assert chat(chat_request(messages=[])).code == "empty_array"

    def test_no_input(self) -> None:
        assert responses({"model": NEW}).code == "missing_required_parameter"
        assert responses({"model": NEW, "previous_response_id": "resp_1"}) is None
        assert responses({"model": NEW, "prompt": {"id": "pmpt_1"}}) is None

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            (
                {"model": NEW, "messages": 7},
                "Invalid type for 'messages': expected an array, but got an integer instead.",
            ),
            (
                {"model": NEW, "messages": [{"role": "user", "content": 7}]},
                "Invalid type for 'messages[0].content': expected a string or an array, but got an integer instead.",
            ),
            ({"model": NEW, "messages": [{}]}, "Missing required parameter: 'messages[0].role'."),
            (
                {"model": NEW, "messages": [{"role": "tool", "content": "x", "tool_call_id": 7}]},
                "Invalid type for 'messages[0].tool_call_id': expected a string, but got an integer instead.",
            ),
        ],
    )
    def test_shapes(self, body: dict[str, Any], expected: str) -> None:
        assert chat(body).message == expected

    def test_shapes_of_items(self) -> None:
        assert responses(responses_request(input=[{"type": "x", "call_id": 1}])).param == "input[0].call_id"


class TestCacheFields:
    @pytest.mark.parametrize(
        "send", [lambda **m: chat(chat_request(**m)), lambda **m: responses(responses_request(**m))]
    )
    def test_each_generation_refuses_the_others_fields(self, send: Any) -> None:
        options, retention = {"prompt_cache_options": {"mode": "implicit"}}, {"prompt_cache_retention": "24h"}
        assert send(model=NEW, **options) is None
        assert send(model=OLD, **retention) is None
        name = "prompt_cache_options"
        assert send(model=OLD, **options) == refusal(
            f"{name} is not supported on this model", name, "invalid_parameter"
        )
        name = "prompt_cache_retention"
        assert send(model=NEW, **retention) == refusal(
            f"{name} is not supported on this model", name, "invalid_parameter"
        )

    def test_null_is_absent(self) -> None:
        assert chat(chat_request(prompt_cache_retention=None)) is None

    def test_a_model_nobody_described_gets_the_benefit(self) -> None:
        body = chat_request(model="my-own", prompt_cache_retention="24h", prompt_cache_options={"mode": "implicit"})
        assert chat(body) is None

    def test_breakpoints_stand_on_content(self) -> None:
        marked = {"role": "user", "content": [{"type": "text", "text": "x"} | MARK]}
        assert chat(chat_request(messages=[marked])) is None
        found = chat(chat_request(model=OLD, messages=[marked]))
        assert (found.param, found.code) == ("prompt_cache_breakpoint", "invalid_parameter")
        item = {"role": "user", "content": [{"type": "input_text", "text": "x"} | MARK]}
        assert responses(responses_request(input=[item])) is None
        assert responses(responses_request(model=OLD, input=[item])) == found

    def test_breakpoints_on_tools(self) -> None:
        place = "tools[1].prompt_cache_breakpoint"
        tools = [{"type": "function", "name": "a"}, {"type": "function", "name": "b"} | MARK]
        expected = refusal(f"Unknown parameter: '{place}'.", place, "unknown_parameter")
        assert responses(responses_request(tools=tools)) == expected
        assert chat(chat_request(tools=tools)) == expected
        inside = [{"type": "function", "function": {"name": "a"} | MARK}]
        assert chat(chat_request(tools=inside)).param == "tools[0].function.prompt_cache_breakpoint"

    def test_breakpoints_on_instructions(self) -> None:
        found = responses(responses_request(instructions=[{"type": "input_text", "text": "x"} | MARK]))
        assert (found.param, found.code) == ("instructions", "invalid_type")

    def test_a_breakpoint_on_the_request_itself(self) -> None:
        assert chat(chat_request(**MARK)).code == "unknown_parameter"

    def test_a_long_key(self) -> None:
        assert chat(chat_request(prompt_cache_key="k" * 64)) is None
        assert chat(chat_request(prompt_cache_key="k" * 69)) == refusal(
            "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string "
            "with length 69 instead.",
            "prompt_cache_key",
            "string_above_max_length",
        )


class TestCalls:
    def test_an_answered_call_in_chat(self) -> None:
        assert chat(chat_request(messages=[USER, CALL, RESULT])) is None
        assert chat(chat_request(messages=[USER, CALL, RESULT, USER])) is None

    @pytest.mark.parametrize("after", [[], [USER], [RESULT | {"tool_call_id": "call_2"}, USER]])
    def test_an_open_call_in_chat(self, after: list[dict[str, Any]]) -> None:
        assert chat(chat_request(messages=[USER, CALL, *after])) == refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: call_1",
            "messages",
        )

    def test_a_result_without_call_in_chat(self) -> None:
        assert chat(chat_request(messages=[USER, RESULT])).param == "messages.[1].role"

    def test_responses(self) -> None:
        call = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "call_1", "output": "text"}
        assert responses(responses_request(input=[USER, call, output])) is None
        assert responses(responses_request(input=[USER, call])) == refusal(
            "No tool output found for function call call_1.", "input"
        )
        assert responses(responses_request(input=[output])).message == (
            "No tool call found for function call output with call_id call_1."
        )
        assert responses(responses_request(input=[output], previous_response_id="resp_1")) is None


class TestErrorForm:
    def test_all_four_members_are_there(self) -> None:
        answer = checks.error_answer("openai_chat", refusal("no", "model", "bad"), HttpRequest("POST", "/x"), "req_1")
        assert json.loads(answer.body) == {
            "error": {"message": "no", "type": "invalid_request_error", "param": "model", "code": "bad"}
        }
        assert dict(answer.headers)["x-request-id"] == "req_1"

    def test_an_error_without_them(self) -> None:
        body = json.loads(checks.error_body("openai_responses", WireError(500, "server_error", "oh")))
        assert body["error"] == {"message": "oh", "type": "server_error", "param": None, "code": None}
