"""What real clients send is not refused."""

from __future__ import annotations

import pytest

from holdfast import facts
from holdfast.simulator import checks
from holdfast.simulator.messages import HttpRequest
from holdfast.wire import DIALECTS, Body, dialect_of
from tests import shapes

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
