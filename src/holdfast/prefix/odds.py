"""What will probably happen next in a lane: chances learned step by step, from a prior to the lane itself.

Each level refines the one before with its own counts: a prior, the tenant's other clients, the client, the lane. How
much a level can weigh is bounded, so that a lane that differs from its client is believed after a few turns.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from .experience import AGES, Client, Experience, Gaps, age
from .ledger import Ledger
from .values import Kind

PRIOR_USER = (0.97, 0.02, 0.01)
PRIOR_TOOLS = (0.999, 0.0008, 0.0002)
PRIOR_NEXT = (0.3, 0.7)
"""Gaps before a user turn and inside a tool loop, and whether a user turn comes next: before anything has been seen."""

_WEIGHT_USER, _WEIGHT_TOOLS, _WEIGHT_NEXT = 4.0, 200.0, 4.0
_MOST_TENANT, _MOST_CLIENT, _MOST_LANE = 20.0, 40.0, 20.0
_TOOLS = 10.0  # tool loops are ten times as frequent as user turns, and their levels may weigh as much more
PRIOR_LENGTH = 40.0
_YOUNG, _OLD, _OLD_AGE = 10.0, 40.0, 3
"""Requests of a lane before anything has been seen, and how many requests of an age that assumption weighs: whether a
client's lanes go on at all is believed soon, how long they go on later."""
PRIOR_GROWTH, _WEIGHT_GROWTH = 0.02, 2.0
_PRIOR_HEADS = (1.0, 1.0)


class Odds(Struct, frozen=True):
    """Chances of the next gap's class (`next`) and of any later one's (`later`); `ends`, that no request follows, and
    `remaining`, how many will.

    `growth` is what a turn usually adds, in tokens; `shared`, that another lane sends the same tools and system text.
    """

    next: tuple[float, float, float]
    later: tuple[float, float, float]
    ends: float
    remaining: float
    growth: float
    shared: float

    @property
    def pauses(self) -> float:
        """How many pauses between the short and the long lifetime are to come, before a longer one or the end."""
        return self.later[1] / (self.later[2] + 1 / self.remaining)

    @property
    def pause_first(self) -> float:
        """The chance of such a pause before a longer one or the end."""
        return self.later[1] / (self.later[1] + self.later[2] + 1 / self.remaining)


def odds(ledger: Ledger, experience: Experience | None, kind: Kind, tokens: int) -> Odds:
    """What the lane, its client and its tenant have shown; `tokens` is the size of the request at hand."""
    client = None if experience is None else experience.clients.get(ledger.client)
    client = client or Client()
    levels = [(client.gaps, _MOST_CLIENT), (ledger.gaps, _MOST_LANE)]
    if experience is not None and len(experience.clients) > (ledger.client in experience.clients):
        levels.insert(0, (_others(experience, ledger.client), _MOST_TENANT))
    user = _blend(PRIOR_USER, _WEIGHT_USER, [(gaps.user, most) for gaps, most in levels])
    tools = _blend(PRIOR_TOOLS, _WEIGHT_TOOLS, [(gaps.tools, most * _TOOLS) for gaps, most in levels])
    after = [(gaps.after_user if kind == "user" else gaps.after_tools, most) for gaps, most in levels]
    soon = _blend(PRIOR_NEXT, _WEIGHT_NEXT, after)[0]
    usual = _blend(PRIOR_NEXT, _WEIGHT_NEXT, [(gaps.after_any, most) for gaps, most in levels[:-1]])[0]
    ends, remaining = _life(client, ledger.asked)
    return Odds(
        next=_mix(soon, user, tools),
        later=_mix(usual, user, tools),
        ends=ends,
        remaining=remaining,
        growth=(ledger.grown + PRIOR_GROWTH * tokens * _WEIGHT_GROWTH) / (ledger.growths + _WEIGHT_GROWTH),
        shared=(client.heads[0] + _PRIOR_HEADS[0]) / (sum(client.heads) + sum(_PRIOR_HEADS)),
    )


def _others(experience: Experience, name: str) -> Gaps:
    """What the tenant's other clients have shown."""
    gaps = Gaps()
    for other, known in experience.clients.items():
        if other != name:
            gaps.add(known.gaps)
    return gaps


def _life(client: Client, asked: int) -> tuple[float, float]:
    """The chance that a lane with so many requests makes no other, and how many more it will make."""
    made = max(1, asked)
    here, remaining, alive = age(made), 0.0, 1.0
    chances = [_ends(client, number, lane=number == here) for number in range(len(AGES) + 1)]
    for number in range(here, len(AGES)):
        ends = chances[number]
        left = AGES[number] - made + 1 if number == here else AGES[number] - AGES[number - 1]
        stays = (1 - ends) ** left
        remaining += alive * (1 - stays) / ends
        alive *= stays
    return chances[here], remaining + alive / chances[-1]


def _ends(client: Client, number: int, *, lane: bool) -> float:
    """How often a request of this age was its lane's last; the lane at hand has not ended."""
    ended = max(0.0, client.asked[number] - client.followed[number] - lane)
    weight = _YOUNG if number < _OLD_AGE else _OLD
    return (weight / PRIOR_LENGTH + ended) / (weight + client.asked[number])


def _blend(prior: Sequence[float], weight: float, levels: Sequence[tuple[Sequence[float], float]]) -> tuple[float, ...]:
    found = prior
    for counts, most in levels:
        total = sum(counts)
        if total:
            effect = total if total < most else most
            share, whole = effect / total, weight + effect
            found = [(each * weight + count * share) / whole for each, count in zip(found, counts, strict=True)]
            weight = whole
    return tuple(found)


def _mix(share: float, user: Sequence[float], tools: Sequence[float]) -> tuple[float, float, float]:
    a, b, c = (share * u + (1 - share) * t for u, t in zip(user, tools, strict=True))
    return a, b, c
