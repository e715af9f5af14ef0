"""Conversations of one key that nobody names and that come to the same words: no text of one stands in another."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.repairs import Mode
from tests.memory.memory_door import MemoryDoor
from tests.properties.value_clients import MODELS, Client, heard

USERS = ("ann", "ben", "eve")
LENGTH = 12


class Alike:
    """Users of one key who say the same, get the same answers, and remember each their own."""

    def __init__(self, random: Random, path: Path, dialect: str, mode: Mode, *, inject: bool, users: int = 3) -> None:
        self.random, self.dialect, self.inject = random, dialect, inject
        memory = MemorySettings(inject=inject, retrieve="every_turn")
        self.door = MemoryDoor(path, memory, CacheSettings(repair=mode))
        self.users = USERS[:users]
        seed = random.random()
        self.clients = {user: Client(Random(seed), dialect, user) for user in self.users}
        for number, client in enumerate(self.clients.values()):
            client.random = Random(random.random() + number)
        words = Client(Random(1), dialect)
        self.script = [("user", 0, ["start"])]
        while len(self.script) < 2 * LENGTH:
            self.script += words.turn()
        self.length = dict.fromkeys(self.users, 1)
        self.counts: Counter[str] = Counter()
        for user in self.users if inject else ():
            knowledge = self.door.knowledge(project=f"/{user}")
            knowledge.add(f"{user} says so", "A loader is to go on with all records.", category="preference")

    def step(self, user: str) -> None:
        random, client = self.random, self.clients[user]
        client.change()
        action = random.choice(["grow", "grow", "grow", "resend", "back", "nothing", "restart", "both"])
        if action in ("grow", "both", "restart"):
            self.length[user] = min(self.length[user] + 2, len(self.script) - 1)
        elif action == "back":
            self.length[user] = random.randrange(1, self.length[user] + 1, 2)
        if action == "restart":
            self.door.restart()
        self.send(user, answered=action != "nothing")
        if action == "both":
            client.change()
            self.send(user)

    def send(self, user: str, *, answered: bool = True) -> None:
        client = self.clients[user]
        body = client.request(self.script[: self.length[user]]) | ({"max_tokens": 99} if self.anthropic else {})
        raw = json.dumps(body).encode()
        ours = {"project": f"/{user}"} if self.inject else {}
        self.door.clock.advance(1)
        passage = self.door.begin(raw, self.dialect, session=None, **ours)
        assert passage.prepared is not None, passage.bypass
        assert heard(passage.raw) == client.present
        text = passage.raw.decode()
        assert not [other for other in USERS if other != user and re.search(rf"\b{other} ", text)], (user, text)
        moved = {item.name for item in passage.prepared.repairs if item.applied} & {"volatile-value", "memory-to-tail"}
        self.counts["given"] += f"{user} says so" in text
        self.counts.update(["sent", *(["moved"] if moved else []), *(["new"] if passage.identity.why == "new" else [])])
        if answered:
            self.door.carry(passage)
        else:
            passage.cut()

    @property
    def anthropic(self) -> bool:
        return self.dialect == "anthropic"


@pytest.mark.slow
@pytest.mark.parametrize("inject", [False, True], ids=["", "memory"])
@pytest.mark.parametrize("mode", ["off", "suggest", "on"])
@pytest.mark.parametrize("dialect", sorted(MODELS))
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_text_of_one_conversation_stands_in_another(dialect: str, mode: Mode, inject: bool, seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as home:
        alike = Alike(random, Path(home) / "a.db", dialect, mode, inject=inject)
        for _ in range(24):
            alike.step(random.choice(alike.users))
        assert bool(alike.counts["given"]) is inject
        alike.door.close()


def test_one_user_alone_is_recognised_and_repaired(tmp_path: Path) -> None:
    alike = Alike(Random(3), tmp_path / "a.db", "anthropic", "on", inject=False, users=1)
    (user,) = alike.users
    for _ in range(LENGTH - 1):
        alike.clients[user].change()
        alike.send(user)
        alike.length[user] += 2
    # The first under a system text of its own, the second because a question alone may be anybody's.
    assert (alike.counts["new"], alike.counts["moved"]) == (2, LENGTH - 3)
    alike.door.close()
