"""Memory in the odd conversations of clients: those that the provider keeps, that began with nothing to say, that do
not fit, that were cut off by the end of the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.cache import CacheSettings
from holdfast.engine.passage import Passage
from holdfast.simulator.provider import Exchange
from tests.engine.driver import MODELS
from tests.memory.memory_door import DECISION, HOST, PROJECT, MemoryDoor, client_request, contents, extends, says

QUESTION = "Where does the pointer come from?"
RESET = b"x-holdfast-reset"
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
IN_A_STREAM = (
    b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"' + TOO_LONG.encode()
) + b'"}}\n\n'


@pytest.fixture
def door(tmp_path: Path) -> Iterator[MemoryDoor]:
    made = MemoryDoor(tmp_path / "m.db")
    yield made
    made.close()


def sent(door: MemoryDoor, raw: bytes, dialect: str = "anthropic", **more: Any) -> tuple[Passage, Exchange]:
    passage, exchange = door.send(raw, dialect, **more)
    assert exchange.answer.status == 200, exchange.answer
    return passage, exchange


class TestKeptByTheProvider:
    """Responses: a request names what was said before it and brings only what is new."""

    def say(self, door: MemoryDoor, words: str, **more: Any) -> tuple[Passage, str]:
        raw = client_request(dialect="openai_responses", input=[{"role": "user", "content": words}], **more)
        passage, exchange = sent(door, raw, "openai_responses")
        return passage, json.loads(exchange.answer.body)["id"]

    def test_what_was_told_stands_there_and_is_not_told_again(self, door: MemoryDoor) -> None:
        ids = door.learn()
        first, response = self.say(door, QUESTION)
        assert says(first) == "stable; deltas=1"
        for _ in range(3):
            later, response = self.say(door, "Go on.", previous_response_id=response)
            assert DECISION[1].encode() not in later.raw
            assert (says(later), says(later, RESET)) == ("stable; deltas=1", "")
            assert contents(later, "openai_responses")[0] == contents(first, "openai_responses")[0]
        door.knowledge().edit(ids[DECISION[0]], content="It comes from elsewhere.")
        changed, newest = self.say(door, "Go on.", previous_response_id=response)
        assert b"It comes from elsewhere." in contents(changed, "openai_responses")[-2]
        assert (says(changed), says(changed, RESET)) == ("stable; deltas=2", "")
        again, _ = self.say(door, "Go on.", previous_response_id=response)
        assert again.raw == changed.raw
        last, _ = self.say(door, "Go on.", previous_response_id=newest)
        assert b"elsewhere" not in last.raw
        assert door.told("cache.break") == []

    def test_another_way_on_from_a_response_is_told_what_the_first_one_was(self, door: MemoryDoor) -> None:
        ids = door.learn()
        _, response = self.say(door, QUESTION)
        door.knowledge().edit(ids[DECISION[0]], content="It comes from elsewhere.")
        one, newest = self.say(door, "Go on.", previous_response_id=response)
        self.say(door, "More.", previous_response_id=newest)
        other, newest = self.say(door, "Not so.", previous_response_id=response)
        assert [says(each) for each in (one, other)] == ["stable; deltas=2"] * 2
        assert contents(other, "openai_responses")[-2] == contents(one, "openai_responses")[-2]
        assert b"elsewhere" not in self.say(door, "More.", previous_response_id=newest)[0].raw

    @pytest.mark.parametrize("name", ["conv_1", {"id": "conv_1"}])
    def test_in_a_conversation_too(self, door: MemoryDoor, name: Any) -> None:
        ids = door.learn()
        assert says(self.say(door, QUESTION, conversation=name)[0]) == "stable; deltas=1"
        later, _ = self.say(door, "Go on.", conversation=name)
        assert DECISION[1].encode() not in later.raw
        door.knowledge().forget(ids[DECISION[0]])
        assert says(self.say(door, "More.", conversation=name)[0]) == "stable; deltas=2"
        assert says(self.say(door, "Even more.", conversation=name)[0]) == "stable; deltas=2"

    def test_sent_whole_all_of_it_stands_where_it_was(self, door: MemoryDoor) -> None:
        ids = door.learn()
        first, response = self.say(door, QUESTION)
        door.knowledge().edit(ids[DECISION[0]], content="It comes from elsewhere.")
        changed, _ = self.say(door, "Go on.", previous_response_id=response)
        raw = client_request(QUESTION, "So.", "Go on.", "So.", "More.", dialect="openai_responses")
        whole, _ = sent(door, raw, "openai_responses")
        assert extends(first, whole, "openai_responses")
        assert contents(changed, "openai_responses")[-2] in contents(whole, "openai_responses")
        assert says(whole) == "stable; deltas=2"


class TestNotAnnounced:
    def test_a_conversation_that_began_when_nothing_was_known_is_told_nothing(self, door: MemoryDoor) -> None:
        door.configure(retrieve="every_turn")
        first, _ = sent(door, client_request(QUESTION))
        door.learn()
        later, _ = sent(door, client_request(QUESTION, "So.", QUESTION))
        assert extends(first, later)
        assert (says(first), says(later)) == ("none", "none")
        assert says(sent(door, client_request(QUESTION), session="t")[0]) == "stable; deltas=1"

    def test_a_body_without_a_place_for_the_announcement_is_told_nothing(self, door: MemoryDoor) -> None:
        door.learn()
        raw = client_request(QUESTION, dialect="openai_responses", system="", prompt={"id": "pmpt_1"})
        passage = door.begin(raw, "openai_responses")
        assert contents(passage, "openai_responses") == contents(raw, "openai_responses")
        passage.cut()


class TestTooLong:
    """Placement `blocks`: what does not fit is a reason to choose the context block anew."""

    def refused(self, door: MemoryDoor, *said: str, leaves: bool = False) -> None:
        passage = door.begin(client_request(*said, stream=True))
        passage.answer(200, [(b"content-type", b"text/event-stream")])
        passage.feed(IN_A_STREAM)
        passage.cut() if leaves else passage.finish()

    @pytest.fixture(autouse=True)
    def blocks(self, door: MemoryDoor) -> None:
        door.configure(placement="blocks")
        door.learn()

    @pytest.mark.parametrize("leaves", [False, True])
    def test_also_where_the_stream_says_so(self, door: MemoryDoor, leaves: bool) -> None:
        first, _ = sent(door, client_request(QUESTION))
        door.knowledge().add("Pointer sizes", "A pointer has eight bytes, where it comes from or not.")
        self.refused(door, QUESTION, "So.", QUESTION, leaves=leaves)
        after, _ = sent(door, client_request(QUESTION, "So.", QUESTION))
        assert contents(after)[:2] == contents(first)[:2]
        assert b"eight bytes" in contents(after)[2]
        assert says(after, RESET) == "memory_block_changed"

    def test_a_mark_that_is_lost_with_the_process_costs_nothing_and_comes_back(self, door: MemoryDoor) -> None:
        first, _ = sent(door, client_request(QUESTION))
        door.knowledge().add("Pointer sizes", "A pointer has eight bytes, where it comes from or not.")
        self.refused(door, QUESTION, "So.", QUESTION)
        door.restart()
        same = door.begin(client_request(QUESTION, "So.", QUESTION))
        assert extends(first, same)
        same.cut()
        self.refused(door, QUESTION, "So.", QUESTION)
        after, _ = sent(door, client_request(QUESTION, "So.", QUESTION))
        assert b"eight bytes" in contents(after)[2]
        assert door.told("cache.break") == []

    def test_a_request_without_memory_says_nothing_of_it(self, door: MemoryDoor) -> None:
        first, _ = sent(door, client_request(QUESTION))
        door.knowledge().add("Pointer sizes", "A pointer has eight bytes, where it comes from or not.")
        passage = door.begin(client_request(QUESTION, "So.", QUESTION), memory="off")
        passage.answer(413, [])
        passage.finish()
        assert extends(first, sent(door, client_request(QUESTION, "So.", QUESTION))[0])


def test_killed_between_storing_and_sending_the_same_is_sent(door: MemoryDoor) -> None:
    ids = door.learn()
    never = door.begin(client_request(QUESTION))  # it is stored, and nothing was sent
    door.knowledge().edit(ids[DECISION[0]], content="It comes from elsewhere.")
    door.clock.advance(4_000)  # nothing is pinned any more
    door.restart()
    first, _ = sent(door, client_request(QUESTION))
    assert contents(first) == contents(never)
    second, _ = sent(door, client_request(QUESTION, "So.", "Go on."))
    assert extends(first, second)
    assert b"elsewhere" in contents(second)[-2]
    assert door.told("cache.break") == []


def test_an_erased_entry_is_withdrawn_and_what_was_sent_stays(door: MemoryDoor) -> None:
    ids = door.learn()
    first, _ = sent(door, client_request(QUESTION))
    door.knowledge().erase(ids[DECISION[0]])
    second, _ = sent(door, client_request(QUESTION, "So.", "Go on."))
    assert extends(first, second)
    assert f"{ids[DECISION[0]]} no longer holds." in contents(second)[-2].decode()
    door.restart()
    assert extends(second, sent(door, client_request(QUESTION, "So.", "Go on.", "So.", "More."))[0])


def test_of_a_lane_with_all_its_deltas_later_changes_wait_for_a_reset(door: MemoryDoor) -> None:
    ids, said = door.learn(), [QUESTION]
    before, _ = sent(door, client_request(*said))
    for number in range(21):
        door.knowledge().edit(ids[DECISION[0]], content=f"It comes from arena {number}.")
        said += ["So.", f"And {number}?"]
        after, _ = sent(door, client_request(*said))
        assert extends(before, after)
        before = after
    assert says(before) == "stable; deltas=20"
    assert b"arena 20" not in before.raw
    shorter, _ = sent(door, client_request("What was said, in short.", "So.", "Go on."), reset="compaction")
    assert says(shorter) == "stable; deltas=1"
    assert b"arena 20" in contents(shorter)[-2]


@pytest.mark.parametrize("same", [False, True], ids=["all stand", "one is gone"])
def test_of_very_many_deltas_none_goes_that_stands_in_the_conversation(
    door: MemoryDoor, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    monkeypatch.setattr("holdfast.memory.injection_state.MOST", 4)
    ids, said = door.learn(), [QUESTION]
    sent(door, client_request("Something else about the loader."))
    before, _ = sent(door, client_request(*said)) if same else sent(door, client_request(*said), session="t")
    session = "s" if same else "t"
    for number in range(6):
        door.knowledge().edit(ids[DECISION[0]], content=f"It comes from arena {number}.")
        said += ["So.", f"And {number}?"]
        after, _ = sent(door, client_request(*said), session=session)
        assert extends(before, after)
        before = after
    assert says(before) == "stable; deltas=4"
    assert b"arena 3" not in before.raw
    door.restart()
    assert contents(sent(door, client_request(*said), session=session)[0]) == contents(before)


def test_the_project_of_a_lane_is_that_of_its_first_request(door: MemoryDoor) -> None:
    door.learn()
    door.knowledge(project="/elsewhere").add("Pointer sizes", "A pointer has eight bytes.")
    first, _ = sent(door, client_request(QUESTION), project=PROJECT)
    later, _ = sent(door, client_request(QUESTION, "So.", QUESTION), project="/elsewhere")
    assert extends(first, later)
    assert b"eight bytes" not in later.raw


def clocked(minute: int, *said: str, dialect: str) -> bytes:
    """A client whose system text begins with a clock."""
    return client_request(*said, dialect=dialect, system=f"Current time: 2026-11-02T09:{minute:02d}:00Z\n\n{HOST}")


TURNS = (QUESTION, "So. " * 50, "Go on.", "So. " * 50, "More.", "So. " * 50, "Even more.")


class TestWhoseChangeItIs:
    @pytest.mark.parametrize("dialect", MODELS)
    def test_a_client_that_changes_its_system_text_is_not_excused_by_memory(
        self, door: MemoryDoor, dialect: str
    ) -> None:
        door.learn()
        sent(door, clocked(1, *TURNS[:1], dialect=dialect), dialect)
        later, _ = sent(door, clocked(2, *TURNS[:3], dialect=dialect), dialect)
        assert (says(later), says(later, RESET)) == ("stable; deltas=1", "")
        assert door.told("cache.reset") == []

    @pytest.mark.parametrize("dialect", MODELS)
    @pytest.mark.parametrize("everybody", [False, True], ids=["once", "everybody"])
    def test_without_memory_it_departs_until_the_provider_has_taken_it(
        self, door: MemoryDoor, dialect: str, everybody: bool
    ) -> None:
        door.learn()
        sent(door, client_request(*TURNS[:1], dialect=dialect), dialect)
        ours = {} if everybody else {"memory": "off"}
        door.configure(inject=not everybody)
        refused = door.begin(client_request(*TURNS[:3], dialect=dialect), dialect, **ours)
        refused.answer(529, [])
        refused.finish()
        again, _ = sent(door, client_request(*TURNS[:3], dialect=dialect), dialect, **ours)
        later, _ = sent(door, client_request(*TURNS[:5], dialect=dialect), dialect, **ours)
        assert [says(each, RESET) for each in (refused, again, later)] == ["bypassed", "bypassed", ""]
        assert door.told("cache.break") == []

    @pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
    def test_without_memory_it_departs_also_where_the_client_is_repaired(self, tmp_path: Path, dialect: str) -> None:
        door = MemoryDoor(tmp_path / "m.db", cache=CacheSettings(repair="on"))
        door.learn()
        found = []
        for number, ours in enumerate(({}, {"memory": "off"}, {"memory": "off"}, {})):
            passage, _ = sent(door, clocked(number, *TURNS[: 2 * number + 1], dialect=dialect), dialect, **ours)
            found.append(says(passage, RESET))
        assert found == ["", "bypassed", "", "bypassed"]
        door.close()
