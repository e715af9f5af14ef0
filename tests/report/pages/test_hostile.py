"""What stands in a log is text, whatever it is, and however much there is of it."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import pytest
from msgspec.structs import replace

from holdfast.lab.page import replay_page
from holdfast.lab.results import ReplayReport
from holdfast.report.explainer.results import ExplainReport, FileRead, TokenSums
from holdfast.report.logs import BrokenSource
from holdfast.report.pages import explain as page_module
from holdfast.report.pages import explain_page
from tests.report.pages.hostile_texts import HOSTILE, filled
from tests.report.pages.page_elements import Element, read
from tests.report.pages.reports import MODELS, break_found, explained, replayed, session_found

LIMIT = 3_000_000
"""Bytes of a page, whatever the report."""


def pages(text: str) -> tuple[str, str]:
    """Small pages with every part that a page can have, and this in every place."""
    found = explained(
        (session_found(0, 5), session_found(1, 1, estimated=True, unpriced=2)),
        read=(FileRead(path="file", format="pi", client="pi", size=10),),
        broken=2,
        broken_lines=(BrokenSource(source="file:1", why="not JSON"),),
    )
    return explain_page(filled(found, text)), replay_page(filled(replayed(MODELS[:1], traces=3), text))


@cache
def plain() -> list[Element]:
    return [read(page) for page in pages("filler")]


@pytest.mark.parametrize("text", HOSTILE, ids=[f"{number}" for number in range(len(HOSTILE))])
def test_no_text_of_a_log_gets_out_of_its_place(text: str) -> None:
    for page, harmless in zip(pages(text), plain(), strict=True):
        root = read(page)
        assert len(page) < 250_000
        for name in ("script", "style", "section", "table", "svg", "meta", "tr", "title", "text", "rect"):
            assert len(root.all(name)) == len(harmless.all(name)), name
        body = "".join(root.one("body").texts)
        assert not any(character in body for character in "\x00\x1b\x7f\u202e\u2066\u2028\ufeff\ud83d")


def test_what_cannot_be_seen_is_spelled_out() -> None:
    report = explained((session_found(0, session="a\u202eb\x00\nc\u200d\ud800 é"),))
    assert "a\\u202eb\\x00\\nc\\u200d\\ud800 é" in read(explain_page(report)).one("tbody").text


def test_a_long_name_shows_its_beginning_and_its_end() -> None:
    report = explained((session_found(0, session="begins" + "x" * 10_000 + "ends"),))
    name = read(explain_page(report)).one("tbody").one("bdi").text
    assert name.startswith("begins")
    assert name.endswith("ends")
    assert len(name) == page_module.NAME


def test_five_thousand_sessions_fit_and_it_is_said_how_many_are_left_out() -> None:
    report = explained(tuple(session_found(number, 3) for number in range(5_000)))
    page = explain_page(report)
    assert len(page.encode()) < LIMIT
    root = read(page)
    assert len(root.one("tbody").all("tr")) == page_module.MOST_ROWS
    assert "Not in this table, but in all sums: 4,500 more sessions, which lost and cost less." in root.text
    assert len(root.all("details")) == page_module.MOST_SESSIONS
    assert "Not told here: 4,960 more sessions with breaks, which lost less; --format json has them." in root.text
    assert "5,000 sessions" in root.one("h1").text


def test_a_thousand_breaks_in_one_session_fit_and_the_dearest_are_told() -> None:
    found = tuple(break_found(number % 4, number + 1, cost_usd=Decimal(number)) for number in range(1_000))
    session = replace(session_found(0), requests=1_200, breaks=found, breaks_left_out=234)
    page = explain_page(explained((session,)))
    assert len(page.encode()) < LIMIT
    root = read(page)
    told = [int(each.one("div", "request").text.replace(",", "")) for each in root.one("ol", "breaks").all("li")]
    assert told == list(range(1_001 - page_module.MOST_BREAKS, 1_001))
    assert "Not told here: 1,184 more of this session, which cost less." in root.one("details").text
    assert len(root.one("details").all("circle")) == 100
    assert root.one("tbody").children[0].children[7].text == "750+"


@pytest.mark.slow
def test_many_large_sessions_with_long_texts_stay_within_the_limit() -> None:
    long = {
        "before": "b" * 5_000,
        "after": "&" * 5_000,
        "advice": "<" * 5_000,
        "path": "p" * 5_000,
        "setting": "s" * 5_000,
    }
    found = tuple(break_found(number, number + 1, **long) for number in range(1_000))
    report = explained(tuple(session_found(number, breaks=0, requests=1_000) for number in range(60)))
    report = replace(report, sessions=tuple(replace(each, breaks=found) for each in report.sessions))
    page = explain_page(report)
    size = len(page.encode())
    assert size < 2 * LIMIT
    root = read(page)
    assert len(root.one("ol", "breaks").all("li")) == page_module.MOST_BREAKS
    assert len(root.all("details")) == page_module.MOST_TOLD // page_module.MOST_BREAKS
    assert "Not told here: 40 more sessions with breaks, which lost less" in root.text


def test_many_files_and_broken_lines_are_counted() -> None:
    files = tuple(FileRead(path=f"file-{number}", format="pi", client="pi", size=10) for number in range(3_000))
    broken = tuple(BrokenSource(source=f"file-{number}:1", why="not JSON") for number in range(100))
    root = read(explain_page(explained((session_found(0),), read=files, broken=70_000, broken_lines=broken)))
    assert "3,000 places, 30 kB." in root.text
    assert "Not listed here: 2,800 more." in root.text
    assert "Not listed here: 69,950 more." in root.text
    assert "70,000 lines or files could not be read" in root.text


def test_figures_of_any_size_are_written_and_drawn() -> None:
    usage = TokenSums(input=10**15, read=10**16, output=10**14)
    found = (
        break_found(0, 1, tokens_lost=10**15, cost_usd=Decimal("1e20"), at=1e300, gap_s=1e12, expected=10**15),
    ) * 2
    found += (break_found(1, 10**9, tokens_lost=0, cost_usd=Decimal("1e-12"), at=float("nan"), gap_s=-3.0),)
    found += (break_found(2, 3, cost_usd=Decimal("-0.5"), at=12.5, gap_s=0.0),)
    session = replace(session_found(0), usage=usage, cost_usd=Decimal("1e21"), breaks=found, started=-1.0, ended=1e18)
    root = read(explain_page(explained((session,))))
    assert "1,000,000,000" in root.text
    assert "$1.000e+21" in root.text
    assert "12.5 s in" in root.text
    assert "<$0.0001" in root.text
    results = tuple(
        replace(each, cost_tokens=Decimal("1e30"), read=10**18, over_optimal=1e9) for each in replayed().results
    )
    read(replay_page(replayed(results=results)))


@pytest.mark.parametrize("ratio", [float("inf"), float("nan"), 0.0, 0.2, 1.0, 1e6])
def test_odd_ratios_are_drawn(ratio: float) -> None:
    report = replayed(MODELS[:1])
    odd = tuple(replace(each, over_optimal=ratio) for each in report.sessions)
    results = tuple(replace(each, over_optimal=ratio) for each in report.results)
    page = replay_page(replace(report, sessions=odd, results=results))
    read(page)
    assert "nan%" not in page
    assert "inf" not in read(page).one("main").text


@pytest.mark.slow
def test_many_models_strategies_traces_and_sessions_stay_within_the_limit() -> None:
    report: ReplayReport = replayed(tuple(f"model-{number}" for number in range(25)), traces=400)
    page = replay_page(report)
    assert len(page.encode()) < 2 * LIMIT
    root = read(page)
    assert "Not shown here: 5 more models; --format json has them." in root.text
    assert "trace-11 and 388 more" in root.text
    assert "Of 400 a row, 150 are drawn, evenly by rank." in root.text


def test_no_secret_place_holds_what_the_page_does_not_show() -> None:
    """Attributes carry texts of a log only where they are needed to sort, and no longer than what is shown."""
    report: ExplainReport = explained(
        (session_found(0, session="n" * 10_000, model="m" * 10_000, source="s" * 10_000),)
    )
    assert "n" * 71 not in explain_page(report)
    assert "s" * 100 not in explain_page(report)
