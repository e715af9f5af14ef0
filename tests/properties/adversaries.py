"""Clients that nobody can serve well, or that turn around when they are trusted: what law 7 has to hold against.

Each adversary is a function of a source of chance that gives steps as `lanes` does. All of them may mark their requests
in any way a client does; `marked` names it. Times are seconds from 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tests.properties.lanes import Step
from tests.properties.sessions import RENDER, Talk

MARKED = ("none", "system", "tail", "both", "long", "automatic", "turning")
"""Ways of marking: not at all, the system text, the last message, both, the system text for an hour and the last
message, by the automatic marker, and with lifetimes that change from request to request."""

_SHORT: dict[str, Any] = {"type": "ephemeral"}
_LONG: dict[str, Any] = {"type": "ephemeral", "ttl": "1h"}


def text(name: object, size: int) -> str:
    """A text of about so many tokens that no other has."""
    return f"{name} " + "all that was said is kept " * max(1, size // 6)


class Client:
    """Somebody who sends requests, one after the other unless told otherwise."""

    def __init__(
        self, random: Random, *, model: str = "claude-opus-4-6", marked: str = "none", size: int = 6_000
    ) -> None:
        self.random, self.model, self.marked, self.size = random, model, marked, size
        self.at, self.calls, self.numbers = 0.0, 0, 0
        self.steps: list[Step] = []

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def talk(self, name: object = "") -> Talk:
        system = [text(f"system {name}", self.size)]
        return Talk(system, ["bash", "read", "write", "grep"], [("user", 0, [text(f"start {name}", 200)])])

    def grown(self, said: Talk, size: int = 300) -> Talk:
        number = self.number()
        turns = [("assistant", number, [text(number, size)]), ("user", number, [text(number, size)])]
        return replace(said, turns=[*said.turns, *turns])

    def send(
        self, said: Talk, lane: str = "l", *, fate: str = "settle", takes: float = 2.0, stay: bool = False
    ) -> None:
        """A request. `fate` is what becomes of it; with `stay` the next one may come before its answer."""
        body = RENDER["anthropic"](replace(said, marks=[]), self.model)
        self._mark(body)
        step = Step(
            kind="prepare",
            at=self.at,
            call=self.calls,
            lane=lane,
            client="adversary",
            model=self.model,
            body=json.dumps(body).encode(),
        )
        self.calls += 1
        after = replace(step, body=b"", output=10)
        self.steps.append(step)
        if fate != "cancelled":
            self.steps.append(replace(after, kind="first_token", at=self.at + takes))
        kind = "settle" if fate == "settle" else "abandon"
        self.steps.append(replace(after, kind=kind, at=self.at + takes + 1))
        if not stay:
            self.at += takes + 1

    def wait(self, seconds: float) -> None:
        self.at += seconds

    def done(self) -> list[Step]:
        return sorted(self.steps, key=lambda step: step.at)

    def _mark(self, body: dict[str, Any]) -> None:
        how = self.marked
        if how == "turning":
            how = self.random.choice(["both", "long", "longest", "none"])
        if how == "automatic":
            body["cache_control"] = _SHORT
        if how in ("system", "both", "long", "longest"):
            body["system"][-1]["cache_control"] = _LONG if how in ("long", "longest") else _SHORT
        if how in ("tail", "both", "long", "longest"):
            message = body["messages"][-1]
            message["content"] = [{"type": "text", "text": message["content"]}]
            message["content"][-1]["cache_control"] = _LONG if how == "longest" else _SHORT


Adversary = Callable[[Client, int], None]


def one_shots(client: Client, requests: int) -> None:
    """Every lane is one request with a text of its own."""
    for number in range(requests):
        client.send(client.talk(number), f"l{number}")
        client.wait(5)


def holds_once(client: Client, requests: int) -> None:
    """Each text comes twice and never again."""
    for number in range(requests // 2):
        said = client.talk(number)
        client.send(said)
        client.wait(3)
        client.send(client.grown(said))


def clock_at_head(client: Client, requests: int) -> None:
    said = client.talk()
    for number in range(requests):
        said = client.grown(said)
        clock = f"Current time: 2026-11-02T09:{number // 60:02}:{number % 60:02}.000+00:00\n\n"
        client.send(replace(said, system=[clock + said.system[0]]))
        client.wait(20)


def tools_shuffled(client: Client, requests: int) -> None:
    said = client.talk()
    for _ in range(requests):
        said = client.grown(said)
        client.send(replace(said, tools=client.random.sample(said.tools, len(said.tools))))
        client.wait(20)


def rewrites(client: Client, requests: int) -> None:
    """History is rewritten at random places."""
    said = client.talk()
    for _ in range(requests):
        said = client.grown(said)
        if client.random.random() < 0.6:
            turns = list(said.turns)
            place = client.random.randrange(len(turns))
            turns[place] = (turns[place][0], turns[place][1], [text(f"rewritten {client.number()}", 300)])
            said = replace(said, turns=turns)
        client.send(said)
        client.wait(10)


def alternates(client: Client, requests: int) -> None:
    """Two prefixes by turns in one lane."""
    one, two = client.talk("A"), client.talk("B")
    for _ in range(requests // 2):
        one, two = client.grown(one), client.grown(two)
        client.send(one)
        client.wait(client.random.choice([3, 150, 301]))
        client.send(two)
        client.wait(client.random.choice([3, 150, 301]))


def pauses(client: Client, requests: int) -> None:
    """Each request comes when the one before has just expired."""
    said = client.talk()
    for _ in range(requests):
        said = client.grown(said)
        client.send(said)
        client.wait(client.random.choice([298.5, 300, 3_598.5, 3_601]))


def bursts(client: Client, requests: int) -> None:
    """Many requests at once, before any of them is answered."""
    for number in range(max(1, requests // 8)):
        said = client.talk(number if client.random.random() < 0.7 else 0)
        for each in range(8):
            client.send(client.grown(said), f"l{number}.{each}", stay=True, takes=30)
        client.wait(client.random.choice([40, 400]))


def turns_bad(client: Client, requests: int) -> None:
    """A good client, and then every request is new."""
    said = client.talk()
    for number in range(requests):
        said = client.grown(said) if number < requests // 2 else client.talk(f"bad {number}")
        client.send(said)
        client.wait(5)


def turns_good(client: Client, requests: int) -> None:
    """A bad client until it is given up, and then a good one."""
    said = client.talk()
    for number in range(requests):
        said = client.talk(f"bad {number}") if number < requests // 2 else client.grown(said)
        client.send(said)
        client.wait(5)


def returns_once(client: Client, requests: int) -> None:
    """Bad for a while, then the very last prompt comes again, at once and many times over."""
    while client.calls < requests:
        for number in range(client.random.choice([3, 5])):
            said = client.talk(f"{client.number()} {number}")
            client.send(said)
            client.wait(5)
        for each in range(client.random.choice([1, 6])):
            client.send(client.grown(said), f"fork{client.calls}.{each}", stay=True, takes=20)
        client.wait(30)


def cut_short(client: Client, requests: int) -> None:
    """Every answer is cut when it has begun: the prompt was paid for."""
    for number in range(requests):
        client.send(client.talk(number), f"l{number}", fate="cut")
        client.wait(5)


def cancels(client: Client, requests: int) -> None:
    """Most requests are cancelled before they are answered, some not."""
    said = client.talk()
    for number in range(requests):
        said = client.grown(said) if client.random.random() < 0.5 else client.talk(number)
        client.send(said, fate=client.random.choice(["cancelled", "cancelled", "settle", "cut"]))
        client.wait(5)


def long_steps(client: Client, requests: int) -> None:
    """Each turn appends more blocks than the provider walks back."""
    said = client.talk()
    for _ in range(requests):
        for _ in range(client.random.choice([1, 11, 14])):
            said = client.grown(said, 20)
        client.send(said)
        client.wait(client.random.choice([5, 301]))


def chance(client: Client, requests: int) -> None:
    """Anything of all that, without plan."""
    known = [client.talk("first")]
    for number in range(requests):
        what = client.random.random()
        if what < 0.3:
            known.append(client.talk(number))
        elif what < 0.8:
            known.append(client.grown(client.random.choice(known[-3:]), client.random.choice([20, 300, 3_000])))
        said = client.random.choice(known[-2:])
        fate = client.random.choice(["settle", "settle", "settle", "cut", "cancelled"])
        lane = f"l{client.random.randrange(3)}"
        client.send(said, lane, fate=fate, stay=client.random.random() < 0.3, takes=client.random.choice([1, 30]))
        client.wait(client.random.choice([0.5, 0.5, 20, 290, 301, 3_601]))


ADVERSARIES: dict[str, Adversary] = {
    each.__name__: each
    for each in (
        one_shots,
        holds_once,
        clock_at_head,
        tools_shuffled,
        rewrites,
        alternates,
        pauses,
        bursts,
        turns_bad,
        turns_good,
        returns_once,
        cut_short,
        cancels,
        long_steps,
        chance,
    )
}


class Attack(Struct, frozen=True):
    """Which adversary, how it marks its requests, how large they are and how many."""

    who: str
    marked: str = "none"
    seed: int = 0
    model: str = "claude-opus-4-6"
    size: int = 6_000
    requests: int = 24

    def steps(self) -> list[Step]:
        client = Client(Random(self.seed), model=self.model, marked=self.marked, size=self.size)
        ADVERSARIES[self.who](client, self.requests)
        return client.done()
