"""The registry: one body and then pointers, the caps, what is forgotten, and what survives a restart."""

from __future__ import annotations

import logging
import threading

import msgspec
import pytest

from holdfast.config.sections.agent import SkillsSettings
from holdfast.records import Block, Message, Text, ToolResult
from holdfast.skills import activation
from holdfast.skills.activation import RegistryState, SkillActivationRegistry
from holdfast.skills.skill import Skill
from holdfast.skills.tools import POINTERS
from holdfast.tools import ToolExecutionError
from tests.skills.sessions import load, sized, skill

POINTER = "# Skill: a (source: global)\n\n" + POINTERS["already_loaded"]
A, B, C, D = (skill(name, body=f"The way of {name}.\n") for name in "abcd")


def result(skill: Skill, id: str, *more: Block) -> ToolResult:
    return ToolResult(id, (Text(skill.section), *more))


def loaded(registry: SkillActivationRegistry, *skills: Skill) -> list[str]:
    return [registry.load(each, f"call-{each.name}")[0] for each in skills]


def holding(*skills: Skill, **limits: int) -> SkillActivationRegistry:
    """A registry in which these skills are loaded."""
    registry = SkillActivationRegistry(**limits)
    loaded(registry, *skills)
    return registry


def names(registry: SkillActivationRegistry) -> list[str]:
    return [each.name for each in registry.loaded]


def test_a73_a78_the_constants_are_the_defaults_of_the_settings() -> None:
    settings = SkillsSettings()
    assert activation.MAX_EXPLICIT_ACTIVATIONS_PER_SESSION == settings.max_activations == 3
    assert activation.WARN_CUMULATIVE_ACTIVATION_TOKENS == settings.warn_tokens == 10_000
    assert activation.HARD_CAP_CUMULATIVE_ACTIVATION_TOKENS == settings.hard_tokens == 30_000


class TestBudget:
    def test_a1_explicit_activations_are_tracked_in_order(self) -> None:
        registry = SkillActivationRegistry()
        assert loaded(registry, C, A) == ["body", "body"]
        assert [(each.name, each.version, each.tokens, each.tool_use_id) for each in registry.loaded] == [
            ("c", C.version, C.estimated_body_tokens, "call-c"),
            ("a", A.version, A.estimated_body_tokens, "call-a"),
        ]
        assert (registry.count, registry.tokens) == (2, A.estimated_body_tokens + C.estimated_body_tokens)

    def test_a1_a64_a65_one_more_than_the_limit_is_refused(self) -> None:
        registry = holding(C, A, B)
        with pytest.raises(ToolExecutionError) as refused:
            registry.load(D, "x")
        assert str(refused.value) == (
            "activation budget exhausted: 3 skills already activated this session (limit 3). "
            "Already loaded: [c, a, b]. "
            "To free budget, summarize and discard previously loaded skill bodies in your next response."
        )
        assert names(registry) == ["c", "a", "b"]

    def test_a71_a72_what_would_pass_the_hard_cap_is_refused(self) -> None:
        registry = holding(sized("a", 14_000), sized("b", 15_000))
        with pytest.raises(ToolExecutionError) as refused:
            registry.load(sized("big", 1_001), "x")
        assert str(refused.value) == (
            "activation budget exhausted: loading big would bring loaded skills to 30001 tokens (limit 30000). "
            "Already loaded: [a, b]."
        )
        assert (registry.count, registry.tokens) == (2, 29_000)

    def test_a71_exactly_the_hard_cap_is_allowed(self) -> None:
        registry = SkillActivationRegistry()
        assert loaded(registry, sized("a", 29_999), sized("b", 1)) == ["body", "body"]
        assert registry.tokens == 30_000

    def test_a72_the_first_body_can_be_too_large(self) -> None:
        with pytest.raises(ToolExecutionError, match=r"to 30001 tokens \(limit 30000\)\. Already loaded: \[\]\.$"):
            SkillActivationRegistry().load(sized("big", 30_001), "x")

    def test_a72_of_both_caps_the_count_is_named(self) -> None:
        registry = holding(sized("a", 5), max_activations=1, hard_tokens=10)
        with pytest.raises(ToolExecutionError, match="1 skills already activated"):
            registry.load(sized("b", 50), "x")

    def test_no_load_at_all_can_be_allowed(self) -> None:
        with pytest.raises(ToolExecutionError, match=r"0 skills already activated .* \(limit 0\)"):
            SkillActivationRegistry(max_activations=0).load(A, "x")

    def test_a69_a82_d54_a_skill_that_is_loaded_counts_once(self) -> None:
        registry = SkillActivationRegistry()
        assert loaded(registry, A, B, C, A, A) == ["body", "body", "body", "already_loaded", "already_loaded"]
        assert registry.count == 3

    def test_a68_what_is_preloaded_counts_nothing(self) -> None:
        registry = SkillActivationRegistry()
        registry.preload([D, sized("e", 29_000)])
        assert [each.name for each in registry.preloaded] == ["d", "e"]
        assert loaded(registry, D, A, B, C, D) == ["already_preloaded", "body", "body", "body", "already_preloaded"]
        assert registry.count == 3

    def test_a70_the_warning_is_logged_once_when_the_sum_reaches_it(self, caplog: pytest.LogCaptureFixture) -> None:
        registry = SkillActivationRegistry(max_activations=9)
        with caplog.at_level(logging.WARNING):
            loaded(registry, sized("a", 9_999))
            assert caplog.records == []
            loaded(registry, sized("b", 1))
            (record,) = caplog.records
            assert (record.levelname, "10000 tokens" in record.getMessage()) == ("WARNING", True)
            loaded(registry, sized("c", 5_000))
            registry.keep([])
            loaded(registry, sized("e", 20_000))
        assert len(caplog.records) == 1

    def test_a1_loads_side_by_side_stay_within_the_caps(self) -> None:
        registry = SkillActivationRegistry()
        given: list[str] = []
        start = threading.Barrier(16)

        def ask(which: Skill) -> None:
            start.wait()
            try:
                given.append(registry.load(which, f"call-{which.name}")[0])
            except ToolExecutionError:
                given.append("refused")

        threads = [threading.Thread(target=ask, args=(each,)) for each in (A, B, C, D) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert given.count("body") == registry.count == 3
        assert given.count("refused") == 4


class TestForgetting:
    def test_a_kept_result_with_the_text_keeps_the_activation(self) -> None:
        registry = holding(A, B)
        registry.keep([Message("user", (result(A, "call-a"),)), Message("user", (result(B, "call-b"),))])
        assert names(registry) == ["a", "b"]

    @pytest.mark.parametrize(
        "kept",
        [
            (),
            (result(B, "call-a"),),
            (result(skill("a", body=A.body, source="workspace"), "call-a"),),
            (load("a", "call-a"),),
            (ToolResult("call-a", (Text(POINTER),)),),
            (ToolResult("call-a", (Text(f"A summary: {A.section.splitlines()[0]} was read, and followed."),)),),
            (ToolResult("call-a", (Text(A.section[:20]), Text(A.section[20:]))),),
            (ToolResult("call-a", (Text("[Tool result cleared]"),)),),
            (ToolResult("call-a", (Text(A.section[:-2]),)),),
            (ToolResult("call-a", (Text(A.section.replace("way", "end")),)),),
            (Text(A.section),),
        ],
    )
    def test_without_its_very_text_in_a_result_it_is_forgotten(self, kept: tuple[Block, ...]) -> None:
        registry = holding(A, max_activations=1)
        registry.keep([Message("user", (*kept, Text("go on")))])
        assert (registry.count, registry.tokens) == (0, 0)
        assert registry.load(A, "later")[0] == "body"

    @pytest.mark.parametrize(
        "kept",
        [
            ToolResult("call-a", (Text(f"A note. {A.section}"),)),
            ToolResult("call-a", (Text(f"{A.section}\n---\nA guide.\n---"),)),
            result(A, "gemini-call-7"),  # who decodes a conversation anew may give its calls other ids
        ],
    )
    def test_a_text_that_was_joined_to_another_or_has_another_id_still_stands(self, kept: ToolResult) -> None:
        registry = holding(A)
        registry.keep([Message("user", (kept,))])
        assert names(registry) == ["a"]

    def test_a_result_full_of_its_header_is_not_searched_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        registry = holding(sized("odd", 50_000), hard_tokens=100_000)
        tried: list[str] = []
        digest = activation.text_digest
        monkeypatch.setattr(activation, "text_digest", lambda text: tried.append(text) or digest(text))
        page = "# Skill: odd (source: global)\n\n" * 30_000
        registry.keep([Message("user", (ToolResult("look-1", (Text(page),)),))])
        assert (names(registry), len(tried)) == ([], 100)

    def test_a_body_that_names_its_own_header_is_found(self) -> None:
        odd = skill("odd", body="# Skill: odd (source: global)\n" * 300)
        registry = holding(odd)
        registry.keep([Message("user", (ToolResult("call-odd", (Text(f"{odd.section[:40]}\n{odd.section}"),)),))])
        assert names(registry) == ["odd"]

    def test_what_is_preloaded_stays(self) -> None:
        registry = SkillActivationRegistry()
        registry.preload([A])
        registry.keep([])
        assert registry.load(A, "x")[0] == "already_preloaded"

    def test_what_was_not_answered_is_forgotten(self) -> None:
        registry = holding(A, B, C)
        cancelled = ToolResult("call-b", (Text("The call was cancelled."),), is_error=True)
        registry.answered([result(A, "call-a"), cancelled])
        assert names(registry) == ["a", "c"]

    def test_an_answered_one_is_not_judged_by_later_turns(self) -> None:
        registry = holding(A)
        registry.answered([result(A, "call-a")])
        registry.answered([ToolResult("call-a", (Text("another call of that number"),))])
        assert names(registry) == ["a"]

    def test_the_calls_of_a_lost_turn_are_withdrawn(self) -> None:
        registry = holding(A, B)
        registry.withdraw([("call-b", "b"), ("unknown", "a"), ("call-a", "c")])
        assert names(registry) == ["a"]

    def test_of_two_with_one_id_only_what_the_call_loaded_is_withdrawn(self) -> None:
        registry = SkillActivationRegistry()
        registry.load(A, "1")
        registry.answered([result(A, "1")])
        registry.load(B, "1")
        registry.withdraw([("1", "b")])
        assert names(registry) == ["a"]
        registry.withdraw([("1", "c")])
        assert names(registry) == ["a"]

    def test_a_lost_call_of_a_later_turn_takes_nothing_away(self) -> None:
        """Also where it has the id of the call that loaded the skill, and after a restart."""
        registry, one = SkillActivationRegistry(), "gemini-call-1"
        registry.begun([(one, "a")])
        registry.load(A, one)
        registry.answered([result(A, one)])
        registry.begun([(one, "a")])
        assert registry.load(A, one)[0] == "already_loaded"
        again = SkillActivationRegistry(state=registry.state)
        again.withdraw([(one, "a")])
        assert names(again) == ["a"]
        again.keep([])
        again.begun([(one, "a")])
        assert again.load(A, one)[0] == "body"
        again.withdraw([(one, "a")])
        assert names(again) == []

    def test_a_call_that_is_run_again_gets_its_body_again(self) -> None:
        """Ids that are a call's own do not come again: its first answer was lost with the program."""
        registry = SkillActivationRegistry(max_activations=1)
        registry.load(A, "toolu_1")
        registry.begun([("toolu_1", "a")])  # side by side: it is being answered
        assert names(registry) == ["a"]
        again = SkillActivationRegistry(max_activations=1, state=registry.state)
        again.begun([("toolu_2", "a"), ("toolu_1", "b")])
        assert again.load(A, "toolu_2")[0] == "already_loaded"
        again.begun([("toolu_1", "a"), ("toolu_1", "a")])
        assert again.load(A, "toolu_1")[0] == "body"


class TestRestart:
    def test_pointers_caps_and_the_warning_survive(self, caplog: pytest.LogCaptureFixture) -> None:
        before = SkillActivationRegistry(max_activations=2, warn_tokens=1)
        before.preload([D])
        loaded(before, A, B)
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(before.state), type=RegistryState)
        after = SkillActivationRegistry(max_activations=2, warn_tokens=1, state=state)
        caplog.clear()
        assert loaded(after, A, B, D) == ["already_loaded", "already_loaded", "already_preloaded"]
        with pytest.raises(ToolExecutionError, match="activation budget exhausted: 2 skills"):
            after.load(C, "x")
        after.keep([])
        assert loaded(after, C) == ["body"]
        assert caplog.records == []

    def test_a_pointer_speaks_of_what_was_loaded_not_of_what_is_on_disk(self) -> None:
        before = SkillActivationRegistry()
        loaded(before, A)
        after = SkillActivationRegistry(state=before.state)
        changed = skill("a", body="Something else.\n", source="workspace")
        given, made = after.load(changed, "x")
        assert (given, made.version, made.source) == ("already_loaded", A.version, "global")
        after.keep([Message("user", (result(A, "call-a"),))])
        assert names(after) == ["a"]

    def test_a_skill_that_is_gone_still_stands(self) -> None:
        before = SkillActivationRegistry()
        before.preload([D])
        loaded(before, A)
        after = SkillActivationRegistry(state=before.state)
        assert (after.active("a") or ("",))[0] == "already_loaded"
        assert (after.active("d") or ("",))[0] == "already_preloaded"
        assert after.active("b") is None
