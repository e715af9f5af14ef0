"""Breaks in the skills of a system text: the skills are named, and only where skills are what changed."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from holdfast.core.breaks import Finding
from holdfast.core.cures import Cure, case, cure_for, skill_owner
from holdfast.core.divergence import Divergence, What
from holdfast.core.operating_context import SECTIONS
from holdfast.core.padding import PaddingRules, SkillBody, pad
from holdfast.core.skill_texts import SkillChange, skill_change
from holdfast.facts import model
from holdfast.facts.tokens import heuristic_tokens
from tests.core.skill_sections import BASE, INDEX, PDF, ZIP, listed, section, text

OPUS = model("anthropic:claude-opus-4-6")
PERSONA = "You are a careful engineer.\nFollow the rules of the house."
NAMES = st.from_regex(r"\A[a-z0-9]{1,8}(-[a-z0-9]{1,6}){0,2}\Z")
WORDS = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r", exclude_categories=("Cs",)), min_size=1, max_size=40
)


def cured(
    before: str | None, after: str | None, what: What = "changed", section: str = "system"
) -> tuple[Cure, str | None]:
    divergence = Divergence(what=what, block=1, section=section, kept=10, behind=9_000)  # type: ignore[arg-type]
    found = Finding(
        cause="system_prompt_changed",
        reason=None,
        tokens=9_000,
        dollars=Decimal(1),
        expected=9_000,
        read=0,
        divergence=divergence,
    )

    def content(value: str | None) -> str | None:
        return None if value is None else json.dumps({"type": "text", "text": value}, ensure_ascii=False)

    told = case(found, OPUS, path="system[0]", before=content(before), after=content(after))
    cure = cure_for(told)
    return cure, skill_owner(told, cure)


@pytest.mark.parametrize(
    ("after", "name", "said"),
    [
        (BASE | {"csv": "Tables."}, "skill_added", "(added: csv)"),
        (BASE | {"zz-top": "The last."}, "skill_added", "(added: zz-top)"),
        ({"pdf": PDF}, "skill_removed", "(removed: zip)"),
        ({"zip": ZIP}, "skill_removed", "(removed: pdf)"),
        (BASE | {"pdf": "Read and write PDF files."}, "skill_changed", "(new description: pdf)"),
        (BASE | {"pdf": PDF + " "}, "skill_changed", "(new description: pdf)"),
        ({"pdf": "Other.", "csv": "Tables."}, "skill_changed", "(added: csv; removed: zip; new description: pdf)"),
        ({f"s{n}": "x" for n in range(7)} | BASE, "skill_added", "(added: s0, s1, s2 and 4 more)"),
        ({}, "skill_removed", "(removed: pdf, zip)"),
    ],
)
@pytest.mark.parametrize("behind", ["", "\n\n# House rules\n- be kind: always\n", "\n"])
def test_d39_a_change_of_the_index_names_the_skills(after: dict[str, str], name: str, said: str, behind: str) -> None:
    texts = text(PERSONA, listed(BASE)) + behind, (text(PERSONA, listed(after)) if after else PERSONA) + behind
    cure, owner = cured(*texts)
    assert (cure.name, owner) == (name, "skills-index")
    assert cure.sentence.startswith(
        f"The list of skills changed at system[0] {said} and everything behind it was lost: "
    )
    assert "between sessions" in cure.sentence
    assert ("belongs into the body" in cure.sentence) == ("description" in said)


def test_the_first_skills_of_a_prompt_are_added() -> None:
    cure, owner = cured(PERSONA, text(PERSONA, listed(BASE)))
    assert (cure.name, owner) == ("skill_added", "skills-index")
    assert "(added: pdf, zip)" in cure.sentence


@pytest.mark.parametrize(("before", "after"), [((), ("pdf",)), (("pdf",), ()), (("pdf",), ("zip",))])
def test_d39_what_is_preloaded_is_part_of_the_index(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    def whole(inlined: tuple[str, ...]) -> str:
        return text(PERSONA, listed(BASE, inlined), *(section(name, f"How to {name}.") for name in inlined))

    cure, owner = cured(whole(before), whole(after))
    assert (cure.name, owner) == ("skill_changed", "skills-index")
    for name in after:
        assert f"now preloaded: {name}" in cure.sentence
    for name in before:
        assert f"no longer preloaded: {name}" in cure.sentence


@pytest.mark.parametrize("follows", [(), SECTIONS[:3], (section("zip", "Use zip."),)])
def test_d39_a_preloaded_body_is_named_wherever_it_stands(follows: tuple[str, ...]) -> None:
    inlined = ("pdf", "zip") if follows[:1] and follows[0].startswith("# Skill") else ("pdf",)

    def whole(body: str, source: str = "global") -> str:
        return text(PERSONA, listed(BASE, inlined), section("pdf", body, source), *follows)

    for one, other in ((whole("Use a."), whole("Use b.")), (whole("Use a."), whole("Use a.", "workspace"))):
        cure, owner = cured(one, other)
        assert (cure.name, owner) == ("preloaded_skill_changed", "skill:pdf")
        assert "(changed: pdf)" in cure.sentence
        assert cure.sentence.startswith("The bodies" if follows else "What stands under the heading")


def test_the_second_of_two_bodies() -> None:
    def whole(*bodies: str) -> str:
        return text(
            PERSONA, listed(BASE, ("pdf", "zip")), section("pdf", bodies[0]), section("zip", bodies[1]), *SECTIONS
        )

    assert cured(whole("a", "b"), whole("a", "c"))[1] == "skill:zip"
    cure, owner = cured(whole("a", "b"), whole("c", "d"))
    assert owner == "skill:pdf"
    assert "(changed: pdf, zip)" in cure.sentence


def test_bodies_without_an_index_that_says_so() -> None:
    """The index may be off, or leave them out."""
    one, two = section("pdf", "Use a."), section("zip", "Use b.")
    cure, owner = cured(text(PERSONA, one, two), text(PERSONA, one))
    assert (cure.name, owner) == ("preloaded_skill_changed", "skill:zip")
    assert "(no longer preloaded: zip)" in cure.sentence
    cure, owner = cured(text(PERSONA, two), text(PERSONA, one, two))
    assert (owner, "(now preloaded: pdf)" in cure.sentence) == ("skill:pdf", True)
    assert cured(PERSONA, text(PERSONA, one))[1] == "skill:pdf"


HINT = INDEX.split("\n")[1]
OTHERS = [
    ("## Available skills\n\n- pdf: {}\n", "a list without the hint"),
    ("## Available tools\n" + HINT + "\n\n- pdf: {}\n", "another heading"),
    ("### Available skills\n" + HINT + "\n\n- pdf: {}\n", "another level"),
    ("- pdf: {}\n- zip: b\n", "a list alone"),
    ("# Skill: pdf\n\nUse {}.\n", "a heading without a source"),
    ("# Skill: PDF (source: global)\n\nUse {}.\n", "no name of a skill"),
    ("# Skill: pdf (source: the web)\n\nUse {}.\n", "no source of ours"),
    ("see # Skill: pdf (source: global)\n\nUse {}.\n", "within a line"),
    ("## Available skills\n" + HINT + "\n\n- Not A Name: {}\n", "no names in it"),
]


@pytest.mark.parametrize(("form", "why"), OTHERS, ids=[why for _, why in OTHERS])
def test_what_only_looks_like_skills_is_none(form: str, why: str) -> None:
    assert skill_change(text(PERSONA, form.format("one")), text(PERSONA, form.format("two"))) is None


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (text("You are kind.", listed(BASE)), text("You are brief.", listed(BASE)), "system_prompt_changed"),
        (text("You are kind.", listed(BASE)), text("You are brief.", listed({"pdf": PDF})), "system_prompt_changed"),
        (text(PERSONA, listed(BASE)), text(PERSONA + " Be brief.", listed(BASE)), "system_prompt_changed"),
        (
            text(PERSONA, listed(BASE)),
            text(PERSONA, "## Further rules\nBe brief.", listed(BASE)),
            "system_prompt_changed",
        ),
        (text(PERSONA, "## A rule", listed(BASE)), text(PERSONA, listed(BASE)), "system_prompt_changed"),
        (text(PERSONA, listed(BASE), "Be kind."), text(PERSONA, listed(BASE), "Be brief."), "system_prompt_changed"),
        (text(PERSONA, listed(BASE), "- a: kind"), text(PERSONA, listed(BASE), "- a: brief"), "system_prompt_changed"),
        (text(PERSONA, listed(BASE)), text(PERSONA, listed(BASE), "Be brief."), "system_prompt_changed"),
        (text(PERSONA, listed(BASE), "At 9:01."), text(PERSONA, listed(BASE), "At 9:02."), "clock"),
        (text("At 9:01.", listed(BASE)), text("At 9:02.", listed({})), "clock"),
        (text(PERSONA, listed(BASE)), text(PERSONA, "", listed(BASE)), "whitespace"),
    ],
)
def test_a_change_before_or_behind_the_skills_is_not_theirs(before: str, after: str, name: str) -> None:
    assert skill_change(before, after) is None
    cure, owner = cured(before, after)
    assert (cure.name, owner) == (name, None)


def test_what_the_host_says_behind_the_bodies() -> None:
    """Nothing marks the end of the last body, so what is told by itself is not held against it."""
    inlined = text(PERSONA, listed(BASE, ("pdf",)), section("pdf", "Use a."))
    assert cured(text(inlined, "It is 9:01."), text(inlined, "It is 9:02."))[0].name == "clock"
    assert cured(text(inlined, "It is 9:01."), text(inlined, "It is 9:02."))[1] is None
    memories = text(inlined, "# Memory\n- tea"), text(inlined, "# Memory\n- coffee")
    assert cured(*memories)[0].name == "memory_in_prefix"
    context = text(inlined, *SECTIONS[:4])
    assert skill_change(text(context, "Be kind."), text(context, "Be brief.")) is None
    assert skill_change(context, text(inlined, *SECTIONS[:5])) is None
    cure, owner = cured(text(inlined, "Be kind."), text(inlined, "Be brief."))
    assert owner == "skill:pdf"
    assert cure.sentence.startswith("What stands under the heading of a preloaded skill changed at system[0]")
    changed = text(inlined.replace("Use a.", "Use b."), "Be brief.")
    other = skill_change(
        text(inlined, section("zip", "Zip."), "Be kind."), text(changed, section("zip", "Zip."), "Be brief.")
    )
    assert other.edited == ("pdf",), "of the last body nothing is said"


def test_a_body_may_quote_the_headings() -> None:
    quoted = "Answers look like this:\n\n" + section("zip", "not a skill here")

    def whole(body: str) -> str:
        return text(PERSONA, listed(BASE, ("pdf",)), section("pdf", quoted + body), *SECTIONS)

    assert cured(whole("a"), whole("b"))[1] == "skill:pdf"
    persona = text("An index looks like this:", listed({"demo": "An example."}), "So much for that.")
    cure, owner = cured(text(persona, listed(BASE)), text(persona, listed(BASE | {"csv": "x"})))
    assert (cure.name, owner) == ("skill_added", "skills-index")
    assert "(added: csv)" in cure.sentence
    assert "(added: pdf, zip)" in cured(persona, text(persona, listed(BASE)))[0].sentence


@pytest.mark.parametrize(
    ("before", "after", "name", "said"),
    [
        ((BASE, 4), (BASE, 5), "skill_added", "(left out: 5 skills instead of 4)"),
        ((BASE, 1_200), (BASE, 7), "skill_removed", "(left out: 7 skills instead of 1200)"),
        ((BASE, 0), (BASE, 1), "skill_added", "(left out: 1 skills instead of 0)"),
        (
            (BASE, 4),
            ({"a": "First."} | {"pdf": PDF}, 5),
            "skill_added",
            "(now listed: a; no longer listed: zip; left out: 5 ",
        ),
        ((BASE, 4), ({"pdf": PDF, "csv": "x"}, 4), "skill_changed", "(now listed: csv; no longer listed: zip)"),
        ((BASE, 4), (BASE | {"pdf": "New."}, 4), "skill_changed", "(new description: pdf)"),
    ],
)
def test_a_limited_index(
    before: tuple[dict[str, str], int], after: tuple[dict[str, str], int], name: str, said: str
) -> None:
    cure, owner = cured(
        text(PERSONA, listed(*before[:1], beyond=before[1])), text(PERSONA, listed(after[0], beyond=after[1]))
    )
    assert (cure.name, owner) == (name, "skills-index")
    assert said in cure.sentence
    if before[0] == after[0]:
        assert "added or removed beyond `skills.index_chars`" in cure.sentence


def test_a_block_that_came_or_went_as_a_whole() -> None:
    index = listed(BASE)
    assert "(added: pdf, zip)" in cured(None, index, "inserted")[0].sentence
    assert "(added: pdf, zip)" in cured("Rules.", index, "inserted")[0].sentence
    assert "(removed: pdf, zip)" in cured(index, "Rules.", "removed")[0].sentence
    assert cured("Rules.", index, "removed")[1] is None, "the rules went"
    assert cured(index, "Rules.", "inserted")[1] is None, "the rules came"
    assert cured("Rules.", index)[1] is None
    assert cured(index, "Rules.", "reordered")[1] is None
    assert cured(index, listed({}) + "- a: b", section="messages")[1] is None


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    before=st.dictionaries(NAMES, WORDS, min_size=1, max_size=12),
    gone=st.sets(st.integers(0, 11)),
    came=st.dictionaries(NAMES, WORDS, max_size=4),
    told=st.dictionaries(st.integers(0, 11), WORDS, max_size=4),
    inlined=st.tuples(st.sets(st.integers(0, 15)), st.sets(st.integers(0, 15))),
    around=st.tuples(WORDS, st.sampled_from(["", "\n", "\n\nBehind it.", "\n\n- a: list\n"])),
)
@example({"a": "x"}, {0}, {}, {}, (set(), set()), ("P", ""))
def test_d39_exactly_the_skills_that_differ_are_named(
    before: dict[str, str],
    gone: set[int],
    came: dict[str, str],
    told: dict[int, str],
    inlined: tuple[set[int], set[int]],
    around: tuple[str, str],
) -> None:
    after = {name: told.get(n, text) for n, (name, text) in enumerate(before.items()) if n not in gone} | came
    loaded = [
        {name for n, name in enumerate(sorted(each)) if n in which}
        for each, which in zip((before, after), inlined, strict=True)
    ]
    texts = []
    for skills, which in zip((before, after), loaded, strict=True):
        index = [listed(skills, tuple(which))] if skills else []
        bodies = [section(name, f"Body of {name}.") for name in sorted(which)]
        texts.append(text(around[0], *index, *bodies, "Behind them.") + around[1])
    found = skill_change(*texts) or SkillChange()
    assert set(found.added) == after.keys() - before.keys()
    assert set(found.removed) == before.keys() - after.keys()
    both = before.keys() & after.keys()
    assert set(found.described) == {name for name in both if before[name] != after[name]}
    assert set(found.preloaded) == {name for name in both if name in loaded[1] - loaded[0]}
    assert set(found.unloaded) == {name for name in both if name in loaded[0] - loaded[1]}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    bodies=st.dictionaries(NAMES, WORDS, min_size=1, max_size=6),
    edits=st.dictionaries(st.integers(0, 5), WORDS, min_size=1, max_size=3),
)
def test_exactly_the_preloaded_bodies_that_differ_are_named(bodies: dict[str, str], edits: dict[int, str]) -> None:
    """With the padding that really puts them in."""
    after = {name: edits.get(n, body) for n, (name, body) in enumerate(bodies.items())}
    assume(all(len(one) == len(two) for one, two in zip(bodies.values(), after.values(), strict=True)))
    stable = text(PERSONA, listed(dict.fromkeys(bodies, "It helps."), tuple(bodies)))
    texts = []
    for each in (bodies, after):
        padded = pad(
            (),
            stable,
            [SkillBody(name, "global", body) for name, body in each.items()],
            [OPUS],
            PaddingRules(mode="always", count=heuristic_tokens),
        )
        assert set(padded.inlined) == set(bodies)
        texts.append(padded.text)
    found = skill_change(*texts) or SkillChange()
    assert set(found.edited) == {name for name in bodies if bodies[name] != after[name]}
    assert found.names == found.edited


@given(st.text(max_size=200), st.text(max_size=200), st.integers(0, 3))
def test_any_texts(one: str, two: str, form: int) -> None:
    """Whatever stands in a prompt: an answer, and names that are names."""
    shape = [listed(BASE, ("pdf",)), section("pdf", ""), INDEX, ""][form]
    for pair in ((one + shape + two, two), (shape + one, shape + two), (one + shape, two + shape)):
        found = skill_change(*pair)
        assert found is None or set(found.names) <= {"pdf", "zip"} or form < 3
        assert cured(*pair)[0].sentence


def test_names_are_bounded() -> None:
    long = "a" * 64
    assert skill_change(text(PERSONA, listed({long: "x"})), text(PERSONA, listed({long: "y"}))) is not None
    assert skill_change(text(PERSONA, listed({long + "a": "x"})), text(PERSONA, listed({long + "a": "y"}))) is None
    assert skill_change(text(PERSONA, listed({"a--b": "x"})), text(PERSONA, listed({"a--b": "y"}))) is None
    everything = {f"{'x' * 60}{n:04}": "d" for n in range(1_000)}
    cure, _ = cured(text(PERSONA, listed(everything)), text(PERSONA, listed(dict.fromkeys(everything, "e"))))
    assert "and 997 more" in cure.sentence
    assert len(cure.sentence) < 1_000
