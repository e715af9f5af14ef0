"""What will probably happen next in a lane: chances learned step by step, from a prior to the lane itself.

Each level refines the one before with its own counts: a prior, the tenant's other clients, the client, the lane. How
much a level can weigh is bounded, so that a lane that differs from its client is believed after a few turns.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.facts import pauses

from .experience import AGES, Client, Experience, Gaps, age
from .ledger import Ledger
from .plan import Kind

_PRIOR = pauses()
PRIOR_USER, PRIOR_TOOLS = _PRIOR.human.classes, _PRIOR.machine.classes
PRIOR_NEXT = (1 - _PRIOR.machine.share, _PRIOR.machine.share)
"""Gaps before a user turn and inside a tool loop, and whether a user turn comes next: before anything has been seen."""

_WEIGHT_USER, _WEIGHT_TOOLS, _WEIGHT_NEXT = _PRIOR.human.authors, 200.0, 4.0
_MOST = (20.0, 40.0, 20.0)  # of the tenant's other clients, the client, the lane
_TOOLS = 10.0  # tool loops are ten times as frequent as user turns, and their levels may weigh as much more
PRIOR_LENGTH = _PRIOR.sessions.requests
_FIRST, _YOUNG, _OLD, _OLD_AGE = 2.0, 10.0, 40.0, 3
"""Requests of a lane before anything has been seen, and how many requests of an age that assumption weighs: whether a
client's lanes go on at all is believed soon, how long they go on later."""
_YOUNG_SUBAGENT = 4.0
"""The same for sub-agents: what is given to them at once ends with one answer each, or does not."""
PRIOR_GROWTH, _WEIGHT_GROWTH = 0.02, 2.0
_PRIOR_HEADS = 1.0
_MOST_LONGER = 0.95
_NOTHING, _NEVER = Gaps(), (0.0, 0.0)

Three = tuple[float, float, float]


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


def odds(ledger: Ledger, experience: Experience | None, kind: Kind, tokens: int, *, subagent: bool = False) -> Odds:
    """What the lane, its client and its tenant have shown; `tokens` is the size of the request at hand."""
    client = None if experience is None else experience.clients.get(ledger.client)
    client = client or Client()
    here, lanes, others = ledger.gaps, client.gaps, _NOTHING
    if experience is not None and len(experience.clients) > (ledger.client in experience.clients):
        others = _others(experience, ledger.client)
    user = _gap(PRIOR_USER, _WEIGHT_USER, 1.0, others.user, lanes.user, here.user)
    tools = _gap(PRIOR_TOOLS, _WEIGHT_TOOLS, _TOOLS, others.tools, lanes.tools, here.tools)
    if kind == "user":
        soon = _user(others.after_user, lanes.after_user, here.after_user)
    else:
        soon = _user(others.after_tools, lanes.after_tools, here.after_tools)
    usual = _user(others.after_any if others is not _NOTHING else _NEVER, lanes.after_any)
    ends, remaining = _life(client, ledger.asked, subagent)
    if not subagent and client.fixed[0] < client.plain:  # few long conversations pay for many that end at once
        ends = min(ends, 1 / PRIOR_LENGTH)
    return Odds(
        next=_mix(soon, _after(user, ledger.pause), tools),
        later=_mix(usual, user, tools),
        ends=ends,
        remaining=remaining,
        growth=(ledger.grown + PRIOR_GROWTH * tokens * _WEIGHT_GROWTH) / (ledger.growths + _WEIGHT_GROWTH),
        shared=(client.heads[0] + _PRIOR_HEADS) / (client.heads[0] + client.heads[1] + 2 * _PRIOR_HEADS),
    )


def _others(experience: Experience, name: str) -> Gaps:
    """Return the gaps of the tenant's other clients."""
    gaps = Gaps()
    for other, client in experience.clients.items():
        if other != name:
            gaps.add(client.gaps)
    return gaps


def _life(client: Client, asked: int, subagent: bool) -> tuple[float, float]:
    """The chance that a lane with so many requests makes no other, and how many more it will make."""
    made = max(1, asked)
    here, remaining, alive = age(made), 0.0, 1.0
    first = ends = _ends(client, here, subagent, lane=True)
    for number in range(here, len(AGES)):
        stays = (1 - ends) ** (AGES[number] - made + 1)
        remaining += alive * (1 - stays) / ends
        alive *= stays
        made = AGES[number] + 1
        ends = _ends(client, number + 1, subagent, lane=False)
    return first, remaining + alive / ends


def _ends(client: Client, number: int, subagent: bool, *, lane: bool) -> float:
    """How often a request of this age was its lane's last; the lane at hand has not ended."""
    asked, followed = client.asked[number], client.followed[number]
    if subagent:
        asked, followed = client.sub_asked[number], client.sub_followed[number]
    ended = asked - followed - lane
    weight = _OLD if number >= _OLD_AGE else _YOUNG_SUBAGENT if subagent else _YOUNG if number else _FIRST
    return (weight / PRIOR_LENGTH + (ended if ended > 0.0 else 0.0)) / (weight + asked)


def _gap(prior: Three, weight: float, factor: float, *levels: Sequence[float]) -> Three:
    """The chances of a gap's class, by what each level has counted."""
    near, far, longer = prior
    for (short, middle, long), most in zip(levels, _MOST, strict=False):
        total = short + middle + long
        if total:
            most *= factor
            effect = total if total < most else most
            share, whole = effect / total, weight + effect
            near = (near * weight + short * share) / whole
            far = (far * weight + middle * share) / whole
            longer = (longer * weight + long * share) / whole
            weight = whole
    return near, far, longer


def _after(user: Three, pause: float | None) -> Three:
    """The chances before a user turn, now that the user took so long for the last one: who was quick is likely to be
    quick again."""
    if pause is None:
        return user
    _, far, longer = user
    share = min(_PRIOR.human.longer_after(pause), _MOST_LONGER / (far + longer)) if far + longer else 1.0
    return 1 - share * (far + longer), share * far, share * longer


def _user(*levels: Sequence[float]) -> float:
    """The chance that a user turn comes next."""
    chance, weight = PRIOR_NEXT[0], _WEIGHT_NEXT
    for (user, tools), most in zip(levels, _MOST, strict=False):
        total = user + tools
        if total:
            effect = total if total < most else most
            share, whole = effect / total, weight + effect
            chance = (chance * weight + user * share) / whole
            weight = whole
    return chance


def _mix(share: float, user: Three, tools: Three) -> Three:
    other = 1 - share
    return share * user[0] + other * tools[0], share * user[1] + other * tools[1], share * user[2] + other * tools[2]
