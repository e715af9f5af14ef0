"""Which request goes on from which, when nobody names the conversations."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.pytest_plugin import PrefixUnstable, assert_prefix_stable
from holdfast.pytest_plugin.bodies import RecordedRequest, recorded
from holdfast.pytest_plugin.check import Lane, check
from holdfast.pytest_plugin.findings import PrefixCheck

from .sessions import MANUAL, turn

TITLE = "You find a short title for a conversation. Answer with the title and nothing else."
REVIEWER = "You review what others have written, point by point, and say what has to be done better. " * 40


def checked(*items: object, lane: Lane = None) -> PrefixCheck:
    return check(recorded(items), lane=lane)


def unstable(*items: object, lane: Lane = None) -> list[tuple[int, int, str]]:
    return [(one.request, one.earlier, one.cause) for one in checked(*items, lane=lane).unstable]


def test_side_requests_and_sub_agents_stand_beside_the_conversation() -> None:
    found = checked(
        turn("How is the weather?"),
        turn("How is the weather?", system=TITLE, model="claude-haiku-4-5"),
        turn("How is the weather?", "Fine.", "And tomorrow?"),
        turn("Review the forecast of tomorrow.", system=REVIEWER),
        turn("How is the weather?", "Fine.", "And tomorrow?", "Rain.", "Thanks."),
        turn("Review the forecast of tomorrow.", "Good.", "And the one before?", system=REVIEWER),
    )
    assert (found.unstable, found.conversations, found.compared) == ((), 3, 3)


def test_a_question_asked_anew_is_a_fork() -> None:
    assert not unstable(turn("a", "b", "c", "d", "e"), turn("a", "b", "x"), turn("a", "b", "x", "y", "z"))


def test_the_same_request_again_may_be_answered_in_another_way() -> None:
    """Retries and parallel samples: each copy of a request may be gone on from by another."""
    assert not unstable(turn("a"), turn("a"), turn("a", "b", "c"), turn("a", "B", "C"))
    assert unstable(turn("a"), turn("a", "b", "c"), turn("a", "B", "C")) == [(3, 2, "messages_rewritten")]


def test_another_check_of_the_same_messages_is_another_agent() -> None:
    guard = {"system": REVIEWER}
    found = checked(turn("a"), turn("a", **guard), turn("a", "b", "c"), turn("a", "b", "c", **guard))
    assert (found.unstable, found.conversations) == ((), 2)


def test_what_is_looked_up_and_put_into_the_system_text_is_seen_although_little_of_it_stays() -> None:
    """The conversation goes on, so it is the same one, however much of its system text is another."""
    found = unstable(
        turn("a", system="Answer from this:\n" + "The river is long and wide. " * 80),
        turn("a", "b", "c", system="Answer from this:\n" + "Bridges are built of stone or steel. " * 80),
    )
    assert found == [(2, 1, "system_prompt_changed")]


def test_a_first_message_that_is_told_anew_is_seen_with_two_requests() -> None:
    """Nothing that was sent comes again word for word."""
    first, second = (f"[12:00:0{second}] How is the weather in Paris?" for second in (1, 2))
    assert unstable(turn(first), turn(second, "Fine.", "Thanks.")) == [(2, 1, "messages_rewritten")]
    assert not unstable(turn("How is the weather in Paris?"), turn("Where is Rome?", "In Italy.", "Thanks."))


@pytest.mark.parametrize(
    ("one", "other", "cause"),
    [
        ({"system": MANUAL + "Now: 12:00:01."}, {"system": MANUAL + "Now: 12:00:02."}, "system_prompt_changed"),
        (
            {"system": MANUAL + "Session 6f9619ff-8b86-4011-b42d-00cf4fc964ff."},
            {"system": MANUAL + "Session 0e4ab9b7-2a3e-4b0a-9b0c-93d1d1d1a001."},
            "system_prompt_changed",
        ),
        (
            {"tools": [{"name": name, "input_schema": {}} for name in ("bash", "read")]},
            {"tools": [{"name": name, "input_schema": {}} for name in ("read", "bash")]},
            "tools_changed",
        ),
        (
            {"tools": [{"name": "bash", "description": "Run.", "input_schema": {}}]},
            {"tools": [{"description": "Run.", "name": "bash", "input_schema": {}}]},
            "tools_changed",
        ),
    ],
    ids=["clock", "uuid", "tool-order", "key-order"],
)
def test_single_questions_share_tools_and_system_text(one: dict[str, Any], other: dict[str, Any], cause: str) -> None:
    """A bot without a history: what changes by itself is lost with every question."""
    assert unstable(turn("How is the weather?", **one), turn("Where is Rome?", **other)) == [(2, 1, cause)]
    assert checked(turn("How is the weather?", **one), turn("Where is Rome?", **one)).compared == 1


def test_conversations_whose_system_texts_differ_in_words_are_those_of_different_agents() -> None:
    one, other = {"system": MANUAL + "The user likes coffee."}, {"system": MANUAL + "The user likes tea."}
    found = checked(turn("How is the weather?", **one), turn("Where is Rome?", **other))
    assert (found.unstable, found.compared) == ((), 0)


def test_a_history_that_was_not_seen_to_grow_is_another_conversation() -> None:
    assert not unstable(turn("a", "b", "c"), turn("u", "v", "w"), turn("u", "v", "w", "x", "y"))


def test_a_cache_key_that_is_new_every_time_is_seen() -> None:
    said = [{"role": "user", "content": MANUAL}, {"role": "assistant", "content": "Yes."}]

    def body(key: str, *messages: dict[str, str]) -> dict[str, Any]:
        return {"model": "gpt-5.6", "messages": list(messages), "prompt_cache_key": key}

    first = body("1", said[0])
    assert unstable(first, body("1", *said, said[0])) == []
    assert unstable(first, body("2", *said, said[0])) == [(2, 1, "parameters_changed")]
    assert unstable(first, body("2", said[0])) == []  # another session may begin alike


def test_lanes_by_name() -> None:
    """A name stands for one conversation, whatever is in it; two names for two, even where they are alike."""
    long, other = turn("a", "b", "c", "d", "e"), turn("u")
    assert unstable(long, other) == []
    assert unstable(long, other, lane="main") == [(2, 1, "messages_rewritten")]
    assert unstable(long, other, lane=[1, 2]) == []
    changed = turn("a", "b", "c", "d", "e", "f", "g", system=MANUAL + "Be brief.")
    assert unstable(long, changed, lane=["main", "other"]) == []

    def by_system(one: RecordedRequest) -> int:
        return len(one.json()["system"])

    assert unstable(long, changed, lane=by_system) == []
    with pytest.raises(HoldfastError, match="lane names 1 conversations for 2 requests"):
        checked(long, other, lane=["main"])


def test_known_clients_name_their_conversations() -> None:
    """A compaction leaves nothing of a conversation but its name."""

    def sent(body: dict[str, Any], session: str) -> object:
        one = recorded([body])[0]
        headers = {"x-claude-code-session-id": session, "user-agent": "claude-cli/2.1"}
        return RecordedRequest(number=1, body=one.body, dialect="anthropic", headers=headers)

    words = {"tools": [{"name": "bash", "input_schema": {}}]}
    long, summary = turn(*(f"{letter} " * 50 for letter in "abcdefg"), **words), turn("So far: a to g.", **words)
    assert not checked(sent(long, "s1"), sent(summary, "s2")).unstable
    (found,) = checked(sent(long, "s1"), sent(summary, "s1")).unstable
    assert (found.conversation, found.cure.name) == ("s1", "compaction")


def test_what_the_provider_holds_cannot_be_seen_in_a_body() -> None:
    first = {"model": "gpt-5.6", "input": "a"}
    found = checked(first, {"model": "gpt-5.6", "input": "b", "previous_response_id": "resp_1"})
    assert (found.compared, found.parts) == (0, 1)
    with pytest.raises(PrefixUnstable, match="1 request held only what was new, the provider has the rest"):
        assert_prefix_stable([first, {"model": "gpt-5.6", "input": "b", "previous_response_id": "resp_1"}])
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    assert checked(turn("a"), turn("b", thread=thread)).parts == 1


def test_back_at_the_first_model_is_a_switch_too() -> None:
    said, other = ["a", "b", "c", "d", "e"], {"model": "claude-haiku-4-5"}
    items = [turn(*said[:1]), turn(*said[:3], **other), turn(*said)]
    assert unstable(*items) == [(2, 1, "model_changed"), (3, 2, "model_changed")]


def test_an_object_of_gemini_holds_a_part_of_the_prompt() -> None:
    said = [{"role": "user", "parts": [{"text": "a"}]}, {"role": "model", "parts": [{"text": "b"}]}]
    whole = {"systemInstruction": {"parts": [{"text": MANUAL}]}, "contents": said[:1]}
    rest = {"cachedContent": "cachedContents/1", "contents": [*said, said[0]]}
    more = {"cachedContent": "cachedContents/1", "contents": [*said, said[0], *said]}
    found = checked(whole, rest, more)
    assert (found.unstable, found.conversations, found.compared) == ((), 2, 1)


def test_agents_that_run_side_by_side_with_the_same_words_are_no_past_of_one_another() -> None:
    """Each goes on with what it had sent itself, however much the others have in common with it."""
    said = ("a", "b", "c", "d", "e")
    agents = [{"system": f"Agent {name}. {MANUAL}"} for name in ("north", "south", "west")]
    found = checked(*(turn(*said[:length], **agent) for length in (1, 3, 5) for agent in agents))
    assert (found.unstable, found.conversations, found.compared) == ((), 3, 6)
