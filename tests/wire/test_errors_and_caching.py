"""Error bodies of each provider, and the caching parameters that are not markers."""

from __future__ import annotations

import json

import pytest

from holdfast import facts
from holdfast.wire import DIALECTS, Body, WireError, cache_parameters, dialect_of
from holdfast.wire.dialects import path_of


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_an_error_of_ours_reads_back(name: str, status: int) -> None:
    dialect = DIALECTS[name]
    raw = dialect.write_error(WireError(status, "rate_limit_error", 'wait a "little"\nplease'))
    assert json.loads(raw)
    back = dialect.read_error(status, raw)
    assert (back.status, back.message) == (status, 'wait a "little"\nplease')


@pytest.mark.parametrize(
    ("name", "raw", "kind", "message"),
    [
        (
            "anthropic",
            b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
            "overloaded_error",
            "Overloaded",
        ),
        ("anthropic", b"<html>bad gateway</html>", "rate_limit_error", "<html>bad gateway</html>"),
        ("openai_chat", b'{"error":{"message":"m","type":"t","param":null,"code":"c"}}', "c", "m"),
        ("openai_responses", b'{"error":{"message":"m","type":"t","code":null}}', "t", "m"),
        ("gemini", b'{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}', "RESOURCE_EXHAUSTED", "m"),
        ("gemini", b'[{"error":{"code":429,"message":"m","status":"ABORTED"}}]', "ABORTED", "m"),
        ("gemini", b"\xff\xfe", "RESOURCE_EXHAUSTED", "\ufffd\ufffd"),
        ("openrouter", b'{"error":{"message":"m","code":429}}', "api_error", "m"),
    ],
)
def test_errors_of_providers(name: str, raw: bytes, kind: str, message: str) -> None:
    assert DIALECTS[name].read_error(429, raw) == WireError(429, kind, message)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("raw", [b'{"\\q":1}', b'{"\xff":1}', b"{", b'{"error":"x"}', b'{"error":{"message":5}}', b""])
def test_an_error_body_of_any_kind_is_read(name: str, raw: bytes) -> None:
    assert DIALECTS[name].read_error(500, raw).status == 500


@pytest.mark.parametrize(
    ("path", "name", "model"),
    [
        ("/v1/messages", "anthropic", ""),
        ("/v1/messages?beta=true", "anthropic", ""),
        ("/v1/messages/count_tokens", "anthropic", ""),
        ("/v1/chat/completions", "openai_chat", ""),
        ("/api/v1/chat/completions/", "openai_chat", ""),
        ("/v1/responses", "openai_responses", ""),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini", "gemini-2.5-pro"),
        ("/v1/models/gemini-3-pro:countTokens", "gemini", "gemini-3-pro"),
    ],
)
def test_paths_name_their_dialect(path: str, name: str, model: str) -> None:
    found = dialect_of(path)
    assert (found[0].name, found[1]) == (name, model)


@pytest.mark.parametrize("name", DIALECTS)
def test_what_is_asked_for_is_known_again(name: str) -> None:
    path, _ = path_of(name, "models/a-model")
    found = dialect_of(path)
    spoken = "openai_chat" if name == "openrouter" else name  # which only its address tells apart
    assert found in ((DIALECTS[spoken], ""), (DIALECTS[spoken], "a-model"))


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/models", "/api/hello", "/v1/responses/resp_1", "/v1beta/cachedContents", "/v1/threads/t/messages"],
)
def test_side_calls_have_none(path: str) -> None:
    assert dialect_of(path) is None


def parsed(raw: bytes, name: str) -> Body:
    body = DIALECTS[name].parse(raw)
    assert isinstance(body, Body)
    return body


def test_caching_parameters_are_read() -> None:
    openai = parsed(
        b'{"prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{"mode":"explicit"},"input":[]}',
        "openai_responses",
    )
    assert cache_parameters.read(openai) == cache_parameters.Caching(key="k", retention="24h", mode="explicit")
    assert cache_parameters.read(parsed(b'{"cache_control":{"type":"ephemeral"}}', "anthropic")).automatic == "5m"
    assert cache_parameters.read(parsed(b'{"cache_control":{"ttl":"1h"}}', "anthropic")).automatic == "1h"
    assert (
        cache_parameters.read(parsed(b'{"cachedContent":"cachedContents/x"}', "gemini")).cached_content
        == "cachedContents/x"
    )
    assert (
        cache_parameters.read(parsed(b'{"cached_content":"cachedContents/x"}', "gemini")).cached_content
        == "cachedContents/x"
    )
    assert cache_parameters.read(parsed(b"{}", "openai_chat")) == cache_parameters.Caching()


def test_caching_parameters_are_set_only_where_the_model_takes_them() -> None:
    new, old = facts.model("openai:gpt-6.1-sol"), facts.model("openai:gpt-5.5")
    body = parsed(b'{"model":"x","messages":[]}', "openai_chat")
    assert body.apply(cache_parameters.set_mode(body, "explicit", new)).endswith(
        b',"prompt_cache_options":{"mode":"explicit"}}'
    )
    assert cache_parameters.set_mode(body, "explicit", old) == []
    other_options = parsed(b'{"prompt_cache_options":{"x":1,"mode":"implicit"},"messages":[]}', "openai_chat")
    changed = other_options.apply(cache_parameters.set_mode(other_options, "explicit", new))
    assert changed == b'{"prompt_cache_options":{"x":1,"mode":"explicit"},"messages":[]}'


def test_automatic_caching_is_a_top_level_member() -> None:
    body = parsed(b'{"model":"claude-opus-5-5","messages":[]}', "anthropic")
    anthropic, openai = facts.model("anthropic:claude-opus-5-5"), facts.model("openai:gpt-5.5")
    assert body.apply(cache_parameters.set_automatic(body, "5m", anthropic)).endswith(
        b',"cache_control":{"type":"ephemeral"}}'
    )
    assert cache_parameters.set_automatic(body, "5m", openai) == []


def test_completions_are_stored_unless_the_client_said_otherwise() -> None:
    body = parsed(b'{"input":[]}', "openai_responses")
    assert body.apply(cache_parameters.set_stored(body)) == b'{"input":[],"store":true}'
    chosen = parsed(b'{"input":[],"store":false}', "openai_responses")
    assert cache_parameters.set_stored(chosen) == []


def test_members_are_removed_with_their_commas() -> None:
    body = parsed(b'{"a":1, "b":2 ,"c":3,"d":4}', "openai_chat")

    def without(*names: str, **values: bytes) -> bytes:
        return body.apply(body.change_members(values, names))

    assert without("a") == b'{"b":2 ,"c":3,"d":4}'
    assert without("b", "c") == b'{"a":1,"d":4}'
    assert without("d", "a") == b'{"b":2 ,"c":3}'
    assert without("a", "b", "c", "d") == b"{}"
    assert without("zzz") == body.raw
    assert without("a", "b", "c", "d", e=b"5", f=b"6") == b'{"e":5,"f":6}'
    assert without("d", a=b"7", e=b"5") == b'{"a":7, "b":2 ,"c":3,"e":5}'


@pytest.mark.parametrize("key_first", [True, False])
def test_a_new_member_stays_outside_of_what_is_wrapped(key_first: bool) -> None:
    """A bare string at the end of the body is wrapped at the very byte where a new member goes."""
    body = parsed(b'{"model":"gpt-6.1-sol","input":"hi"}', "openai_responses")
    key, mark = body.set_member("prompt_cache_key", b'"k"'), DIALECTS["openai_responses"].place(body, 0, "5m")
    changed = json.loads(body.apply([*key, *mark] if key_first else [*mark, *key]))
    assert changed["prompt_cache_key"] == "k"
    assert changed["input"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}


def test_overlapping_splices_are_a_bug_of_the_caller() -> None:
    body = parsed(b'{"a":1,"b":2}', "openai_chat")
    with pytest.raises(ValueError, match="overlap"):
        body.apply([*body.change_members({}, ("b",)), *body.set_member("b", b"3")])
