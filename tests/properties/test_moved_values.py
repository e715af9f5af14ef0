"""Whatever is moved in a request, what the client says now is what is said last, and nothing of its own is lost."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.repairs import MOVES, Mode
from tests.engine.repair_lane import Lane
from tests.properties.value_clients import MODELS, Client, heard, sections, stands_in

Turns = list[tuple[str, int, list[str]]]
ACTIONS = ("grow", "grow", "grow", "resend", "retry", "fork", "parallel", "restart", "lost", "begun", "skip", "mode")


class Session:
    """A conversation through the repairs, with all that happens to one."""

    def __init__(self, random: Random, dialect: str, mode: Mode) -> None:
        self.random, self.mode = random, mode
        self.client, self.lane = Client(random, dialect), Lane(dialect, mode)
        self.sent: list[Turns] = []
        self.moved = 0

    def send(self, turns: Turns, *, begun: bool = False, skip: frozenset[str] = frozenset()) -> None:
        request = self.client.request(turns)
        if begun and self.lane.dialect.name == "anthropic":
            request["messages"].append({"role": "assistant", "content": "It"})
        self.sent.append(turns)
        self._check(request, skip)

    def _check(self, request: dict[str, Any], skip: frozenset[str] = frozenset()) -> None:
        raw = json.dumps(request).encode()
        done = self.lane.send(raw, skip=skip)
        made = {item.name for item in done.repairs if item.applied}
        self.moved += bool(made & {"volatile-value", "memory-to-tail"})
        assert self.lane.mode != "values" or "memory-to-tail" not in made
        assert heard(raw) == self.client.present, "the reader understands what the client says"
        assert heard(done.raw) == self.client.present
        assert stands_in(sections(raw)[1], sections(done.raw)[1])
        again = self.lane.send(raw, skip=skip)
        assert again.raw == done.raw, "what is sent again with the same values is the same"

    def step(self) -> None:
        random = self.random
        action = random.choice(ACTIONS)
        if random.random() < 0.8:
            self.client.change()
        last = self.sent[-1]
        if action == "resend":
            self.send(random.choice(self.sent))
        elif action == "retry":
            self.send(last)
        elif action == "fork":
            self.send([*random.choice(self.sent), *self.client.turn()])
        elif action == "parallel":
            for _ in range(2):
                self.send([*last, *self.client.turn()])
                self.client.change()
            self.send([*last, *self.client.turn()])
        elif action in ("restart", "lost"):
            self.lane.restart(durable=action == "restart")
            self.send([*last, *self.client.turn()])
        elif action == "skip":
            self.send(
                [*last, *self.client.turn()], skip=frozenset({random.choice(["volatile-value", "memory-to-tail"])})
            )
        elif action == "mode" and self.mode == "on":
            self.lane.mode = random.choice(["on", "values", "suggest", "off"])
            self.send([*last, *self.client.turn()])
            self.lane.mode = "on"
        else:
            self.send([*last, *self.client.turn()], begun=action == "begun")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["off", "suggest", "values", "on"])
@pytest.mark.parametrize("dialect", sorted(MODELS))
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_present_value_of_everything_is_the_last_one_said(dialect: str, mode: Mode, seed: int) -> None:
    session = Session(Random(seed), dialect, mode)
    session.send([("user", 0, ["start"])])
    for _ in range(12):
        session.step()
    assert mode in MOVES or not session.moved


@pytest.mark.parametrize("dialect", sorted(MODELS))
def test_values_are_moved_in_most_of_these_sessions(dialect: str) -> None:
    moved = 0
    for seed in range(4):
        session = Session(Random(seed), dialect, "on")
        session.send([("user", 0, ["start"])])
        for _ in range(8):
            session.step()
        moved += session.moved
    assert moved > 12
