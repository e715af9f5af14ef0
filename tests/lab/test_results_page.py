"""docs/results.md speaks of the sessions that are there, and what it says comes out again."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import headlines, results

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text("utf-8")


def test_it_was_made_from_these_sessions() -> None:
    assert results.digest() in PAGE, "benchmarks/data has changed: make results"


def test_all_its_parts_are_there() -> None:
    titles = [line for line in PAGE.splitlines() if line.startswith("## ")]
    assert titles[0] == "## Against automatic caching"
    for title in ("Clients that break their own prefix", "Method", "Limits", "Versions"):
        assert f"## {title}" in titles


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [*results.ENGINE, *results.PEERS, "optimal"])
def test_a_column_comes_out_again(strategy: str) -> None:
    report = results.replayed("dialogues", "none", "claude-opus-4-6")
    part = PAGE.split("## Every strategy on claude-opus-4-6", 1)[1].split("\n## ", 1)[0]
    (row,) = [line for line in part.splitlines() if line.startswith(f"| {strategy} |")]
    place = 2 + results.SETS.index(("dialogues", "none"))
    paid, automatic = results.cost(report, strategy), results.cost(report, "automatic")
    assert paid is not None
    assert automatic is not None
    assert row.split("|")[place].strip() == f"{paid / automatic:.3f}"


def test_the_documents_headline_figures_stand_beside_ours() -> None:
    part = PAGE.split("## The headline figures of the documents", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in part.splitlines() if line.startswith("| ")]
    for figure in ("16.9 tokens read for one written, 94%", "$26 a day", "81%", "1,700 tokens"):
        assert any(figure in row for row in rows), figure
    assert len(rows) == 1 + 2 + 2 * len(headlines.CHANNEL_MODELS) + 2


@pytest.mark.slow
def test_the_coding_session_comes_out_again_with_76_requests() -> None:
    played = headlines.coding("economic")
    assert played.calls == 76 * len(results.SEEDS)
    assert f"| economic | {played.ratio:.1f} tokens, {played.from_cache:.1%};" in PAGE


@pytest.mark.slow
def test_a_day_in_the_channel_costs_what_the_document_says_without_a_cache() -> None:
    played = headlines.channel("anthropic:claude-sonnet-4-6", "economic")
    assert abs(played.uncached - 26) < 1
    assert f"| economic | ${played.uncached:.2f} and ${played.dollars:.2f} " in PAGE
