"""Keep-alive: which idle lanes are worth a ping, and the request that makes one.

A ping is the lane's last request again, asked for no answer: it reads what is cached and refreshes it. It can be made
only where that is allowed and changes nothing of the prefix. Off by default; rule 5.4, a budget and a breaker decide.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches.values import Entry, Mark
from holdfast.facts import rates
from holdfast.prefix import keepalive
from holdfast.prefix.core import Verdict
from holdfast.prefix.keepalive import Idle, Ping
from holdfast.prefix.ledger import Ledger
from holdfast.prefix.values import DIGEST, Lookup, Plan, Sent
from holdfast.wire import DIALECTS, Body
from holdfast.wire.values import object_of, string_of

from .marking import marked
from .state import State
from .values import Lane, Prepared

_FORCED = ("any", "tool")


class DuePing(Struct, frozen=True):
    """A ping to send: `raw` is a whole request. What it reads is refreshed."""

    lane: Lane
    call: str
    raw: bytes
    ping: Ping


def due(state: State, lane: Lane, call: str, now: float) -> DuePing | None:
    """The ping that a lane should get now, registered as sent."""
    settings, ledger = state.settings(lane), state.ledger(lane, now)
    last, body = ledger.last, state.body(lane)
    raw = None if body is None else ping_body(body)
    if not settings.keepalive.enabled or last is None or body is None or raw is None:
        return None
    model, tenant = facts.model(last.model), state.tenant(lane.tenant)
    found = longest(last, tenant.pool(model), now)
    if found is None:
        return None
    block, entry = found
    pause, experience = _idle(last, entry), tenant.experience
    wanted = keepalive.decide(
        pause,
        experience.client(ledger.client).returns,
        ledger.pings,
        experience.spending,
        model,
        rates(model.ref, prompt_tokens=pause.tokens),
        settings.keepalive,
        now,
    )
    if isinstance(wanted, str) or wanted.at > now:
        return None
    ledger.pings, experience.spending, _ = keepalive.sent(ledger.pings, experience.spending, wanted, pause)
    pinged = state.ours.parse(DIALECTS[body.dialect], raw, model=body.model)
    assert isinstance(pinged, Body)
    prompt = state.ours.read(pinged, model).prompt
    plan = Plan(strategy="keepalive", marks=(Mark(block, entry.ttl),))
    tenant.pool(model).begin(replace(prompt, marks=plan.marks), now)
    state.keeper.save_lane(lane)
    return DuePing(lane, call, marked(pinged, DIALECTS[body.dialect], prompt, plan, model), wanted)


def waited(state: State, lane: Lane, now: float) -> Idle | None:
    """The pause that ends with a lane's request, if pings were sent in it."""
    ledger = state.ledger(lane, now)
    if ledger.pings.uncovered is None or ledger.last is None:
        return None
    found = longest(ledger.last, state.tenant(lane.tenant).pool(facts.model(ledger.last.model)), now)
    return None if found is None else _idle(ledger.last, found[1])


def returned(ledger: Ledger, prepared: Prepared, verdict: Verdict) -> None:
    """What a lane's pings have brought, now that it came back."""
    price = rates(prepared.core.asked.model.ref)
    if prepared.waited is not None and price is not None:
        at = prepared.core.outcome.at
        ledger.pings = keepalive.returned(ledger.pings, prepared.waited, verdict.usage.read, price, at)


def longest(last: Sent, pool: Lookup, now: float) -> tuple[int, Entry] | None:
    """The longest live entry of a lane's last request, and its block."""
    for index in range(len(last) - 1, -1, -1):
        entry = pool.find(last.keys[index * DIGEST : (index + 1) * DIGEST], now)
        if entry is not None:
            return index, entry
    return None


def _idle(last: Sent, entry: Entry) -> Idle:
    return Idle(since=last.at, tokens=entry.tokens, ttl=entry.ttl, seconds=entry.seconds, expires=entry.expires)


def ping_body(body: Body) -> bytes | None:
    """The request as a ping; None where the provider would refuse it or the prefix would not be the same."""
    if body.dialect != "anthropic":
        return None
    thinking = object_of(body.member("thinking") or b"") or {}
    choice = object_of(body.member("tool_choice") or b"") or {}
    output = object_of(body.member("output_config") or b"") or {}
    if string_of(thinking.get("type")) not in (None, "disabled") or string_of(choice.get("type")) in _FORCED:
        return None
    if "format" in output or "output_format" in body.members:
        return None
    return body.apply(body.change_members({"max_tokens": b"0"}, ("stream",)))
