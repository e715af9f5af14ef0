"""Seed skill-format where an agent meets it: skills on disk, and what a model is sent of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.bench import calls
from tests.agent.open_agents import Opened, opened

HEADING = "## Available skills\nUse `skill_search(query)` to filter and `skill_load(name)` to read a body.\n\n"
OFF = '[cache]\npadding = "off"\n'


def write(root: Path, name: str, description: str = "", body: str = "", file: str = "SKILL.md") -> Path:
    folder = root / name
    (folder / "references").mkdir(parents=True, exist_ok=True)
    (folder / "references" / "more.md").write_text("Not interpreted.", "utf-8")
    text = f"---\nname: {name}\ndescription: {description or f'About {name}.'}\nunknown: field\n---\n\n\n"
    (folder / file).write_text(f"{text}{body or f'The body of {name}.'}\n", "utf-8")
    return folder / file


def roots(place: Path) -> tuple[Path, Path]:
    """The global root and that of the workspace."""
    return place / "home" / "skills", place / "work" / ".holdfast" / "skills"


def index(agent: Opened, at: int = -1) -> str:
    """What the system text says of skills."""
    found = agent.system(at).partition("## Available skills")
    return "".join(found[1:]).partition("\n\n# ")[0]


async def told(agent: Opened, *loads: str) -> list[str]:
    """The results of loading these skills, one after the other, in a new session."""
    session = await agent.sessions.create()
    for name in loads:
        await session.ask(calls(("skill_load", {"name": name})))
    return agent.results()[-len(loads) :]


async def test_d1_d3_d4_d13_d14_d34_d36_d37_d64_the_index_of_what_is_on_disk(tmp_path: Path) -> None:
    everywhere, here = roots(tmp_path)
    write(everywhere, "zip", "Packs files.")
    write(everywhere, "pdf", "Is not seen: the workspace has one of this name.")
    write(here, "pdf", '"Fills forms,\\n and signs them."')
    write(here, "docs")
    write(here, "lower", file="skill.md")
    write(here, ".hidden")
    (here / "empty").mkdir()
    (here / "notes.md").write_text("no skill", "utf-8")
    async with opened(tmp_path, OFF) as agent:
        (loaded,) = await told(agent, "pdf")
        lines = "- docs: About docs.\n- pdf: Fills forms, and signs them.\n- zip: Packs files."
        assert index(agent) == HEADING + lines
        assert "The body of" not in agent.system()
        assert "The body of pdf." in loaded
        assert "unknown" not in loaded


async def test_d11_d38_without_skills_there_is_no_index(tmp_path: Path) -> None:
    async with opened(tmp_path, OFF) as agent:
        await agent.begin("hello")
        assert "skills\n" not in agent.system()
        assert "## Available" not in agent.system()


async def test_d9_d63_d72_a_session_keeps_the_skills_that_it_began_with_and_the_next_one_sees_the_new(
    tmp_path: Path,
) -> None:
    _, here = roots(tmp_path)
    write(here, "pdf", "Fills forms.")
    async with opened(tmp_path, OFF) as agent:
        session = await agent.begin("hello")
        before = agent.system()
        write(here, "pdf", "Signs forms.", "Another body.")
        write(here, "zip")
        await session.ask(calls(("skill_load", {"name": "pdf"}), ("skill_load", {"name": "zip"})))
        assert agent.system() == before
        pdf, zipped = agent.results()
        assert "The body of pdf." in pdf
        assert "The body of zip." not in zipped
        (changed,) = await told(agent, "pdf")
        assert index(agent) == HEADING + "- pdf: Signs forms.\n- zip: About zip."
        assert "Another body." in changed


@pytest.mark.parametrize(
    ("settings", "listed"),
    [('index = "full"', 60), ('index = "capped"\nindex_chars = 500', 10), ('index = "off"', 0)],
)
async def test_d69_the_index_can_be_capped_or_switched_off(tmp_path: Path, settings: str, listed: int) -> None:
    _, here = roots(tmp_path)
    for number in range(60):
        write(here, f"skill-{number:02}", "Does one of sixty things.")
    async with opened(tmp_path, f"{OFF}[skills]\n{settings}\n") as agent:
        (loaded,) = await told(agent, "skill-59")
        lines = [line for line in agent.system().splitlines() if line.startswith("- skill-")]
        assert (len(lines) == listed) if listed in (0, 60) else (0 < len(lines) < 60)
        assert "The body of skill-59." in loaded  # whatever is listed


async def test_a1_a4_a60_a80_what_is_preloaded_is_tagged_and_every_session_has_a_register_of_its_own(
    tmp_path: Path,
) -> None:
    _, here = roots(tmp_path)
    write(here, "pdf", "Fills forms.", "All about forms. " * 60)
    for name in ("one", "two", "three"):
        write(here, name, body=f"The body of {name}. " + "word " * 8_000)  # too long to be padding
    async with opened(tmp_path, '[cache]\npadding = "always"\n[skills]\nmax_activations = 2\n') as agent:
        pointer, one, two, refused = await told(agent, "pdf", "one", "two", "three")
        assert "- pdf [preloaded]: Fills forms." in agent.system()
        assert "- one: About one." in agent.system()
        assert "All about forms. All" in agent.system()
        assert "All about forms. All" not in pointer
        assert "The body of one." in one
        assert "The body of two." in two
        assert "The body of three." not in refused  # what is preloaded counts nothing
        (three,) = await told(agent, "three")
        assert "The body of three." in three


@pytest.mark.parametrize(("cap", "allowed"), [(50, True), (49, False)])
async def test_a71_exactly_the_hard_cap_is_allowed(tmp_path: Path, cap: int, allowed: bool) -> None:
    _, here = roots(tmp_path)
    for name in ("one", "two"):
        write(here, name, body="word " * 19 + "end.")  # 100 characters with its line break: 25 tokens
    async with opened(tmp_path, f"{OFF}[skills]\nwarn_tokens = 1\nhard_tokens = {cap}\n") as agent:
        _, second = await told(agent, "one", "two")
        assert ("word word" in second) is allowed
