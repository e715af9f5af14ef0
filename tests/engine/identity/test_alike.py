"""Conversations that come to the same words, where texts of a lane stand in its later requests: unsure means a lane of
its own."""

from __future__ import annotations

import pytest

from holdfast.engine.identity import Care
from tests.engine.identity.desk import Desk, words

HEADERS = {"user-agent": "my-agent/1.0", "x-api-key": "one"}
RETRY = {**HEADERS, "x-stainless-retry-count": "1"}
SAME = ("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait")
CAREFUL: tuple[Care, ...] = ("repairs", "memory")


def send(desk: Desk, *texts: str, system: str = "You help.", headers: dict[str, str] = HEADERS) -> str:
    return desk.send(headers, desk.body("anthropic", words(*texts, system=system))).lane.id


@pytest.mark.parametrize("care", CAREFUL)
def test_a_conversation_that_nobody_shares_is_one_lane(care: Care) -> None:
    desk = Desk(care=care)
    assert len({send(desk, *SAME[:end]) for end in (1, 3, 5, 3, 5, 7)}) == 1
    clocks = Desk(care=care)
    assert len({send(clocks, *SAME[:end], system=f"It is {end}.") for end in (3, 5, 7)}) == 1


@pytest.mark.parametrize("care", CAREFUL)
def test_of_two_alike_neither_is_taken_for_the_other_when_its_system_text_changes(care: Care) -> None:
    desk = Desk(care=care)
    ann = [send(desk, *SAME[:end], system="Ann.") for end in (1, 3, 5)]
    ben = [send(desk, *SAME[:end], system="Ben.") for end in (1, 3, 5)]
    assert not {*ann} & {*ben}
    assert send(desk, *SAME, system="Ann, too.") not in (*ann, *ben)
    # Nor when he sends a turn again, or comes to what the other has said, under another text.
    assert send(desk, *SAME[:5], system="Ben, too.") not in (*ann, *ben)
    assert send(desk, *SAME[:3], system="Ben, three.") not in (*ann, *ben)


def test_of_two_alike_with_the_same_head_one_lane_may_serve_both_until_it_changes() -> None:
    desk = Desk(care="repairs")
    opened = {send(desk, "Hello") for _ in range(2)}
    lane = send(desk, *SAME[:3])
    assert lane in opened
    assert send(desk, *SAME[:5]) == lane
    assert send(desk, *SAME, system="You help, too.") != lane
    assert send(Desk(care="memory"), *SAME[:3]) not in opened


def test_a_lane_that_had_another_head_is_not_shared() -> None:
    desk = Desk(care="repairs")
    lanes = {send(desk, *SAME[:3], system="One."), send(desk, *SAME[:3], system="Two.")}
    changed = send(desk, *SAME[:5], "Bye", "Wait", system="Three.")
    assert changed not in lanes
    assert send(desk, *SAME[:5], system="Three.") not in (*lanes, changed)


@pytest.mark.parametrize("care", CAREFUL)
def test_an_answer_of_its_own_tells_a_conversation_from_all_others(care: Care) -> None:
    desk = Desk(care=care)
    for _ in range(2):
        send(desk, "Hello")
    lanes = {name: send(desk, "Hello", f"Hi {name}", "Go on", system=f"{name}.") for name in ("Ann", "Ben")}
    for end in ("more", "and more"):
        texts = ("Done", "More") if end == "more" else ("Done", "More", "Done", "And more")
        for name, lane in lanes.items():
            assert send(desk, "Hello", f"Hi {name}", "Go on", *texts, system=f"{name} says {end}.") == lane


@pytest.mark.parametrize("care", CAREFUL)
def test_of_two_that_opened_alike_one_may_be_ahead_of_what_was_seen_of_it(care: Care) -> None:
    desk = Desk(care=care)
    for name in ("Ann", "Ben"):
        send(desk, "Hello", system=f"{name}.")
    ann = send(desk, *SAME[:3], system="Ann, later.")
    ben = send(desk, *SAME[:5], system="Ben, later.")
    assert ben != ann
    assert send(desk, *SAME, system="Ben, at last.") == ben, "nobody else waits by now"


@pytest.mark.parametrize("care", CAREFUL)
def test_an_opening_that_came_to_nothing_is_tried_again_in_its_lane(care: Care) -> None:
    desk = Desk(care=care)
    first = desk.send(HEADERS, desk.body("anthropic", words("Hello")))
    desk.identities.unanswered(first)
    assert send(desk, "Hello") == first.lane.id == send(desk, *SAME[:3])
    other = Desk(care=care)
    first = other.send(HEADERS, other.body("anthropic", words("Hello")))
    second = send(other, "Hello")
    assert send(other, "Hello", headers=RETRY) not in (first.lane.id, second)


@pytest.mark.parametrize("care", CAREFUL)
def test_one_that_waits_for_an_answer_that_never_came_is_no_rival(care: Care) -> None:
    desk = Desk(care=care)
    lost = desk.send(HEADERS, desk.body("anthropic", words("Hello")))
    lane = send(desk, "Hello")
    desk.identities.unanswered(lost)
    assert send(desk, *SAME[:3]) == lane
