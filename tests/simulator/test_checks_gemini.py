"""What Gemini refuses, in Google's error form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.simulator import checks
from holdfast.simulator.messages import HttpRequest
from holdfast.wire import DIALECTS, WireError

MODEL = "gemini-2.5-flash"
HEADERS = {"x-goog-api-key": "dummy"}
USER: dict[str, Any] = {"role": "user", "parts": [{"text": "Read the file."}]}
CALL: dict[str, Any] = {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]}
RESULT: dict[str, Any] = {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {}}}]}
COUNTS = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)


def check(
    body: dict[str, Any] | bytes,
    *,
    model: str = MODEL,
    method: str = "generateContent",
    headers: dict[str, str] | None = None,
    query: dict[str, str] | None = None,
    **options: Any,
) -> WireError | None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    path = f"/v1beta/models/{model}:{method}"
    call = HttpRequest("POST", path, HEADERS if headers is None else headers, query or {}, raw)
    return checks.check("gemini", DIALECTS["gemini"].parse(raw, model=model), None, call, **options)


def message(body: dict[str, Any] | bytes, **options: Any) -> str:
    found = check(body, **options)
    assert (found.status, found.kind) == (400, "INVALID_ARGUMENT")
    return found.message


def test_a_good_request_passes() -> None:
    assert check({"contents": [USER], "newThing": 1}) is None


def test_no_key() -> None:
    found = check(b"{", headers={})
    assert (found.status, found.kind) == (403, "PERMISSION_DENIED")
    assert found.message.startswith("Method doesn't allow unregistered callers")


@pytest.mark.parametrize(
    ("headers", "query"), [(HEADERS, {}), ({}, {"key": "dummy"}), ({"authorization": "Bearer dummy"}, {})]
)
def test_the_key_may_come_three_ways(headers: dict[str, str], query: dict[str, str]) -> None:
    assert check({"contents": [USER]}, headers=headers, query=query, keys={"dummy"}) is None
    assert message({"contents": [USER]}, headers=headers, query=query, keys=()).startswith("API key not valid.")


def test_not_json() -> None:
    assert message(b"{").startswith("Invalid JSON payload received. ")


def test_an_unknown_model() -> None:
    assert check({"contents": [USER]}, model="claude-opus-5", method="streamGenerateContent") == WireError(
        404,
        "NOT_FOUND",
        "models/claude-opus-5 is not found for API version v1beta, or is not supported for streamGenerateContent. Call "
        "ListModels to see the list of available models and their supported methods.",
    )


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (None, "* GenerateContentRequest.contents: contents is not specified\n"),
        ([], "* GenerateContentRequest.contents: contents is not specified\n"),
        ([{"role": "system", "parts": [{"text": "x"}]}], "Please use a valid role: user, model."),
        ([USER, {"role": "user"}], "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.\n"),
        (7, "Invalid value at 'contents' (expected array, got int)"),
        ([{"role": "user", "parts": [7]}], "Invalid value at 'contents[0].parts[0]' (expected object, got int)"),
    ],
)
def test_contents(contents: Any, expected: str) -> None:
    assert message({} if contents is None else {"contents": contents}) == expected


def test_counting_a_whole_request() -> None:
    assert check({"generateContentRequest": {"contents": [USER]}}, method="countTokens") is None


def test_calls_and_responses_are_paired() -> None:
    assert check({"contents": [USER, CALL, RESULT]}) is None
    two = {"role": "model", "parts": CALL["parts"] * 2}
    assert message({"contents": [USER, two, RESULT]}) == COUNTS
    assert check({"contents": [USER, two, RESULT, RESULT]}) is None
    assert message({"contents": [USER, CALL, USER]}) == COUNTS
    assert message({"contents": [USER, {"role": "model", "parts": [{"text": "x"}]}, RESULT]}) == COUNTS


@pytest.mark.parametrize("name", ["systemInstruction", "system_instruction", "tools", "toolConfig"])
def test_a_cached_content_and_what_it_already_holds(name: str) -> None:
    value: Any = [] if name == "tools" else {"parts": [{"text": "x"}]} if "nstruction" in name else {}
    found = message({"contents": [USER], "cachedContent": "cachedContents/1", name: value})
    assert found.startswith("CachedContent can not be used with GenerateContent request setting system_instruction, ")
    assert check({"contents": [USER], name: value}) is None


class TestErrorForm:
    ERROR = WireError(403, "PERMISSION_DENIED", "gone")

    def test_body(self) -> None:
        body = json.loads(checks.error_body("gemini", self.ERROR))
        assert body == {"error": {"code": 403, "message": "gone", "status": "PERMISSION_DENIED"}}

    @pytest.mark.parametrize(("query", "wrapped"), [({}, True), ({"alt": "sse"}, False)])
    def test_a_stream_that_is_an_array_fails_as_one(self, query: dict[str, str], wrapped: bool) -> None:
        call = HttpRequest("POST", f"/v1beta/models/{MODEL}:streamGenerateContent", query=query)
        body = json.loads(checks.error_answer("gemini", self.ERROR, call).body)
        assert isinstance(body, list) == wrapped
