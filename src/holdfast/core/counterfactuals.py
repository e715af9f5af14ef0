"""What fixed lifetimes would have cost on the requests that were seen, and which of them is the cheapest by now.

Three policies: the short lifetime everywhere, the long one everywhere, the long one for tools and system text alone.
Every request of a conversation is priced under each of them by the cache's own rules: what it has in common with the
request before is read where the gap was within the lifetime, and written where it was not; after a pause entries are
there as often as the route has shown (`lasting`, `outliving`). A client's sums fade from conversation to conversation,
and a prior from recorded sessions (`facts.pauses`) stands beside them, so that a few observations refine it and do not
replace it. Nothing but the short lifetime is chosen before one of the tenant's own conversations has come back between
the two lifetimes, and `allowance` bounds what following the cheapest may cost (law 7). Unit of the sums: one plain
input token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from holdfast.caches import Outcome
from holdfast.facts import ModelFacts, pauses

from .experience import LONG, SHORT, Client, Experience, RouteExperience
from .ledger import Ledger

Policy = Literal["short", "long", "head"]
POLICIES: tuple[Policy, ...] = ("short", "long", "head")
MEMORY = 10.0
"""Conversations that count: one that has begun to pause, or ceased to, is found out within a few."""
UNKNOWN = RouteExperience()
"""A route on which nothing has been seen."""
LASTING = 10.0
"""Pauses that the prior on lost entries weighs beside those of the route, once one was lost there."""
OTHERS = 0.25
"""The weight of the tenant's other clients against the client's own conversations."""
BOUND = 1.1
"""What one conversation may cost over the short lifetime everywhere, until the tenant is known."""
ENOUGH = 3
"""Conversations of the tenant, of two requests or more, after which it is known."""
AHEAD = 1.0
"""Conversations of the usual size whose cost may be spent before it is saved, once the tenant is known."""
HISTORY = 0.25
"""Of what another policy would have saved so far: the part that may be spent on following it."""


def lasting(route: RouteExperience) -> float:
    """How often an entry of the long lifetime is still there after a pause that the short one would not survive: as it
    is documented, always, until one was missed on this route."""
    if route.survived == route.pauses:
        return 1.0
    return (LASTING * pauses().provider.long + route.survived) / (LASTING + route.pauses)


def outliving(route: RouteExperience, idle: float) -> float:
    """Return the probability that an entry of the short lifetime is alive after `idle` seconds: as documented, until
    one was read later on this route."""
    return pauses().provider.short_after(idle) if route.outlived and idle > SHORT else float(idle <= SHORT)


def likely(route: RouteExperience, outcome: Outcome, gap: float | None) -> float:
    """Return the probability of the predicted outcome for what the lane's last request left."""
    if gap is None or gap > LONG:
        return 1.0
    provider = pauses().provider
    if gap <= SHORT:
        return provider.short_after(gap) if outcome.read else 1.0
    if outcome.read:
        return (LASTING * provider.long + route.survived) / (LASTING + route.pauses)
    return 1.0 - provider.short_after(gap)


def priced(
    model: ModelFacts,
    tokens: int,
    head: int,
    common: int,
    idle: float,
    route: RouteExperience = UNKNOWN,
) -> tuple[float, float, float]:
    """Return the costs of a request of `tokens` tokens under each policy: `head` of them are tools and system text,
    `common` ones were in the previous request, `idle` seconds ago."""
    long = model.ttls[-1]
    if tokens < model.floor:
        return float(tokens), float(tokens), float(tokens)
    read, write, longer = float(model.read), float(model.write(model.default_ttl or "")), float(model.write(long.name))
    near, there = common * outliving(route, idle), 1.0 if idle <= SHORT else lasting(route)
    far = common * there if idle <= long.seconds else 0.0
    covered = max(near, min(far, head * there))
    return (
        read * near + write * (tokens - near),
        read * far + longer * (tokens - far),
        read * covered + longer * max(0, head - covered) + write * (tokens - max(covered, head)),
    )


def see(client: Client, paid: Sequence[float], tokens: int, *, second: bool) -> None:
    """Add the costs of a request of `tokens` tokens under each policy, and without a cache, to the client's sums.
    `second` if a conversation has just got its second request."""
    faded = 1 - 1 / MEMORY if second else 1.0
    client.fixed = [before * faded + more for before, more in zip(client.fixed, paid, strict=True)]
    client.plain = client.plain * faded + tokens
    client.conversations += second


def allowance(experience: Experience, ledger: Ledger, here: float, price: float) -> float:
    """How many dollars a request may cost more than with the short lifetime, where it costs `here` (law 7): a share of
    what the conversation would have cost so far, and as soon as some of the tenant's are known, what they have saved
    together and the cost of a single one of them. From the second conversation on a part of what another policy would
    have saved counts too; `price` is that of a plain token."""
    count = conversations(experience)
    automatic = spent = missed = 0.0
    for client in experience.clients.values():
        automatic += client.automatic
        spent += client.spent
        missed += client.fixed[0] - min(client.fixed)
    history = HISTORY * missed * price if count > 1 else 0.0
    if count < ENOUGH:
        return BOUND * (ledger.automatic + here) - ledger.spent - here + history
    return (1 + AHEAD / count) * (automatic + here) - spent - here + history


def tests_the_long(outcome: Outcome, gap: float | None) -> bool:
    """Whether a request, by its prediction, reads after such a pause."""
    return gap is not None and SHORT < gap <= LONG and outcome.read > 0


def is_late(outcome: Outcome, gap: float | None, read: int) -> bool:
    """Return whether a request has read an entry after its short lifetime."""
    late = gap is not None and SHORT < gap <= pauses().provider.short[-1][0]
    return late and read > 0 and not outcome.read


def conversations(experience: Experience) -> float:
    """How many of the tenant's are known, of two requests or more."""
    return sum(client.conversations for client in experience.clients.values())


def supported(experience: Experience) -> bool:
    """Return whether a conversation of the tenant was continued between the two lifetimes."""
    return any(client.gaps.user[1] or client.gaps.tools[1] for client in experience.clients.values())


def cheapest(experience: Experience, name: str, model: ModelFacts, tokens: int) -> Policy:
    """The policy that would have cost least so far, for a request of this size."""
    prior = pauses().policies
    weight = prior.requests * tokens
    paid = [weight, weight * prior.hour_at(float(model.read)), weight]
    for other, client in experience.clients.items():
        share = 1.0 if other == name else OTHERS
        paid = [mine + share * more for mine, more in zip(paid, client.fixed, strict=True)]
    return POLICIES[paid.index(min(paid))]
