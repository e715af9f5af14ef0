"""A skill that was edited between two sessions: `explain`, `breaks`, `show` and the check for tests name it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from holdfast.cli import breaks, show
from holdfast.cli.explain import command
from holdfast.config.sections.cache import CacheSettings
from holdfast.pytest_plugin import PrefixUnstable, assert_prefix_stable
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.skills.loader import load_skills
from holdfast.skills.session import SessionSkills
from tests.cli.commands import piped, use
from tests.engine.driver import HEADERS, HOST, Driver
from tests.skills.skill_files import write_skill

Edit = Callable[[Path], object]

EDITS: list[tuple[Edit, str | None, str]] = [
    (lambda root: write_skill(root, "pdf", description="Reads PDF files.", body="Otherwise.\n"), None, ""),
    (lambda root: write_skill(root, "pdf", description="Reads and writes."), "skill_changed", "new description: pdf"),
    (lambda root: write_skill(root, "csv", description="Reads tables."), "skill_added", "added: csv"),
    (lambda root: rmtree(root / "zip"), "skill_removed", "removed: zip"),
]
NAMES = ["body", "description", "added", "removed"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_skill(tmp_path / "skills", "pdf", description="Reads PDF files.")
    write_skill(tmp_path / "skills", "zip", description="Packs files.")
    return tmp_path / "skills"


def system(root: Path, **options: Any) -> str:
    """The system text of a new session."""
    session = SessionSkills(load_skills(global_dir=root, workspace_dir=None))
    return session.compose(HOST, cache=CacheSettings(**({"padding": "off"} | options))).text


def body(system: str, turns: int) -> dict[str, Any]:
    said = [{"role": "user", "content": "Begin. " * 300}]
    for number in range(turns):
        said += [
            {"role": "assistant", "content": f"Answer {number}. " * 100},
            {"role": "user", "content": f"Go on with {number}. " * 100},
        ]
    marker = {"cache_control": {"type": "ephemeral"}}
    return {"model": "claude-opus-4-6", "max_tokens": 500, "system": system, "messages": said} | marker


def two_sessions(root: Path, edit: Edit, **options: Any) -> list[dict[str, Any]]:
    """The second goes on with the conversation of the first, as a program does that is started again."""
    first = system(root, **options)
    requests = [body(first, turns) for turns in range(2)]
    edit(root)
    second = system(root, **options)
    return requests + [body(second, turns) for turns in range(2, 4)]


@pytest.mark.parametrize(("edit", "cure", "said"), EDITS, ids=NAMES)
def test_d39_explain_names_the_skill(edit: Edit, cure: str | None, said: str, root: Path, tmp_path: Path) -> None:
    lines = [
        json.dumps({"session": "s", "at": 1_790_000_000 + 20 * number, "body": each})
        for number, each in enumerate(two_sessions(root, edit))
    ]
    log = tmp_path / "requests.jsonl"
    log.write_text("\n".join(lines) + "\n")
    found = json.loads(piped(command.command, str(log), "--format", "json", "--quiet"))
    told = found["sessions"][0]["breaks"]
    text = piped(command.command, str(log), "--quiet")
    if cure is None:
        assert told == []
        assert "Nothing broke the cache." in text
        return
    assert [(each["request"], each["cause"], each["cure"]) for each in told] == [(3, "system_prompt_changed", cure)]
    assert f"The list of skills changed at system[0] ({said})" in told[0]["advice"]
    assert told[0]["advice"] in text
    assert f"({said})" in piped(command.command, str(log), "--format", "md", "--quiet")


@pytest.mark.parametrize(("edit", "cure", "said"), EDITS, ids=NAMES)
def test_d39_breaks_and_show_name_it_from_the_store(
    edit: Edit, cure: str | None, said: str, root: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workspace / "h.db"
    driver = Driver(path=path)
    calls = [driver.send(json.dumps(each).encode())[0].call for each in two_sessions(root, edit)]
    driver.close()
    use(path, monkeypatch)
    listed = json.loads(piped(breaks.command, "--json"))["breaks"]
    if cure is None:
        assert listed == []
        return
    assert [(each["call"], each["cure"], each["owner"]) for each in listed] == [(calls[2], cure, "skills-index")]
    for text in (piped(breaks.command), piped(show.command, calls[2])):
        assert f"({said})" in " ".join(text.split())
        assert "skills-index" in text


@pytest.mark.parametrize(("edit", "cure", "said"), EDITS, ids=NAMES)
def test_d39_the_check_for_tests_names_it(edit: Edit, cure: str | None, said: str, root: Path) -> None:
    requests = two_sessions(root, edit)
    if cure is None:
        assert_prefix_stable(requests)
        return
    with pytest.raises(PrefixUnstable) as caught:
        assert_prefix_stable(requests)
    words = " ".join(str(caught.value).split())
    assert f"cure {cure}: The list of skills changed at system[0] ({said})" in words


def test_d39_a_preloaded_body_is_part_of_the_prompt(root: Path) -> None:
    """Then editing it does change the next session's bytes, and it is named."""
    room = {"padding": "always", "padding_min": 4_500, "padding_max": 5_500}
    requests = two_sessions(root, EDITS[0][0], **room)
    with pytest.raises(PrefixUnstable) as caught:
        assert_prefix_stable(requests)
    words = " ".join(str(caught.value).split())
    assert "cure preloaded_skill_changed: The bodies of preloaded skills changed at system[0] (changed: pdf)" in words


# The next session


def head(text: str, about: str) -> dict[str, Any]:
    """The first request of a session, with markers behind the system text and at the end."""
    marker = {"cache_control": {"type": "ephemeral"}}
    parts = [{"type": "text", "text": text, **marker}]
    return {"model": "claude-sonnet-5-5", "max_tokens": 500, "system": parts, "messages": [user(about)]} | marker


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


def billed(path: Path, requests: list[tuple[str, float, dict[str, Any]]]) -> str:
    """A log of (session, seconds, body) as one provider has billed them."""
    clock = VirtualClock(1_790_000_000.0)
    simulator = Simulator(clock=clock)
    lines = []
    for session, at, asked in requests:
        clock.set(1_790_000_000.0 + at)
        exchange = simulator.begin(HttpRequest("POST", "/v1/messages", HEADERS, {}, json.dumps(asked).encode()))
        exchange.first_token(clock.now())
        exchange.finish()
        used = {"input": exchange.record.usage.input, "read": exchange.record.usage.read}
        used["write_5m"] = exchange.record.usage.written
        lines.append(json.dumps({"session": session, "at": clock.now(), "body": asked, "usage": used}))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize(("edit", "cure", "said"), EDITS, ids=NAMES)
def test_d39_explain_names_the_skill_in_the_next_session(
    edit: Edit, cure: str | None, said: str, root: Path, tmp_path: Path
) -> None:
    """Nothing broke: the second session is new. What it pays for is told beside the breaks."""
    before = system(root)
    edit(root)
    log = billed(tmp_path / "log.jsonl", [("one", 0, head(before, "A")), ("two", 60, head(system(root), "B"))])
    found = json.loads(piped(command.command, log, "--json", "--quiet", "--fail-over", "0"))
    assert found["totals"]["breaks"] == 0
    note = found["sessions"][1]["head"]
    texts = [piped(command.command, log, "--format", form, "--quiet") for form in ("table", "md", "html")]
    if cure is None:
        assert (note, found["totals"]["heads"]) == (None, [])
        assert not any("could not read the tools and system text" in text for text in texts)
        return
    what = f"The list of skills changed at system[0] ({said})"
    assert (note["cure"], note["what"], note["before"], note["path"]) == (cure, what, "one", "system[0]")
    assert note["tokens"] > 3_000
    assert note["cost_usd"] > 0
    assert found["totals"]["heads"][0]["cure"] == cure
    for text in texts:
        assert "could not read the tools and system text of the one before" in text
        assert f"({said})" in text
    assert f"In two, after one, at byte {note['offset']:,}." in texts[0]
    assert "between sessions" not in "".join(texts), "that is when it was done"


def test_d39_nothing_is_said_of_what_could_not_be_shared_anyway(root: Path, tmp_path: Path) -> None:
    before = system(root)
    EDITS[1][0](root)
    after = system(root)
    for number, pair in enumerate(
        (
            [("one", 0, head(before, "A")), ("two", 301, head(after, "B"))],  # expired
            [("one", 0, head(before, "A")), ("two", 60, head(before.replace(HOST, "Be a poet. " * 900), "B"))],
            [("one", 0, head(before, "A")), ("two", 60, head("Sort the letters. " * 900, "B"))],  # other agents
        )
    ):
        log = billed(tmp_path / f"{number}.jsonl", pair)
        assert json.loads(piped(command.command, log, "--json", "--quiet"))["totals"]["heads"] == []


# Several skills


def test_d39_of_two_edits_both_skills_are_named(
    root: Path, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cure is told once, with the skills of all its breaks."""
    texts = [system(root)]
    for name in ("pdf", "zip"):
        write_skill(root, name, description=f"Does something else with {name}.")
        texts.append(system(root))
    requests = [body(text, turns) for turns, text in enumerate(texts, 1)]
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(json.dumps({"session": "s", "at": 20 * n, "body": each}) + "\n" for n, each in enumerate(requests))
    )
    (cure,) = json.loads(piped(command.command, str(log), "--json", "--quiet"))["totals"]["cures"]
    assert (cure["cure"], cure["breaks"], len(cure["also"])) == ("skill_changed", 2, 1)
    path = workspace / "h.db"
    driver = Driver(path=path)
    for each in requests:
        driver.send(json.dumps(each).encode())
    driver.close()
    use(path, monkeypatch)
    told = [piped(command.command, str(log), "--format", form, "--quiet") for form in ("table", "md", "html")]
    for text in (*told, piped(breaks.command)):
        words = " ".join(text.split())
        assert "(new description: pdf)" in words
        assert "(new description: zip)" in words
        assert words.count("keep the list that a session began with") <= 1 or text is told[2], (
            "the advice is given once"
        )
