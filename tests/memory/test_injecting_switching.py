"""Memory that is switched off and on, that changes, that goes past us, is refused: a request departs from the last one
that the provider took if and only if it says why."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.engine.passage import Passage
from holdfast.errors import HoldfastError
from tests.memory.memory_door import DECISION, MemoryDoor, client_request, contents, says

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
QUESTION = "Where does the pointer come from?"
RESET = b"x-holdfast-reset"


def refuse(passage: Passage) -> Passage:
    passage.answer(529, [])
    passage.finish()
    return passage


@pytest.mark.parametrize("off", [False, True], ids=["sent again", "then without"])
@pytest.mark.parametrize("gone", [False, True], ids=["edited", "forgotten"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_context_block_has_changed_until_the_provider_has_taken_it(
    door: MemoryDoor, dialect: str, gone: bool, off: bool
) -> None:
    door.configure(placement="blocks")
    knowledge = door.knowledge()
    entry = knowledge.add(*DECISION)
    said = [QUESTION, "So. " * 50, "Go on.", "So. " * 50, "More."]
    door.send(client_request(*said[:1], dialect=dialect), dialect)
    if gone:
        knowledge.forget(entry.id)
    else:
        knowledge.edit(entry.id, content="The pointer comes from elsewhere.")
    found = [refuse(door.begin(client_request(*said[:3], dialect=dialect), dialect))]
    ours = {"memory": "off"} if off else {}
    found += [door.send(client_request(*said[:end], dialect=dialect), dialect, **ours)[0] for end in (3, 5)]
    why = "bypassed" if off else "memory_block_changed"
    assert [says(each, RESET) for each in found] == ["memory_block_changed", why, ""]
    assert door.told("cache.break") == []


def test_a_store_that_could_not_say_is_asked_again(door: MemoryDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tenant: str) -> bool:
        raise HoldfastError("no")

    door.learn()
    door.send(client_request(QUESTION))
    door.configure(inject=False)
    door.restart()
    with monkeypatch.context() as patch:
        patch.setattr(door.store, "injected", fails)
        refuse(door.begin(client_request(QUESTION, "So.", "Go on.")))
    assert says(door.send(client_request(QUESTION, "So.", "Go on."))[0], RESET) == "bypassed"


class Walk:
    """A client whose conversation only grows, among people who switch memory off and on and change what is known."""

    def __init__(self, door: MemoryDoor, dialect: str, seed: str) -> None:
        self.door, self.dialect, self.random = door, dialect, random.Random(seed)
        self.ids = door.learn()
        self.said = [QUESTION]
        self.took: list[bytes] = []
        self.refused = False

    def step(self, number: int) -> None:
        self.change(number)
        ours = self.random.choice([{}] * 7 + [{"memory": "off"}] * 2 + [{"switch": "off"}])
        passage = self.door.begin(client_request(*self.said, dialect=self.dialect), self.dialect, **ours)
        now = contents(passage, self.dialect)
        if passage.bypass is None:
            assert (now[: len(self.took)] == self.took) == (says(passage, RESET) == ""), (number, ours)
        self.refused = self.random.random() < 0.2
        if self.refused:
            refuse(passage)
            return
        assert self.door.carry(passage).answer.status == 200
        self.took = now
        if self.random.random() < 0.8:
            self.said += [f"So {number}.", f"Go on {number}, pointer."]

    def change(self, number: int) -> None:
        door, memory = self.door, self.door.settings.memory
        happens = [self.random.random() < chance for chance in (0.15, 0.1, 0.2, 0.15)]
        if happens[0]:
            door.configure(inject=not memory.inject)
        if happens[1]:
            door.configure(inject_tenants=() if memory.inject_tenants else ("somebody",))
        if happens[2]:
            door.knowledge().edit(self.ids[DECISION[0]], content=f"The pointer comes from arena {number}.")
        if happens[3] and not self.refused:  # in one text only the process knows which context block was refused
            door.restart()
        door.clock.advance(5)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("placement", ["deltas", "blocks"])
@pytest.mark.parametrize("retrieve", ["session_start", "every_turn"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_whatever_happens_a_request_departs_only_with_a_reason(
    tmp_path: Path, dialect: str, placement: str, retrieve: str, seed: int
) -> None:
    door = MemoryDoor(tmp_path / "h.db")
    door.configure(placement=placement, retrieve=retrieve)
    walk = Walk(door, dialect, f"{seed} {dialect} {placement} {retrieve}")
    for number in range(25):
        walk.step(number)
    door.close()
