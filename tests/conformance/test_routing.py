"""Seed context-assembler, section 4: prompt caching is the gate for putting one model in another's place."""

from __future__ import annotations

from holdfast.agent.routing import Conditions, ConfiguredModels, Gate, capabilities, fallback, route

FIRST = "anthropic:claude-sonnet-5-5"
CACHES, LATER, WITHOUT = "openai:gpt-6.1-sol", "gemini:gemini-3-pro", "openai:gpt-5.5-pro"
ROUTED = "openrouter:anthropic/claude-haiku-4-5"


def test_a28_a_model_without_prompt_caching_takes_over_only_if_no_other_is_left() -> None:
    assert not capabilities(WITHOUT).supports_prompt_caching
    found = fallback((WITHOUT, CACHES, LATER), after=FIRST, why="503")
    assert (found.model, found.caching) == (CACHES, True)
    assert dict(found.passed_over)[WITHOUT].startswith("caches no prompts")
    alone = fallback((WITHOUT,), after=FIRST, why="503")
    assert (alone.model, alone.caching, alone.event().caching) == (WITHOUT, False, False)
    assert "caches no prompts" in alone.notice


def test_a28_the_gate_holds_for_a_session_that_begins_in_the_chain() -> None:
    found = route("go", configured=ConfiguredModels(fallback=(WITHOUT, CACHES)))
    assert (found.model, found.source) == (CACHES, "fallback")


def test_a28_openrouter_is_asked_like_the_others() -> None:
    found = fallback((ROUTED, CACHES), after=FIRST, why="503")
    assert found.model == CACHES
    seen = fallback(
        (ROUTED, CACHES), after=FIRST, why="503", conditions=Conditions(gate=Gate(seen=frozenset((ROUTED,))))
    )
    assert seen.model == ROUTED
