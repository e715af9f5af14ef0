"""Every constraint of the six fields, each with its own message and line; what `validate` says of a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.skills.fields import TEMPLATE
from holdfast.skills.skill import SkillProblem, SkillValidationError
from holdfast.skills.skill_file import problems, read_skill, validate_dir
from tests.skills.skill_files import skill_text, write_file, write_skill

PDF = Path("/skills/pdf")
GOOD = "name: pdf\ndescription: d"


def check(fields: str, *, skill_dir: Path = PDF, strict: bool = False, body: str = "b") -> list[SkillProblem]:
    text = f"---\n{fields}\n---\n{body}"
    found = list(problems(text.encode(), skill_dir=skill_dir, strict=strict))
    errors = [problem.message for problem in found if not problem.warning]
    if errors and not strict:  # what is reported as an error is what keeps it from being loaded, and nothing else does
        with pytest.raises(SkillValidationError) as caught:
            read_skill(text, skill_dir=skill_dir, source="global")
        assert sorted(caught.value.errors) == sorted(errors)
    elif not strict:
        read_skill(text, skill_dir=skill_dir, source="global")
    return found


def only(fields: str, *, skill_dir: Path = PDF, strict: bool = False) -> SkillProblem:
    (problem,) = check(fields, skill_dir=skill_dir, strict=strict)
    return problem


def messages(fields: str, *, skill_dir: Path = PDF) -> list[str]:
    return [problem.message for problem in check(fields, skill_dir=skill_dir) if not problem.warning]


@pytest.mark.parametrize("name", ["a", "7", "pdf", "pdf-forms", "a-b-c-1", "3d", "x" * 64])
def test_d21_good_names(name: str) -> None:
    assert check(f'name: "{name}"\ndescription: d', skill_dir=Path("/skills", name)) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 65, "`name` has 65 characters; 64 are allowed"),
        ("Pdf", "`name` 'Pdf' has upper-case letters; use lower-case ones"),
        ("a_b", "`name` 'a_b' has characters that are not allowed ('_'); use a-z, 0-9 and hyphens"),
        ("a b", "`name` 'a b' has characters that are not allowed (' '); use a-z, 0-9 and hyphens"),
        ("é", "`name` 'é' has characters that are not allowed ('é'); use a-z, 0-9 and hyphens"),
        ("٣", "`name` '٣' has characters that are not allowed ('٣'); use a-z, 0-9 and hyphens"),
        ("-a", "`name` '-a' begins with a hyphen; remove it"),
        ("a-", "`name` 'a-' ends with a hyphen; remove it"),
        ("a--b", "`name` 'a--b' has two hyphens in a row; keep one"),
    ],
)
def test_d21_d60_each_fault_of_a_name_has_its_own_message(name: str, message: str) -> None:
    problem = only(f'name: "{name}"\ndescription: d', skill_dir=Path("/skills", name))
    assert problem == SkillProblem(message=message, line=2, field="name")


def test_d21_a_line_break_at_the_end_of_a_name_is_not_overlooked() -> None:
    (message, _) = messages('name: "pdf\\n"\ndescription: d')
    assert "characters that are not allowed ('\\n')" in message


def test_d60_several_faults_of_a_name_are_all_named() -> None:
    found = messages(f'name: "-{"A_" * 40}--"\ndescription: d')
    wanted = [
        "characters;",
        "upper-case",
        "not allowed",
        "begins with",
        "ends with",
        "two hyphens",
        "the directory is 'pdf'",
    ]
    assert len(found) == len(wanted)
    assert all(word in message for word, message in zip(wanted, found, strict=True))


def test_d12_a_name_must_be_that_of_the_directory() -> None:
    assert only("name: pdf\ndescription: d", skill_dir=Path("/skills/forms")) == SkillProblem(
        message="`name` is 'pdf', but the directory is 'forms'; make them equal", line=2, field="name"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("123", 'YAML reads it as a number; write it in quotes: "123"'),
        ("1.5", 'YAML reads it as a number; write it in quotes: "1.5"'),
        ("12:30", 'YAML reads it as a number; write it in quotes: "12:30"'),
        ("2024-01-01", 'YAML reads it as a date; write it in quotes: "2024-01-01"'),
        ("on", 'YAML reads it as true or false; write it in quotes: "on"'),
        ("[pdf]", "must be text, not a list"),
        ("{a: pdf}", "must be text, not a mapping"),
        ("", "is empty"),
        ("~", "is empty"),
        ('""', "is empty"),
        ("!!binary cGRm", "must be text, not binary data"),
        ("=", "write it in quotes"),
        ("<<", "write it in quotes"),
    ],
)
@pytest.mark.parametrize("field", ["name", "description"])
def test_d21_d22_a_name_and_a_description_are_text(field: str, value: str, words: str) -> None:
    other = "description: d" if field == "name" else "name: pdf"
    problem = only(f"{other}\n{field}: {value}")
    assert words in problem.message
    assert problem.message.startswith(f"`{field}` ")
    assert (problem.line, problem.field) == (3, field)


@pytest.mark.parametrize(("fields", "missing"), [("description: d", "name"), ("name: pdf", "description")])
def test_d21_d22_a_name_and_a_description_are_required(fields: str, missing: str) -> None:
    problem = only(fields)
    assert problem.field == missing
    assert problem.message.startswith(f"`{missing}` is missing")


@pytest.mark.parametrize("value", ['" "', '"\\n \\t"', '"\u3000"'])
def test_d22_a_description_of_spaces_is_empty(value: str) -> None:
    assert "`description` is empty" in only(f"name: pdf\ndescription: {value}").message


def test_d22_a_description_has_1_to_1024_characters() -> None:
    assert check(f"name: pdf\ndescription: {'é' * 1_024}") == []
    long = only(f"name: pdf\ndescription: {'é' * 1_025}")
    assert long.warning
    assert long.message == "`description` has 1025 characters; 1024 are allowed, and the index cuts it there"


@pytest.mark.parametrize("how", ["strict", "refuse_long"])
def test_d22_a_strict_reader_refuses_a_longer_one(how: str) -> None:
    text = skill_text(name="pdf", description="é" * 1_025).encode()
    (problem,) = problems(text, skill_dir=PDF, **{how: True})
    assert (problem.warning, problem.message) == (False, "`description` has 1025 characters; 1024 are allowed")


@pytest.mark.parametrize("field", ["license", "compatibility", "allowed-tools"])
def test_d10_d23_d24_the_other_texts_are_text(field: str) -> None:
    assert 'a number; write it in quotes: "1.0"' in only(f"{GOOD}\n{field}: 1.0").message
    assert f"`{field}` must be text, not a list" in only(f"{GOOD}\n{field}: [a, b]").message
    assert f"`{field}` must be text, not a mapping" in only(f"{GOOD}\n{field}:\n  a: b").message
    assert check(f"{GOOD}\n{field}: ''") == []


@pytest.mark.parametrize("field", ["license", "compatibility", "allowed-tools", "metadata"])
def test_an_optional_field_without_a_value_is_not_there(field: str) -> None:
    problem = only(f"{GOOD}\n{field}:")
    assert (problem.warning, problem.line, problem.field) == (True, 4, field)
    skill = read_skill(f"---\n{GOOD}\n{field}:\n---\n", skill_dir=PDF, source="global")
    assert not getattr(skill, field.replace("-", "_"))


def test_d23_a_license_may_be_long() -> None:
    assert check(f"{GOOD}\nlicense: {'x' * 10_000}") == []


def test_d24_compatibility_has_up_to_500_characters() -> None:
    assert check(f"{GOOD}\ncompatibility: {'x' * 500}") == []
    assert only(f"{GOOD}\ncompatibility: {'x' * 501}").message == "`compatibility` has 501 characters; 500 are allowed"


@pytest.mark.parametrize(
    ("written", "kept"),
    [("1.0", "1.0"), ("1.10", "1.10"), ("007", "007"), ("0x1F", "0x1F"), ("1_000", "1_000"), ("true", "true"),
     ("True", "True"), ("no", "no"), ("2024-01-02", "2024-01-02"), (".inf", ".inf"), ("12:30", "12:30")],
)  # fmt: skip
def test_d25_metadata_keeps_what_was_written(written: str, kept: str) -> None:
    fields = f"{GOOD}\nmetadata:\n  a: text\n  v: {written}"
    assert read_skill(f"---\n{fields}\n---\n", skill_dir=PDF, source="global").metadata == {"a": "text", "v": kept}
    problem = only(fields)
    assert problem.warning
    assert problem.line == 6
    assert f'write it in quotes: "{written}"' in problem.message


@pytest.mark.parametrize("value", ["", "~", "null", "[a]", "{a: b}", "!!binary aGk="])
def test_d25_metadata_of_another_kind_is_refused(value: str) -> None:
    problem = only(f"{GOOD}\nmetadata:\n  a: text\n  v: {value}")
    assert (problem.line, problem.field, problem.warning) == (6, "metadata", False)
    assert problem.message.startswith("`metadata.v` ")


@pytest.mark.parametrize("value", ["text", "1", "[a]", "true"])
def test_d25_metadata_is_a_mapping(value: str) -> None:
    assert only(f"{GOOD}\nmetadata: {value}").message.startswith("`metadata` must be a mapping")


@pytest.mark.parametrize("key", ["1", "true", "2024-01-01", "~"])
def test_d25_the_keys_of_metadata_are_text(key: str) -> None:
    assert "`metadata` has a key that is" in only(f"{GOOD}\nmetadata: {{{key}: x}}").message
    assert check(f'{GOOD}\nmetadata: {{"{key}": x}}') == []


def test_d61_strict_refuses_metadata_that_is_not_text() -> None:
    fields = f"{GOOD}\nmetadata: {{version: 1.0}}"
    assert only(fields).warning
    assert not only(fields, strict=True).warning
    assert check(f'{GOOD}\nmetadata: {{version: "1.0"}}', strict=True) == []


@pytest.mark.parametrize(
    ("field", "near"),
    [("allowed_tools", "allowed-tools"), ("Name", "name"), ("descripton", "description"), ("licence", "license"),
     ("meta-data", "metadata"), ("always", None), ("preferred_model", None), ("x" * 5_000, None), ("1", None)],
)  # fmt: skip
def test_d6_d20_an_unknown_field_is_ignored_with_a_warning(field: str, near: str | None) -> None:
    fields = f"{GOOD}\n? {field}\n: [anything, {{at: all}}]"
    problem = only(fields)
    assert (problem.warning, problem.line, problem.field) == (True, 4, field)
    assert "is not a field of the format and is ignored" in problem.message
    assert problem.message.endswith(f"; did you mean `{near}`?") is (near is not None)
    assert not only(fields, strict=True).warning


def test_a_field_that_stands_twice_is_an_error_with_both_lines() -> None:
    problem = only("name: pdf\ndescription: d\nname: pdf")
    assert (problem.message, problem.line) == ("`name` stands twice, first in line 2; keep one", 4)
    problem = only(f"{GOOD}\nmetadata:\n  a: b\n  'a': c")
    assert (problem.message, problem.line) == ("`a` stands in `metadata` twice, first in line 5; keep one", 6)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("base: &b {license: MIT}\n<<: *b", "`<<` is not supported"),
        ("? [a]\n: b", "must be a word"),
        ("metadata: {? {a: b} : c}", "must be a word"),
    ],
)
def test_keys_that_are_no_words_are_errors(fields: str, words: str) -> None:
    assert any(words in message for message in messages(f"{GOOD}\n{fields}"))


def test_d26_every_error_is_reported_at_once_in_the_order_of_the_lines() -> None:
    found = check("compatibility: 5\nname: Pdf\nlicense: [x]\nextra: 1\nmetadata: {a: ~}")
    assert [(problem.line, problem.field) for problem in found] == [
        (1, "description"), (2, "compatibility"), (3, "name"), (3, "name"), (4, "license"), (5, "extra"),
        (6, "metadata"),
    ]  # fmt: skip


def test_what_a_stranger_wrote_is_shown_on_one_short_line() -> None:
    for fields in ('name: "\\e[31m\\n\\x00red"', f"name: {'A' * 9_000}", '"\\e[2J": x', '"k\\nk": x'):
        problems = check(f"{fields}\ndescription: d")
        assert problems
        for problem in problems:
            assert problem.message.isprintable()
            assert len(problem.message) < 600


def test_d30_a_long_or_an_empty_body_is_a_warning() -> None:
    assert check(GOOD, body="x" * 20_003) == []
    (long,) = check(GOOD, body="x" * 20_004)
    (empty,) = check(GOOD, body="\n  \n")
    assert long.warning
    assert empty.warning
    assert "5,001 tokens" in long.message
    assert "empty" in empty.message


def test_a_description_of_the_template_is_a_warning() -> None:
    problem = only(f"name: pdf\ndescription: '{TEMPLATE}'")
    assert (problem.warning, problem.line, problem.field) == (True, 3, "description")
    assert "still that of the template" in problem.message
    assert check(f"name: pdf\ndescription: '{TEMPLATE} Or so.'") == []


@pytest.mark.parametrize(
    ("tools", "warned"),
    [("Read, Grep", True), ("Read,Grep", True), ("Bash(a, b), Read", True), ("Read Grep", False),
     ("Bash(git add, git commit) Read", False), ("", False)],
)  # fmt: skip
def test_allowed_tools_with_commas_are_a_warning(tools: str, warned: bool) -> None:
    found = check(f"{GOOD}\nallowed-tools: '{tools}'")
    assert [(each.warning, each.line, each.message) for each in found] == [
        (True, 4, "`allowed-tools` has commas; its names are separated by spaces")
    ] * warned


def test_control_characters_in_a_description_are_a_warning() -> None:
    problem = only('name: pdf\ndescription: "a\\e[31m\\0\\e b\\x9b"')
    assert (problem.warning, problem.line, problem.field) == (True, 3, "description")
    assert problem.message == (
        "`description` has control characters (U+001B U+0000 U+009B); remove them, the index has spaces there"
    )
    assert check('name: pdf\ndescription: "a\\n\\tb\\r\\n\\N c \\u202e"') == []


def test_a_colon_that_needs_quotes_is_told() -> None:
    problem = only("name: pdf\ndescription: Use it: now")
    assert problem.line == 3
    assert problem.message.endswith("; a value with a colon in it must be in quotes")
    assert check("name: pdf\ndescription: 'Use it: now'") == []


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("fields", ["description: a{}b", "description: a{}b\nlicense: MIT", "description: |\n  a{}b"])
def test_a_line_break_that_nobody_sees_is_named(mark: str, fields: str) -> None:
    problem = only(f"name: pdf\n{fields.format(mark)}")
    assert problem.line == (4 if "|" in fields else 3)
    assert f"; the line holds U+{ord(mark):04X}, at which YAML breaks it: remove that, or quote" in problem.message
    assert check(f'name: pdf\ndescription: "a{mark}b"') == []
    assert "U+" not in only(f"name: pdf\nlicense: 'a{mark}b'\ndescription: [").message


def test_a_file_that_is_not_utf_8_is_an_error_with_its_line() -> None:
    (problem,) = problems(b"---\r\nname: pdf\r\ndescription: \xff\r\n---\r\n", skill_dir=PDF)
    assert (problem.line, problem.warning) == (3, False)
    assert "not UTF-8" in problem.message


def test_a_file_may_have_a_million_bytes() -> None:
    text = skill_text(name="pdf", description="d", body="").encode()
    full = text + b"x" * (1_000_000 - len(text))
    assert [problem.warning for problem in problems(full, skill_dir=PDF)] == [True]  # the long body
    (problem,) = problems(full + b"x", skill_dir=PDF)
    assert (problem.message, problem.warning) == ("the file has more than 1,000,000 bytes; shorten it", False)


def test_validate_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = write_skill(tmp_path, "pdf", always=True)
    (problem,) = validate_dir(good)
    assert problem.warning
    assert not validate_dir(good, strict=True)[0].warning
    monkeypatch.chdir(good)
    assert validate_dir(Path()) == validate_dir(Path("..", "pdf")) == (problem,)


def test_d13_validate_names_a_file_in_lower_case(tmp_path: Path) -> None:
    write_file(tmp_path / "pdf", skill_text(name="pdf", description="d"), file="skill.md")
    if "SKILL.md" in os.listdir(tmp_path / "pdf"):  # noqa: PTH208
        pytest.skip("the file system changes the case of names")
    (problem,) = validate_dir(tmp_path / "pdf")
    assert problem.message == "the file is named skill.md; rename it to SKILL.md"


def test_validate_what_is_no_skill(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    os.mkfifo(write_file(tmp_path / "pipe", "", file="other") / "SKILL.md")
    (tmp_path / "folder" / "SKILL.md").mkdir(parents=True)
    write_file(tmp_path / "broken", "", file="other").joinpath("SKILL.md").symlink_to("gone")
    write_file(tmp_path / "latin", b"---\nname: \xe9\n---\n")
    wanted = {
        "empty": "there is no SKILL.md",
        "file": "is not a directory",
        "gone": "No such file",
        "pipe": "it is a pipe, not a file",
        "folder": "it is a directory, not a file",
        "broken": "its link leads nowhere",
        "latin": "not UTF-8",
        "nul\0": "cannot be read",
    }
    for name, words in wanted.items():
        (problem,) = validate_dir(tmp_path / name)
        assert not problem.warning
        assert words in problem.message
        assert problem.message.isprintable()


def test_validate_follows_a_link_that_a_user_names(tmp_path: Path) -> None:
    write_skill(tmp_path / "elsewhere", "pdf")
    (tmp_path / "forms").symlink_to(tmp_path / "elsewhere" / "pdf")
    (problem,) = validate_dir(tmp_path / "forms")
    assert "the directory is 'forms'" in problem.message


def test_d65_a_foreign_file_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("password\n")
    inside = write_skill(tmp_path / "pdf" / "old", "pdf") / "SKILL.md"
    link = tmp_path / "pdf" / "SKILL.md"
    link.symlink_to(tmp_path / "secret")
    (problem,) = validate_dir(tmp_path / "pdf")
    assert "leads out of every skills root" in problem.message
    assert "password" not in problem.message
    (problem,) = validate_dir(tmp_path / "pdf", allowed={tmp_path})
    assert "password" in problem.message
    link.unlink()
    link.symlink_to(inside)
    assert validate_dir(tmp_path / "pdf") == ()
