"""The explain page says what the report says, and nothing else."""

from __future__ import annotations

import base64
import hashlib
from decimal import Decimal

import pytest
from msgspec.structs import replace

from holdfast import __version__
from holdfast.report.explainer.results import CauseSum, CureSum, ExplainReport, FileRead
from holdfast.report.pages import explain_page, texts
from tests.report.pages.page_elements import Element, read
from tests.report.pages.reports import break_found, explained, session_found, usual


def table(page: Element) -> list[dict[str, Element]]:
    """The sessions' rows by the titles of the columns."""
    titles = [each.text for each in page.one("thead").all("th")]
    return [dict(zip(titles, row.children, strict=True)) for row in page.one("tbody").all("tr")]


def section(page: Element, title: str) -> Element:
    return next(each for each in page.all("section") if each.one("h2").text == title)


def titles(page: Element) -> list[str]:
    return [each.one("h2").text for each in page.all("section")]


def test_the_policy_allows_our_own_style_and_script_and_nothing_else() -> None:
    page = read(explain_page(usual()))
    meta = next(each for each in page.all("meta") if "http-equiv" in each.attributes)
    policy = meta.attributes["content"] or ""
    allowed = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for name in ("style", "script"):
        digest = hashlib.sha256("".join(page.one(name).texts).encode()).digest()
        assert allowed.pop(f"{name}-src") == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert allowed == {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'"}


def test_the_headline_is_a_sentence_with_the_sums() -> None:
    report = explained(tuple(session_found(number, 3) for number in range(12)))
    totals = report.totals
    assert (totals.breaks, totals.resets) == (24, 12)
    headline = read(explain_page(report)).one("h1").text
    assert headline == f"{texts.dollars(totals.cost_usd)} spent in 12 sessions; " + (
        f"{texts.dollars(totals.break_cost_usd)} of it because the cache broke 24 times."
    )


@pytest.mark.parametrize(
    ("report", "headline"),
    [
        (explained(()), "No requests were found in what was read."),
        (explained((session_found(0),)), "$2.13 spent in 1 session; the cache never broke."),
        (
            explained((session_found(0, breaks=1, cost_usd=Decimal(5)),)),
            "$5.00 spent in 1 session; $0.0414 of it because the cache broke once.",
        ),
        (
            explained((replace(session_found(0), breaks=(break_found(2, 9),)),)),
            "$2.13 spent in 1 session; the cache never broke without a reason; 1 reset had one.",
        ),
        (
            explained((replace(session_found(0), cost_usd=None, breaks=(break_found(0, 9, cost_usd=None),)),)),
            "1 session, at prices that are not known; 12k tokens were billed again because the cache broke once.",
        ),
        (explained((session_found(0, estimated=True),)), "About $2.13 spent in 1 session; the cache never broke."),
    ],
)
def test_the_headline_suits_what_was_found(report: ExplainReport, headline: str) -> None:
    assert read(explain_page(report)).one("h1").text == headline


def test_the_tiles_are_the_totals() -> None:
    report = usual()
    figures = [each.text for each in read(explain_page(report)).one("dl", "tiles").all("dd", "figure")]
    totals = report.totals
    assert totals.hit_rate is not None
    expected = [texts.dollars(totals.cost_usd), f"{totals.hit_rate:.1%}", "20", texts.dollars(totals.break_cost_usd)]
    assert figures == expected


def test_the_parts_of_the_money_are_as_wide_as_they_are_dear_and_add_up() -> None:
    report = usual()
    money = report.totals.money
    part = section(read(explain_page(report)), "Where the money went")
    amounts = [money.reads, money.growth, money.input, money.output, money.resets, money.rewritten]
    assert [each.all("span", "figure")[0].text for each in part.one("ul", "legend").all("li")] == [
        texts.dollars(amount) for amount in amounts
    ]
    widths = [float((each.attributes["width"] or "").rstrip("%")) for each in part.one("svg").all("rect")]
    total = sum(amounts)
    assert total == report.totals.cost_usd
    assert widths == pytest.approx([float(100 * amount / total) for amount in amounts], abs=0.01)


def test_causes_come_dearest_first_with_what_they_mean() -> None:
    report = usual()
    ranked = sorted(report.totals.causes, key=lambda each: -(each.cost_usd or 0))
    part = section(read(explain_page(report)), "Money lost by cause")
    labels = [each.text for each in part.one("svg").all("text", "label")]
    assert labels[::2] == [each.cause or each.reset for each in ranked]
    assert labels[1::2] == [
        f"{texts.dollars(each.cost_usd)} · {each.breaks} {'reset' if each.reset else 'break'}s" for each in ranked
    ]
    widths = [float((each.attributes["width"] or "").rstrip("%")) for each in part.one("svg").all("rect")]
    most = ranked[0].cost_usd or Decimal(1)
    assert widths == pytest.approx([float(100 * (each.cost_usd or 0) / most) for each in ranked], abs=0.01)
    assert [each.text for each in part.one("dl", "words").all("dt")] == labels[::2]


def test_without_prices_causes_are_ranked_by_tokens() -> None:
    causes = tuple(
        CauseSum(cause=name, reset=None, breaks=1, tokens_lost=tokens, cost_usd=None)
        for name, tokens in (("unknown", 10), ("tools_changed", 4_000))
    )
    report = explained((session_found(0, cost_usd=None),))
    page = read(explain_page(replace(report, totals=replace(report.totals, causes=causes))))
    labels = [each.text for each in section(page, "Tokens lost by cause").one("svg").all("text", "label")]
    assert labels == ["tools_changed", "4k tokens · 1 break", "unknown", "10 tokens · 1 break"]
    assert "$" not in section(page, "Tokens lost by cause").text


def test_the_three_cures_worth_most_have_advice_and_a_setting_to_copy() -> None:
    report = usual()
    items = read(explain_page(report)).one("ol", "cures").all("li")
    cures = report.totals.cures[:3]
    assert len(items) == 3
    for item, cure in zip(items, cures, strict=True):
        assert cure.cure in item.text
        assert cure.advice in item.text
        assert texts.dollars(cure.saves_usd) in item.text
        assert [each.text for each in item.all("code", "copy")] == ([cure.setting] if cure.setting else [])


def test_a_cure_without_breaks_is_named_without_them_and_what_is_to_be_typed_is_set_apart() -> None:
    report = explained((session_found(0),))
    cure = CureSum(cure="no_marker", advice="Call `holdfast run -- <x>` & see.", setting=None, breaks=0, saves_usd=None)
    page = read(explain_page(replace(report, totals=replace(report.totals, cures=(cure,)))))
    item = page.one("ol", "cures").one("li")
    assert item.text == "no_markerCall holdfast run -- <x> & see."
    assert item.one("code").text == "holdfast run -- <x>"


def test_other_lifetimes_are_compared_with_what_was_billed() -> None:
    report = usual()
    ttl = report.totals.ttl
    part = section(read(explain_page(report)), "Another lifetime")
    assert f"Cheapest: all for 5 minutes, {texts.dollars(ttl.as_billed - ttl.all_5m)} less" in part.text
    figures = [each.text for each in part.one("svg").all("text", "figure")]
    assert figures == [texts.dollars(each) for each in (ttl.as_billed, ttl.all_5m, ttl.all_1h, ttl.no_cache)]
    cheap = replace(report.totals, ttl=replace(ttl, as_billed=Decimal(1)))
    page = read(explain_page(replace(report, totals=cheap)))
    assert "As billed was cheapest." in section(page, "Another lifetime").text


def test_every_session_is_a_row_and_the_rows_add_up_to_the_totals() -> None:
    report = usual()
    rows = table(read(explain_page(report)))
    assert {row["Session"].text.removesuffix(" (estimated)") for row in rows} == {s.session for s in report.sessions}

    def total(title: str) -> Decimal:
        return sum((Decimal(row[title].attributes.get("data-v") or 0) for row in rows), Decimal(0))

    assert total("Requests") == report.totals.requests
    assert total("Prompt tokens") == report.totals.usage.prompt
    assert total("Breaks") == report.totals.breaks
    assert total("Lost") == report.totals.break_cost_usd
    assert total("Cost") == report.totals.cost_usd
    lost = [Decimal(row["Lost"].attributes.get("data-v") or 0) for row in rows]
    assert lost == sorted(lost, reverse=True)
    assert [row["Session"].text for row in rows if "estimated" in row["Session"].text] == ["session-0011 (estimated)"]


def test_a_column_that_says_nothing_is_left_out() -> None:
    page = read(explain_page(explained((session_found(0, client="", started=None), session_found(1, client="")))))
    assert "Client" not in table(page)[0]
    assert table(page)[1]["Started"].text == "–"


def test_every_break_says_where_when_why_and_what_to_do() -> None:
    found = break_found(0, 103, gap_s=260.0, offset=48_211)
    report = explained((replace(session_found(0), requests=120, breaks=(found, break_found(0, 110))),))
    first, second = read(explain_page(report)).one("ol", "breaks").all("li")
    assert first.one("div", "request").text == "103"
    for said in (
        "messages_rewritten", "12,000 tokens", "$0.0414", "2030-03-17 19:29:40", "4 min 20 s after the request before",
        "read 14,000 of 26,000 tokens", "seen in the bytes", "session.jsonl:206", "content[0] @ byte 48,211",
        "…Current time: 14:02:09\\nWorking", "…Current time: 14:06:31\\nWorking", "The clock at", 'cache.repair = "on"',
    ):  # fmt: skip
        assert said in first.text, said
    assert "Cure: as at request 103." in second.text


def test_links_lead_to_places_on_the_page() -> None:
    page = read(explain_page(usual()))
    ids = [
        each.attributes["id"] for name in ("details", "section") for each in page.all(name) if "id" in each.attributes
    ]
    assert len(ids) == len(set(ids))
    links = [each.attributes["href"] or "" for each in page.all("a")]
    assert len(links) == 8  # seven sessions with breaks, and what could not be read
    assert {link[1:] for link in links} == set(ids)


def test_a_session_with_several_breaks_has_a_chart_that_ends_at_their_sum() -> None:
    report = explained((session_found(0, 5),))
    svg = read(explain_page(report)).one("details").one("svg")
    assert len(svg.all("circle")) == 5
    notes = [each.one("title").text for each in svg.all("circle")]
    assert [note.split(":")[0] for note in notes] == [f"Request {each.request}" for each in report.sessions[0].breaks]
    path = svg.one("path").attributes["d"] or ""
    assert path.startswith("M0 132H")
    assert path.endswith("V0.0H500")


def test_what_is_doubtful_is_said_before_the_figures() -> None:
    page = read(explain_page(usual()))
    said = [each.text for each in page.one("ul", "notices").all("li")]
    assert said == [
        "3 lines or files could not be read and had to be left out; see which.",
        "For 1 of 12 sessions the log holds no usage: tokens and dollars are estimates by the cache rules.",
        "3 requests have no known price and no part in the dollars on this page.",
    ]
    unread = section(page, "What was read").text
    assert "session-0003.jsonl:17: not JSON: unexpected end of data" in unread
    assert "Not listed here: 2 more." in unread
    assert "12 places, 16.8 MB." in unread
    assert not read(explain_page(explained((session_found(0),)))).all("ul", "notices")


def test_a_report_of_an_interrupted_reading_says_so() -> None:
    page = read(explain_page(explained((session_found(0),), partial=True)))
    assert page.one("ul", "notices").text == "Reading was interrupted: this is what had been read until then."


def test_the_footer_says_how_it_is_reckoned_with_which_prices_and_by_whom() -> None:
    foot = read(explain_page(usual())).one("footer").text
    assert "A break is a request that read less" in foot
    assert "Prices: genai-prices 0.2.1." in foot
    assert f"Made by holdfast {__version__}." in foot


def test_an_empty_report_is_a_page_too() -> None:
    page = read(explain_page(explained(())))
    assert titles(page) == []
    assert [each.text for each in page.all("dd", "figure")] == ["–", "–", "0", "$0.00"]


def test_without_any_price_no_dollars_are_made_up() -> None:
    broken = replace(session_found(0), cost_usd=None, unpriced=60, breaks=(break_found(0, 9, cost_usd=None),) * 2)
    page = read(
        explain_page(explained((broken,), prices="", read=(FileRead(path="a", format="pi", client="pi", size=9),)))
    )
    assert "$" not in page.one("body").text
    assert "No price is known for these requests." in page.text
    assert "Prices: none known." in page.text


def test_the_same_report_gives_the_same_bytes() -> None:
    assert explain_page(usual()) == explain_page(usual())
