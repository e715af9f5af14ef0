"""What has been learned beyond one lane: gaps and lengths of a client's sessions, what markers have paid, how a
provider's route behaves.

One for each tenant, with a part for each client. Counts only, no text.

`merged` adds up what two processes learned side by side. Both began with the same experience, and each knows what it
added itself: counts and dollars are added; of everything else the part that this process changed stands. Reservations
for pending calls belong to the process that sent them.
"""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.facts import Calibration

from .gemini_contents import AgentContents
from .keepalive import Returns, Spending
from .plan import Kind

VERSION = 1
SHORT, LONG = 300.0, 3600.0
"""The lifetimes that tell the classes of gaps apart."""


def three() -> list[float]:
    return [0.0, 0.0, 0.0]


AGES = (1, 3, 7, 15)
"""Requests of a lane up to which an age reaches; the last age has no end."""


def age(requests: int) -> int:
    """Return the age class of a lane with this number of requests."""
    return bisect_left(AGES, requests)


def ages() -> list[float]:
    return [0.0] * (len(AGES) + 1)


class Gaps(Struct):
    """Gaps between requests of a lane, start to start, and what follows what.

    `user` and `tools` count by what the later request follows: within the short lifetime, beyond it but within the long
    one, longer. `after_user` and `after_tools` count whether a user turn or a tool loop came next.
    """

    user: list[float] = field(default_factory=three)
    tools: list[float] = field(default_factory=three)
    after_user: list[float] = field(default_factory=lambda: [0.0, 0.0])
    after_tools: list[float] = field(default_factory=lambda: [0.0, 0.0])

    @property
    def after_any(self) -> list[float]:
        return [self.after_user[0] + self.after_tools[0], self.after_user[1] + self.after_tools[1]]

    def see(self, before: Kind, kind: Kind, gap: float) -> None:
        counts = self.user if kind == "user" else self.tools
        counts[0 if gap <= SHORT else 1 if gap <= LONG else 2] += 1
        following = self.after_user if before == "user" else self.after_tools
        following[0 if kind == "user" else 1] += 1

    def add(self, other: Gaps) -> None:
        for mine, theirs in zip(self._lists(), other._lists(), strict=True):
            for index, count in enumerate(theirs):
                mine[index] += count

    def _lists(self) -> tuple[list[float], ...]:
        return self.user, self.tools, self.after_user, self.after_tools


class Client(Struct):
    """What one client's lanes have shown, and its account (law 7), in dollars: what it `saved` of what it would have
    paid alone; what it `spent`, and what it would have with the short lifetime everywhere (`automatic`).

    `asked` counts requests by how many their lane had made (`age`), `followed` those of them that another came after.
    `heads` counts lanes that began with tools and system text that an earlier lane of the tenant had sent, and others.
    `sub_asked` and `sub_followed` are the same of sub-agents' lanes alone, many of which end with their first request.
    `fixed` is what its conversations would have cost under fixed lifetimes (`counterfactuals`), `plain` what they would
    have without a cache; `conversations` counts those of two requests or more. `long_marks` counts requests that it
    marked for longer than the short lifetime.
    """

    gaps: Gaps = field(default_factory=Gaps)
    returns: Returns = field(default_factory=Returns)
    lanes: int = 0
    asked: list[float] = field(default_factory=ages)
    followed: list[float] = field(default_factory=ages)
    heads: list[float] = field(default_factory=lambda: [0.0, 0.0])
    sub_asked: list[float] = field(default_factory=ages)
    sub_followed: list[float] = field(default_factory=ages)
    fixed: list[float] = field(default_factory=three)
    plain: float = 0.0
    conversations: float = 0.0
    long_marks: float = 0.0
    automatic: float = 0.0
    spent: float = 0.0
    saved: float = 0.0
    reserved: float = 0.0

    @property
    def requests(self) -> float:
        return sum(self.asked)

    def count(self, number: int, *, subagent: bool) -> None:
        """Record that a lane has made `number` requests."""
        counted = [(self.asked, self.followed)]
        if subagent:
            counted.append((self.sub_asked, self.sub_followed))
        for made, followed in counted:
            made[age(number)] += 1
            if number > 1:
                followed[age(number - 1)] += 1


class RouteExperience(Struct):
    """How a model behaves on the tenant's route: `raises` is proved by a verdict or None; `probed` what looking for the
    proof has cost, in plain input tokens. `reads` counts calls that read anything; `pauses` those that were to read an
    entry of the long lifetime after the short one was over, `survived` those of them that did; `outlived` those that
    read an entry of the short lifetime when it should have been gone."""

    raises: Literal["yes", "no"] | None = None
    doubts: int = 0
    probed: float = 0.0
    reads: int = 0
    pauses: int = 0
    survived: int = 0
    outlived: int = 0


class Experience(Struct):
    """A tenant's clients and routes, what its pings have cost today, and the cached contents of its agents with the
    dollars that they have cost and no request was charged for yet."""

    version: int = VERSION
    clients: dict[str, Client] = field(default_factory=dict)
    routes: dict[str, RouteExperience] = field(default_factory=dict)
    calibration: Calibration = Calibration()
    spending: Spending = Spending()
    objects: dict[str, AgentContents] = field(default_factory=dict)
    owed: dict[str, Decimal] = field(default_factory=dict)

    def client(self, name: str) -> Client:
        client = self.clients.get(name)
        return self.clients.setdefault(name, Client()) if client is None else client

    def route(self, model: str) -> RouteExperience:
        route = self.routes.get(model)
        return self.routes.setdefault(model, RouteExperience()) if route is None else route


def encode(experience: Experience) -> bytes:
    return msgspec.msgpack.encode(experience)


def decode(data: bytes) -> Experience:
    """Decode stored experience. Data of another version gives an empty one, which is learned again."""
    try:
        experience = msgspec.msgpack.decode(data, type=Experience)
    except msgspec.DecodeError:
        return Experience()
    if experience.version != VERSION:
        return Experience()
    for client in experience.clients.values():
        client.reserved = 0.0  # what was pending is not known any more
    return experience


def merged(stored: Experience, mine: Experience, base: Experience) -> Experience:
    """Return what is stored plus the difference between `base` and `mine`."""
    changed = {agent: held for agent, held in mine.objects.items() if base.objects.get(agent) != held}
    return Experience(
        version=mine.version,
        clients={
            name: _client(*(each.clients.get(name, Client()) for each in (stored, mine, base)))
            for name in {**stored.clients, **mine.clients}
        },
        routes={
            name: _route(*(each.routes.get(name, RouteExperience()) for each in (stored, mine, base)))
            for name in {**stored.routes, **mine.routes}
        },
        calibration=stored.calibration if mine.calibration == base.calibration else mine.calibration,
        spending=_spending(stored.spending, mine.spending, base.spending),
        objects={**stored.objects, **changed},
        owed={
            agent: stored.owed.get(agent, Decimal(0))
            + mine.owed.get(agent, Decimal(0))
            - base.owed.get(agent, Decimal(0))
            for agent in {**stored.owed, **mine.owed, **base.owed}
        },
    )


def _client(stored: Client, mine: Client, base: Client) -> Client:
    """Everything in it is a count or a sum."""
    total = _added(*(msgspec.to_builtins(each) for each in (stored, mine, base)))
    client = msgspec.convert(total, Client)
    fixed = [max(0.0, paid) for paid in client.fixed]  # what fades in two processes may fade below nothing
    return replace(client, reserved=mine.reserved, fixed=fixed, plain=max(0.0, client.plain))


def _added(stored: Any, mine: Any, base: Any) -> Any:
    if isinstance(stored, dict):
        return {name: _added(stored[name], mine[name], base[name]) for name in stored}
    if isinstance(stored, list):
        return [_added(*each) for each in zip(stored, mine, base, strict=True)]
    return stored + (mine - base)


def _route(stored: RouteExperience, mine: RouteExperience, base: RouteExperience) -> RouteExperience:
    proved = mine if (mine.raises, mine.doubts) != (base.raises, base.doubts) else stored
    return RouteExperience(
        raises=proved.raises,
        doubts=proved.doubts,
        probed=stored.probed + (mine.probed - base.probed),
        reads=stored.reads + (mine.reads - base.reads),
        pauses=stored.pauses + (mine.pauses - base.pauses),
        survived=stored.survived + (mine.survived - base.survived),
        outlived=stored.outlived + (mine.outlived - base.outlived),
    )


def _spending(stored: Spending, mine: Spending, base: Spending) -> Spending:
    """Of two days the later one counts."""
    if stored.day != mine.day:
        return max(stored, mine, key=lambda each: each.day)
    before = base.usd if base.day == mine.day else Decimal(0)
    return Spending(mine.day, stored.usd + mine.usd - before)
