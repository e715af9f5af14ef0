"""Which rules a model gets."""

from __future__ import annotations

import pytest

from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.deepseek import DeepSeek
from holdfast.caches.gemini import Gemini
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
        ("gemini:gemini-3-pro", Gemini),
        ("deepseek:deepseek-chat", DeepSeek),
        ("vllm:anything", Vllm),
        ("llama:anything", Llama),
        ("openrouter:anthropic/claude-opus-4-6", AnthropicCache),
    ],
)
def test_models_have_the_rules_of_their_provider(name, kind):
    assert isinstance(cache(model(name)), kind)


def test_every_known_model_has_a_cache_that_takes_a_request():
    for known in default().models():
        made = cache(known, contents=CachedContents())
        asked = prompt(known, [block("s", 5_000, section="system"), *texts("ab")], scope="s")
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


def test_settings_lose_their_section():
    facts = model("openai:gpt-6.1-sol")
    assert "reasoning.effort" in rules(facts).affecting
    plain = prompt(facts, texts("ab"))
    assert prompt(facts, texts("ab"), settings={"reasoning.effort": b'"high"'}).keys != plain.keys
    assert prompt(facts, texts("ab"), settings={"temperature": b"1"}).keys == plain.keys
