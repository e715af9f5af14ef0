"""What is recognised in a text, and how two versions of it differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.repairs import ByteMemory, RepairState, texts
from holdfast.core.repairs.state import KEPT_SETS, first_order
from holdfast.core.repairs.texts import clause, is_attribution


def test_of_a_long_line_the_sentence_around_the_value_is_told() -> None:
    long = "All that was said is kept. " * 10
    line = f"{long}It is 10:00 now. {long}"
    assert clause(line.replace("10:00", "9:59"), line) == "It is 10:00 now"
    assert clause("It is 9:59", " It is 10:00 ") == "It is 10:00"
    assert len(clause("x" * 500 + " 9:59 " + "y" * 500, "x" * 500 + " 10:00 " + "y" * 500)) <= 330


def test_a_billing_line_is_attribution() -> None:
    assert is_attribution("x-anthropic-billing-header: cc_version=2.1")
    assert not is_attribution("You are an agent.")


# Differences

HEAD = "You are an agent.\n\n# Rules\n- be brief"
LONG = "Read every record of a file. " * 9


def test_equal_texts_do_not_differ() -> None:
    diff = texts.compare(HEAD, HEAD, 0)
    assert (diff.values, diff.section, diff.repairable) == ({}, None, True)


def test_values_are_found_line_by_line() -> None:
    diff = texts.compare(f"It is 09:00.\n{HEAD}\nTurn 1", f"It is 09:01.\n{HEAD}\nTurn 2", 0)
    assert [said[:2] for said in diff.values.values()] == [("It is 09:00.", "It is 09:01."), ("Turn 1", "Turn 2")]
    assert (diff.kinds, diff.section, diff.repairable) == (("clock", "counter"), None, True)


@pytest.mark.parametrize(
    ("before", "after", "title"),
    [
        ("\n\n# Memory\n- a", "\n\n# Memory\n- a\n- b", "Memory"),
        ("\n\n# Memory\n- a", "\n\n# Memory\n- b", "Memory"),
        ("\n\n<memory>\na\n</memory>\nEnd.", "\n\n<memory>\nb\n</memory>\nEnd.", "memory"),
        ("\n\n# Known\n## Tea\n- a", "\n\n# Known\n## Tea\n- a\n## Cats\n- b", "Cats"),
        ("\n\n# Known\n## Tea\n- a", "\n\n# Known\n- c\n## Tea\n- a\n## Cats\n- b", "Known"),
        ("", "\n\n# Anything\n- new", "Anything"),
        ("\n\n# Log\n- a\n\n# End\nlast", "\n\n# Log\n- a\n- b\n\n# End\nlast", "Log"),
        ("\n\nGit status:\nM a.py", "\n\nGit status:\nM b.py\n?? c.py", "Git status"),
    ],
)
def test_a_section_that_grows_or_remembers_is_found(before: str, after: str, title: str) -> None:
    diff = texts.compare(HEAD + before, HEAD + after, 0)
    assert (diff.section.title, diff.repairable) == (title, True)
    found = texts.section_of(HEAD + after, 0, diff.section.slot)
    assert found == diff.section


@pytest.mark.parametrize(
    ("before", "after", "stable"),
    [
        ("\n- use British spelling", "\n- use American spelling", "You are an agent.\n\n"),  # an instruction
        ("\n\n# Memory\n- a\n\n# Style\nloud", "\n\n# Memory\n- b\n\n# Style\ncalm", f"{HEAD}\n\n"),  # two sections
    ],
)
def test_other_changes_are_not_repaired_but_show_where_the_text_is_stable(before: str, after: str, stable: str) -> None:
    now = HEAD + after
    diff = texts.compare(HEAD + before, now, 0)
    assert (diff.section, diff.repairable) == (None, False)
    assert now[: diff.stable] == stable


def test_a_rule_that_changed_is_no_value() -> None:
    diff = texts.compare(f"{HEAD}\nNever spend more than $500.", f"{HEAD}\nNever spend more than $50.", 0)
    assert (diff.values, diff.repairable) == ({}, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A\nAt 10:00\nB\nAt 10:00", "A\nAt 10:00\nB\nAt 10:05"),
        ("A\n- At 10:00\nB\n  - At 10:00", "A\n- At 10:00\nB\n  - At 10:05"),
        (f"{LONG}A. At 10:00. B. At 10:01.", f"{LONG}A. At 10:00. B. At 10:05."),
    ],
    ids=["lines", "indented", "sentences"],
)
def test_a_value_that_looks_like_another_one_is_not_repaired(before: str, after: str) -> None:
    diff = texts.compare(f"{HEAD}\n{before}", f"{HEAD}\n{after}", 0)
    assert (diff.repairable, diff.only_values) == (False, True)


def test_a_value_or_a_section_of_which_another_text_has_the_like_is_not_repaired() -> None:
    for before, after in (("At 10:00", "At 10:05"), ("# Memory\n- a", "# Memory\n- a\n- b")):
        first, now = f"{HEAD}\n{before}", f"{HEAD}\n{after}"
        assert texts.compare(first, now, 1, ["You are an agent."], ["Be kind."]).repairable
        assert not texts.compare(first, now, 1, [f"Production\n{before}"], []).repairable
        assert not texts.compare(first, now, 1, [], [f"Production\n{before}"]).repairable


@pytest.mark.parametrize("count", [3, 100])
def test_all_values_are_compared_with_all_lines(count: int) -> None:
    lines = [f"{'x' * number} at 10:{{0:02}}" for number in range(1, count)]
    first, now = ("\n".join(lines).format(minute) for minute in (0, 1))
    assert texts.compare(first, now, 0).repairable
    assert not texts.compare(f"{first}\nxx at 11:00", f"{now}\nxx at 11:00", 0).repairable


def test_a_section_too_long_to_be_told_is_none() -> None:
    for length, found in ((texts.LONGEST_SECTION - 100, True), (texts.LONGEST_SECTION + 1, False)):
        diff = texts.compare(f"{HEAD}\n\n# Memory\na", f"{HEAD}\n\n# Memory\n{'b' * length}", 0)
        assert diff.repairable is found


def test_a_text_that_changed_from_its_first_line_on_has_nothing_stable() -> None:
    assert texts.compare("Be brief.", "Be long.", 1).stable == 0


# Order


def test_each_set_of_tools_keeps_its_first_order() -> None:
    state = RepairState()
    assert first_order(state, [b"a", b"b"]) == [b"a", b"b"]
    assert first_order(state, [b"b", b"a"]) == [b"a", b"b"]
    assert first_order(state, [b"c", b"b", b"a"]) == [b"c", b"b", b"a"]
    assert first_order(state, [b"b", b"a"]) == [b"a", b"b"]
    assert first_order(state, [b"b", b"b", b"a"]) == [b"b", b"b", b"a"]  # twice the same is another set


def test_only_the_latest_sets_are_remembered() -> None:
    for others, remembered in ((KEPT_SETS - 1, True), (KEPT_SETS, False)):
        state = RepairState()
        first_order(state, [b"a", b"b"])
        for number in range(others):
            first_order(state, [b"%d" % number])
        assert (first_order(state, [b"b", b"a"]) == [b"a", b"b"]) is remembered


# Memory


def test_the_least_used_bytes_leave_first_and_durable_ones_come_back() -> None:
    disk: dict[bytes, bytes] = {}
    memory = ByteMemory(1_500, load=disk.get)
    first, second = memory.keep(b"1" * 500), memory.keep(b"2" * 500)
    assert memory.touch(first)
    third = memory.keep(b"3" * 500)
    assert len(memory) <= 1_500
    assert (memory.get(first), memory.get(second), memory.get(third)) == (b"1" * 500, None, b"3" * 500)
    disk[second] = b"2" * 500
    assert memory.get(second) == b"2" * 500
    assert memory.keep(b"4" * 2_000)
    assert len(memory) == 0  # what is larger than the whole memory is not kept


@given(st.lists(st.tuples(st.sampled_from(("put", "use", "whole")), st.integers(0, 12)), min_size=30, max_size=80))
def test_what_is_whole_is_here(steps: list[tuple[str, int]]) -> None:
    memory = ByteMemory(1_600)
    groups: dict[bytes, list[bytes]] = {}
    for what, number in steps:
        keys = [b"%d" % each for each in range(number, number + 2)]
        if what == "put":
            memory.put(keys[0], b"-" * number)
        elif what == "use":
            memory.touch(keys[0])
        elif memory.touch_all(keys):
            memory.found_whole(b"group %d" % number, memory.period)
            groups[b"group %d" % number] = keys
        assert all(key in memory for name in memory.whole for key in groups[name])
        assert len(memory) <= 1_600


@pytest.mark.parametrize("more", [1_500, 6_000])
def test_nothing_is_whole_any_more_when_some_of_it_leaves_or_an_eighth_was_added(more: int) -> None:
    memory = ByteMemory(40_000)
    names = [memory.keep(b"%850d" % number) for number in range(39 if more < 5_000 else 3)]
    assert memory.touch_all(names)
    memory.found_whole(b"all", memory.period)
    memory.keep(b"-" * 100)
    assert b"all" in memory.whole
    memory.keep(b"-" * more)
    assert not memory.whole
    memory.found_whole(b"all", memory.period - 1)
    assert not memory.whole
