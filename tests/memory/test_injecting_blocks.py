"""Placement `blocks` for clients (document E): host, stable and context as system blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine.passage import Passage
from holdfast.simulator.provider import Exchange
from tests.memory.memory_door import DECISION, HOST, PROJECT, MemoryDoor, client_request, contents, extends, says

QUESTION = "Where does the pointer come from?"
HOUR = {"type": "ephemeral", "ttl": "1h"}
BLOCKS = MemorySettings(inject=True, project=PROJECT, placement="blocks")
TOO_LONG = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens"}}'


@pytest.fixture
def door(tmp_path: Path) -> Iterator[MemoryDoor]:
    made = MemoryDoor(tmp_path / "m.db", BLOCKS)
    yield made
    made.close()


def sent(door: MemoryDoor, *said: str, **more: Any) -> tuple[Passage, Exchange]:
    passage, exchange = door.send(client_request(*said), **more)
    assert exchange.answer.status == 200, exchange.answer
    return passage, exchange


def system(passage: Passage) -> Any:
    return json.loads(passage.raw)["system"]


def used(exchange: Exchange) -> tuple[int, int]:
    usage = exchange.record.usage
    return usage.read, usage.written


def test_e1_e2_e3_e4_three_blocks_of_which_only_the_stable_one_is_marked(door: MemoryDoor) -> None:
    door.learn()
    passage, _ = sent(door, QUESTION)
    host, stable, context = system(passage)
    assert host == {"type": "text", "text": HOST}
    assert stable["cache_control"] == HOUR
    assert "Small commits" in stable["text"]
    assert DECISION[1] in context["text"]
    assert "Small commits" not in context["text"]
    assert "cache_control" not in context
    assert says(passage) == "stable; context"
    marks = [mark.ttl for mark in passage.prepared.core.plan.marks] if passage.prepared is not None else []
    assert marks[-1] == "5m"  # the conversation's own


def test_it_stays_while_nothing_changes(door: MemoryDoor) -> None:
    door.learn()
    before, _ = sent(door, QUESTION)
    door.knowledge().add("Unrelated", "The office has a garden.")
    after, _ = sent(door, QUESTION, "So.", "What of the garden of the office?")
    assert extends(before, after)


def test_e8_e17_a_change_rewrites_the_context_and_what_follows_only(door: MemoryDoor) -> None:
    ids = door.learn()
    first, _ = sent(door, QUESTION)
    door.knowledge().edit(ids["Pointer arithmetic"], content="It comes from elsewhere.")
    second, exchange = sent(door, QUESTION, "So.", "Go on.")
    assert system(second)[:2] == system(first)[:2]
    assert "It comes from elsewhere." in system(second)[2]["text"]
    assert says(second, b"x-holdfast-reset") == "memory_block_changed"
    read, written = used(exchange)
    assert read > 2_000  # host and stable block
    assert written > 0
    assert door.told("cache.break") == []
    third, _ = sent(door, QUESTION, "So.", "Go on.", "So.", "More.")
    assert extends(second, third)
    assert says(third, b"x-holdfast-reset") == ""


def test_e18_curation_of_preferences_changes_no_block_of_the_session(door: MemoryDoor) -> None:
    ids = door.learn()
    first, _ = sent(door, QUESTION)
    door.knowledge().edit(ids["Small commits"], content="Each commit does two things.")
    second, _ = sent(door, QUESTION, "So.", "Go on.")
    assert extends(first, second)


def test_e19_a_new_session_within_the_hour_reads_host_and_stable(door: MemoryDoor) -> None:
    door.learn()
    sent(door, QUESTION)
    door.clock.advance(3_000)
    _, exchange = sent(door, "Why does the loader run into timeouts?", session="t")
    assert used(exchange)[0] > 2_000


def test_every_turn_chooses_anew_where_that_is_set(door: MemoryDoor) -> None:
    door.learn()
    door.configure(retrieve="every_turn", project="")
    door.knowledge(project=None).add("Gardening", "The office has a garden.")
    door.knowledge(project=None).add("Pointers", "The pointer comes from the arena.")
    first, _ = sent(door, QUESTION)
    second, _ = sent(door, QUESTION, "So.", "What of the garden of the office?")
    assert "garden" in system(second)[-1]["text"]
    assert system(second)[:-1] == system(first)[:-1]
    assert says(second, b"x-holdfast-reset") == "memory_block_changed"


@pytest.mark.parametrize("status", [400, 413])
def test_e13_a_request_that_does_not_fit_refreshes_the_context_block_only(door: MemoryDoor, status: int) -> None:
    door.learn()
    first, _ = sent(door, QUESTION)
    door.knowledge().add("Pointer sizes", "A pointer has eight bytes, where it comes from or not.")
    refused = door.begin(client_request(QUESTION, "So.", "Where does the pointer come from now?"))
    assert extends(first, refused)
    refused.answer(status, [(b"content-type", b"application/json")])
    refused.feed(TOO_LONG)
    refused.finish()
    after, _ = sent(door, QUESTION, "So.", "Where does the pointer come from now?")
    assert system(after)[:2] == system(first)[:2]
    assert "eight bytes" in system(after)[2]["text"]
    assert says(after, b"x-holdfast-reset") == "memory_block_changed"
    later, _ = sent(door, QUESTION, "So.", "Where does the pointer come from now?", "So.", "More.")
    assert extends(after, later)


def test_another_refusal_changes_nothing(door: MemoryDoor) -> None:
    door.learn()
    first, _ = sent(door, QUESTION)
    door.knowledge().add("Pointer sizes", "A pointer has eight bytes, where it comes from or not.")
    refused = door.begin(client_request(QUESTION, "So.", "Go on."))
    refused.answer(400, [])
    refused.feed(b'{"error":{"message":"credit balance is too low"}}')
    refused.finish()
    assert extends(first, sent(door, QUESTION, "So.", "Go on.")[0])


def test_e11_idle_resume_and_restart_keep_every_block(door: MemoryDoor) -> None:
    ids = door.learn()
    first, _ = sent(door, QUESTION)
    door.knowledge().edit(ids["Small commits"], content="Something else.")
    door.clock.advance(90_000)
    door.restart()
    assert extends(first, sent(door, QUESTION, "So.", "Go on.")[0])


class TestE15:
    """The forms in which the blocks are sent."""

    @pytest.fixture(params=["improve", "manage"])
    def how(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    def made(self, tmp_path: Path, cache: CacheSettings, titles: tuple[str, ...]) -> Any:
        door = MemoryDoor(tmp_path / "m.db", BLOCKS, cache)
        try:
            if "preference" in titles:
                door.knowledge().add("Small commits", "Each commit does one thing.", category="preference")
            if "decision" in titles:
                door.knowledge().add(*DECISION)
            return system(sent(door, QUESTION)[0])
        finally:
            door.close()

    def test_e15_stable_only(self, tmp_path: Path, how: Any) -> None:
        host, stable = self.made(tmp_path, CacheSettings(client_markers=how), ("preference",))
        assert ("cache_control" in host, stable["cache_control"]) == (False, HOUR)

    def test_e15_all_three(self, tmp_path: Path, how: Any) -> None:
        found = self.made(
            tmp_path, CacheSettings(client_markers=how, strategy="three-block"), ("preference", "decision")
        )
        assert [block.get("cache_control") for block in found] == [None, HOUR, None]

    def test_e15_context_without_stable_puts_the_marker_on_the_host(self, tmp_path: Path, how: Any) -> None:
        found = self.made(tmp_path, CacheSettings(client_markers=how, strategy="three-block"), ("decision",))
        assert [block.get("cache_control") for block in found] == [HOUR, None]

    def test_e15_caching_off(self, tmp_path: Path) -> None:
        off = CacheSettings(strategy="passthrough")
        found = self.made(tmp_path, off, ("preference", "decision"))
        host, stable, context = found.split("\n\n# Known", 1)[0], *found.rsplit("\n\nNotes", 1)
        assert host == HOST
        assert "Small commits" in stable
        assert DECISION[1] in context

    OFF = (
        CacheSettings(strategy="passthrough"),
        CacheSettings(strategy="zones", retention="none"),
        CacheSettings(retention_overrides={"claude-": "none"}),
    )

    @pytest.mark.parametrize("cache", OFF, ids=["passthrough", "zones", "overrides"])
    def test_e15_caching_off_stable_only(self, tmp_path: Path, cache: CacheSettings) -> None:
        found = self.made(tmp_path, cache, ("preference",))
        assert found.startswith(f"{HOST}\n\n# Known")

    @pytest.mark.parametrize("strategy", ["economic", "three-block"])
    def test_e15_five_minutes_is_a_plain_marker(self, tmp_path: Path, strategy: Any) -> None:
        short = CacheSettings(strategy=strategy, retention_overrides={"claude-": "short"})
        assert self.made(tmp_path, short, ("preference",))[1]["cache_control"] == {"type": "ephemeral"}


def test_what_the_context_says_is_all_that_differs(door: MemoryDoor) -> None:
    ids = door.learn()
    first, _ = sent(door, QUESTION)
    door.knowledge().forget(ids["Pointer arithmetic"])
    second, _ = sent(door, QUESTION, "So.", "Go on.")
    old, new = contents(first), contents(second)
    assert [i for i, each in enumerate(old) if new[i] != each] == [2]
