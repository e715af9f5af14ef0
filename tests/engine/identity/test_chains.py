"""Requests that name nobody: which lane they go on with, and where they begin a new one."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.engine.identity import Identity
from tests.engine.identity.desk import Desk, words

HEADERS = {"user-agent": "my-agent/1.0", "x-api-key": "one"}
RETRY = {**HEADERS, "x-stainless-retry-count": "1"}


def _send(
    desk: Desk,
    content: dict[str, Any],
    headers: dict[str, str] | None = None,
    dialect: str = "anthropic",
    project: str = "",
) -> Identity:
    return desk.send(headers or HEADERS, desk.body(dialect, content, "gemini-2.5-pro"), project=project)


def _talk(desk: Desk, *texts: str, project: str = "", **more: Any) -> list[Identity]:
    """A conversation from its first request to its last."""
    return [_send(desk, words(*texts[:end], **more), project=project) for end in range(1, len(texts) + 1, 2)]


# Going on


def test_a_conversation_that_only_grows_is_one_lane() -> None:
    found = _talk(Desk(), "Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait")
    assert {each.lane.id for each in found} == {found[0].lane.id}
    assert [each.why for each in found] == ["new"] + ["prefix chain"] * 3


def test_an_edited_last_question_stays_in_its_lane() -> None:
    desk = Desk()
    *_, last = _talk(desk, "Hello", "Hi", "Read it")
    assert _send(desk, words("Hello", "Hi", "Read the other one")).lane == last.lane


def test_going_back_to_a_turn_the_lane_has_seen_stays_in_its_lane() -> None:
    desk = Desk()
    *_, last = _talk(desk, "Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait")
    assert _send(desk, words("Hello", "Hi", "Write it")).lane == last.lane


def test_another_answer_to_the_same_opening_is_another_conversation() -> None:
    desk = Desk()
    *_, last = _talk(desk, "Hello", "Hi", "Read it")
    assert _send(desk, words("Hello", "Good day", "Read it")).lane != last.lane


def test_the_same_sent_again_with_turns_stays_in_its_lane() -> None:
    desk = Desk()
    *_, last = _talk(desk, "Hello", "Hi", "Read it")
    assert _send(desk, words("Hello", "Hi", "Read it")).lane == last.lane


def test_of_two_lanes_the_longer_part_wins() -> None:
    desk = Desk()
    one = _talk(desk, "Hello", "Hi", "Read it", "Done", "Thanks")[-1]
    # Another system text makes it another lane, which repeats the first turn only.
    other = _talk(desk, "Hello", "Hi", "Write it", system="You write.")[-1]
    assert other.lane != one.lane
    assert _send(desk, words("Hello", "Hi", "Read it", "Done", "More")).lane == one.lane


def test_another_model_client_agent_or_dialect_is_another_lane() -> None:
    desk = Desk()
    lane = _talk(desk, "Hello", "Hi", "Read it")[-1].lane
    follow = words("Hello", "Hi", "Read it", "Done", "Thanks")
    assert _send(desk, {**follow, "model": "claude-haiku-4-5"}).lane != lane
    assert _send(desk, follow, {**HEADERS, "user-agent": "other/1"}).lane != lane
    other = _send(desk, follow, {**HEADERS, "x-holdfast-agent": "b"}).lane
    assert (other.id == lane.id, other.session == lane.session) == (False, False)
    messages = [{"role": "system", "content": "You help."}, *follow["messages"]]
    assert _send(desk, {"model": follow["model"], "messages": messages}, dialect="openai_chat").lane != lane
    assert _send(desk, follow).lane == lane


def test_tools_do_not_matter() -> None:
    desk = Desk()
    lane = _talk(desk, "Hello", "Hi", "Read it")[-1].lane
    tools = [{"name": "late", "input_schema": {}}]
    assert _send(desk, words("Hello", "Hi", "Read it", "Done", "Thanks", tools=tools)).lane == lane


def test_thoughts_that_the_provider_drops_at_a_new_turn_do_not_matter() -> None:
    desk = Desk()
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    call = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [thought, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
        {"role": "assistant", "content": "It is read."},
        {"role": "user", "content": "Thanks"},
    ]
    model = {**words(), "model": "claude-sonnet-4", "thinking": {"type": "enabled", "budget_tokens": 2000}}
    found = [_send(desk, {**model, "messages": messages[:end]}) for end in (1, 3, 5)]
    assert len({each.lane.id for each in found}) == 1
    kinds = [
        {block.kind for block in desk.read(desk.body("anthropic", {**model, "messages": messages[:end]})).prompt.blocks}
        for end in (3, 5)
    ]
    assert ["thinking" in each for each in kinds] == [True, False]


def test_a_reminder_at_the_end_that_is_gone_the_next_time_does_not_matter() -> None:
    desk = Desk()

    def asked(*texts: str) -> dict[str, Any]:
        content = words(*texts)
        content["messages"][-1]["content"] = [
            {"type": "text", "text": texts[-1]},
            {"type": "text", "text": f"Reminder {len(texts)}"},
        ]
        return content

    # What opens a conversation is not compared without its end: others may open with the same first block.
    _send(desk, asked("Hello"))
    lanes = [
        _send(desk, asked(*("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait")[:end])).lane for end in (3, 5, 7)
    ]
    assert len({lane.id for lane in lanes}) == 1


def test_an_opening_is_compared_as_a_whole() -> None:
    desk = Desk()
    content = words("Context")
    content["messages"][0]["content"] = [{"type": "text", "text": text} for text in ("Context", "Question")]
    lane = _send(desk, content).lane
    content = words("Context", "I see", "Another question")
    content["messages"][0]["content"] = [{"type": "text", "text": "Context"}]
    assert _send(desk, content).lane != lane


def test_gemini_and_responses_speak_in_their_own_words() -> None:
    desk = Desk()
    parts = [("user", "Hello"), ("model", "Hi"), ("user", "Read it")]
    contents = [{"role": role, "parts": [{"text": text}]} for role, text in parts]
    lanes = [_send(desk, {"contents": contents[:end]}, dialect="gemini").lane.id for end in (1, 3)]
    assert lanes[0] == lanes[1]
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "Hello"},
        {"type": "reasoning", "summary": []},
        call,
        output,
    ]
    for end in (1, 4):
        lanes.append(_send(desk, {"model": "gpt-5", "input": items[:end]}, dialect="openai_responses").lane.id)
    assert lanes[2] == lanes[3]
    kept = [item for item in items if item.get("type") != "reasoning"]
    found = _send(desk, {"model": "gpt-5", "input": [*kept, call | {"call_id": "c2"}]}, dialect="openai_responses")
    assert found.lane.id == lanes[2]


# Another system text


def test_a_clock_in_the_system_text_is_seen_through_after_a_turn() -> None:
    desk = Desk()
    texts = ("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait")
    lanes = [_send(desk, words(*texts[:end], system=f"It is {end} o'clock.")).lane.id for end in (1, 3, 5, 7)]
    assert len(set(lanes[1:])) == 1
    assert lanes[0] != lanes[1]  # a question alone under another system text may be anybody's


def test_under_another_system_text_everything_has_to_be_repeated() -> None:
    desk = Desk()
    lane = _talk(desk, "Hello", "Hi", "Read it", "Done", "Thanks")[-1].lane
    assert _send(desk, words("Hello", "Hi", "Read it", "Done", "Else", system="Other.")).lane != lane
    # All that the last request of the lane said, and a turn more.
    follow = words("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait", system="Other too.")
    assert _send(desk, follow).lane == lane


def test_a_resend_under_another_system_text_needs_two_turns() -> None:
    desk = Desk()
    lane = _talk(desk, "Hello", "Hi", "Read it", "Done", "Thanks")[-1].lane
    assert _send(desk, words("Hello", "Hi", "Read it", "Done", "Thanks", system="Other.")).lane == lane
    other = Desk()
    lane = _talk(other, "Hello", "Hi", "Read it")[-1].lane
    assert _send(other, words("Hello", "Hi", "Read it", system="Other.")).lane != lane


def test_the_lane_with_the_same_system_text_is_preferred() -> None:
    desk = Desk()
    mine = _talk(desk, "Hello", "Hi", "Read it", system="Mine.")[-1].lane
    theirs = _talk(desk, "Hello", "Hi", "Read it", system="Theirs.")[-1].lane
    assert mine != theirs
    assert _send(desk, words("Hello", "Hi", "Read it", "Done", "Thanks", system="Mine.")).lane == mine


# Turns that a first request brings along


def test_a_history_that_was_not_seen_to_grow_is_gone_on_with_at_its_end_only() -> None:
    desk = Desk()
    lane = _send(desk, words("Hello", "Hi", "Read it", "Done", "Thanks")).lane
    assert _send(desk, words("Hello", "Hi", "Write it")).lane != lane
    assert _send(desk, words("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait")).lane == lane
    assert _send(desk, words("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Stay")).lane == lane


def test_examples_in_front_of_every_conversation_join_none_of_them() -> None:
    desk = Desk()
    examples = ("2+2?", "4", "3+3?", "6")
    questions = ("7+7?", "8+8?", "9+9?")
    lanes = [_send(desk, words(*examples, question)).lane for question in questions]
    assert len({lane.id for lane in lanes}) == 3
    for rest in (("An answer", "Why?"), ("An answer", "Why?", "Because", "I see")):
        assert [_send(desk, words(*examples, question, *rest)).lane for question in questions] == lanes


def test_a_client_that_rewrites_its_last_question_goes_on_in_its_lane() -> None:
    desk = Desk()
    texts = ("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait")
    lanes = [_send(desk, words(*texts[:end], f"{texts[end]} (it is {end} o'clock)")).lane.id for end in (0, 2, 4, 6)]
    assert len(set(lanes[1:])) == 1
    assert lanes[0] != lanes[1]


def test_a_rewritten_question_after_examples_that_two_lanes_were_given_may_be_of_either() -> None:
    desk = Desk()
    one, two = (_send(desk, words("2+2?", "4", f"{question} (now)")).lane.id for question in ("7+7?", "8+8?"))
    found = _send(desk, words("2+2?", "4", "8+8?", "16", "Why?"))
    assert found.lane.id not in (one, two)
    assert _send(desk, words("2+2?", "4", "8+8?", "16", "Why?", "So", "I see")).lane == found.lane


def test_examples_with_more_than_one_turn_after_them_are_no_evidence() -> None:
    desk = Desk()
    lane = _send(desk, words("2+2?", "4", "7+7?")).lane
    assert _send(desk, words("2+2?", "4", "8+8?", "16", "Why?", "So", "I see")).lane != lane


# The same opening again


def test_the_same_opening_again_is_another_conversation() -> None:
    desk = Desk()
    lanes = [_send(desk, words("Hello")).lane.id for _ in range(3)]
    assert len(set(lanes)) == 3
    # Each goes on in a lane of its own, none in two.
    follow = [_send(desk, words("Hello", f"Hi {n}", "Go on")).lane.id for n in range(3)]
    assert sorted(follow) == sorted(lanes)
    again = [_send(desk, words("Hello", f"Hi {n}", "Go on", "Done", "More")).lane.id for n in range(3)]
    assert again == follow


def test_an_opening_that_the_client_says_it_tries_again_is_the_same() -> None:
    desk = Desk()
    first = _send(desk, words("Hello"), {**HEADERS, "x-stainless-retry-count": "0"})
    again = _send(desk, words("Hello"), RETRY)
    assert (again.lane, again.why) == (first.lane, "resend")


def test_an_opening_that_came_to_nothing_is_tried_again() -> None:
    desk = Desk()
    first = _send(desk, words("Hello"))
    desk.identities.unanswered(first)
    assert _send(desk, words("Hello")).lane == first.lane
    # That one was answered, as far as anybody knows.
    assert _send(desk, words("Hello")).lane != first.lane


@pytest.mark.parametrize(
    "content",
    [
        words("Hello!"),
        words("Hello", system="Other."),
        words("Hello", tools=[{"name": "t", "input_schema": {}}]),
    ],
)
def test_an_opening_that_differs_in_any_block_is_no_resend(content: dict[str, Any]) -> None:
    desk = Desk()
    first = _send(desk, words("Hello"))
    desk.identities.unanswered(first)
    assert _send(desk, content, RETRY).lane != first.lane


@pytest.mark.parametrize(("seconds", "same"), [(590.0, True), (700.0, False), (-700.0, False)])
def test_a_resend_comes_soon(seconds: float, same: bool) -> None:
    desk = Desk()
    first = _send(desk, words("Hello"))
    desk.now += seconds
    assert (_send(desk, words("Hello"), RETRY).lane == first.lane) is same


def test_an_opening_with_examples_is_an_opening() -> None:
    desk = Desk()
    lanes = [_send(desk, words("2+2?", "4", "7+7?")).lane.id for _ in range(2)]
    assert lanes[0] != lanes[1]
    assert _send(desk, words("2+2?", "4", "7+7?"), RETRY).lane.id == lanes[1]


# Conversations that come to the same words

SAME = ("Hello", "Hi", "Read it", "Done", "Thanks")


def _lanes(found: list[Identity]) -> list[str]:
    return [each.lane.id for each in found]


@pytest.mark.parametrize("first", [3, 5])
def test_a_conversation_that_repeats_another_to_the_word_has_a_lane_of_its_own(first: int) -> None:
    desk = Desk()
    one, two = _lanes(_talk(desk, *SAME[:first])), _lanes(_talk(desk, *SAME))
    assert (len(set(one)), len(set(two))) == (1, 1)
    assert one[0] != two[0]


def test_a_request_that_is_known_to_be_sent_again_is_that_of_its_own_conversation() -> None:
    desk = Desk()
    one = _talk(desk, *SAME[:3])[-1]
    other = _send(desk, words("Hello"))
    assert _send(desk, words(*SAME[:3]), RETRY).lane == one.lane
    desk.identities.unanswered(one)
    _send(desk, words("Hello"))
    assert _send(desk, words(*SAME[:3])).lane == one.lane != other.lane


@pytest.mark.parametrize("projects", [("/shop", "/blog"), ("/shop", ""), ("", "/shop")])
def test_of_two_projects_none_goes_on_with_the_other(projects: tuple[str, str]) -> None:
    desk = Desk()
    opened = [_send(desk, words(*SAME[:1]), project=project).lane for project in projects]
    for end in (3, 5, 5):
        assert [_send(desk, words(*SAME[:end]), project=project).lane for project in projects] == opened
    assert opened[0] != opened[1]


@pytest.mark.parametrize("projects", [("/shop", "", ""), ("", "/shop", "/shop"), ("/shop", "", "/shop")])
def test_a_conversation_need_not_name_its_project_each_time(projects: tuple[str, ...]) -> None:
    desk = Desk()
    found = [_send(desk, words(*SAME[: 2 * at + 1]), project=project) for at, project in enumerate(projects)]
    assert len(set(_lanes(found))) == 1
    # One that was named is no other; the lane is that of its first request.
    assert (_send(desk, words(*SAME), project="/blog").lane == found[0].lane) is (projects[0] == "")


@pytest.mark.parametrize("projects", [("/shop", ""), ("", "/shop")])
def test_of_two_that_begin_alike_the_longer_one_goes_on_whichever_names_a_project(projects: tuple[str, str]) -> None:
    """A client need not name its project each time, so what was said counts for more."""
    desk = Desk()
    one, other = projects
    long = _talk(desk, *SAME, project=one)[-1]
    short = _talk(desk, *SAME[:2], "Write it", project=other)[-1]
    assert short.lane != long.lane
    assert _send(desk, words(*SAME, "Bye", "More"), project=other).lane == long.lane


def test_a_project_counts_for_an_opening_that_is_sent_again() -> None:
    desk = Desk()
    first = _send(desk, words("Hello"), project="/shop")
    assert _send(desk, words("Hello"), RETRY, project="/blog").lane != first.lane
    assert _send(desk, words("Hello"), RETRY, project="/shop").lane == first.lane


# Odd requests


@pytest.mark.parametrize(
    "content",
    [
        {"model": "claude-sonnet-4-5", "messages": []},
        {"model": "", "messages": [{"role": "assistant", "content": "I begin."}]},
        {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": []}]},
        {"model": "claude-sonnet-4-5", "messages": [{"role": "odd", "content": "x"}]},
    ],
)
def test_odd_requests_get_a_lane(content: dict[str, Any]) -> None:
    desk = Desk()
    assert _send(desk, content).lane.id
    assert _send(desk, content).lane.id


def test_a_request_that_was_never_sent_is_not_gone_on_with() -> None:
    desk = Desk()
    found = desk.find(HEADERS, desk.body("anthropic", words("Hello")))
    assert _send(desk, words("Hello", "Hi", "Go on")).lane != found.lane
