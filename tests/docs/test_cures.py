"""The cures catalogue: a page for every name, as the generator writes it, with examples that really break so."""

from __future__ import annotations

import re
from functools import cache

import pytest

from holdfast.config.keys import KEYS
from holdfast.config.parse import parse
from holdfast.core.cures import NAMES, REPAIR, VALUES, reset_cure
from scripts.cures.examples import EXAMPLES, WANTED
from scripts.cures.playing import play
from scripts.make_cures import PAGES, PROSE, cured, pages, prose, wanted
from scripts.make_cures import run as run_example

OTHERS = {"index", "resets"}
run = cache(run_example)
_SETTING = re.compile(r'`(cache\.\w+) = "(\w+)"`')


def test_there_is_a_page_a_prose_and_an_example_for_every_name() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert {page.stem for page in PAGES.glob("*")} == {*NAMES, *OTHERS}
    assert {page.stem for page in PROSE.glob("*")} == {*NAMES, *OTHERS}
    assert tuple(EXAMPLES) == NAMES


@pytest.mark.slow
def test_the_pages_are_those_that_the_generator_writes() -> None:
    """They were written by another process, so nothing in them depends on one."""
    committed = {page.name: page.read_text(encoding="utf-8") for page in PAGES.glob("*")}
    assert pages() == committed, "run: python -m scripts.make_cures"


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_the_fault_of_its_page(name: str) -> None:
    case = run(name)
    assert case.shown.cure.name == name
    assert case.shown.finding.tokens > 2_000
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    report = " ".join(page.split("```text\n")[1].split("```")[0].split())
    assert case.shown.cure.sentence in report
    assert f"{case.shown.finding.tokens:,} of" in report


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_to_cure_it_is_what_the_cure_names(name: str) -> None:
    """A setting that a cure names and that can be tried here has to help: the example is sent with it."""
    case = run(name)
    setting = case.shown.cure.setting
    if setting is None or not setting.startswith("cache.") or case.shown.finding.cause is None:
        return
    by = cured(case)
    assert by in ("", setting), "'' is Holdfast as it comes, whose settings are the defaults"
    way = {"": "defaults", VALUES: "values", REPAIR: "repairs"}.get(by, "manage")
    assert case.ways[way].cost < case.ways["as sent"].cost


def test_an_example_without_its_fault_breaks_nothing() -> None:
    clean = play(EXAMPLES["likely_server_side"], "as sent")
    assert [found.request for found in clean.found] == [4], "only where the provider forgot"


@pytest.mark.parametrize("reason", WANTED)
def test_a_wanted_reset_is_believed_somewhere_and_told_by_its_name(reason: str) -> None:
    believed = wanted(reason)
    assert believed
    for found in believed.values():
        assert found.cure.name == reason
        assert found.cure.sentence.startswith(reset_cure(reason).sentence.partition(":")[0])


@pytest.mark.parametrize("name", NAMES)
def test_the_prose_is_short_and_leads_to_other_pages(name: str) -> None:
    told = prose(name)
    assert told.related
    assert {*told.related} <= {*NAMES, *OTHERS} - {name}
    assert "```" in told.code
    assert len((PAGES / f"{name}.md").read_text(encoding="utf-8").splitlines()) <= 60
    for key, value in _SETTING.findall(told.happens + told.code):
        parse(KEYS[key], value)
