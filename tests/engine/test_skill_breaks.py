"""A break in the skills of a system text: whose it is, which skills, in the store, the events and the reports."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from holdfast.config.sections.cache import CacheSettings
from holdfast.core.cures import Cure
from tests.core.skill_sections import BASE, INDEX, PDF, ZIP, listed, section, text

from .driver import HOST, MODELS, talk
from .journal_driver import JournalDriver, types

CHANGED = BASE | {"pdf": "Read PDF files, and write them."}


def after(
    driver: JournalDriver, before: str, now: str, dialect: str = "anthropic"
) -> tuple[str | None, str | None, str, str]:
    """The owner, the path, the cure and its sentence of the break between two system texts."""
    driver.send(talk(1, system=(before,)), dialect=dialect)
    verdict = driver.send(talk(2, system=(now,)), dialect=dialect)[2]
    assert verdict.finding.cause == "system_prompt_changed"
    driver.restart()
    (row,) = driver.store.breaks("t")
    cure = msgspec.json.decode(row.data or b"", type=Cure)
    return row.owner, row.path, cure.name, cure.sentence


@pytest.mark.parametrize("dialect", [name for name in MODELS if name != "gemini"])  # its hits come by chance
def test_d39_the_index_owns_the_break_and_the_skill_is_named(dialect: str, tmp_path: Path) -> None:
    driver = JournalDriver(tmp_path)
    owner, path, cure, sentence = after(driver, text(HOST, listed(BASE)), text(HOST, listed(CHANGED)), dialect)
    assert (owner, cure) == ("skills-index", "skill_changed")
    assert f"changed at {path} (new description: pdf)" in sentence
    (line,) = driver.lines()
    assert (line["owner"], line["cure"], line["advice"]) == (owner, cure, sentence)
    (event,) = [event.payload for event in driver.events() if event.payload.type == "cache.break"]
    assert (event.owner, event.cure) == (owner, cure)
    assert PDF.encode() not in msgspec.json.encode(line), "descriptions are words of the prompt"
    driver.done()


def test_d39_a_preloaded_body_owns_its_break(tmp_path: Path) -> None:
    driver, stable = JournalDriver(tmp_path), text(HOST, listed(BASE, ("pdf", "zip")))

    def whole(body: str) -> str:
        return text(stable, section("pdf", body), section("zip", ZIP))

    owner, path, cure, sentence = after(driver, whole("Open it."), whole("Close it."))
    assert (owner, path, cure) == ("skill:pdf", "system[0]", "preloaded_skill_changed")
    assert "(changed: pdf)" in sentence
    driver.done()


@pytest.mark.parametrize(
    ("before", "now", "cure"),
    [
        (text(HOST + "Be kind.", listed(BASE)), text(HOST + "Be brief.", listed(BASE)), "system_prompt_changed"),
        (text(HOST, listed(BASE), "It is 9:01."), text(HOST, listed(BASE), "It is 9:02."), "clock"),
        (HOST + "\n\n- pdf: one", HOST + "\n\n- pdf: another", "system_prompt_changed"),
        (INDEX + "- Pdf: " + HOST, INDEX + "- Pdf: not " + HOST, "system_prompt_changed"),
    ],
)
def test_the_host_owns_what_is_none_of_skills(before: str, now: str, cure: str, tmp_path: Path) -> None:
    driver = JournalDriver(tmp_path)
    found = after(driver, before, now)
    assert (found[0], found[2]) == ("host", cure)
    driver.done()


def test_d39_an_edited_body_that_is_not_preloaded_breaks_nothing(tmp_path: Path) -> None:
    """No byte of the prompt says what is in it."""
    driver = JournalDriver(tmp_path).after(talk(1, system=(text(HOST, listed(BASE)),)))
    verdict = driver.send(talk(2, system=(text(HOST, listed(dict(BASE))),)))[2]
    assert verdict.finding is None
    assert "cache.break" not in types(driver.events())
    driver.done()


def test_a_block_of_its_own_for_the_index(tmp_path: Path) -> None:
    driver = JournalDriver(tmp_path, CacheSettings(strategy="rolling"))
    driver.send(talk(1, system=(HOST, listed(BASE), "Be kind.")))
    driver.send(talk(2, system=(HOST, listed({"pdf": PDF}), "Be kind.")))
    driver.send(talk(3, system=(HOST, "Be kind.")))
    driver.send(talk(4, system=(HOST, listed(CHANGED), "Be kind.")))
    driver.restart()
    found = [(row.owner, row.path, row.cure) for row in driver.store.breaks("t")]
    assert found == [
        ("skills-index", "system[1]", "skill_removed"),
        ("skills-index", "system[1]", "skill_removed"),
        ("skills-index", "system[1]", "skill_added"),
    ]
    driver.done()
