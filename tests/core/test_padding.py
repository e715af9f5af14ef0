"""Padding: both bounds from both sides, whole parts only, and the economic mode by rule 5.6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import facts
from holdfast.core.operating_context import SECTIONS
from holdfast.core.padding import PRELOADED, Outlook, PaddedText, PaddingRules, SkillBody, floor_of, pad, split_sections
from holdfast.facts import ModelFacts, estimate
from tests.core.rules import calls_to_pad

HAIKU = facts.model("anthropic:claude-haiku-4-5")
OPUS = facts.model("anthropic:claude-opus-5-5")


def chars(tokens: int) -> str:
    """A text of so many heuristic tokens."""
    return "word" * tokens


def prose(tokens: int) -> str:
    """A text of about so many real tokens, a little fewer."""
    text = "The loader reads every record of the file. " * (tokens // 10)
    while estimate(text) < tokens - 10:
        text += "The loader reads every record of the file. "
    return text


def skill(name: str, tokens: int) -> SkillBody:
    """A skill whose whole section has so many heuristic tokens, with the empty line before it."""
    heading = len(SkillBody(name, "global", "").section) + len("\n\n")
    return SkillBody(name, "global", "x" * (tokens * 4 - heading))


def always(
    stable: str,
    bodies: Sequence[SkillBody],
    *,
    tools: Sequence[str] = (),
    models: Sequence[ModelFacts] = (),
    **rules: Any,
) -> PaddedText:
    return pad(tools, stable, bodies, models, PaddingRules(mode="always", **rules))


def economic(stable: str, bodies: Sequence[SkillBody], calls: float) -> PaddedText:
    """Filled with skill bodies alone."""
    rules = PaddingRules(mode="economic", sections=(), outlook=Outlook(calls=calls))
    return pad([], stable, bodies, [HAIKU], rules)


class TestAlways:
    def test_at_the_minimum_nothing_is_added_one_token_below_it_is(self) -> None:
        skills = [skill("a", 100)]
        above = always(chars(4_500), skills)
        assert (above.text, above.added, above.inlined) == (chars(4_500), "", ())
        below = always(chars(4_499), skills)
        assert below.inlined == ("a",)
        assert below.text == chars(4_499) + "\n\n" + skills[0].section

    def test_tools_count_towards_it(self) -> None:
        assert not always(chars(2_000), [], tools=[chars(2_000), chars(500)]).added
        assert always(chars(2_000), [], tools=[chars(2_000), chars(499)]).added

    def test_a_body_may_reach_the_upper_bound_and_not_pass_it(self) -> None:
        said = len(PRELOADED) // 4
        fits = always(chars(4_000), [skill("a", 1_500 - said)])
        assert fits.inlined == ("a",)
        assert (len(fits.text) + len(PRELOADED)) // 4 == 5_500
        over = always(chars(4_000), [skill("a", 1_501 - said)])
        assert over.inlined == ()
        assert "# Skill" not in over.text

    def test_a_body_too_large_is_skipped_for_the_next(self) -> None:
        bodies = [skill("a", 4_000), skill("b", 400), skill("c", 9_000), skill("d", 200)]
        found = always(chars(4_000), bodies)
        assert found.inlined == ("b", "d")
        assert all(body.section in found.text for body in bodies if body.name in found.inlined)

    def test_bodies_come_by_name_and_stop_at_the_minimum(self) -> None:
        bodies = [skill("c", 2_000), skill("a", 2_000), skill("b", 2_000)]
        found = always(chars(600), bodies)
        assert found.inlined == ("a", "b")
        assert found.added == bodies[1].section + "\n\n" + bodies[2].section

    def test_the_operating_context_fills_what_the_bodies_leave(self) -> None:
        found = always(chars(100), [skill("a", 1_000)])
        assert found.inlined == ("a",)
        rest = found.added.removeprefix(skill("a", 1_000).section + "\n\n")
        assert "\n\n".join(SECTIONS).startswith(rest)
        assert rest.rpartition("## ")[2] in SECTIONS[rest.count("\n## ")]
        assert 4_500 <= len(found.text) // 4 <= 5_500

    def test_other_bounds(self) -> None:
        found = always("Be brief.", [], min_tokens=500, max_tokens=600)
        assert 500 <= len(found.text) // 4 <= 600
        narrow = always("Be brief.", [], min_tokens=500, max_tokens=501)
        assert len(narrow.text) // 4 <= 501
        assert "upper bound of 501" in narrow.why

    def test_the_floor_of_a_model_may_ask_for_more_than_the_minimum(self) -> None:
        """The minimum is characters; a text with few tokens per character clears it and not the floor."""
        long_words = ("characteristically uncharacteristic " * 600)[:18_400]
        assert len(long_words) // 4 >= 4_500
        assert estimate(long_words) < HAIKU.floor
        assert not always(long_words, [], models=[OPUS]).added
        found = always(long_words, [], models=[OPUS, HAIKU])
        assert found.added
        assert len(found.text) // 4 <= 5_500

    def test_the_upper_bound_holds_where_the_floor_is_out_of_reach(self) -> None:
        found = always(chars(5_400), [], models=[HAIKU], count=lambda text: len(text) // 8)
        assert len(found.text) // 4 <= 5_500
        assert "upper bound" in found.why

    @pytest.mark.parametrize("tokens", [0, 1, 265, 1_500, 3_000, 4_490])
    def test_without_skills_the_floor_is_cleared_from_anywhere(self, tokens: int) -> None:
        found = always(chars(tokens), [], models=[HAIKU])
        assert 4_500 <= len(found.text) // 4 <= 5_500
        assert estimate(found.text) >= HAIKU.floor


class TestEconomic:
    def calls(self, natural: int, padded: int, model: ModelFacts = HAIKU) -> float:
        return calls_to_pad(natural, padded, float(model.read), float(model.write()))

    def test_it_pads_on_one_side_of_rule_5_6_and_not_on_the_other(self) -> None:
        stable, body = prose(2_000), SkillBody("a", "global", prose(2_350))
        text = f"{stable}\n\n{body.section}"
        assert HAIKU.floor * 1.05 <= estimate(text) < 4_400
        needed = self.calls(estimate(stable), estimate(text))
        assert 2 < needed < 4
        enough = economic(stable, [body], calls=needed + 0.01)
        assert (enough.text, enough.inlined) == (text, ("a",))
        short = economic(stable, [body], calls=needed - 0.01)
        assert (short.text, short.inlined) == (stable, ())

    def test_far_below_the_floor_no_number_of_calls_pays(self) -> None:
        found = economic(prose(265), [SkillBody("a", "g", prose(4_000))], calls=1e6)
        assert found.inlined == ()
        assert "rule 5.6" in found.why

    def test_above_the_floor_nothing_is_added(self) -> None:
        found = pad(
            [prose(4_000)],
            prose(300),
            [skill("a", 100)],
            [HAIKU],
            PaddingRules(mode="economic", sections=(), outlook=Outlook(calls=100)),
        )
        assert found.text == prose(300)
        assert "at or above the floor" in found.why

    def test_a_body_so_large_that_it_costs_more_than_it_brings_is_skipped(self) -> None:
        bodies = [SkillBody("a", "g", prose(30_000)), SkillBody("b", "g", prose(2_500))]
        found = economic(prose(2_000), bodies, calls=10)
        assert found.inlined == ("b",)

    def test_it_aims_a_twentieth_above_the_floor(self) -> None:
        """An estimate just above the floor may be just below it for the provider."""
        stable = prose(2_000)
        for tokens, inlined in ((4_296 - estimate(stable), ()), (4_350 - estimate(stable), ("a",))):
            body = SkillBody("a", "g", "the " * (tokens - 10))
            assert economic(stable, [body], calls=100).inlined == inlined

    def test_bodies_that_do_not_reach_the_floor_are_not_paid_for(self) -> None:
        found = economic(prose(2_000), [SkillBody("a", "g", prose(500))], calls=10)
        assert (found.text, found.inlined) == (prose(2_000), ())

    def test_the_fixed_text_fills_what_bodies_leave(self) -> None:
        stable, body = prose(2_000), SkillBody("a", "g", prose(1_000))
        found = pad([], stable, [body], [HAIKU], PaddingRules(mode="economic", outlook=Outlook(calls=100)))
        assert found.inlined == ("a",)
        rest = found.added.removeprefix(body.section + "\n\n")
        assert rest
        assert "\n\n".join(SECTIONS).startswith(rest)
        assert HAIKU.floor * 1.05 <= estimate(found.text) < HAIKU.floor * 1.15

    def test_the_model_that_the_session_begins_with_decides(self) -> None:
        """One that is hardly ever asked does not make every request longer."""
        outlook = Outlook(calls=100)
        assert not pad([], prose(3_000), [], [OPUS, HAIKU], PaddingRules(mode="economic", outlook=outlook)).added
        assert pad([], prose(3_000), [], [HAIKU, OPUS], PaddingRules(mode="economic", outlook=outlook)).added

    def test_a_conversation_that_soon_passes_the_floor_itself_is_not_padded(self) -> None:
        slow, fast = Outlook(calls=20, growth=(50.0,)), Outlook(calls=20, growth=(2_500.0,))
        assert pad([], prose(3_000), [], [HAIKU], PaddingRules(mode="economic", outlook=slow)).added
        assert not pad([], prose(3_000), [], [HAIKU], PaddingRules(mode="economic", outlook=fast)).added
        opening = Outlook(calls=20, growth=(50.0,), opening=1_500)
        assert not pad([], prose(3_000), [], [HAIKU], PaddingRules(mode="economic", outlook=opening)).added

    def test_where_no_marker_is_set_nothing_is_added(self) -> None:
        outlook = Outlook(calls=100, unmarked=True)
        found = pad([], prose(3_000), [], [HAIKU], PaddingRules(mode="economic", outlook=outlook))
        assert not found.added
        assert "no marker is set" in found.why


class TestSections:
    def test_paragraphs_are_parts_and_headings_stay_with_what_follows(self) -> None:
        text = "# A title\n\n## Part one\n\nSome words.\n\nMore words.\r\n\n\n## Part two\nAt once.\n"
        assert split_sections(text) == (
            "# A title\n\n## Part one\n\nSome words.",
            "More words.",
            "## Part two\nAt once.",
        )

    def test_an_empty_line_in_a_fence_parts_nothing(self) -> None:
        assert split_sections("```\na\n\nb\n```\n\nlast") == ("```\na\n\nb\n```", "last")
        assert split_sections(" \n\n") == ()


def test_off_adds_nothing() -> None:
    found = pad([], "Be brief.", [skill("a", 100)], [HAIKU], PaddingRules(mode="off", outlook=Outlook(calls=100)))
    assert (found.text, found.added, found.inlined) == ("Be brief.", "", ())


class TestFloor:
    def test_it_is_the_highest_of_those_that_cache(self) -> None:
        plain = facts.model("nobody:knows-this")
        assert plain.caching == "none"
        assert floor_of([OPUS, HAIKU, plain]) == 4_096
        assert floor_of([OPUS]) == 512
        assert floor_of([plain]) == 0
        assert floor_of([]) == 0


class TestOperatingContext:
    def test_every_section_has_a_title_and_ends_with_a_sentence(self) -> None:
        titles = [section.partition("\n\n")[0] for section in SECTIONS]
        assert len(set(titles)) == len(titles)
        assert all(title.startswith("#") for title in titles)
        assert all(section.endswith(".") for section in SECTIONS)

    def test_no_section_is_wider_than_the_room_between_the_bounds(self) -> None:
        assert max(map(len, SECTIONS)) + 2 <= (5_500 - 4_500) * 4
