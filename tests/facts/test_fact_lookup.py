"""Finding a model by name: prefixes, dates, spellings, unknown names."""

from __future__ import annotations

import logging

import pytest

from holdfast import facts
from holdfast.errors import HoldfastError
from holdfast.facts import Facts

NAMES = [
    ("anthropic:claude-opus-5-5", "anthropic:claude-opus-5-5"),
    ("claude-haiku-4-5-20251001", "anthropic:claude-haiku-4-5"),
    ("anthropic:haiku-4-5", "anthropic:claude-haiku-4-5"),
    ("opus-5", "anthropic:claude-opus-5"),
    ("anthropic/claude-sonnet-4.5", "anthropic:claude-sonnet-4-5"),
    ("claude-sonnet-4-5@20250929", "anthropic:claude-sonnet-4-5"),
    ("claude-sonnet-4-5[1m]", "anthropic:claude-sonnet-4-5"),
    ("claude-opus-4-20250514", "anthropic:claude-opus-4"),
    ("claude-opus-4-0", "anthropic:claude-opus-4"),
    ("claude-opus-4-1-20250805", "anthropic:claude-opus-4-1"),
    ("claude-opus-5-latest", "anthropic:claude-opus-5"),
    ("claude-3-5-haiku-20241022", "anthropic:claude-haiku-3-5"),
    ("claude-haiku-4-5-thinking", "anthropic:claude-haiku-4-5"),
    ("Claude-Opus-5-5", "anthropic:claude-opus-5-5"),
    ("gpt-6.1-sol", "openai:gpt-6.1-sol"),
    ("gpt-6-1-sol", "openai:gpt-6.1-sol"),
    ("gpt-5-2025-08-07", "openai:gpt-5"),
    ("gpt-5.5-2026-04-23", "openai:gpt-5.5"),
    ("gpt-5.6-nova", "openai:gpt-5.6"),
    ("gpt-4-1106-preview", "openai:gpt-4"),
    ("codex-mini-latest", "openai:codex-mini"),
    ("o4-mini", "openai:o4-mini"),
    ("models/gemini-2.5-flash", "gemini:gemini-2.5-flash"),
    ("gemini-3.7-flash-preview", "gemini:gemini-3.7-flash"),
    ("deepseek-chat", "deepseek:deepseek-chat"),
    ("OPENROUTER:anthropic/claude-sonnet-4.5", "openrouter:anthropic/claude-sonnet-4-5"),
    ("openrouter:anthropic/claude-4.5-sonnet-20250929", "openrouter:anthropic/claude-sonnet-4-5"),
    ("openrouter:anthropic/claude-opus-4.1:beta", "openrouter:anthropic/claude-opus-4-1"),
    ("openrouter:~anthropic/claude-opus-5", "openrouter:anthropic/claude-opus-5"),
    ("openrouter:claude-opus-5", "openrouter:anthropic/claude-opus-5"),
    ("bedrock:global.anthropic.claude-opus-4-6-v1:0", "bedrock:anthropic.claude-opus-4-6"),
    ("bedrock:arn:aws:bedrock:eu:1:profile/eu.anthropic.claude-opus-5", "bedrock:anthropic.claude-opus-5"),
]


@pytest.mark.parametrize(("asked", "found"), NAMES)
def test_names_lead_to_their_entry(asked: str, found: str) -> None:
    model = facts.model(asked)
    assert model.ref == found
    assert model.known


@pytest.mark.parametrize("name", ["gpt-5.7", "claude-opus-5-6", "claude-sonnet-5-7-20270101", "o100", "gpt-oss-20b"])
def test_another_version_is_another_model(name: str) -> None:
    assert not facts.model(name).known


@pytest.mark.parametrize("name", ["", ":", "nobody", "foo:bar", "a/b:c", "x" * 100_000, "\ud83d", "anthropic:"])
def test_any_text_gets_an_answer(name: str) -> None:
    found = facts.model(name)
    assert not found.known
    assert found.floor == 4096


def test_an_unknown_provider_keeps_its_name_and_is_assumed_not_to_cache() -> None:
    found = facts.model("acme:big-model")
    assert (found.provider, found.name, found.caching) == ("acme", "big-model", "none")


def test_an_unknown_model_is_warned_about_exactly_once(caplog: pytest.LogCaptureFixture) -> None:
    own = Facts.load()
    with caplog.at_level(logging.WARNING, logger="holdfast.facts"):
        for _ in range(3):
            own.model("anthropic:claude-opus-9")
            own.model("claude-opus-9")
            own.model("claude-opus-9-20290101")
        own.model("claude-sonnet-9")
        own.model("claude-opus-5-5")
    assert [record.name for record in caplog.records] == ["holdfast.facts"] * 2
    assert "claude-opus-9" in caplog.messages[0]
    assert "claude-sonnet-9" in caplog.messages[1]


def test_listing_models_warns_about_nothing(caplog: pytest.LogCaptureFixture) -> None:
    own = Facts.load()
    for model in own.models():
        own.model(model.ref)
    assert caplog.messages == []


def test_ten_thousand_invented_names_neither_grow_the_memory_nor_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = Facts.load()
    for index in range(10_000):
        own.model(f"vllm:{index}")
    assert own.remembered <= 4096
    for index in range(5_000):
        own.model(f"acme:m{index}")
    assert len(caplog.records) == 4096
    assert own.model("claude-opus-5-5").floor == 512


def test_lookups_are_cached() -> None:
    assert facts.model("claude-opus-5-5") is facts.model("claude-opus-5-5")
    assert facts.default() is facts.default()


def test_providers() -> None:
    assert facts.default().providers() == (
        "anthropic", "bedrock", "deepseek", "gemini", "llama", "openai", "openrouter", "sglang", "vllm",
    )  # fmt: skip


def test_models_of_one_provider() -> None:
    own = facts.default()
    assert {model.provider for model in own.models("openai")} == {"openai"}
    assert set(own.models("openai")) < set(own.models())
    routed = {model.name for model in own.models("openrouter")}
    assert {"anthropic/claude-opus-5-5", "openai/gpt-6.1-sol", "google/gemini-2.5-pro", "qwen/*"} <= routed


def test_an_unknown_provider_of_a_listing_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(HoldfastError, match="`antropic`; did you mean `anthropic`"):
        facts.default().models("antropic")


@pytest.mark.parametrize("part", ["x", "[", "-20250101", ":a", "é"])
def test_a_name_beyond_all_measure_is_read_in_part(part: str) -> None:
    found = Facts().model(part * 10_000)
    assert not found.known
    assert len(found.ref) < 600
