"""What two processes learned side by side, as one: both began with the same, each knows what it has added itself.

Counts and dollars are added up; of what is no count, the part that was changed here stands. What is reserved for calls
on their way belongs to the process that sent them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from msgspec.structs import replace

from .experience import Client, Experience, RouteExperience
from .keepalive import Spending


def merged(stored: Experience, mine: Experience, base: Experience) -> Experience:
    """What is stored, with what was added to `base` here."""
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
