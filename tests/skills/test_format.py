"""A SKILL.md as it is read: fences, YAML, the six fields, the body."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import yaml

from holdfast.skills import frontmatter
from holdfast.skills.skill import Skill, SkillValidationError
from holdfast.skills.skill_file import read_skill
from tests.skills.skill_files import skill_text

PDF = Path("/skills/pdf")


def read(text: str, skill_dir: Path = PDF) -> Skill:
    return read_skill(text, skill_dir=skill_dir, source="global")


def errors(text: str, skill_dir: Path = PDF) -> tuple[str, ...]:
    with pytest.raises(SkillValidationError) as caught:
        read(text, skill_dir)
    return caught.value.errors


def front(fields: str, body: str = "Do it.\n") -> str:
    return f"---\n{fields}\n---\n{body}"


def test_d27_a_valid_skill_round_trips_all_six_fields() -> None:
    skill = read(
        skill_text(
            name="pdf",
            description="Fills forms. Use for PDFs.",
            license="Apache-2.0",
            compatibility="Needs poppler",
            metadata={"author": "me", "version": "1.0"},
            allowed_tools="Bash(git:*) Read",
            body="# PDF\n\nDo it.\n",
        )
    )
    assert skill == Skill(
        name="pdf",
        description="Fills forms. Use for PDFs.",
        body="# PDF\n\nDo it.\n",
        source="global",
        skill_dir=PDF,
        license="Apache-2.0",
        compatibility="Needs poppler",
        metadata={"author": "me", "version": "1.0"},
        allowed_tools=("Bash(git:*)", "Read"),
    )


def test_d27_optional_fields_may_be_missing_and_a_skill_is_frozen() -> None:
    skill = read(front("name: pdf\ndescription: d"))
    assert (skill.license, skill.compatibility, skill.metadata, skill.allowed_tools) == (None, None, None, ())
    assert set(Skill.__struct_fields__) == {
        "name", "description", "body", "source", "skill_dir", "license", "compatibility", "metadata", "allowed_tools",
    }  # fmt: skip
    with pytest.raises(AttributeError):
        skill.body = "other"  # type: ignore[misc]
    kept = read(front("name: pdf\ndescription: d\nmetadata: {v: 1}")).metadata
    with pytest.raises(TypeError):
        kept["v"] = "2"  # type: ignore[index]


def test_d10_allowed_tools_become_a_tuple() -> None:
    skill = read(front("name: pdf\ndescription: d\nallowed-tools: '  Bash(jq:*)   Read '"))
    assert skill.allowed_tools == ("Bash(jq:*)", "Read")


def test_d28_version_is_the_beginning_of_the_hash_of_the_body() -> None:
    skill = read(front("name: pdf\ndescription: d", "Grüße\n"))
    assert skill.version == sha256("Grüße\n".encode()).hexdigest()[:16]
    assert skill.version == read(front("name: pdf\ndescription: other\nlicense: MIT", "Grüße\n")).version
    assert skill.version != read(front("name: pdf\ndescription: d", "Grüße!\n")).version


@pytest.mark.parametrize(("length", "tokens"), [(0, 1), (3, 1), (4, 1), (8, 2), (20_000, 5_000), (20_004, 5_001)])
def test_d29_four_characters_are_a_token_and_there_is_at_least_one(length: int, tokens: int) -> None:
    skill = read(front("name: pdf\ndescription: d", "x" * length))
    assert skill.estimated_body_tokens == tokens
    assert skill.over_body_token_warn is (tokens > 5_000)


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: pdf\ndescription: d\n---\nbody",
        "---\nname: pdf\ndescription: d\n---\n\n\n\nbody",
        "\ufeff---\nname: pdf\ndescription: d\n---\nbody",
        "---\r\nname: pdf\r\ndescription: d\r\n---\r\n\r\nbody",
        "---\rname: pdf\rdescription: d\r---\rbody",
        "\ufeff---\r\nname: pdf\r\ndescription: d\r\n---\r\nbody",
    ],
)
def test_d16_d17_line_ends_and_byte_order_marks_do_not_matter(text: str) -> None:
    skill = read(text)
    assert (skill.name, skill.description, skill.body) == ("pdf", "d", "body")


def test_d17_only_leading_newlines_are_stripped() -> None:
    assert read("---\nname: pdf\ndescription: d\n---\n\n\n  indented\n\n").body == "  indented\n\n"


def test_d16_a_closing_fence_at_the_very_end_is_one() -> None:
    assert read("---\nname: pdf\ndescription: d\n---").body == ""


def test_d16_the_next_fence_closes_and_later_ones_belong_to_the_body() -> None:
    assert read("---\nname: pdf\ndescription: d\n---\na\n---\nb\n---\n").body == "a\n---\nb\n---\n"


def test_d16_hyphens_inside_a_value_close_nothing() -> None:
    skill = read("---\nname: pdf\ndescription: |\n  a\n  ---\n  b --- c\n---\nbody")
    assert skill.description == "a\n---\nb --- c"


@pytest.mark.parametrize("opening", ["", "name: pdf\n", "---foo\n", "--- \n", "----\n", " ---\n", "\n---\n", "-- -\n"])
def test_d18_what_is_no_opening_fence(opening: str) -> None:
    found = errors(f"{opening}name: pdf\ndescription: d\n---\nbody")
    assert len(found) == 1
    assert "the first line must be `---`" in found[0]


@pytest.mark.parametrize("closing", ["", "---foo\n", "--- \n", "----\n", " ---\n", "...\n"])
def test_d18_what_is_no_closing_fence(closing: str) -> None:
    (found,) = errors(f"---\nname: pdf\ndescription: d\n{closing}body")
    assert found.startswith("the frontmatter is not closed by a line `---`")


@pytest.mark.parametrize("text", ["---\n---\nbody", "---\n---"])
def test_d18_fences_with_nothing_between_them_hold_no_fields(text: str) -> None:
    assert errors(text) == ("the frontmatter has no fields; it needs `name` and `description`",)


def test_a_fence_with_a_space_behind_it_is_pointed_out() -> None:
    with pytest.raises(SkillValidationError) as caught:
        read("---\nname: pdf\ndescription: d\n--- \nbody")
    (problem,) = caught.value.problems
    assert problem.line == 4
    assert "line 4 has spaces" in problem.message


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "---", "---\n"])
def test_d18_nothing_is_no_skill(text: str) -> None:
    assert len(errors(text)) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("", "no fields"),
        ("# only a comment", "no fields"),
        ("null", "a single value"),
        ("- name\n- description", "a list"),
        ("just words", "a single value"),
        ("[name, description]", "a list"),
    ],
)
def test_d18_what_is_not_fields_is_refused(fields: str, words: str) -> None:
    (found,) = errors(front(fields))
    assert words in found


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ("name: pdf\ndescription: a: b", 3),
        ("name: pdf\ndescription: 'open\nlicense: MIT", 3),
        ("name: pdf\n\tdescription: d", 3),
        ("name: [pdf", 2),
        ("name: pdf\ndescription: *nobody", 3),
        ("name: pdf\nlicense: \x07\ndescription: d", 3),
        ("name: pdf\ndescription: é\nlicense: \x01", 4),
        ("name: pdf\ndescription: d\n--- second", 4),
    ],
)
def test_d18_malformed_yaml_is_refused_with_its_line(fields: str, line: int) -> None:
    with pytest.raises(SkillValidationError) as caught:
        read(front(fields))
    (problem,) = caught.value.problems
    assert problem.line == line
    assert "YAML" in problem.message


def test_lines_are_those_that_an_editor_shows() -> None:
    # YAML takes U+2028 and U+0085 for line breaks; editors do not.
    with pytest.raises(SkillValidationError) as caught:
        read("---\r\nx: 'a\u2028b\u0085c'\r\nname: 1\r\ndescription: d\r\n---\r\n")
    assert [problem.line for problem in caught.value.problems] == [3]


def test_d19_nothing_in_the_file_becomes_an_object() -> None:
    (found,) = errors(front("name: pdf\ndescription: d\nx: !!python/object/apply:os.system ['exit 1']"))
    assert "tag" in found
    (found,) = errors(front("name: pdf\ndescription: !Mine d"))
    assert "!Mine" in found


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if not hasattr(yaml, request.param):
        pytest.skip(f"PyYAML has no {request.param} here")
    monkeypatch.setattr(frontmatter, "_LOADER", getattr(yaml, request.param))
    return request.param


@pytest.mark.parametrize(
    "fields",
    [
        "[" * 100_000,
        "x: " + "[" * 100_000,
        "{a: " * 30_000,
        "- " * 100_000,
        "? " * 100_000,
        "[" * 20_000 + "]" * 20_000,
        "\n".join(" " * depth + "a:" for depth in range(300)),
    ],
    ids=["brackets", "value", "braces", "dashes", "marks", "closed", "indented"],
)
def test_deep_nesting_is_refused(fields: str, loader: str) -> None:
    (found,) = errors(front(fields))
    assert found == "the frontmatter is nested too deeply; flatten it"


def test_masses_of_values_are_refused(loader: str) -> None:
    (found,) = errors(front("x: [" + "a," * 30_000 + "]"))
    assert found == "the frontmatter has too many values; shorten it"


@pytest.mark.parametrize("end", ["\n", "\x85", "\u2028"])
def test_masses_of_directives_are_refused(loader: str, end: str) -> None:
    # libyaml compares each with all before it: a file of a million bytes would take ten seconds.
    (found,) = errors(front("".join(f"%TAG !a{number}! !{end}" for number in range(200))))
    assert found == "the frontmatter has too many lines that begin with `%`; remove them"


def test_aliases_that_multiply_do_no_harm(loader: str) -> None:
    names = "abcdefghijklmnopqrst"
    lists = [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise(names)]
    merges = [f"{b}: &{b} {{<<: [{', '.join([f'*{a}'] * 9)}]}}" for a, b in pairwise(names)]
    for bomb in (["a: &a [x, x]", *lists], ["a: &a {x: y}", *merges]):
        assert read(front("\n".join(["name: pdf", "description: d", *bomb]))).name == "pdf"
    assert (
        "must be text, not a list" in errors(front("\n".join(["a: &a [x]", *lists, "name: *t", "description: d"])))[0]
    )


def test_aliases_that_lead_back_to_themselves_do_no_harm(loader: str) -> None:
    assert read(front("name: pdf\ndescription: d\nx: &x [*x]")).name == "pdf"
    assert errors(front("&a {name: pdf, description: d, metadata: *a}")) == (
        "`metadata.metadata` must be text, not a mapping",
    )


def test_values_that_yaml_cannot_make_do_no_harm(loader: str) -> None:
    # An impossible date and a number of more digits than Python converts: both are only ever text.
    skill = read(front(f"name: pdf\ndescription: d\nx: 2024-13-45\nmetadata: {{date: 2024-13-45, n: {'9' * 5_000}}}"))
    assert skill.metadata == {"date": "2024-13-45", "n": "9" * 5_000}


def test_half_of_a_character_is_refused(loader: str) -> None:
    # The two parsers refuse it at different places; neither lets it through.
    assert errors(front('name: pdf\ndescription: "\\ud800"'))
    assert errors(front("name: pdf\ndescription: '\ud800'"))
    assert errors(front('name: pdf\ndescription: d\nmetadata: {"\\udfff": x}'))


def test_a_valid_skill_is_the_same_to_both_parsers(loader: str) -> None:
    skill = read(front("name: pdf\ndescription: >\n  a\n  b\nlicense: &l MIT\ncompatibility: *l\nmetadata: {v: 1.10}"))
    assert (skill.description, skill.license, skill.compatibility, skill.metadata) == (
        "a b",
        "MIT",
        "MIT",
        {"v": "1.10"},
    )


def test_a_skill_can_be_read_from_its_own_text_again() -> None:
    skill = read(front("name: pdf\ndescription: 'a: b'\nmetadata: {v: 1.0, t: true}", "x\n"))
    fields = {key: value for key, value in msgspec.structs.asdict(skill).items() if key not in ("source", "skill_dir")}
    fields |= {"allowed_tools": None, "metadata": dict(fields["metadata"])}
    assert read(skill_text(**fields)) == skill
