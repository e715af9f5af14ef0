"""Memory in the requests of clients that know nothing of it: where it stands, and that it stays as it was sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine import Lane
from holdfast.engine.passage import Passage
from holdfast.engine.passage.memory_hook import Remembered, Reminder
from holdfast.memory.prompt_texts import NOTES
from holdfast.records.events.tools import MemorySurfaced
from holdfast.simulator.provider import Exchange
from holdfast.wire import DIALECTS as WIRE
from holdfast.wire import Body
from tests.memory.memory_door import (
    DECISION,
    HOST,
    PROJECT,
    TENANT,
    MemoryDoor,
    client_request,
    contents,
    extends,
    says,
)

Doors = Callable[..., MemoryDoor]
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
QUESTION = "Where does the pointer come from?"
HOUR = {"type": "ephemeral", "ttl": "1h"}


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    made: list[MemoryDoor] = []

    def make(**more: Any) -> MemoryDoor:
        made.append(MemoryDoor(tmp_path / f"{len(made)}.db", **more))
        return made[-1]

    yield make
    for door in made:
        door.close()


@pytest.fixture
def door(doors: Doors) -> MemoryDoor:
    return doors()


def sent(door: MemoryDoor, *said: str, dialect: str = "anthropic", **ours: str) -> Passage:
    passage, exchange = door.send(client_request(*said, dialect=dialect), dialect, **ours)
    accepted(exchange)
    return passage


def accepted(exchange: Exchange) -> None:
    assert exchange.answer.status == 200, exchange.answer


def json_of(passage: Passage) -> Any:
    return json.loads(passage.raw)


def resets(door: MemoryDoor) -> list[Any]:
    return [each.payload for each in door.told("cache.reset")]


class TestPlaces:
    def test_e1_e2_e3_stable_is_a_block_of_its_own_marked_for_an_hour(self, door: MemoryDoor) -> None:
        door.learn()
        passage = sent(door, QUESTION)
        host, stable = json_of(passage)["system"]
        assert host == {"type": "text", "text": HOST}
        assert "Small commits" in stable["text"]
        assert DECISION[1] not in stable["text"]
        assert stable["cache_control"] == HOUR

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_a_delta_stands_in_front_of_what_the_user_says(self, door: MemoryDoor, dialect: str) -> None:
        door.learn()
        passage = sent(door, QUESTION, dialect=dialect)
        *_, delta, question = contents(passage, dialect)
        assert DECISION[1].encode() in delta
        assert NOTES.encode() in delta
        assert QUESTION.encode() in question
        assert says(passage) == "stable; deltas=1"

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_it_is_sent_again_with_every_request(self, door: MemoryDoor, dialect: str) -> None:
        door.learn()
        said = [QUESTION]
        before = sent(door, *said, dialect=dialect)
        for turn in range(5):
            said += [f"Answer {turn}.", f"And what of {turn}?"]
            after = sent(door, *said, dialect=dialect)
            assert extends(before, after, dialect)
            assert says(after) == "stable; deltas=1"
            before = after
        assert resets(door) == []
        assert door.told("cache.break") == []

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_streams_too(self, door: MemoryDoor, dialect: str) -> None:
        door.learn()
        more: dict[str, Any] = {} if dialect == "gemini" else {"stream": True}
        more |= {"stream_options": {"include_usage": True}} if dialect == "openai_chat" else {}
        path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent" if dialect == "gemini" else ""
        passage = door.begin(client_request(QUESTION, dialect=dialect, **more), dialect, path=path)
        exchange = door.carry(passage, query={"alt": "sse"} if dialect == "gemini" else None)
        accepted(exchange)
        assert passage.prepared.verdict is not None
        assert DECISION[1].encode() in b"".join(contents(passage, dialect))

    @pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
    def test_e20_e21_openai_gets_it_in_its_one_system_text(self, door: MemoryDoor, dialect: str) -> None:
        door.configure(placement="blocks")
        door.learn()
        body = json_of(sent(door, QUESTION, dialect=dialect))
        text = body.get("instructions") or body["messages"][0]["content"][0]["text"]
        host, stable, context = text.split("\n\n# Known", 1)[0], *text.rsplit(f"\n\n{NOTES}", 1)
        assert host == HOST
        assert "Small commits" in stable
        assert DECISION[1] in context
        assert context.endswith("End of the notes.")

    def test_a_request_that_ends_with_a_result_waits(self, door: MemoryDoor) -> None:
        door.learn()
        call = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "1", "content": "ok"}
        said: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
        said += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        tools = [{"name": "t", "input_schema": {"type": "object"}}]
        waiting, exchange = door.send(client_request(messages=said, tools=tools))
        accepted(exchange)
        assert says(waiting) == "stable"
        said += [{"role": "assistant", "content": "So."}, {"role": "user", "content": QUESTION}]
        passage, exchange = door.send(client_request(messages=said, tools=tools))
        accepted(exchange)
        assert extends(waiting, passage)
        assert says(passage) == "stable; deltas=1"

    def test_behind_the_results_of_the_same_message(self, door: MemoryDoor) -> None:
        door.learn()
        call = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "1", "content": "ok"}
        said: list[dict[str, Any]] = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": [call]}]
        said.append({"role": "user", "content": [result, {"type": "text", "text": QUESTION}]})
        passage, exchange = door.send(
            client_request(messages=said, tools=[{"name": "t", "input_schema": {"type": "object"}}])
        )
        accepted(exchange)
        kinds = [block["type"] for block in json_of(passage)["messages"][2]["content"]]
        assert kinds == ["tool_result", "text", "text"]

    def test_side_requests_and_those_of_others_are_left_alone(self, door: MemoryDoor) -> None:
        door.learn("somebody else")
        passage = sent(door, QUESTION)
        assert contents(passage) == contents(client_request(QUESTION))
        raw = client_request("quota?", system="", max_tokens=1)
        side, _ = door.send(raw, session=None)
        assert side.identity.side
        assert side.raw == raw


class TestChanges:
    def test_e18_curation_leaves_the_stable_block_and_is_told_behind_everything(self, door: MemoryDoor) -> None:
        ids = door.learn()
        before = sent(door, QUESTION)
        door.knowledge().edit(ids["Small commits"], content="Each commit does two things.")
        door.knowledge().add("Tabs", "Uses tabs.", category="preference")
        after = sent(door, QUESTION, "So.", "Go on.")
        assert extends(before, after)
        assert says(after) == "stable; deltas=2"
        *_, delta, last = contents(after)
        assert b"Each commit does two things." in delta
        assert b"Go on." in last
        assert b"Uses tabs" not in after.raw
        assert door.told("cache.break") == []

    def test_what_is_forgotten_is_withdrawn_once(self, door: MemoryDoor) -> None:
        ids = door.learn()
        first = sent(door, QUESTION)
        door.knowledge().forget(ids["Pointer arithmetic"])
        second = sent(door, QUESTION, "So.", "Go on.")
        third = sent(door, QUESTION, "So.", "Go on.", "So.", "More.")
        assert extends(first, second)
        assert extends(second, third)
        assert (says(second), says(third)) == ("stable; deltas=2", "stable; deltas=2")

    def test_e6_e19_a_session_within_the_hour_begins_with_the_same_bytes(self, door: MemoryDoor) -> None:
        door.learn()
        first = sent(door, QUESTION)
        door.knowledge().add("Tabs", "Uses tabs.", category="preference")
        door.clock.advance(3_000)
        second = sent(door, "Something else.", session="t")
        assert json_of(first)["system"] == json_of(second)["system"]
        verdict = second.prepared.verdict if second.prepared is not None else None
        assert verdict.usage.read > 0
        door.clock.advance(3_600)
        third = sent(door, "Something else.", session="u")
        assert b"Uses tabs" in third.raw

    def test_forty_requests_with_changes_and_no_break(self, door: MemoryDoor) -> None:
        ids = door.learn()
        said = [QUESTION]
        before = sent(door, *said)
        knowledge = door.knowledge()
        for turn in range(1, 40):
            if turn % 7 == 0:
                knowledge.edit(ids["Loader timeouts"], content=f"The loader needs {turn} seconds.")
            if turn % 11 == 0:
                knowledge.edit(ids["Pointer arithmetic"], content=f"The pointer comes from arena {turn}.")
            if turn == 20:
                knowledge.forget(ids["Small commits"])
            said += [f"Answer {turn}. " * 20, f"Question {turn}? " * 20]
            after = sent(door, *said)
            assert extends(before, after)
            verdict = after.prepared.verdict if after.prepared is not None else None
            assert verdict.explained
            before = after
        assert (door.told("cache.break"), resets(door)) == ([], [])
        assert int(says(before).partition("deltas=")[2]) > 4

    def test_every_turn_is_looked_up_where_that_is_set(self, door: MemoryDoor) -> None:
        door.learn()
        door.configure(retrieve="every_turn", retrieve_max=1)
        first = sent(door, QUESTION)
        assert b"thirty seconds" not in first.raw
        second = sent(door, QUESTION, "So.", "Why does the loader run into timeouts?")
        assert extends(first, second)
        assert b"thirty seconds" in contents(second)[-2]

    def test_no_more_than_so_many(self, door: MemoryDoor) -> None:
        ids = door.learn()
        door.configure(delta_max=2)
        said = [QUESTION]
        sent(door, *said)
        for turn in range(4):
            door.knowledge().edit(ids["Pointer arithmetic"], content=f"It comes from arena {turn}.")
            said += ["So.", f"And {turn}?"]
            passage = sent(door, *said)
        assert says(passage) == "stable; deltas=2"


class TestHistory:
    def test_a_request_sent_again_has_the_same_bytes_whatever_changed(self, door: MemoryDoor) -> None:
        ids = door.learn()
        first = sent(door, QUESTION)
        door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
        again = sent(door, QUESTION)
        assert contents(again) == contents(first)
        later = sent(door, QUESTION, "So.", "Go on.")
        assert b"It comes from elsewhere." in contents(later)[-2]
        assert contents(sent(door, QUESTION)) == contents(first)

    def test_nothing_is_put_in_front_of_what_was_sent_also_after_a_restart(self, door: MemoryDoor) -> None:
        ids = door.learn()
        first = sent(door, QUESTION)
        second = sent(door, QUESTION, "So.", "Go on.")
        door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
        door.restart()
        again = sent(door, QUESTION, "So.", "Go on.")
        assert contents(again) == contents(second)
        assert extends(first, again)
        later = sent(door, QUESTION, "So.", "Go on.", "So.", "And now?")
        assert extends(second, later)
        assert says(later) == "stable; deltas=2"

    def test_what_went_with_a_part_of_the_history_is_told_again_as_it_is_now(self, door: MemoryDoor) -> None:
        ids = door.learn()
        sent(door, QUESTION)
        door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
        sent(door, QUESTION, "So.", "Go on.")
        passage = sent(door, "This is a summary of what was said.", "So.", "Next.", reset="compaction")
        assert says(passage) == "stable; deltas=1"
        delta = contents(passage)[-2]
        assert b"It comes from elsewhere." in delta
        assert b"thirty seconds" in delta
        after = sent(door, "This is a summary of what was said.", "So.", "Next.", "So.", "More.")
        assert extends(passage, after)
        assert says(after) == "stable; deltas=1"

    def test_a_fork_goes_on_with_what_stands_in_it(self, door: MemoryDoor) -> None:
        ids = door.learn()
        first = sent(door, QUESTION)
        door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
        main = sent(door, QUESTION, "So.", "Go on.")
        fork = sent(door, QUESTION, "So.", "Another way.")
        assert extends(first, fork)
        assert b"It comes from elsewhere." in contents(fork)[-2]
        assert contents(sent(door, QUESTION, "So.", "Go on.")) == contents(main)

    def test_words_that_are_said_twice_are_told_apart(self, door: MemoryDoor) -> None:
        ids = door.learn()
        said = [QUESTION]
        before = sent(door, *said)
        for turn in range(4):
            door.knowledge().edit(ids["Pointer arithmetic"], content=f"It comes from arena {turn}.")
            said += ["So.", "continue"]
            after = sent(door, *said)
            assert extends(before, after)
            before = after
        assert says(before) == "stable; deltas=5"

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_the_same_bytes_after_a_restart(self, door: MemoryDoor, dialect: str) -> None:
        ids = door.learn()
        before = sent(door, QUESTION, dialect=dialect)
        door.knowledge().edit(ids["Small commits"], content="Something else.")
        door.restart()
        after = sent(door, QUESTION, "So.", "Go on.", dialect=dialect)
        assert extends(before, after, dialect)
        assert (door.told("cache.break"), resets(door)) == ([], [])


class TestWithout:
    def test_off_and_on_again_carry_a_reason(self, door: MemoryDoor) -> None:
        door.learn()
        first = sent(door, QUESTION)
        off = sent(door, QUESTION, "So.", "Go on.", memory="off")
        assert contents(off) == contents(client_request(QUESTION, "So.", "Go on."))
        assert says(off) == "off"
        on = sent(door, QUESTION, "So.", "Go on.", "So.", "More.")
        assert contents(on)[:3] == contents(first)[:3]
        assert [says(each, b"x-holdfast-reset") for each in (first, off, on)] == ["", "bypassed", "bypassed"]
        assert door.told("cache.break") == []

    def test_off_from_the_first_request_on(self, door: MemoryDoor) -> None:
        door.learn()
        off = sent(door, QUESTION, memory="off")
        later = sent(door, QUESTION, "So.", "Go on.")
        assert extends(off, later)
        assert (says(off), says(later)) == ("off", "none")

    def test_a_lane_that_has_begun_without_gets_no_stable_block(self, door: MemoryDoor) -> None:
        door.configure(inject=False)
        door.learn()
        before = sent(door, QUESTION)
        door.configure(inject=True)
        after = sent(door, QUESTION, "So.", "Go on.")
        assert extends(before, after)
        assert (says(before), says(after)) == ("", "none")

    def test_switched_off_nothing_is_different(self, doors: Doors) -> None:
        with_memory, without = doors(memory=MemorySettings()), doors(memory=MemorySettings())
        without.passages.remembering = None
        with_memory.learn()
        for turns in ((QUESTION,), (QUESTION, "So.", "Go on.")):
            assert sent(with_memory, *turns).raw == sent(without, *turns).raw

    def test_only_named_tenants(self, door: MemoryDoor) -> None:
        door.learn()
        door.configure(inject_tenants=("t-other",))
        assert says(sent(door, QUESTION)) == ""
        door.configure(inject_tenants=(TENANT,))
        assert says(sent(door, QUESTION, session="t")) == "stable; deltas=1"
        door.configure(inject_tenants=(TENANT[:10],))  # as `holdfast sessions` shows it
        assert says(sent(door, QUESTION, session="u")) == "stable; deltas=1"

    def test_a_project_of_its_own(self, door: MemoryDoor) -> None:
        door.learn()
        assert says(sent(door, QUESTION, project="/elsewhere")) == "none"
        assert says(sent(door, QUESTION, project=PROJECT, session="t")) == "stable; deltas=1"

    def test_memory_of_this_machines_user(self, door: MemoryDoor) -> None:
        door.learn("local")
        assert says(sent(door, QUESTION)) == "none"
        door.configure(inject_as="local")
        assert says(sent(door, QUESTION, session="t")) == "stable; deltas=1"

    def test_a_body_without_a_place_goes_as_it_came(self, door: MemoryDoor) -> None:
        door.learn()
        raw = json.dumps(
            {"cachedContent": "cachedContents/x", **json.loads(client_request(QUESTION, dialect="gemini", system=""))}
        )
        passage = door.begin(raw.encode(), "gemini")
        assert b"systemInstruction" not in passage.raw
        assert passage.bypass is None


class TestNeverGiven:
    """Whoever never had memory does not pay for it."""

    def test_the_store_is_asked_once_for_a_tenant(self, doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
        door = doors(memory=MemorySettings(inject=True, inject_tenants=("t-other",)))
        door.learn()
        asked: list[str] = []
        for name in ("injection", "injected"):
            real = getattr(door.store, name)
            monkeypatch.setattr(
                door.store, name, lambda *values, real=real, name=name: (asked.append(name), real(*values))[1]
            )
        for end in (1, 3, 5):
            assert says(sent(door, *(QUESTION, "So.", "Go on.", "So.", "More.")[:end])) == ""
            assert not door.passages.remembers(TENANT)
        assert asked == ["injected"]

    def test_its_lanes_push_none_out(self, doors: Doors) -> None:
        door = doors(memory=MemorySettings(inject=True, inject_tenants=("t-other",)))
        passage = sent(door, QUESTION)
        assert door.injecting.recent_lanes.peek(passage.lane) is None
        door.configure(inject_tenants=())
        assert door.injecting.recent_lanes.peek(sent(door, QUESTION, session="t").lane) is not None


class TestAlike:
    """Conversations that no name tells apart, and that come to the same words."""

    TURNS = (QUESTION, "So.", "Go on.", "So.", "More.")

    def talk(self, door: MemoryDoor, **ours: str) -> list[Passage]:
        sends = (door.send(client_request(*self.TURNS[:end]), session=None, **ours) for end in (1, 3, 5))
        passages = [passage for passage, exchange in sends if exchange.answer.status == 200]
        assert len(passages) == 3
        return passages

    @pytest.mark.parametrize("between", [False, True], ids=["one after the other", "in turns"])
    def test_none_is_given_what_belongs_to_another_project(self, door: MemoryDoor, between: bool) -> None:
        for project in ("/shop", "/blog"):
            knowledge = door.knowledge(project=project)
            knowledge.add("Pointers", f"In {project} they come from the arena.")
            knowledge.add("Commits", f"In {project} they are small.", category="preference")
        first = {
            project: [door.send(client_request(QUESTION), session=None, project=project)[0]]
            for project in ("/shop", "/blog")
        }
        order = [(end, project) for end in (3, 5) for project in first]
        for end, project in order if between else sorted(order, key=lambda each: each[1]):
            first[project].append(door.send(client_request(*self.TURNS[:end]), session=None, project=project)[0])
        for project, other in (("/shop", b"/blog"), ("/blog", b"/shop")):
            for before, after in pairwise(first[project]):
                assert extends(before, after)
                assert says(after) == "stable; deltas=1"
                assert other not in after.raw
        assert (door.told("cache.break"), resets(door)) == ([], [])

    def test_the_second_is_given_nothing_that_the_first_was_given(self, door: MemoryDoor) -> None:
        """It says the same and is answered the same, so that each of its requests may as well be the first's."""
        ids = door.learn()
        first = self.talk(door)
        assert all(DECISION[1].encode() in each.raw for each in first)
        assert all(extends(before, after) for before, after in pairwise(first))
        door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
        second = self.talk(door)
        assert b"It comes from elsewhere." in second[0].raw
        assert not any(DECISION[1].encode() in each.raw for each in second)
        assert len({each.lane.id for each in (*first, *second)}) == 4
        assert (door.told("cache.break"), resets(door)) == ([], [])

    def test_the_second_is_known_by_an_answer_of_its_own(self, door: MemoryDoor) -> None:
        door.learn()
        self.talk(door)
        turns = (QUESTION, "Well.", "Go on.", "So.", "More.")
        opened, *second = [door.send(client_request(*turns[:end]), session=None)[0] for end in (1, 3, 5)]
        assert opened.lane == second[0].lane == second[1].lane
        assert extends(opened, second[1])


class TestTold:
    def test_an_event_and_why_without_words(self, door: MemoryDoor) -> None:
        ids = door.learn()
        sent(door, QUESTION)
        told = [each.payload for each in door.told("memory.surfaced")]
        assert [(each.place, each.why, each.text) for each in told if isinstance(each, MemorySurfaced)] == [
            ("stable", "session_start", ""),
            ("delta", "session_start", ""),
        ]
        door.store.flush()
        (shown,) = door.knowledge().shown(ids["Pointer arithmetic"])
        assert (shown.session, shown.place, shown.why) == ("s", "delta", "session_start")

    def test_what_went_past_us_was_not_shown(self, door: MemoryDoor) -> None:
        ids = door.learn()
        sent(door, QUESTION, switch="off")
        door.store.flush()
        assert door.knowledge().shown(ids["Pointer arithmetic"]) == []


class TestMarkers:
    FORMS = (None, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"})

    @pytest.mark.parametrize("how", ["improve", "manage", "respect"])
    @pytest.mark.parametrize("mark", FORMS, ids=["none", "5m", "1h"])
    def test_e2_e3_beside_a_clients_own(self, doors: Doors, how: Any, mark: Any) -> None:
        door = doors(cache=CacheSettings(client_markers=how))
        door.learn()
        host = {"type": "text", "text": HOST} | ({"cache_control": mark} if mark else {})
        passage, exchange = door.send(client_request(QUESTION, system=[host]))
        accepted(exchange)
        marks = [block.get("cache_control") for block in json_of(passage)["system"]]
        if how == "respect" and mark is not None:
            assert marks == [mark, mark]
        else:
            assert marks == [None, HOUR]

    def test_e10_without_a_stable_block_the_host_carries_it(self, doors: Doors) -> None:
        door = doors(cache=CacheSettings(strategy="three-block"))
        body = json_of(sent(door, QUESTION))
        assert body["system"] == [{"type": "text", "text": HOST, "cache_control": HOUR}]


class TestLanes:
    def asked(self, door: MemoryDoor, lane: Lane, *said: str) -> Remembered | None:
        body = door.engine.parse(WIRE["anthropic"], client_request(*said))
        assert isinstance(body, Body)
        return door.injecting.remember(
            Reminder(body=body, lane=lane, read=lambda: door.engine.read(body), now=door.clock.now(), timeout=30)
        )

    def test_a_fork_with_a_lane_of_its_own_goes_on_with_what_the_other_was_given(self, door: MemoryDoor) -> None:
        ids = door.learn()
        first = sent(door, QUESTION)
        door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
        door.knowledge().edit(ids["Small commits"], content="Something else.")
        door.clock.advance(4_000)  # nothing is pinned any more
        child = Lane(tenant=TENANT, session="s", id="child", parent=first.lane.id)
        found = self.asked(door, child, QUESTION, "So.", "Another way.")
        old = contents(first)
        assert contents(found.body.raw)[: len(old)] == old
        again = self.asked(door, child, QUESTION, "So.", "Another way.")
        assert again.body.raw == found.body.raw

    def test_a_sub_agent_begins_anew(self, door: MemoryDoor) -> None:
        door.learn()
        first = sent(door, QUESTION)
        child = Lane(tenant=TENANT, session="s", id="child", parent=first.lane.id, subagent=True)
        found = self.asked(door, child, "Look at the loader timeouts.")
        assert b"thirty seconds" in contents(found.body.raw)[-2]

    def test_lanes_of_other_tenants_are_others(self, door: MemoryDoor) -> None:
        door.learn()
        first = sent(door, QUESTION)
        other = Lane(tenant="t-other", session="s", id=first.lane.id)
        found = self.asked(door, other, QUESTION)
        assert (found.body.raw, found.says) == (client_request(QUESTION), "none")
