"""Faults of clients: each breaks the prefix in its own place, and without one a session only grows."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.lab import FAULTS, SEEDS, Trace, with_gaps
from holdfast.lab.client_faults import PLACEHOLDER, results_pruned, sliding_window
from holdfast.records import Opaque, Request, Text, validate
from holdfast.wire import DIALECTS, Body
from tests.lab.recordings import needs_recordings, own, recorded

pytestmark = pytest.mark.slow


class Divergence(NamedTuple):
    section: str
    path: str


def requests(trace: Trace) -> list[Request]:
    return [step.content for step in trace.steps if isinstance(step.content, Request)]


def blocks(request: Request) -> list[tuple[str, str, bytes]]:
    """Section, path and content of each block, as the request's own dialect puts it on the wire."""
    dialect = DIALECTS[request.dialect or "anthropic"]
    body = dialect.parse(dialect.encode(request))
    assert isinstance(body, Body)
    return [(block.section, block.path, dialect.content(body, i)) for i, block in enumerate(body.blocks)]


def divergence(before: Request, after: Request) -> Divergence | None:
    """The first block of a request that the next one does not repeat in its place."""
    following = blocks(after)
    for index, (section, path, content) in enumerate(blocks(before)):
        if index == len(following) or following[index] != (section, path, content):
            return Divergence(section, path)
    return None


def divergences(trace: Trace) -> list[Divergence | None]:
    return [divergence(before, after) for before, after in pairwise(requests(trace))]


def timed(name: str = "session") -> Trace:
    return with_gaps(own(name), "minutes", SEEDS[0])


@pytest.mark.parametrize("name", ["session", "dialogue-0", "dialogue-1", "dialogue-2"])
def test_without_a_fault_a_session_only_grows(name: str) -> None:
    assert set(divergences(timed(name))) == {None}


@needs_recordings
@pytest.mark.parametrize("name", ["session-60", "airline-0-0"])
def test_without_a_fault_a_recorded_session_only_grows(name: str) -> None:
    assert set(divergences(recorded(name))) == {None}


@pytest.mark.parametrize("fault", ["clock-at-head", "clock-in-middle"])
def test_a_clock_breaks_the_system_text_on_every_request(fault: str) -> None:
    faulty = FAULTS[fault](timed(), 0)
    assert set(divergences(faulty)) == {Divergence("system", "system[0]")}
    spoken = FAULTS[fault](timed("dialogue-1"), 0)
    assert set(divergences(spoken)) == {Divergence("system", "messages[0].content[0]")}


def test_the_clock_stands_where_its_name_says() -> None:
    plain = requests(timed())[0].system_prompt
    assert isinstance(plain, str)
    head, middle = (
        requests(FAULTS[fault](timed(), 0))[0].system_prompt for fault in ("clock-at-head", "clock-in-middle")
    )
    assert head == f"Current time: 2026-11-02T09:00:00.000+00:00\n\n{plain}"
    assert isinstance(middle, str)
    lines = middle.split("\n")
    assert lines.pop(7) == "Current time: 2026-11-02T09:00:00.000+00:00"
    assert "\n".join(lines) == plain
    assert len(lines) == 13


def test_a_clock_needs_times() -> None:
    with pytest.raises(HoldfastError, match="session has no times; give it a gap pattern"):
        FAULTS["clock-at-head"](own("session"), 0)


def test_shuffled_tools_break_at_the_tools() -> None:
    trace = timed()
    faulty = FAULTS["tools-shuffled"](trace, SEEDS[0])
    found = divergences(faulty)
    assert {each.section for each in found if each} == {"tools"}
    assert sum(each is None for each in found) <= 1  # one order in 120 may come twice in a row
    for before, after in zip(requests(trace), requests(faulty), strict=True):
        assert set(after.tools) == set(before.tools)
        assert after.messages == before.messages


def test_a_memory_in_the_system_text_breaks_it_every_third_turn() -> None:
    faulty = FAULTS["memory-in-system"](timed(), 0)
    turns = [sum(step.kind == "user" for step in faulty.steps[: n + 1]) for n in range(len(faulty.steps))]
    for (before, after), found in zip(pairwise(turns), divergences(faulty), strict=True):
        new = (before - 1) // 3 != (after - 1) // 3
        assert found == (Divergence("system", "system[0]") if new else None)
    assert turns[-1] == 9


def test_a_sliding_window_breaks_at_the_first_message_once_it_is_full() -> None:
    trace = timed()
    faulty = sliding_window(trace, turns=3)
    turn = 0
    for number, (before, after) in enumerate(pairwise(requests(faulty))):
        if trace.steps[number].kind == "user":
            turn += 1
        slides = turn >= 3 and trace.steps[number + 1].kind == "user"
        expected = Divergence("messages", "messages[0].content[0]") if slides else None
        assert divergence(before, after) == expected
    starts = {request.messages[0] for request in requests(faulty)}
    assert len(starts) == 7
    assert all(not validate(request) for request in requests(faulty))
    assert requests(FAULTS["sliding-window"](trace, 0)) == requests(faulty)


def test_reordered_keys_break_at_the_first_call_whose_keys_move() -> None:
    trace = timed()
    faulty = FAULTS["keys-reordered"](trace, SEEDS[0])
    found = divergences(faulty)
    calls = [path for _, path, content in blocks(requests(trace)[-1]) if b'"tool_use"' in content]
    assert set(found) <= {None, *(Divergence("messages", path) for path in calls)}
    # Three keys have six orders, so most requests already move those of the first call.
    later = found[2:]
    assert later.count(Divergence("messages", calls[0])) > len(later) / 2
    for before, after in zip(requests(trace), requests(faulty), strict=True):
        assert [sorted(content) for _, _, content in blocks(after)] == [sorted(c) for _, _, c in blocks(before)]


def test_reordered_keys_in_a_dialogue_break_at_its_calls() -> None:
    faulty = FAULTS["keys-reordered"](timed("dialogue-1"), SEEDS[3])
    assert {each.section for each in divergences(faulty) if each} == {"messages"}


def test_pruned_results_break_where_a_result_becomes_old() -> None:
    trace = timed()
    faulty = results_pruned(trace, after=2)
    found = divergences(faulty)
    results = [path for _, path, content in blocks(requests(trace)[-1]) if b'"tool_result"' in content]
    broken = [each.path for each in found if each]
    # Each result becomes old once, in order; those of the last three answers have not yet.
    assert broken == results[: len(broken)]
    assert len(broken) == len(results) - 2
    assert sum(PLACEHOLDER.encode() in content for _, _, content in blocks(requests(faulty)[-1])) == len(broken)
    assert all(not validate(request) for request in requests(faulty))
    assert divergences(FAULTS["results-pruned"](trace, 0)) != [None] * len(found)


@needs_recordings
@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("name", ["session-60", "airline-0-0"])
def test_every_fault_breaks_the_recorded_sessions_in_its_section(fault: str, name: str) -> None:
    sections = {"clock-at-head": "system", "clock-in-middle": "system", "memory-in-system": "system"}
    expected = sections.get(fault, "tools" if fault == "tools-shuffled" else "messages")
    faulty = FAULTS[fault](with_gaps(recorded(name), "minutes", SEEDS[0]), SEEDS[0])
    found = {each.section for each in divergences(faulty) if each}
    assert found == {expected}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_is_repeatable_and_leaves_the_original_and_its_times_alone(fault: str) -> None:
    trace = timed()
    faulty = FAULTS[fault](trace, SEEDS[1])
    assert faulty == FAULTS[fault](trace, SEEDS[1])
    assert trace == timed()
    assert faulty != trace
    assert [(step.at, step.reset, step.kind) for step in faulty.steps] == [
        (step.at, step.reset, step.kind) for step in trace.steps
    ]


def test_random_faults_follow_their_seed() -> None:
    for fault in ("tools-shuffled", "keys-reordered"):
        assert FAULTS[fault](timed(), SEEDS[0]) != FAULTS[fault](timed(), SEEDS[1])


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_shape_trace_has_no_texts_to_spoil(fault: str) -> None:
    with pytest.raises(HoldfastError, match=f"made-1 has sizes without texts; the fault {fault} needs"):
        FAULTS[fault](own("made-1"), 0)


def test_a_system_text_in_blocks_or_none_at_all_gets_its_clock_too() -> None:
    trace = timed()

    def with_system(system: str | tuple[Text | Opaque, ...] | None) -> object:
        request = replace(requests(trace)[0], system_prompt=system)
        one = replace(trace, steps=(replace(trace.steps[0], content=request),))
        return requests(FAULTS["clock-at-head"](one, 0))[0].system_prompt

    time = "Current time: 2026-11-02T09:00:00.000+00:00\n\n"
    odd = Opaque("odd", b"{}")
    assert with_system(None) == time
    assert with_system((odd, Text("a"), Text("b"))) == (odd, Text(time + "a"), Text("b"))
    assert with_system((odd,)) == (Text(time), odd)
