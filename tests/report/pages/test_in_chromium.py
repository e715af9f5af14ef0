"""The pages in a real browser: nothing is asked for, nothing complained of, nothing overlaps or sticks out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.lab.page import replay_page
from holdfast.report.pages import explain_page
from tests.browser import Browser, Visit, launched
from tests.report.pages.hostile_texts import HOSTILE, filled
from tests.report.pages.reports import MODELS, explained, replayed, session_found, usual

pytestmark = pytest.mark.slow


def _hostile(number: int) -> str:
    return explain_page(filled(usual(), HOSTILE[number]))


def _far_apart() -> str:
    """Sessions between the optimum and a hundred times of it: an axis with more round values than have room."""
    report = replayed(MODELS[:1])
    spread = (replace(each, over_optimal=(1.0, 1.5, 100.0)[place % 3]) for place, each in enumerate(report.sessions))
    return replay_page(replace(report, sessions=tuple(spread)))


PAGES: dict[str, Callable[[], str]] = {
    "far apart": _far_apart,
    "explain": lambda: explain_page(usual()),
    "replay": lambda: replay_page(replayed()),
    "nothing": lambda: explain_page(explained(())),
    "many": lambda: explain_page(explained(tuple(session_found(number, 4) for number in range(600)))),
    "hostile replay": lambda: replay_page(filled(replayed(), HOSTILE[0] * 3)),
} | {f"hostile {number}": partial(_hostile, number) for number in (0, 1, 10, 11, 12, 13, 14, 15, 16)}

# Labels of charts that lie on one another or on a bar, or stick out of their chart, by a pixel or more.
CROWDED = """
[...document.querySelectorAll("svg.chart")].flatMap(chart => {
  const frame = chart.getBoundingClientRect();
  const boxes = kind => [...chart.querySelectorAll(kind)].map(each => [each.textContent, each.getBoundingClientRect()]);
  const texts = boxes("text").filter(([, box]) => box.width > 0);
  const out = texts.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1).map(([text]) => "out: " + text);
  const others = at => [...texts.slice(at + 1), ...boxes("rect").map(([, box]) => ["a bar", box])];
  const on = texts.flatMap(([one, a], at) => others(at).filter(([, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2
  ).map(([other]) => one + " on " + other));
  return [...out, ...on];
})
"""

# A telephone shows a page that is too wide smaller: the width is compared with that of the window, not of the page.
TOO_WIDE = """
[document.scrollingElement.scrollWidth, innerWidth].filter(each => each > WIDTH).concat(
 [...document.querySelectorAll("main p, main li, main dd, h1, h2, summary, .tiles div")]
   .filter(each => each.getBoundingClientRect().right > WIDTH + 1).map(each => each.textContent.slice(0, 80)))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as running:
        yield running


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The address of a page as a file."""
    folder: Path = tmp_path_factory.mktemp("pages")

    def write(name: str) -> str:
        path = folder / f"{name.replace(' ', '-')}.html"
        if not path.exists():
            path.write_text(PAGES[name](), "utf-8")
        return path.as_uri()

    return write


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_complete_and_fits(browser: Browser, written: Callable[[str], str], name: str) -> None:
    url = written(name)
    for width in (390, 1280):
        with browser.open(url, width=width) as visit:
            assert visit.requested == [url]
            assert visit.complaints == []
            assert visit.run(TOO_WIDE.replace("WIDTH", str(width))) == []
            assert visit.run(CROWDED) == []
            assert not visit.happened("Page.javascriptDialogOpening")


def test_it_is_dark_where_people_want_it_dark(browser: Browser, written: Callable[[str], str]) -> None:
    for dark, colour in ((False, "rgb(251, 250, 246)"), (True, "rgb(20, 23, 26)")):
        with browser.open(written("explain"), dark=dark) as visit:
            assert visit.run("getComputedStyle(document.body).backgroundColor") == colour


def column(visit: Visit, number: int) -> list[str]:
    cells = f"[...document.querySelectorAll('tbody tr:not([hidden])')].map(row => row.cells[{number}].textContent)"
    return list(visit.run(cells))


def test_a_table_is_sorted_and_filtered_where_scripts_run(browser: Browser, written: Callable[[str], str]) -> None:
    with browser.open(written("many")) as visit:
        names = column(visit, 0)
        assert len(names) == 500
        visit.run("document.querySelectorAll('thead button')[4].click()")
        requests = [int(each.replace(",", "")) for each in column(visit, 4)]
        assert requests == sorted(requests, reverse=True)
        visit.run("document.querySelectorAll('thead button')[4].click()")
        assert [int(each.replace(",", "")) for each in column(visit, 4)] == requests[::-1]
        visit.run("document.querySelectorAll('thead button')[0].click()")
        assert column(visit, 0) == sorted(names, reverse=True)
        visit.run(
            "(() => { const field = document.querySelector('input[type=search]'); field.value = 'SESSION-059';"
            " field.dispatchEvent(new Event('input')); })()"
        )
        assert sorted(column(visit, 0)) == [f"session-059{number}" for number in range(10)]


def test_a_link_opens_the_session_it_leads_to(browser: Browser, written: Callable[[str], str]) -> None:
    with browser.open(written("explain")) as visit:
        closed = visit.run("document.querySelector('details:not([open])').id")
        visit.run(f"document.querySelector('a[href=\"#{closed}\"]').click()")
        visit.run("new Promise(done => setTimeout(done, 50))")
        assert visit.run(f"document.getElementById('{closed}').open") is True


def test_without_scripts_it_says_the_same_and_nothing_is_dead(browser: Browser, written: Callable[[str], str]) -> None:
    said = "[...document.querySelectorAll('section')].map(each => each.textContent.replace(/Copy/g, ''))"
    with browser.open(written("explain"), scripts=False) as bare, browser.open(written("explain")) as visit:
        assert bare.complaints == []
        assert bare.run("document.querySelectorAll('button, input').length") == 0
        assert visit.run("document.querySelectorAll('button').length") > 0
        assert bare.run(said) == visit.run(said)


def test_printed_it_is_light_and_nothing_is_folded_away(
    browser: Browser, written: Callable[[str], str], tmp_path: Path
) -> None:
    folded = "[...document.querySelectorAll('details .inside')].filter(each => !each.checkVisibility())"
    with browser.open(written("explain"), dark=True) as visit:
        visit.printed(tmp_path / "page.pdf")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
        assert visit.run(f"{folded}.length") > 0
        dark = {"name": "prefers-color-scheme", "value": "dark"}
        visit.ask("Emulation.setEmulatedMedia", media="print", features=[dark])
        assert visit.run("getComputedStyle(document.body).color") == "rgb(30, 35, 39)"
        assert visit.run(f"{folded}.length") == 0
