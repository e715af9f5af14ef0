"""Which rules a model gets."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from holdfast.caches import CacheControls
from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.deepseek import DeepSeek
from holdfast.caches.gemini import GeminiCache
from holdfast.caches.gemini_contents import CachedContents
from holdfast.caches.llama import Llama
from holdfast.caches.openai import OpenAIPrefix
from holdfast.caches.openai_breakpoints import OpenAIBreakpoints
from holdfast.caches.providers import NoCache, cache, prompt, rules
from holdfast.caches.vllm import Vllm
from holdfast.facts import default, model

from .prompts import block, texts


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("anthropic:claude-opus-5-5", AnthropicCache),
        ("openai:gpt-5.6", OpenAIBreakpoints),
        ("openai:gpt-5.5", OpenAIPrefix),
        ("openai:gpt-5.5-pro", NoCache),
        ("gemini:gemini-3-pro", GeminiCache),
        ("deepseek:deepseek-chat", DeepSeek),
        ("vllm:anything", Vllm),
        ("llama:anything", Llama),
        ("openrouter:anthropic/claude-opus-4-6", AnthropicCache),
        ("openrouter:qwen/qwen3-max", AnthropicCache),
        ("openrouter:openai/gpt-5.6", OpenAIBreakpoints),
        ("openrouter:openai/gpt-5.5", OpenAIPrefix),
        ("openrouter:deepseek/deepseek-chat", DeepSeek),
        ("bedrock:anthropic.claude-opus-4-6-v1:0", AnthropicCache),
        ("bedrock:meta.llama3", NoCache),
        ("sglang:anything", NoCache),
    ],
)
def test_models_have_the_rules_of_their_provider(name, kind):
    assert isinstance(cache(model(name)), kind)


def test_every_known_model_has_a_cache_that_takes_a_request():
    for known in default().models():
        made = cache(known, contents=CachedContents())
        asked = prompt(known, [block("s", 5_000, section="system"), *texts("ab")], CacheControls(scope="s"))
        outcome = made.begin(asked, 0.0)
        made.first_token(outcome, 1.0)
        made.finish(outcome, (), 2.0)
        assert outcome.usage().prompt == asked.tokens


def test_without_a_cache_nothing_is_read_or_kept():
    none = cache(model("openai:gpt-5.5-pro"))
    asked = prompt(model("openai:gpt-5.5-pro"), texts("abc"))
    for at in (0.0, 1.0):
        outcome = none.begin(asked, at)
        none.first_token(outcome, at)
        none.finish(outcome, (), at)
        none.abandon(outcome, at)
        assert (outcome.read, outcome.input) == (0, 3_000)
    assert none.entries(2.0) == []


@pytest.mark.parametrize("name", ["openai:gpt-6.1-sol", "openrouter:openai/gpt-5.6"])
def test_from_5_6_on_the_tools_are_part_of_the_whole_prefix(name):
    """B9: names, order and schemas; the system text before them is lost with them."""
    facts = model(name)
    system, tools = block("s", section="system"), texts("tu", section="tools")
    plain = prompt(facts, [system, *tools, *texts("ab")])
    for changed in ([], tools[:1], [*tools, block("v", section="tools")], tools[::-1]):
        assert not set(prompt(facts, [system, *changed, *texts("ab")]).keys) & set(plain.keys)


def test_before_5_6_they_are_tokens_after_the_system_text():
    """O2: matched token by token, so what stands before a changed tool is kept."""
    facts = model("openai:gpt-5.5")
    system, tools = block("s", 2_048, section="system"), texts("tu", section="tools")
    known = cache(facts)
    known.first_token(known.begin(prompt(facts, [system, *tools, *texts("a")]), 0.0), 1.0)
    assert known.begin(prompt(facts, [system, *tools[::-1], *texts("a")]), 2.0).read == 2_048


def test_settings_lose_their_section():
    facts = model("openai:gpt-6.1-sol")
    assert "reasoning.effort" in rules(facts).affecting
    plain = prompt(facts, texts("ab"))
    assert prompt(facts, texts("ab"), CacheControls(settings={"reasoning.effort": b'"high"'})).keys != plain.keys
    assert prompt(facts, texts("ab"), CacheControls(settings={"temperature": b"1"})).keys == plain.keys


def test_the_page_of_rules_is_that_of_the_modules():
    """`make docs` renews it."""
    page = Path(__file__).parents[2] / "docs" / "cache-rules.md"
    made = runpy.run_path(str(page.parents[1] / "scripts" / "make_cache_rules.py"))["page"]()
    assert page.read_text(encoding="utf-8") == made
