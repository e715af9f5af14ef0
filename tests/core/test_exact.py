"""Which lines `cache.repair = "values"` may move: those that say what their value is, and nothing else."""

from __future__ import annotations

import pytest

from holdfast.core.repairs import texts

HOUSE = "You look after a loader that reads every record of a file."
UUID = "4d3c2b1a-1111-2222-3333-44445555666{0}"


def moved(line: str, house: str = f"{HOUSE}\n\n", above: tuple[str, ...] = ()) -> tuple[bool, bool]:
    """Whether a text in which only the value of this line changes is repaired with `values`, and with `on`."""
    first, now = (house + line.replace("{0}", digit) for digit in "12")
    assert first != now
    diff = texts.compare(first, now, len(above), above)
    return diff.exact, diff.repairable


@pytest.mark.parametrize("house", [f"{HOUSE}\n\n", f"{HOUSE}\n"], ids=["paragraph", "line"])
@pytest.mark.parametrize(
    "line",
    [
        "Current date and time: Wednesday, November 1{0}, 2026 at 08:36:55 PM GMT+1",
        "Current time: 2026-11-02T09:0{0}:00.000+00:00",
        "Current date: Wed Nov 1{0} 2026 20:36:55 GMT+0100 (Central European Standard Time)",
        "Current UTC time: 2026-11-02 09:0{0}",
        "Current time (UTC): 2026-11-02 09:0{0}",
        "The current time is 2026-11-02T09:0{0}:00.",
        "Current date: 1{0}.11.2026",
        "Today's date: 2026-11-1{0}",
        "Today’s date is 2026-11-1{0}.",
        "Today's date is Wednesday, November 1{0}, 2026 (formatted according to the user's locale).",
        "  Today's date: Tue Nov 1{0} 2026",
        "Today is Monday, 1{0} November 2026",
        "Today: November 1{0}",
        "Today is 11/1{0}/2026.",
        "now=2026-11-1{0}T09:00:00Z",
        "now: 176722560{0}",
        "It is 09:0{0} now.",
        "It is now 2026-11-1{0}T09:00:00Z",
        "It is 2026-11-02T09:0{0}:00Z.",
        "The time is 09:0{0} now.",
        "Time: 09:0{0}",
        "Timestamp: 2026-11-1{0}T09:00:00Z",
        "Timestamp: 176722560{0}",
        "2026-11-1{0}T09:00:00Z",
        "2026-11-1{0}",
        "Wed Nov 1{0} 20:36:55 UTC 2026",
        f"Session ID: {UUID}",
        f"request_id: {UUID}",
        "Turn: {0}",
        "Turn: {0}/30",
        "Step {0} of 7",
        "This is turn number {0}.",
        "Message count: 12{0}",
        "- **Current date**: 2026-11-1{0}",
        "Be brief. Today is 2026-11-1{0}. Be kind.",
        "# Environment\n- Date: 2026-11-1{0}",
        "# Current date\n2026-11-1{0}",
        "# currentDate\nToday's date is 2026-11-1{0}.",
        "<env>\nWorking directory: /x\nToday's date: 2026-11-1{0}\n</env>",
        "<env>\nWorking directory: /x\nDate: 2026-11-1{0}\n</env>",
        "<current_date>2026-11-1{0}</current_date>",
        '{\n  "current_date": "2026-11-1{0}",\n  "shell": "bash"\n}',
        "# Memory\n- likes tea\n# Environment\nToday's date: 2026-11-1{0}",
        "<memory>\n# Facts\n- likes tea\n</memory>\nToday's date: 2026-11-1{0}",
        "- Notes:\n  - likes tea\n- Current time: 09:0{0}",
    ],
)
def test_a_line_that_says_what_its_value_is_may_be_moved(line: str, house: str) -> None:
    assert moved(line, house) == (True, True)


@pytest.mark.parametrize(
    "line",
    [
        # Rules, facts and appointments
        "The deadline is 2026-11-1{0} 15:00.",
        f"You must only edit project {UUID}.",
        f"The user is {UUID}.",
        "Only answer about things before 2026-01-0{0}T00:00Z.",
        "Tokens must expire after 176722560{0}.",
        "Today's date is 2026-11-1{0}, do not answer about later ones.",
        "Dentist\nDate: 2026-11-1{0}",
        "Dentist:\n- Date: 2026-11-1{0}",
        "Holidays:\n2026-12-2{0}",
        "# Rules\n- Timestamp: 2026-11-1{0}T09:00:00Z",
        "Time: 2026-11-18 1{0}:00 (dentist)",
        "Time: 2026-11-18 1{0}:00 LUNCH",
        "Current date: 2026-01-0{0} (never use later data)",
        "Holidays\n2026-12-2{0}",
        # What looks like a value and is none
        "Support phone: 151234567{0}.",
        "The customer's account is 173456789{0}.",
        "Port number 809{0}.",
        "Order number: 1234{0}",
        "Attempts: {0}",
        "Requests: {0} per user",
        "Request #1234{0}",
        "step: {0}",
        "The current release is 2024.1{0}.1.",
        "The current score is 10:1{0}.",
        "It is 16:1{0} on this screen",
        "Today's verse: John 3:1{0}",
        "Today's opening hours are 9:0{0}",
        "Today's meeting: 14:3{0}.",
        "The review is at 09:3{0}.",
    ],
)
def test_what_says_more_or_nothing_of_its_value_stays(line: str) -> None:
    assert moved(line) == (False, True)


@pytest.mark.parametrize(
    "place",
    [
        "Memory: {line}",
        "Memory: dentist moved. {line}.",
        "<memory>{line}</memory>",
        "<memory>Likes tea. {line}. Has a cat.</memory>",
        "<memory>\n<entry>\n{line}\n</entry>\n</memory>",
        "<memory>\n<item>\nlikes tea\n</item>\n{line}\n</memory>",
        "<userNotes>\n- {line}",
        "<note_list kind='memory'>\n- {line}",
        "# Memory\n<item>\n{line}\n</item>",
        "# Memory\n<item>\nlikes tea\n</item>\n{line}",
        "# About the user\n- {line}",
        "Memory\n======\n{line}",
        "USER MEMORIES\n- {line}",
        "Your notes\n- {line}",
        "=== Notes ===\n- {line}",
        "**Notes**\n- {line}",
        "- Notes:\n  - {line}",
        "- **Notes:**\n  - {line}",
        "user_notes:\n- {line}",
        "Here is what you know about the user from earlier conversations, all of it:\n- {line}",
    ],
)
@pytest.mark.parametrize("line", ["Dentist 2026-11-1{0} 15:00", "Current time: 2026-11-1{0} 15:00"])
def test_no_line_of_a_memory_is_moved(place: str, line: str) -> None:
    assert not moved(place.replace("{line}", line))[0]


def test_a_heading_of_a_memory_may_end_the_text_before() -> None:
    line = "- Time: 2026-11-1{0} 15:00"
    assert moved(line, "", ("You are an agent.",)) == (True, True)
    assert moved(line, "", ("You are an agent.\n# Memory",)) == (False, True)
    assert moved(line, "", ("# Memory", "- likes tea")) == (False, True)
    assert moved(line, "", ("<memory>", "</memory>")) == (True, True)
