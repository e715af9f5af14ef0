"""Generated activity of many lanes at once, for what must hold of the engine whatever happens around it.

`timeline` gives the steps of a few conversations in the order of their time, as plain values: nothing here knows an
engine or a cache. A runner takes them one by one and tells both sides, the engine and a simulated provider:

- `prepare`: a request goes out with `body`. `call` numbers it; the steps that follow it carry the same number.
- `first_token`: its answer begins.
- `settle`: its answer is complete, after `output` tokens.
- `abandon`: it is over without one. `cancelled`: before its first token. `cut`: after it. `killed`: with the process
  that made it, at the very time of the restart after it; a runner that plays a crash tells only the provider.
- `restart`: the engine is made anew from what it has stored. No call is in flight any more.

`tags` say what a request is about. `reset` is what the client's host announces with it (law 5): with none, a request
begins with the one its lane sent before, except where it is a `fork` (it begins with an earlier one of its lane or of
the lane it came from), a `resend` (it is one of them), or a `fault` of the client (only where `faulty` asks for them).

Lanes of one timeline belong to one workspace and mostly share tools and system text, as agents of one user do; some are
above a floor of 4,096 tokens with their system text, some only later, some never. Times are seconds from 0.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.simulator import HttpRequest
from tests.properties.sessions import PATHS, RENDER, Talk, words

Kind = Literal["prepare", "first_token", "settle", "abandon", "restart"]
Markers = Literal["none", "own", "long", "automatic"]

_SHAPES = ("first", "resend", "fork", "branch", "concurrent", "subagent", "parallel", "pause-301", "pause-3700")
_DEPARTURES = ("compacting", "compaction", "trimmed", "volatile", "memory", "tools")
TAGS = frozenset((*_SHAPES, *_DEPARTURES, "cancelled", "cut", "killed"))
"""What can be special about a step; `fault` besides where faults are asked for."""

RESETS = {
    "compaction": "compaction",
    "trimmed": "history_trimmed",
    "volatile": "volatile_system_changed",
    "memory": "memory_block_changed",
    "tools": "tools_changed_by_user",
}
"""What a host announces when it does one of these."""

PAUSES = (0.5, 3.0, 20.0, 90.0, 250.0, 301.0, 3_700.0)
_WEIGHTS = (4, 4, 4, 3, 1, 2, 1)
_FLOOR = 900  # repetitions of the words: more than 4,096 tokens


class Step(Struct, frozen=True, kw_only=True):
    """Something that happens. `volatile` counts the last system blocks that no marker may stand on, `markers` says how
    the client marks its requests."""

    kind: Kind
    at: float
    call: int = -1
    lane: str = ""
    parent: str | None = None
    client: str = ""
    dialect: str = "anthropic"
    model: str = ""
    body: bytes = b""
    reset: str | None = None
    tags: tuple[str, ...] = ()
    output: int = 0
    volatile: int = 0
    markers: Markers = "none"

    @property
    def request(self) -> HttpRequest:
        """The call as the provider gets it when nothing stands in between."""
        headers = {"x-api-key": "w", "authorization": "Bearer w", "anthropic-version": "2023-06-01"}
        return HttpRequest("POST", PATHS[self.dialect].format(model=self.model), headers, {}, self.body)


def timeline(
    random: Random,
    dialect: str = "anthropic",
    model: str = "claude-opus-4-6",
    *,
    requests: int = 14,
    faulty: bool = False,
) -> list[Step]:
    """The steps of one to three lanes, their sub-agents and their branches, about so many requests in all."""
    world = _World(random, dialect, model, faulty)
    lanes = random.choice([1, 1, 2, 2, 3])
    for number in range(lanes):
        _Lane(world, f"lane-{number}", world.host(number), random.uniform(0, 60) * number).run(
            max(2, requests // lanes)
        )
    steps = sorted(world.steps, key=lambda step: step.at)  # stable: what a lane did first stays first
    for _ in range(random.choice([0, 0, 1, 2])):
        steps = _restarted(random, steps)
    return steps


class _Host(Struct):
    """How one client speaks: its texts, its markers, its spelling."""

    client: str
    system: list[str]
    tools: list[str]
    markers: Markers
    spacing: tuple[str, str]
    memory: bool
    volatile: bool
    keyed: bool


class _World:
    """What the lanes of one timeline share."""

    def __init__(self, random: Random, dialect: str, model: str, faulty: bool) -> None:
        self.random, self.dialect, self.model, self.faulty = random, dialect, model, faulty
        self.steps: list[Step] = []
        self.calls = 0
        self.first = self._host("coder")

    def host(self, number: int) -> _Host:
        """The first client's, or that of a second one, which may have texts of its own."""
        if number == 0 or self.random.random() < 0.5:
            return self.first
        other = self._host("bot")
        return other if self.random.random() < 0.3 else replace(other, system=self.first.system, tools=self.first.tools)

    def _host(self, client: str) -> _Host:
        random = self.random
        stable = f"{client} {random.randrange(3)}. " + "all that was said is kept " * random.choice([_FLOOR, 300, 20])
        return _Host(
            client=client,
            system=[stable],
            tools=["bash", "read", "write"][: random.choice([1, 3])],
            markers=random.choice(["none", "own", "own", "long", "automatic"]),
            spacing=random.choice([(",", ":"), (", ", ": ")]),
            memory=random.random() < 0.5,
            volatile=random.random() < 0.5,
            keyed=random.random() < 0.5,
        )


class _Lane:
    """One conversation as it goes on. `since` are the talks sent since its last reset: what a fork may go back to."""

    def __init__(
        self, world: _World, name: str, host: _Host, at: float, *, said: Talk | None = None, parent: str | None = None
    ) -> None:
        self.world, self.name, self.host, self.at, self.parent = world, name, host, at, parent
        self.random = world.random
        self.tags: tuple[str, ...] = ()
        self.since: list[Talk] = []
        self.numbers = self.random.randrange(1, 1_000_000) * 1_000
        self.children = 0
        if said is None:
            system = [*host.system, *self._late()]
            said = Talk(system, list(host.tools), [("user", 0, [words(self.random, f"start {name}")])])
        self.said = said

    def run(self, requests: int) -> None:
        """Send so many requests, more or less: what they bring with them counts too."""
        self.send("first", reset="session_start" if self.parent is None else None)
        last = self.world.calls + requests - 1
        while self.world.calls < last:
            self.step()

    def step(self) -> None:
        """One thing that a conversation does."""
        self._wait()
        what = self.random.choices(_ACTIONS, _OFTEN)[0]
        if what == "fault" and not self.world.faulty:
            what = "grow"
        getattr(self, f"_{what}")()

    def _wait(self) -> None:
        pause = self.random.choices(PAUSES, _WEIGHTS)[0]
        self.at += pause
        self.tags += (f"pause-{pause:.0f}",) if pause > 300 else ()

    # What a conversation does

    def _grow(self) -> None:
        self.said = self._extended(self.said)
        self.send()

    def _resend(self) -> None:
        self.said = self.random.choice(self.since)
        self.send("resend")

    def _fork(self) -> None:
        self.said = self._extended(self.random.choice(self.since))
        self.send("fork")

    def _branch(self) -> None:
        """A fork that is a lane of its own, as when a session is resumed under a new name."""
        said = self._extended(self.random.choice(self.since))
        lane = self._child("branch", said)
        lane.send("fork", "branch")
        lane.step()

    def _concurrent(self) -> None:
        """Another request before the answer of this one has begun; both go on from the same place."""
        base = self.since[-1]
        self.said = self._extended(base)
        begins = self.send(delay=5.0)
        self.at = self.random.uniform(self.at, begins)
        self.said = self._extended(base)
        self.send("concurrent", "fork")

    def _compact(self) -> None:
        """The request that asks for the summary extends the last one (law 6); the next one has it."""
        self.said = copy.deepcopy(self.said)
        self.said.turns.append(("user", self._number(), ["Sum up what was said so far."]))
        self.send("compacting")
        self.at += 1.0
        after = copy.deepcopy(self.said)
        kept = after.turns[:1] if self.random.random() < 0.5 else []
        after.turns = [*kept, ("user", self._number(), [words(self.random, "Summary")])]
        self._depart(after, "compaction")

    def _trim(self) -> None:
        after = copy.deepcopy(self.said)
        users = [i for i, (kind, _, _) in enumerate(after.turns) if kind == "user"]
        after.turns = after.turns[self.random.choice(users) :]
        self._depart(self._extended(after), "trimmed")

    def _volatile(self) -> None:
        """The last system block says something else."""
        after = self._extended(self.said)
        if not self.host.volatile:
            return self._grow()
        after.system[-1] = f"Now: {self._number()}"
        return self._depart(after, "volatile")

    def _memory(self) -> None:
        after = self._extended(self.said)
        if not self.host.memory:
            return self._grow()
        after.system[len(self.host.system)] = words(self.random, f"Memory {self._number()}", 20)
        return self._depart(after, "memory")

    def _tools(self) -> None:
        after = self._extended(self.said)
        after.tools = [*after.tools, f"tool{self._number()}"]
        self._depart(after, "tools")

    def _subagents(self) -> None:
        """One to three of them at once, with the tools and the system text of this lane."""
        for number in range(self.random.choice([1, 2, 3])):
            task = [("user", 0, [words(self.random, f"task {number} of {self.name}", 40)])]
            lane = self._child("sub", Talk(list(self.said.system), list(self.said.tools), task))
            lane.send("first", "subagent", reset="session_start")
            lane.at += 0.5
            lane._grow()

    def _fault(self) -> None:
        """Something a client changes without a word."""
        after = self._extended(self.said)
        what = self.random.choice(["edit", "system", "tools", "settings"])
        if what == "edit":
            place = self.random.randrange(len(after.turns))
            kind, number, texts = after.turns[place]
            after.turns[place] = (kind, number, [f"edited {self._number()}" for _ in texts])
        elif what == "system":
            after.system[0] = f"{self._number()} {after.system[0]}"
        elif what == "tools":
            self.random.shuffle(after.tools)
        else:
            after.settings = self.random.choice([{"choice": True}, {"effort": "low"}])
        self.said, self.since = after, []
        self.send("fault")

    # How it does it

    def send(self, *tags: str, reset: str | None = None, delay: float = 0.0) -> float:
        """A request and what becomes of it; gives the time at which its answer begins."""
        world, random = self.world, self.random
        tags = (*tags, *self.tags, *(("parallel",) if self._is_parallel() else ()))
        if self.parent is not None and "/sub" in self.name and "subagent" not in tags:
            tags = (*tags, "subagent")
        self.tags = ()
        step = Step(
            kind="prepare",
            at=self.at,
            call=world.calls,
            lane=self.name,
            parent=self.parent,
            client=self.host.client,
            dialect=world.dialect,
            model=world.model,
            body=_rendered(self.said, self.host, world.dialect, world.model, self.name),
            reset=reset,
            tags=tags,
            volatile=1 if self.host.volatile and world.dialect == "anthropic" else 0,
            markers=self.host.markers,
        )
        world.calls += 1
        self.since.append(self.said)
        begins = self.at + delay + random.uniform(0.2, 4.0)
        ends = begins + random.uniform(0.1, 30.0)
        world.steps += _answered(step, random, begins, ends)
        self.at = max(self.at, ends) if not delay else self.at
        return begins

    def _depart(self, after: Talk, tag: str) -> None:
        self.said, self.since = after, []
        self.send(tag, reset=RESETS[tag])

    def _extended(self, said: Talk) -> Talk:
        after = copy.deepcopy(said)
        for _ in range(self.random.choice([1, 1, 1, 2, 6])):
            after.turns += self._turn()
        return after

    def _turn(self) -> list[tuple[str, int, list[str]]]:
        number = self._number()
        if self.random.random() < 0.5:
            calls = [f"call {number}.{i}" for i in range(self.random.choice([1, 1, 3]))]
            return [("calls", number, calls), ("results", number, [words(self.random, each, 60) for each in calls])]
        return [("assistant", number, [words(self.random, number)]), ("user", number, [words(self.random, number)])]

    def _child(self, kind: str, said: Talk) -> _Lane:
        self.children += 1
        return _Lane(self.world, f"{self.name}/{kind}{self.children}", self.host, self.at, said=said, parent=self.name)

    def _late(self) -> list[str]:
        """The system blocks after the stable one: memory, then what changes by itself."""
        memory = [words(self.random, "Memory", 20)] if self.host.memory else []
        return [*memory, *(["Now: 0"] if self.host.volatile else [])]

    def _is_parallel(self) -> bool:
        kind, _, texts = self.said.turns[-1]
        return kind == "results" and len(texts) > 1

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers


_ACTIONS = "grow resend fork branch concurrent compact trim volatile memory tools subagents fault".split()  # noqa: SIM905
_OFTEN = (12, 2, 2, 1, 2, 1, 1, 2, 2, 1, 1, 3)


def _answered(step: Step, random: Random, begins: float, ends: float) -> Iterator[Step]:
    """A request with what becomes of it: answered, cut in the middle, or cancelled before its first token."""
    yield step
    after = replace(step, body=b"", reset=None, tags=())
    fate = random.choices(["settle", "cut", "cancelled"], [8, 1, 1])[0]
    if fate == "cancelled":
        yield replace(after, kind="abandon", at=begins, tags=("cancelled",))
        return
    yield replace(after, kind="first_token", at=begins)
    if fate == "cut":
        yield replace(after, kind="abandon", at=ends, tags=("cut",))
    else:
        yield replace(after, kind="settle", at=ends, output=random.randrange(1, 400))


def _restarted(random: Random, steps: list[Step]) -> list[Step]:
    """The same with a restart after one of the steps: what was in flight is over with it."""
    place = random.randrange(1, len(steps))
    head, tail, at = steps[:place], steps[place:], steps[place - 1].at
    over = {step.call for step in head if step.kind in ("settle", "abandon")}
    flying = [step for step in head if step.kind == "prepare" and step.call not in over]
    gone = {step.call for step in flying}
    killed = [replace(step, kind="abandon", at=at, body=b"", reset=None, tags=("killed",)) for step in flying]
    rest = [step for step in tail if step.call not in gone]
    return [*head, *killed, Step(kind="restart", at=at), *rest]


def _rendered(said: Talk, host: _Host, dialect: str, model: str, lane: str) -> bytes:
    if dialect == "openai_responses":
        said = replace(said, system=["\n\n".join(said.system)])
    body: dict[str, Any] = RENDER[dialect](replace(said, marks=[]), model)
    if dialect == "anthropic":
        _mark(body, host)
    elif host.keyed and dialect != "gemini":
        body["prompt_cache_key"] = lane
    return json.dumps(body, separators=host.spacing).encode()


def _mark(body: dict[str, Any], host: _Host) -> None:
    """The client's own markers: on the last block that stays the same, and on its last message."""
    short: dict[str, Any] = {"type": "ephemeral"}
    long = short | {"ttl": "1h"}
    if host.markers == "automatic":
        body["cache_control"] = short
    if host.markers in ("own", "long"):
        place = len(body["system"]) - (2 if host.volatile else 1)
        body["system"][place]["cache_control"] = long if host.markers == "long" else short
        message = body["messages"][-1]
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        message["content"][-1]["cache_control"] = short
