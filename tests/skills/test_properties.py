"""Laws of loading: the same roots give the same store, and a version follows the body and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.skills.loader import load_skills
from holdfast.skills.skill import SkillValidationError
from holdfast.skills.skill_file import problems, read_skill
from tests.skills.skill_files import skill_text, write_file, write_skill

NAMES = st.from_regex(r"[a-z0-9](-?[a-z0-9]){0,20}", fullmatch=True)
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r")
TEXTS = st.text(LETTERS, max_size=80)
# What YAML can write between quotes; its own writer escapes the rest.
DESCRIPTIONS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=80).filter(str.strip)


@contextmanager
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path).resolve()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(NAMES, st.tuples(DESCRIPTIONS, TEXTS), max_size=4),
    st.dictionaries(NAMES, st.tuples(DESCRIPTIONS, TEXTS), max_size=4),
    st.dictionaries(NAMES, st.binary(max_size=40), max_size=2),
)
def test_d68_loading_twice_gives_equal_stores(
    shared: dict[str, tuple[str, str]], own: dict[str, tuple[str, str]], broken: dict[str, bytes]
) -> None:
    with directory() as home:
        for root, skills in ((home / "g", shared), (home / "w", own)):
            root.mkdir()
            for name, (description, body) in skills.items():
                write_skill(root, name, description=description, body=body, metadata={"name": name})
        for name, content in broken.items():
            if name not in shared:
                write_file(home / "g" / name, content)
        first = load_skills(global_dir=home / "g", workspace_dir=home / "w")
        second = load_skills(global_dir=home / "g", workspace_dir=home / "w")
    assert first == second
    assert first.list_skills() == second.list_skills()
    assert [skill.version for skill in first.list_skills()] == [skill.version for skill in second.list_skills()]
    assert (first.skipped, first.shadowed) == (second.skipped, second.shadowed)
    assert [skill.name for skill in first.list_skills()] == sorted({*shared, *own})
    assert {skill.name for skill in first.list_skills() if skill.source == "workspace"} == set(own)
    assert [each.name for each in first.shadowed] == sorted({*shared} & {*own})


@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS, DESCRIPTIONS, DESCRIPTIONS)
def test_d68_a_version_follows_the_body_only(body: str, other: str, description: str, another: str) -> None:
    def version(description: str, body: str) -> str:
        text = skill_text(name="pdf", description=description, body=body)
        return read_skill(text, skill_dir=Path("/pdf"), source="global").version

    assert version(description, body) == version(another, body)
    assert (version(description, body) == version(description, other)) is (body.lstrip("\n") == other.lstrip("\n"))


@settings(max_examples=200, deadline=None)
@given(
    DESCRIPTIONS, TEXTS, st.dictionaries(DESCRIPTIONS, DESCRIPTIONS, max_size=3), st.sampled_from(["\n", "\r\n", "\r"])
)
def test_what_is_written_is_what_is_read(description: str, body: str, metadata: dict[str, str], end: str) -> None:
    text = skill_text(name="pdf", description=description, body=body, metadata=metadata).replace("\n", end)
    skill = read_skill(text, skill_dir=Path("/pdf"), source="workspace")
    assert (skill.description, skill.body) == (description.strip(), body.lstrip("\n"))
    assert skill.metadata == metadata


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.text("-\n: &*!<>[]{}|'\"#%@`,?ax1~\t\\", max_size=60).map(lambda text: f"---\n{text}\n---\n".encode()),
        st.text(LETTERS, max_size=40).map(lambda text: f"---\nname: pdf\ndescription: {text}\n---\n".encode()),
    )
)
def test_any_bytes_at_all_are_either_read_or_refused(data: bytes) -> None:
    found = problems(data, skill_dir=Path("/pdf"))
    errors = [problem for problem in found if not problem.warning]
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    for problem in found:
        assert problem.message.isprintable()
        assert problem.line is None or 1 <= problem.line <= lines
    strict = problems(data, skill_dir=Path("/pdf"), strict=True)
    assert len(strict) == len(found)
    assert {*errors} <= {problem for problem in strict if not problem.warning}
    try:
        read_skill(data.decode(), skill_dir=Path("/pdf"), source="global")
    except UnicodeDecodeError:
        assert len(errors) == 1
    except SkillValidationError as error:
        assert sorted(error.errors) == sorted(problem.message for problem in errors)  # noqa: PT017
    else:
        assert errors == []


@settings(max_examples=200, deadline=None)
@given(st.text("ab: -\n'\"[]{}#1~", max_size=60))
def test_what_the_safe_loader_refuses_is_refused(fields: str) -> None:
    text = f"---\nname: pdf\ndescription: d\n{fields}\n---\n"
    try:
        loaded = yaml.safe_load(text.split("---\n", 2)[1])
    except (yaml.YAMLError, ValueError):
        loaded = None
    if not isinstance(loaded, dict):
        assert any(not problem.warning for problem in problems(text.encode(), skill_dir=Path("/pdf")))
