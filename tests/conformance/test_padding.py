"""Seed context-assembler §5.1: the minimum cacheable prefix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import padding as padding_benchmark
from holdfast import facts
from holdfast.config import KEYS
from holdfast.core import operating_context, padding
from holdfast.core.padding import Outlook, PaddedText, PaddingRules, SkillBody, floor_of, pad
from holdfast.facts import heuristic_tokens
from holdfast.records import Message, Request, Text, ToolDefinition
from holdfast.simulator import HttpRequest
from holdfast.simulator.clock import VirtualClock
from holdfast.simulator.provider import Simulator
from tests.wire.marked_bodies import marked

HAIKU = facts.model("anthropic:claude-haiku-4-5")
PERSONA = "You are a careful engineer. Use the tools you have, and say what you did."
SCHEMA = b'{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'
NAMES = ("read_file", "write_file", "list_dir", "grep_files", "run_command")
TOOLS = tuple(ToolDefinition(name, f"The tool {name} of this workspace.", SCHEMA) for name in NAMES)
TOOL_TEXTS = [json.dumps({"name": t.name, "description": t.description}) + SCHEMA.decode() for t in TOOLS]
SKILLS = [SkillBody("pdf", "global", "Fill forms. " * 300), SkillBody("docs", "workspace", "Write documents. " * 250)]


def always(stable: str = PERSONA, skills: list[SkillBody] | None = None, **changes: Any) -> PaddedText:
    return pad(TOOL_TEXTS, stable, skills or [], [HAIKU], PaddingRules(mode="always", **changes))


def size(text: str) -> int:
    """A38, A42: tools and stable text together, four characters to a token."""
    return heuristic_tokens("".join(TOOL_TEXTS) + text)


def reads(system: str, model: str = "claude-haiku-4-5", turns: int = 2) -> list[int]:
    """What each turn of a short conversation reads from the cache, by the two breakpoints of §3."""
    simulator = Simulator(clock=VirtualClock())
    found = []
    for turn in range(turns):
        messages = tuple(
            Message(role, (Text(f"{role} {number}"),)) for number in range(turn) for role in ("user", "assistant")
        )
        request = Request(
            model=f"anthropic:{model}",
            tools=TOOLS,
            system_prompt=system,
            messages=(*messages, Message("user", (Text("go on"),))),
            output_limit=100,
        )
        headers = {"x-api-key": "one", "anthropic-version": "2023-06-01"}
        body = marked(request)
        answer = simulator.answer(HttpRequest("POST", "/v1/messages", headers, {}, body))
        assert answer.status == 200, answer.body
        found.append(json.loads(answer.body)["usage"]["cache_read_input_tokens"])
    return found


def test_5_1_the_target_is_the_effective_floor() -> None:
    """A35: 3,320 tokens were not cached in the probe, 4,957 were; the padded prefix is on the right side."""
    assert 3_320 < floor_of([HAIKU]) <= 4_957
    assert facts.estimate_blocks([*TOOL_TEXTS, always().text]) >= HAIKU.floor


def test_5_1_the_floor_of_any_model_the_session_may_be_routed_to() -> None:
    """A37."""
    models = [facts.model(f"anthropic:claude-{name}") for name in ("opus-5-5", "opus-4-7", "haiku-4-5", "sonnet-5")]
    assert floor_of(models) == 4_096
    assert floor_of(models[:2]) == 2_048


def test_5_1_the_estimate_is_of_tools_and_stable_prompt() -> None:
    """A38: the same text needs padding without its tools and none with them."""
    tools = ["x" * 4_000]
    stable = "word " * 3_000
    assert not pad([*tools, *TOOL_TEXTS], stable, [], [], PaddingRules(mode="always", min_tokens=4_000)).added
    assert pad([], stable, [], [], PaddingRules(mode="always", min_tokens=4_000)).added


def test_5_1_below_the_minimum_padding_is_appended_until_it_clears() -> None:
    """A39: appended, bounded, and no further than needed."""
    padded = always()
    assert padded.text.startswith(PERSONA + "\n\n")
    assert 4_500 <= size(padded.text) <= 5_500
    shorter = padded.text[: padded.text.rindex("\n\n## ")]
    target = HAIKU.floor + HAIKU.floor // padding.MARGIN
    assert size(shorter) < 4_500 or facts.estimate_blocks([*TOOL_TEXTS, shorter]) < target


@pytest.mark.parametrize("tokens", range(0, 4_500, 321))
def test_5_1_padding_stops_before_the_upper_bound(tokens: int) -> None:
    """A40."""
    skills = [SkillBody(f"s{number}", "global", "y" * 4 * 700) for number in range(9)]
    assert size(always("x" * 4 * tokens, skills).text) <= 5_500


def test_5_1_the_bounds_are_settings() -> None:
    """A41."""
    assert KEYS["cache.padding_min"].default == padding.MIN_TOKENS == 4_500
    assert KEYS["cache.padding_max"].default == padding.MAX_TOKENS == 5_500
    assert 1_000 <= size(pad(TOOL_TEXTS, PERSONA, [], [], PaddingRules(mode="always", min_tokens=1_000)).text) < 1_500


def test_5_1_the_bounds_are_counted_in_four_characters() -> None:
    """A42: what the characters mean does not matter."""
    dense, sparse = "8" * 18_000, "word" * 4_500
    assert facts.estimate(dense) != facts.estimate(sparse)
    for text in (dense, sparse):
        assert not pad([], text, [], [], PaddingRules(mode="always")).added
        assert pad([], text[:-1], [], [], PaddingRules(mode="always")).added


def test_5_1_skill_bodies_come_first_in_name_order() -> None:
    """A43."""
    padded = always(skills=SKILLS)
    assert padded.inlined == ("docs", "pdf")
    places = [padded.text.index(f"# Skill: {name} ") for name in padded.inlined]
    assert places == sorted(places)
    assert places[-1] < padded.text.index(operating_context.SECTIONS[0])


def test_5_1_each_inlined_body_has_its_heading() -> None:
    """A44."""
    assert f"\n\n# Skill: pdf (source: global)\n\n{SKILLS[0].text}" in always(skills=SKILLS).text


def test_5_1_bodies_are_inlined_only_when_padding_is_required() -> None:
    """A45."""
    assert always("x" * 18_000 + PERSONA * 60, SKILLS).inlined == ()


def test_5_1_the_static_text_clears_the_floor_alone() -> None:
    """A46: without any skill and any prompt."""
    alone = pad([], "", [], [HAIKU], PaddingRules(mode="always"))
    assert "\n\n".join(operating_context.SECTIONS).startswith(alone.text)
    assert 4_500 <= heuristic_tokens(alone.text) <= 5_500
    for topic in ("tool", "Naming", "Errors", "Style"):
        assert any(topic in section.partition("\n")[0] for section in operating_context.SECTIONS), topic


def test_5_1_padding_is_byte_identical_within_the_session() -> None:
    """A47: whatever the order in which skills were found, and however often it is asked."""
    first = always(skills=SKILLS)
    assert always(skills=SKILLS[::-1]) == first
    assert always(skills=list(SKILLS)) == first


def test_5_1_padding_comes_from_constants_and_sorted_values() -> None:
    """A48."""
    assert isinstance(operating_context.SECTIONS, tuple)
    padded = always(skills=SKILLS)
    left = padded.added
    for part in (*(skill.section for skill in SKILLS), *operating_context.SECTIONS):
        left = left.replace(part, "")
    assert left.strip() == ""


def test_5_1_a_custom_prompt_above_the_floor_is_left_alone() -> None:
    """A49: the rule runs and is a floor, not a ceiling."""
    for own in ("word " * 4_200, "word " * 40_000):
        padded = always(own, SKILLS)
        assert (padded.text, padded.inlined) == (own, ())


@pytest.mark.parametrize(("natural", "pays"), [(1_500, True), (2_000, True), (265, False)])
def test_5_1_the_break_even_depends_on_the_natural_size(natural: int, pays: bool) -> None:
    """A50, A52: close below the floor it pays soon, far below never; the economic mode leaves the second out."""
    body = SkillBody("pdf", "global", "the " * (4_350 - natural))
    padded = pad([], "the " * natural, [body], [HAIKU], PaddingRules(mode="economic", outlook=Outlook(calls=8)))
    assert bool(padded.added) is pays


@pytest.mark.parametrize("natural", [265, 2_000])
def test_5_1_the_seed_mode_pads_in_both_cases(natural: int) -> None:
    """A51."""
    assert always("the " * natural).added


def test_5_1_observable_on_the_second_turn_of_a_plain_session() -> None:
    """A36, A53: the natural prompt, no skills, haiku. Without padding the markers do nothing."""
    assert reads(PERSONA) == [0, 0]
    first, second = reads(always().text)
    assert first == 0
    assert second >= HAIKU.floor


def test_5_1_the_cost_of_short_workloads_is_reported_with_and_without_padding() -> None:
    told = {result.name: result.value for result in padding_benchmark.run(quick=True)}
    for workload in ("fix-a-bug-small", "write-a-doc-from-notes", "multi-turn-refactor"):
        assert told[f"{workload}, padding off, two-point"] == 1
        assert told[f"{workload}, padding always, two-point"] > 1  # far below the floor it does not pay
        assert told[f"{workload}, padding economic, two-point"] == 1
