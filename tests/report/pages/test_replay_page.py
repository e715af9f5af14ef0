"""The replay page says what the run gave."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from holdfast.lab.page import replay_page
from holdfast.report.pages import texts
from tests.report.pages.page_elements import Element, read
from tests.report.pages.reports import MODELS, STRATEGIES, replayed


def section(page: Element, title: str) -> Element:
    return next(each for each in page.all("section") if each.one("h2").text == title)


def test_the_headline_compares_ours_with_the_best_other_tool() -> None:
    headline = read(replay_page(replayed())).one("h1").text
    assert (
        headline == "Holdfast (economic) costs 1.04 times the optimum on 2 models; the best other tool, 1.12 to 1.14."
    )
    ours = tuple(each for each in replayed(MODELS[:1]).results if each.strategy == "economic")
    said = read(replay_page(replayed(MODELS[:1], results=ours))).one("h1").text
    assert said == "Holdfast (economic) costs 1.04 times the optimum."
    others = tuple(each for each in replayed(MODELS[:1]).results if each.strategy != "economic")
    assert read(replay_page(replayed(results=others))).one("h1").text == "The same sessions under 10 strategies."
    assert read(replay_page(replayed(results=others[:1]))).one("h1").text == "The same sessions under 1 strategy."
    assert read(replay_page(replayed((), traces=1))).one("h1").text == "Nothing was replayed."


def test_it_says_what_was_replayed() -> None:
    report = replayed(fault="clock", noise="0.02", seeds=(11, 12))
    facts = section(read(replay_page(report)), "What was replayed")
    said = dict(zip((e.text for e in facts.all("dt")), (e.text for e in facts.all("dd")), strict=True))
    assert said == {
        "Traces": ", ".join(report.traces),
        "Models": ", ".join(report.models),
        "Gaps between requests": "real",
        "Seeds": "11, 12",
        "Fault of the client": "clock",
        "Noise of the provider": "0.02",
        "ttl_raise": "no",
        "Optimum": report.optimum,
    }


@pytest.mark.parametrize("model", MODELS)
def test_each_model_has_bars_cheapest_first_with_ours_marked(model: str) -> None:
    report = replayed()
    results = sorted((each for each in report.results if each.model == model), key=lambda each: each.over_optimal or 0)
    chart = section(read(replay_page(report)), model).all("svg")[0]
    labels = chart.all("text", "label")
    assert [each.text for each in labels[::2]] == [each.strategy for each in results]
    assert [each.text for each in labels[1::2]] == [texts.ratio(each.over_optimal) for each in results]
    assert [each.text for each in chart.all("text", "strong")] == ["economic", texts.ratio(results[1].over_optimal)]
    tones = {
        each.strategy: (bar.attributes["class"] or "").split()[-1]
        for each, bar in zip(results, chart.all("rect"), strict=True)
    }
    assert tones["economic"] == "ours"
    assert tones["rolling"] == "kin"
    assert tones["litellm"] == "peer"
    assert tones["optimal"] == "bound"


def test_bars_are_as_long_as_the_ratios_and_those_far_longer_are_seen_to_be_cut() -> None:
    page = read(replay_page(replayed(MODELS[:1])))
    chart = section(page, MODELS[0]).all("svg")[0]
    widths = [float((each.attributes["width"] or "").rstrip("%")) for each in chart.all("rect")]
    ratios = sorted(ratio for _, _, ratio in STRATEGIES)
    whole = widths[0]
    assert widths[:9] == pytest.approx([whole * ratio for ratio in ratios[:9]], abs=0.02)
    assert widths[9:] == [100.0, 100.0]
    assert len(chart.all("line", "cut")) == 4
    assert chart.one("line", "mark").attributes["x1"] == f"{whole:.2f}%"
    assert "A bar with a gap is longer" in page.text


def test_bars_of_about_one_length_are_not_cut() -> None:
    report = replayed(MODELS[:1])
    page = read(replay_page(replace(report, results=tuple(r for r in report.results if (r.over_optimal or 0) < 1.5))))
    assert not page.all("line", "cut")
    assert "A bar with a gap" not in page.text


def test_the_table_has_the_figures_of_every_strategy() -> None:
    report = replayed(MODELS[:1])
    table = section(read(replay_page(report)), f"{MODELS[0]} in figures").one("table")
    titles = [each.text for each in table.one("thead").all("th")]
    rows = {row.children[0].text: dict(zip(titles, row.children, strict=True)) for row in table.one("tbody").all("tr")}
    assert set(rows) == {each.strategy for each in report.results}
    for result in report.results:
        row = rows[result.strategy]
        assert row["Cost"].text == texts.dollars(result.cost_usd)
        assert Decimal(row["Cost"].attributes["data-v"] or 0) == result.cost_usd
        assert row["Over optimum"].text == texts.ratio(result.over_optimal)
        assert row["Hit rate"].text == texts.share(result.hit_rate)
        assert row["Written 5m"].attributes["data-v"] == str(result.writes["5m"])
        assert row["Written 1h"].attributes["data-v"] == str(result.writes["1h"])
        assert row["Breaks"].text == "6"
        assert row["Surprises"].text == ("1" if result.kind == "engine" else "–")
        assert row["Causes of breaks"].text == "ttl_expired_5m 4, messages_rewritten 2"


def test_every_session_is_a_dot() -> None:
    report = replayed(MODELS[:1], traces=8)
    chart = section(read(replay_page(report)), MODELS[0]).all("svg")[1]
    drawn = len(STRATEGIES) - 2
    assert len(chart.all("circle")) == 8 * drawn
    assert len(chart.all("line", "median")) == drawn
    assert "Too far off to be drawn: two-point, none." in section(read(replay_page(report)), MODELS[0]).text
    medians = [each.text for each in chart.all("text", "figure")]
    values = sorted(each.over_optimal or 0 for each in report.sessions if each.strategy == "economic")
    assert f"median {texts.ratio((values[3] + values[4]) / 2)}" in medians


def test_of_one_session_there_is_no_spread() -> None:
    page = read(replay_page(replayed(MODELS[:1], traces=1)))
    assert len(section(page, MODELS[0]).all("svg")) == 1


def test_without_an_optimum_costs_are_compared_in_tokens() -> None:
    report = replayed(MODELS[:1])
    results = tuple(replace(each, over_optimal=None, cost_usd=None) for each in report.results)
    page = read(replay_page(replace(report, results=results, sessions=())))
    assert "There is no optimum to divide by" in page.text
    assert "4.14M tokens" in section(page, MODELS[0]).text
    assert "unknown" in section(page, f"{MODELS[0]} in figures").text


def test_notes_and_versions_stand_at_the_end() -> None:
    page = read(replay_page(replayed()))
    assert section(page, "Notes").one("li").text == "A filler note on what was left out."
    assert "Versions: holdfast 0.1.0, litellm 1.106.2." in page.one("footer").text


def test_the_same_run_gives_the_same_bytes() -> None:
    assert replay_page(replayed()) == replay_page(replayed())
