"""The stable block, made once and pinned, and the context block beside it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from holdfast.memory.entries import ContextBlock, StableBlock
from holdfast.memory.prompt_texts import ANNOUNCEMENT_CLIENT, PREFERENCES_FROM
from holdfast.memory.surface import TITLES
from tests.memory.surfacing_bench import HOUR, Bench, bench, ids, size, told

LONG = "a sentence that takes up some room in the window. " * 40


def test_the_stable_block_has_preferences_in_full_and_titles_of_the_rest(home: Bench) -> None:
    home.liked("k0000001", "Short answers", "No preamble.", everywhere=True)
    home.liked("k0000002", "Tabs", "In Makefiles only.")
    home.add("k0000003", "Node 20", "The build needs it.", category="gotcha")
    stable = home.stable()
    assert ids(stable) == ["k0000002", "k0000001"]
    assert "> No preamble." in stable.text
    assert "- k0000003 gotcha: Node 20" in stable.text
    assert "The build needs it" not in stable.text
    assert "There are more entries" not in stable.text


def test_e9_pinned_for_an_hour_whatever_is_added_edited_and_forgotten(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    home.liked("k0000002", "Tabs")
    home.add("k0000003", "Node 20")
    before = home.stable()
    home.knowledge.edit("k0000001", content="Long answers.")
    home.knowledge.forget("k0000002")
    home.liked("k0000004", "British spelling")
    home.add("k0000005", "Ports")
    home.now += HOUR - 0.001
    assert home.stable() == before
    home.now += 0.001
    after = home.stable()
    assert ids(after) == ["k0000001", "k0000004"]
    assert "Long answers." in after.text


def test_e10_with_blocks_titles_alone_make_no_stable_block(home: Bench) -> None:
    home.add("k0000003", "Node 20", "The build needs it.", category="gotcha")
    assert home.stable(placement="blocks") == StableBlock()
    home.liked("k0000001", "Short answers")
    assert "- k0000003 gotcha: Node 20" in home.stable(placement="blocks").text


def test_e9_a_pin_that_has_expired_gives_the_same_bytes_where_nothing_changed(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    before = home.stable()
    home.now += 5 * HOUR
    assert home.stable() == before


def test_e9_a_pin_that_was_made_anew_holds_for_its_own_hour(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    home.stable()
    home.now += 1.5 * HOUR
    home.liked("k0000002", "Tabs")
    second = home.stable()
    home.knowledge.forget("k0000002")
    home.now += 0.9 * HOUR
    assert home.stable() == second


def test_e11_one_session_gets_the_text_it_began_with_through_curation_and_idleness(home: Bench) -> None:
    """What a session keeps it does not ask for again; one that begins meanwhile has the same bytes."""
    home.liked("k0000001", "Short answers")
    session = home.asks()
    kept = session.stable(now=home.now)
    home.knowledge.edit("k0000001", content="Long answers.")
    home.now += 0.75 * HOUR
    assert session.stable(now=home.now) == kept
    assert home.stable() == kept
    home.now += 3 * HOUR
    context = session.context("anything", stable=kept)
    assert session.changed_context(context, "anything", stable=kept, refresh=True) is None


def test_a_pin_survives_the_process(tmp_path: Path) -> None:
    with bench(tmp_path) as first:
        first.liked("k0000001", "Short answers")
        before = first.stable()
        first.knowledge.forget("k0000001")
    with bench(tmp_path) as second:
        assert second.stable() == before


def test_of_two_that_begin_at_once_the_first_pin_counts_for_both(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    one, other = home.asks(), home.asks()
    made = one.made_stable()
    home.liked("k0000002", "Tabs")
    assert other.stable(now=home.now).text != made.text
    assert one.stable(now=home.now) == other.stable(now=home.now)


@pytest.mark.parametrize(
    "other", [{"audience": "client"}, {"placement": "blocks"}, {"stable_budget": 0.05}, {"limit": 1_000_000}]
)
def test_pins_are_of_one_audience_placement_and_budget(home: Bench, other: dict[str, object]) -> None:
    home.liked("k0000001", "Short answers")
    home.stable()
    home.liked("k0000002", "Tabs")
    assert ids(home.stable()) == ["k0000001"]
    assert ids(home.stable(**other)) == ["k0000001", "k0000002"]  # type: ignore[arg-type]


def test_pins_and_entries_are_of_one_tenant_and_project(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    home.stable()
    assert home.stable(knowledge=home.of("somebody")) == StableBlock()
    assert home.stable(knowledge=home.of("local", "/home/me/other")) == StableBlock()
    home.liked("k0000002", "Tabs", everywhere=True)
    assert ids(home.stable(knowledge=home.of("local", "/home/me/other"))) == ["k0000002"]
    assert ids(home.stable(knowledge=home.of("local", None))) == ["k0000002"]
    assert home.stable(knowledge=home.of("somebody")) == StableBlock()


def test_what_is_pinned_and_what_would_be_made_can_be_seen_without_pinning_it(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    surfacing = home.asks()
    assert ids(surfacing.made_stable()) == ["k0000001"]
    assert surfacing.pinned(now=home.now) is None
    stable = surfacing.stable(now=home.now)
    home.liked("k0000002", "Tabs")
    pin = surfacing.pinned(now=home.now)
    assert (pin.text, pin.entries) == (stable.text, stable.entries)
    assert ids(surfacing.made_stable()) == ["k0000001", "k0000002"]


def test_an_empty_block_is_not_pinned(home: Bench) -> None:
    assert home.stable() == StableBlock()
    home.liked("k0000001", "Short answers")
    assert ids(home.stable()) == ["k0000001"]


def test_what_there_is_to_say_depends_on_the_audience_and_the_placement(home: Bench) -> None:
    assert home.stable("client") == StableBlock()
    home.add("k0000001", "Node 20")
    assert home.stable("client").text.endswith(ANNOUNCEMENT_CLIENT)
    assert home.stable("client", placement="blocks") == StableBlock()
    assert "- k0000001 decision: Node 20" in home.stable("agent").text
    home.liked("k0000002", "Tabs")
    blocks = home.stable("client", placement="blocks")
    assert PREFERENCES_FROM["client"] in blocks.text
    assert ANNOUNCEMENT_CLIENT not in blocks.text


def test_shares_of_zero_say_nothing_of_that_kind(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    home.add("k0000002", "Node 20")
    assert home.stable(stable_budget=0.0) == StableBlock()
    assert home.stable("client", stable_budget=0.0).entries == ()
    assert ANNOUNCEMENT_CLIENT in home.stable("client", stable_budget=0.0).text
    assert ANNOUNCEMENT_CLIENT in home.stable("client").text
    assert ANNOUNCEMENT_CLIENT not in home.stable("client", context_budget=0.0).text
    none = home.asks(context_budget=0.0)
    assert none.context("Node", stable=StableBlock()) == ContextBlock()
    assert none.delta({}, "Node", first=True, deltas=0) is None


def test_a_store_that_cannot_be_written_gives_the_text_all_the_same(
    home: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.liked("k0000001", "Short answers")
    home.store.flush()
    trigger = "CREATE TRIGGER full BEFORE INSERT ON pins BEGIN SELECT RAISE(ABORT, 'no room'); END"
    connection = sqlite3.connect(tmp_path / "holdfast.db")
    connection.execute(trigger)
    connection.commit()
    connection.close()
    assert ids(home.stable()) == ["k0000001"]
    assert "could not be pinned" in caplog.text


def test_many_preferences_leave_room_for_titles_and_whole_entries_only(home: Bench) -> None:
    for number in range(40):
        home.liked(f"k00000{number:02}", f"Preference {number}", LONG)
    home.add("k0000099", "Node 20")
    surfacing = home.asks()
    stable = surfacing.stable(now=home.now)
    budget = surfacing.budgets.stable
    assert 0 < len(stable.entries) < 40
    assert budget * 0.5 < size(stable.text) <= budget + 16  # the heading is not counted
    assert stable.text.count(LONG.strip()) == len(stable.entries)
    assert "- k0000099 decision: Node 20" in stable.text
    left = set(range(40)) - {int(each[1:]) for each in ids(stable)}
    assert f"- k00000{min(left):02} preference: Preference {min(left)}" in stable.text


def test_a_catalogue_takes_the_projects_own_first_and_lists_by_category_and_title(home: Bench) -> None:
    for number in range(TITLES):
        home.add(f"k0000{number:03}", f"Everywhere {number:03}", everywhere=True)
    home.add("k1000002", "Beta", category="gotcha", confidence=0.1)
    home.add("k1000001", "Alpha", category="pattern", confidence=0.1)
    home.add("k1000003", "Alpha", category="gotcha", confidence=0.2)
    lines = home.stable(limit=1_000_000).text.split("\n- ")
    assert [line.partition("\n")[0] for line in lines[-3:]] == [
        "k1000003 gotcha: Alpha",
        "k1000002 gotcha: Beta",
        "k1000001 pattern: Alpha",
    ]
    assert len(lines) - 1 == TITLES


def test_a_catalogue_is_bounded_and_says_that_there_is_more(home: Bench) -> None:
    for number in range(TITLES + 20):
        home.add(f"k0000{number:03}", f"Title {number:03}", confidence=0.5 if number < 20 else 1.0)
    text = home.stable(limit=1_000_000).text
    assert text.count("\n- ") == TITLES
    assert "Title 019" not in text
    assert "Title 020" in text
    assert text.endswith("There are more entries than these; `recall` finds them too.")


def test_e12_no_preference_is_context_memory_even_where_it_fits_best(home: Bench) -> None:
    home.liked("k0000001", "Rust edition", "Rust edition, rust edition.")
    home.add("k0000002", "Rust toolchain", category="gotcha")
    surfacing = home.asks(placement="blocks")
    stable = surfacing.stable(now=home.now)
    assert ids(surfacing.context("rust edition", stable=stable)) == ["k0000002"]
    assert ids(surfacing.delta(told(stable), "rust edition", first=True, deltas=0)) == ["k0000002"]


def test_a_context_block_has_what_was_found_and_the_net_of_the_project(home: Bench) -> None:
    for number in range(8):
        home.add(f"k000000{number}", f"Subject {number}", confidence=0.8 if number in (0, 1) else 0.5)
    home.add("k0000010", "Rust toolchain", everywhere=True, confidence=0.3)
    home.add("k0000011", "Elsewhere", everywhere=True)
    context = home.asks(placement="blocks").context("which rust?", stable=StableBlock())
    assert ids(context)[:3] == ["k0000010", "k0000000", "k0000001"]
    assert len(context.entries) == 6
    assert "k0000011" not in ids(context)


def test_e24_preferences_never_starve_the_context_block(home: Bench) -> None:
    for number in range(30):
        home.liked(f"k00000{number:02}", f"Preference {number}", LONG)
        home.add(f"k10000{number:02}", f"Compiler trap {number}", LONG)
    surfacing = home.asks(placement="blocks", stable_budget=0.06, context_budget=0.01)
    stable = surfacing.stable(now=home.now)
    context = surfacing.context("compiler", stable=stable)
    whole = 0.07 * surfacing.budgets.usable
    assert size(stable.text) > 0.5 * whole
    assert 0.4 * whole < size(context.text) <= surfacing.budgets.context(size(stable.text))


def test_a_context_block_stays_until_an_entry_in_it_changed_or_was_forgotten(home: Bench) -> None:
    home.add("k0000001", "Rust toolchain", "Version 1.80.")
    home.add("k0000002", "Rust linker", "It is mold.")
    surfacing = home.asks(placement="blocks")
    stable = StableBlock()
    before = surfacing.context("rust", stable=stable)
    home.add("k0000003", "Rust rust rust")
    home.knowledge.edit("k0000001", content="  VERSION 1.80 ", confidence=0.1)
    assert surfacing.changed_context(before, "linker rust mold", stable=stable) is None
    home.knowledge.edit("k0000001", content="Version 1.81.")
    changed = surfacing.changed_context(before, "anything", stable=stable)
    assert ids(changed) == ids(before)
    assert "> Version 1.81." in changed.text
    home.knowledge.forget("k0000002")
    assert ids(surfacing.changed_context(changed, None, stable=stable)) == ["k0000001"]


def test_a_context_block_of_every_turn_changes_with_the_set_and_not_with_the_rank(home: Bench) -> None:
    home.add("k0000001", "Rust toolchain", everywhere=True)
    home.add("k0000002", "Rust linker", everywhere=True)
    home.add("k0000003", "Python", everywhere=True)
    surfacing = home.asks(placement="blocks", retrieve="every_turn")
    before = surfacing.context("rust toolchain", stable=StableBlock())
    reordered = surfacing.context("rust linker", stable=StableBlock())
    assert ids(before) == list(reversed(ids(reordered)))
    assert surfacing.changed_context(before, "rust linker", stable=StableBlock()) is None
    assert ids(surfacing.changed_context(before, "python", stable=StableBlock())) == ["k0000003"]
    assert surfacing.changed_context(before, None, stable=StableBlock()) is None
    assert surfacing.changed_context(before, "rust linker", stable=StableBlock(), refresh=True) is None


def test_the_sampled_test_compares_texts(home: Bench) -> None:
    home.add("k0000001", "Rust toolchain", everywhere=True)
    home.add("k0000002", "Rust linker", everywhere=True)
    sampled = home.asks(placement="blocks", retrieve="every_turn", change_test="sampled")
    before = sampled.context("rust toolchain", stable=StableBlock())
    after = sampled.changed_context(before, "rust linker", stable=StableBlock())
    assert after is not None
    assert ids(after) == list(reversed(ids(before)))


def test_by_the_sampled_test_a_small_change_waits_and_a_forgotten_entry_does_not(home: Bench) -> None:
    home.add("k0000001", "Rust toolchain", "Version 1.80. " + LONG)
    home.add("k0000002", "Zig", "Z.")
    surfacing = home.asks(placement="blocks", change_test="sampled")
    before = surfacing.context("rust", stable=StableBlock())
    assert ids(before) == ["k0000001", "k0000002"]
    home.knowledge.edit("k0000001", content="Version 1.81. " + LONG)
    assert surfacing.changed_context(before, None, stable=StableBlock()) is None
    home.knowledge.forget("k0000002")
    assert ids(surfacing.changed_context(before, None, stable=StableBlock())) == ["k0000001"]


def test_e13_an_emergency_chooses_the_context_block_anew_and_leaves_the_stable_one(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    home.add("k0000002", "Rust toolchain", everywhere=True)
    home.add("k0000003", "Python", everywhere=True)
    surfacing = home.asks(placement="blocks")
    stable = surfacing.stable(now=home.now)
    before = surfacing.context("rust", stable=stable)
    home.knowledge.edit("k0000001", content="Long answers.")
    assert surfacing.changed_context(before, "python", stable=stable) is None
    assert ids(surfacing.changed_context(before, "python", stable=stable, refresh=True)) == ["k0000003"]
    assert surfacing.changed_context(before, "rust", stable=stable, refresh=True) is None
    assert surfacing.changed_context(before, None, stable=stable, refresh=True) is None
    assert surfacing.stable(now=home.now) == stable
