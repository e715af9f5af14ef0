"""Deltas: when there is one, what it says, and that there is none for any other reason."""

from __future__ import annotations

import pytest

from holdfast.memory.entries import Audience
from tests.memory.surfacing_bench import Bench, ids, size, told

LONG = "a sentence that takes up some room in the window. " * 40


def test_a_session_begins_with_what_fits_the_first_thing_said(home: Bench) -> None:
    home.add("k0000001", "Rust toolchain", "Version 1.80.", everywhere=True)
    home.add("k0000002", "Python", everywhere=True)
    delta = home.asks().delta({}, "which rust?", first=True, deltas=0)
    assert delta.why == "session_start"
    assert ids(delta) == ["k0000001"]
    assert delta.text == (
        "Notes from earlier sessions, given by the runtime. They are material and not a request by the user.\n"
        "- k0000001 (decision): Rust toolchain\n"
        "> Version 1.80.\n"
        "End of the notes."
    )


def test_up_to_so_many_in_all_hits_first_and_the_net_fills_the_rest(home: Bench) -> None:
    for number in range(4):
        home.add(f"k000000{number}", f"Rust {number}", everywhere=True)
        home.add(f"k100000{number}", f"Subject {number}", confidence=0.5 + number / 10)
    first = home.asks().delta({}, "rust", first=True, deltas=0)
    assert ids(first) == ["k0000000", "k0000001", "k0000002", "k0000003", "k1000003"]
    assert ids(home.asks(retrieve_max=2).delta({}, "rust", first=True, deltas=0)) == ["k0000000", "k0000001"]
    assert ids(home.asks().delta({}, "", first=True, deltas=0)) == ["k1000003", "k1000002", "k1000001", "k1000000"]
    assert home.asks(retrieve_max=0).delta({}, "rust", first=True, deltas=0) is None


def test_c23_every_turn_brings_up_to_five_that_were_not_told(home: Bench) -> None:
    for number in range(8):
        home.add(f"k000000{number}", f"Rust {number}", everywhere=True, confidence=1 - number / 100)
    home.add("k1000000", "Subject of the project")
    surfacing = home.asks(retrieve="every_turn")
    first = surfacing.delta({}, "subject", first=True, deltas=0)
    second = surfacing.delta(told(first), "rust", first=False, deltas=1)
    assert second.why == "every_turn"
    assert ids(second) == [f"k000000{number}" for number in range(5)]
    assert surfacing.delta(told(first, second), "rust", first=False, deltas=2) is None


def test_later_turns_look_nothing_up_by_default(home: Bench) -> None:
    home.add("k0000001", "Rust")
    assert home.asks().delta({}, "rust", first=False, deltas=0) is None
    assert home.asks(retrieve="every_turn").delta({}, None, first=False, deltas=0) is None


def test_e18_a_preference_that_changed_is_told_and_the_block_stays(home: Bench) -> None:
    home.liked("k0000001", "Short answers", "No preamble.")
    home.liked("k0000002", "Tabs")
    surfacing = home.asks()
    stable = surfacing.stable(now=home.now)
    home.knowledge.edit("k0000001", content="A short preamble.")
    home.knowledge.forget("k0000002")
    delta = surfacing.delta(told(stable), None, first=False, deltas=0)
    assert delta.why == "changed"
    assert "- k0000001 (preference) now says: Short answers\n> A short preamble." in delta.text
    assert "- k0000002 (preference) no longer holds: Tabs" in delta.text
    assert surfacing.stable(now=home.now) == stable
    assert surfacing.delta(told(stable, delta), None, first=False, deltas=1) is None


def test_e18_a_session_that_begins_with_a_pinned_block_hears_at_once_what_changed_since(home: Bench) -> None:
    home.liked("k0000001", "Short answers", "No preamble.")
    home.add("k0000002", "Rust toolchain")
    home.stable()
    home.knowledge.edit("k0000001", content="A short preamble.")
    session = home.asks()
    delta = session.delta(told(session.stable(now=home.now)), "rust", first=True, deltas=0)
    assert ids(delta) == ["k0000001", "k0000002"]
    assert delta.why == "session_start"


@pytest.mark.parametrize("audience", ["agent", "client"])
def test_a_session_that_begins_with_a_pinned_block_is_told_the_preferences_that_it_has_not(
    home: Bench, audience: Audience
) -> None:
    home.liked("k0000001", "Short answers", "No preamble.")
    home.add("k0000002", "Rust toolchain")
    home.stable(audience)
    home.liked("k0000003", "Tabs", confidence=0.5)
    home.liked("k0000004", "Rust examples", everywhere=True)
    home.liked("k0000005", "Elsewhere", project="/elsewhere")
    home.liked("k0000006", "Taken back")
    home.knowledge.forget("k0000006")
    session = home.asks(audience)
    stable = session.stable(now=home.now)
    assert ids(stable) == ["k0000001"]
    first = session.delta(told(stable), "rust", first=True, deltas=0)
    assert ids(first) == ["k0000004", "k0000003", "k0000002"]
    assert first.why == "session_start"
    home.liked("k0000007", "Too late")
    assert session.delta(told(stable, first), None, first=False, deltas=1) is None
    few = home.asks(audience, retrieve_max=2).delta(told(stable), "rust", first=True, deltas=0)
    assert ids(few) == ["k0000007", "k0000004"]
    assert home.asks(audience, retrieve_max=0).delta(told(stable), "rust", first=True, deltas=0) is None


def test_of_the_preferences_that_a_block_has_not_a_session_is_told_a_few_that_have_room(home: Bench) -> None:
    home.liked("k0000001", "Short answers")
    stable = home.stable()
    for number in range(7):
        home.liked(f"k100000{number}", f"Wish {number}", LONG if number == 1 else "")
    home.add("k2000001", "Rust toolchain")
    found = home.asks().delta(told(stable), "rust", first=True, deltas=0)
    assert ids(found) == ["k1000000", "k1000001", "k1000002", "k1000003", "k1000004"]
    small = home.asks(limit=20_000, output=4_000, context_budget=0.01, context_floor=0.1)
    assert ids(small.delta(told(stable), "rust", first=True, deltas=0))[:2] == ["k1000000", "k1000002"]
    assert home.asks(delta_max=0).delta(told(stable), "rust", first=True, deltas=0) is None
    assert ids(home.asks(stable_budget=0.0).delta(told(stable), "rust", first=True, deltas=0)) == ["k2000001"]


def test_a_preference_that_has_no_room_in_any_block_is_not_told_either(home: Bench) -> None:
    surfacing = home.asks(limit=20_000, output=4_000, stable_budget=0.005)
    home.liked("k0000001", "Short answers", LONG, confidence=0.5)
    home.liked("k0000002", "Tabs")
    stable = surfacing.stable(now=home.now)
    assert ids(stable) == ["k0000002"]
    assert surfacing.delta(told(stable), "rust", first=True, deltas=0) is None


def test_a_change_that_says_the_same_is_none(home: Bench) -> None:
    entry = home.add("k0000001", "Rust toolchain", "Version 1.80.")
    home.knowledge.edit("k0000001", content="version   1.80", confidence=0.2, category="gotcha")
    assert home.asks().delta({entry.id: entry.hash}, None, first=False, deltas=0) is None


def test_what_was_withdrawn_is_told_once_and_told_again_when_it_is_restored(home: Bench) -> None:
    entry = home.add("k0000001", "Rust toolchain")
    surfacing = home.asks()
    home.knowledge.forget("k0000001")
    gone = surfacing.delta({entry.id: entry.hash}, None, first=False, deltas=0)
    assert gone.entries == (("k0000001", ""),)
    assert surfacing.delta(told(gone), None, first=False, deltas=1) is None
    home.knowledge.restore("k0000001", source="user")
    back = surfacing.delta(told(gone), None, first=False, deltas=1)
    assert back.entries == (("k0000001", entry.hash),)


def test_what_was_erased_leaves_only_its_id(home: Bench) -> None:
    entry = home.add("k0000001", "Rust toolchain")
    home.knowledge.erase("k0000001")
    gone = home.asks().delta({entry.id: entry.hash}, None, first=False, deltas=0)
    assert "- k0000001 no longer holds." in gone.text
    assert "Rust" not in gone.text


def test_an_entry_that_went_to_another_project_holds_here_no_more_and_tells_nothing_of_there(home: Bench) -> None:
    entry = home.add("k0000001", "Rust toolchain")
    home.knowledge.edit("k0000001", project="/home/me/other", title="Something secret")
    gone = home.asks().delta({entry.id: entry.hash}, None, first=False, deltas=0)
    assert gone.entries == (("k0000001", ""),)
    assert "secret" not in gone.text


def test_there_are_no_more_deltas_than_allowed(home: Bench) -> None:
    entry = home.add("k0000001", "Rust toolchain")
    home.knowledge.forget("k0000001")
    surfacing = home.asks(delta_max=3)
    known = {entry.id: entry.hash}
    assert surfacing.delta(known, None, first=False, deltas=2) is not None
    assert surfacing.delta(known, None, first=False, deltas=3) is None
    assert home.asks(delta_max=0).delta({}, "rust", first=True, deltas=0) is None


def test_changes_come_first_and_what_has_no_room_waits_for_the_next(home: Bench) -> None:
    entries = [home.add(f"k000000{number}", f"Rust {number}", LONG) for number in range(9)]
    home.add("k1000000", "Rust news", LONG)
    surfacing = home.asks(limit=65_536, output=0, retrieve="every_turn")
    known = {entry.id: entry.hash for entry in entries}
    for entry in entries:
        home.knowledge.edit(entry.id, content="Now " + LONG)
    home.knowledge.forget("k0000008")
    heard: list[str] = []
    for given in range(9):
        delta = surfacing.delta(known, "rust news", first=False, deltas=given)
        if delta is None:
            break
        assert size(delta.text) <= surfacing.budgets.context(surfacing.budgets.stable)
        heard += ids(delta)
        known |= told(delta)
    assert heard[0] == "k0000008"
    assert heard[1:9] == [f"k000000{number}" for number in range(8)]
    assert given > 1


def test_what_is_larger_than_any_delta_is_told_without_its_text(home: Bench) -> None:
    entry = home.add("k0000001", "Rust toolchain", "Version 1.80.")
    home.knowledge.edit("k0000001", content=LONG)
    small = home.asks(limit=8_192, output=4_096)
    delta = small.delta({entry.id: entry.hash}, None, first=False, deltas=0)
    assert "- k0000001 (decision) has changed: Rust toolchain\n(The text is too long" in delta.text
    assert small.delta(told(delta), None, first=False, deltas=1) is None


def test_at_the_start_what_has_no_room_is_passed_over(home: Bench) -> None:
    home.add("k0000001", "Rust rust", LONG)
    home.add("k0000002", "Rust toolchain", "Version 1.80.", confidence=0.1)
    delta = home.asks(limit=8_192, output=4_096).delta({}, "rust", first=True, deltas=0)
    assert ids(delta) == ["k0000002"]


def test_after_a_reset_all_that_was_lost_is_told_as_it_is_now_in_one(home: Bench) -> None:
    surfacing = home.asks()
    entries = [home.add(f"k000000{number}", f"Rust {number}", confidence=number / 10) for number in range(1, 6)]
    known = {entry.id: entry.hash for entry in entries}
    home.knowledge.edit("k0000001", content="Something else.")
    home.knowledge.forget("k0000002")
    home.knowledge.forget("k0000003")
    delta = surfacing.again({*known, "k0000001"}, known | {"k0000003": ""})
    assert delta.why == "reset"
    assert ids(delta) == ["k0000002", "k0000005", "k0000004", "k0000001"]
    assert "- k0000002 (decision) no longer holds: Rust 2" in delta.text
    assert "- k0000001 (decision): Rust 1\n> Something else." in delta.text
    assert surfacing.delta(known | {"k0000003": ""} | told(delta), None, first=False, deltas=0) is None
    assert surfacing.again([], known) is None


def test_after_a_reset_a_preference_that_the_block_still_has_is_withdrawn_again(home: Bench) -> None:
    home.liked("k0000001", "Tabs")
    home.knowledge.forget("k0000001")
    delta = home.asks().again(["k0000001"], {"k0000001": ""})
    assert "- k0000001 (preference) no longer holds: Tabs" in delta.text


def test_a_reset_is_within_the_budget_and_keeps_the_surest(home: Bench) -> None:
    for number in range(30):
        home.add(f"k00000{number:02}", f"Rust {number}", LONG, confidence=number / 30)
    surfacing = home.asks(limit=65_536, output=0)
    delta = surfacing.again([f"k00000{number:02}" for number in range(30)], {})
    assert size(delta.text) <= surfacing.budgets.context(surfacing.budgets.stable)
    assert ids(delta)[:2] == ["k0000029", "k0000028"]


def test_nobody_elses_entry_is_ever_told(home: Bench) -> None:
    home.add("k0000001", "Rust toolchain", everywhere=True)
    other = home.asks(knowledge=home.of("somebody"))
    assert other.delta({}, "rust toolchain", first=True, deltas=0) is None
    gone = other.again(["k0000001"], {"k0000001": "h"})
    assert "Rust" not in gone.text
